// Package group is the contract of instance groups: what the fleet asks of one cloud.
//
//	Init ──> Update, again and again: which instances there are, and their states
//	           Increase ──> creating ──> running ──> ConnectInfo, Heartbeat ──> Decrease ──> deleting ──> deleted
//	Shutdown                                └─ Suspend ──> suspending ──> suspended ──> Resume ─┘
//
// InstanceGroup has the names and shapes of the instance groups of fleeting, so that the source of one of its plugins needs other imports and nothing
// else. What came to that interface later is optional here: a group implements Basic, and of the other interfaces what its cloud can do. Nothing
// will be added to an interface, so that no plugin ceases to compile. Adapt gives callers one view of a group, whatever it implements.
//
// Methods are safe for concurrent use after Init, which is called once and first. All end with their context.
package group

import (
	"context"

	"github.com/hashicorp/go-hclog"
)

// Basic is what every instance group does.
type Basic interface {
	// Init prepares the group: it checks its configuration and its access to the cloud. The error says in one sentence what of them is wrong. log is
	// for all that the group has to say; what it writes there reaches the operator.
	Init(ctx context.Context, log hclog.Logger, settings Settings) (ProviderInfo, error)
	// Update calls update once for each instance of the group. An instance that is not reported any more is gone. After an error the list counts as incomplete.
	Update(ctx context.Context, update func(instance string, state State)) error
	// Increase asks for n more instances and does not wait until they run. It returns how many were asked for, also with an error.
	Increase(ctx context.Context, n int) (succeeded int, err error)
	// Decrease asks for instances to be deleted and does not wait until they are gone. It returns those that were asked for, also with an error. One that is being
	// deleted, or is not known, counts as deleted.
	Decrease(ctx context.Context, instances []string) (succeeded []string, err error)
	// ConnectInfo says how to reach a running instance. The error is ErrNotFound where there is no such instance, and ErrTransient where it is not ready.
	ConnectInfo(ctx context.Context, instance string) (ConnectInfo, error)
}

// InstanceGroup is all that the instance groups of fleeting do.
type InstanceGroup interface {
	Basic
	Heartbeater
	Suspender
	Shutdowner
}

// Heartbeater is a group that knows whether an instance is of use.
type Heartbeater interface {
	// Heartbeat returns ErrInstanceUnhealthy for an instance that must get no more work, and nil for one that is well. Without it all instances are well.
	// A plugin may return an error without a kind for that, as those of fleeting do; ErrTransient, ErrUnauthorised and their like say nothing of the instance.
	Heartbeat(ctx context.Context, instance string) error
}

// Suspender is a group that can suspend instances. One that implements this and has not CapabilitySuspendResume in its ProviderInfo cannot.
type Suspender interface {
	// Suspend asks for instances to be suspended, and returns those that were asked for, also with an error.
	Suspend(ctx context.Context, instances []string) (succeeded []string, err error)
	// Resume asks for suspended instances to run again, and returns those that were asked for, also with an error.
	Resume(ctx context.Context, instances []string) (succeeded []string, err error)
}

// Shutdowner is a group that has something to do when it is not used any more: it deletes keys that it has uploaded, and closes connections. Instances stay.
type Shutdowner interface {
	// Shutdown is called once and last, with a deadline.
	Shutdown(ctx context.Context) error
}

// ProviderInfo is what a group says of itself.
type ProviderInfo struct {
	// ID names the group among all groups of all clouds: "aws/eu-west-1/runners".
	ID string
	// MaxSize is how many instances the group can have.
	MaxSize int
	// Version and BuildInfo are the plugin's, for people.
	Version, BuildInfo string
	// Capabilities are the optional calls that the group has.
	Capabilities []Capability
}

// Has reports whether the group has a capability.
func (i ProviderInfo) Has(c Capability) bool {
	for _, one := range i.Capabilities {
		if one == c {
			return true
		}
	}
	return false
}

// Capability is an optional ability of a group.
type Capability string

// CapabilitySuspendResume says that Suspend and Resume work.
const CapabilitySuspendResume Capability = "suspend_resume"

// Settings are what the runner tells a group.
type Settings struct {
	// ConnectorConfig is what the configuration says of how instances are reached.
	ConnectorConfig

	// Owner names whom instances belong to, across processes: letters, digits, - and _. Groups whose cloud has labels put it on what they make (OwnerLabel), and report
	// nothing that somebody else owns.
	Owner string
	// Labels are put on all that the group makes: project, runner, cost centre.
	Labels map[string]string
	// State is a folder on this machine, of this group alone, for what has to outlive the process; empty: there is none.
	State string
}

// OwnerLabel is the label with Settings.Owner, and RequestLabel that with Request.ID.
const (
	OwnerLabel   = "rung-owner"
	RequestLabel = "rung-request"
)
