// Package instancegroup is what the author of an instance-group plugin imports: a program that makes, lists and deletes the machines of one cloud. docs/plugins.md is the
// manual, examples/plugins/group-plugin-static an example.
//
//	type Group struct {
//		Region string `json:"region"` // the options of the configuration
//	}
//
//	func main() {
//		instancegroup.Main(&Group{}, instancegroup.VersionInfo{Name: "cloud", Version: "1.0.0"})
//	}
//
// A group implements Basic, and of the other interfaces what its cloud can do. The types are those of the contract; what each of their methods promises is said there.
// They have the names and shapes of fleeting's, whose plugins need other imports and nothing else: this package is in place of both its provider and its plugin.
package instancegroup

import (
	"github.com/hashicorp/go-hclog"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/internal/pluginoption"
)

// Logger is what a group logs to: its lines are in the runner's log, with their levels.
type Logger = hclog.Logger

// The contract. Only Basic must be implemented.
type (
	Basic          = group.Basic
	InstanceGroup  = group.InstanceGroup
	Heartbeater    = group.Heartbeater
	Suspender      = group.Suspender
	Shutdowner     = group.Shutdowner
	Lister         = group.Lister
	Watcher        = group.Watcher
	Offerer        = group.Offerer
	ShapeIncreaser = group.ShapeIncreaser
	Meter          = group.Meter

	ProviderInfo    = group.ProviderInfo
	Capability      = group.Capability
	Settings        = group.Settings
	State           = group.State
	Instance        = group.Instance
	Interruption    = group.Interruption
	Offer           = group.Offer
	Request         = group.Request
	Metric          = group.Metric
	ConnectorConfig = group.ConnectorConfig
	ConnectInfo     = group.ConnectInfo
	Protocol        = group.Protocol
	// Error is an error with a kind, which the runner sees, and a text.
	Error = group.Error
	// OptionError says which option is wrong, by a JSON pointer ("/hosts/one"), in an error of what opens the plugin: who wrote the configuration is shown the line.
	OptionError = pluginoption.Error
)

// CapabilitySuspendResume says that Suspend and Resume work.
const CapabilitySuspendResume = group.CapabilitySuspendResume

// The states of an instance.
const (
	StateCreating   = group.StateCreating
	StateRunning    = group.StateRunning
	StateSuspending = group.StateSuspending
	StateSuspended  = group.StateSuspended
	StateDeleting   = group.StateDeleting
	StateDeleted    = group.StateDeleted
	StateTimeout    = group.StateTimeout
	StateFailed     = group.StateFailed
)

// The protocols.
const (
	ProtocolSSH        = group.ProtocolSSH
	ProtocolWinRM      = group.ProtocolWinRM
	ProtocolWinRMHttps = group.ProtocolWinRMHttps
)

// OwnerLabel is the label with Settings.Owner, and RequestLabel that with Request.ID. Both are in Request.Labels already.
const (
	OwnerLabel   = group.OwnerLabel
	RequestLabel = group.RequestLabel
)

// The kinds of errors, which the runner sees. All others are internal errors.
var (
	ErrQuota                     = group.ErrQuota
	ErrNotFound                  = group.ErrNotFound
	ErrUnauthorised              = group.ErrUnauthorised
	ErrTransient                 = group.ErrTransient
	ErrInstanceUnhealthy         = group.ErrInstanceUnhealthy
	ErrUncertain                 = group.ErrUncertain
	ErrUnsupported               = group.ErrUnsupported
	ErrSuspendResumeNotSupported = group.ErrSuspendResumeNotSupported
)

// Transient is an error that may not come again after a while; 0: nobody knows when.
var Transient = group.Transient

// Schemer is a group whose options have a JSON schema. The runner checks the configuration with it. Without one, options that the group has no field for are refused.
type Schemer interface {
	// OptionsSchema is the schema.
	OptionsSchema() string
}
