// Package provider is what the author of a provider plugin imports: a program that says which machines the jobs of a runner run on, and makes them
// where it has to. docs/plugins.md is the manual, examples/plugins/provider-plugin-command an example.
//
//	func main() {
//		provider.Serve(provider.Plugin{Name: "cloud", Open: open})
//	}
//
//	func open(ctx context.Context, setup provider.Setup, options json.RawMessage) (provider.Provider, error) {
//		return provider.New(&machines{}, setup), nil
//	}
//
// New makes a provider of something that can take, make and end machines, a Source: keys, leases, and calls that are repeated or cancelled are its
// business. The types are those of the contract; what each of their methods promises is said there.
package provider

import (
	"context"
	"encoding/json"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/executor/provider/fresh"
	"github.com/rungci/rung/executor/provider/places"
	"github.com/rungci/rung/internal/pluginoption"
	"github.com/rungci/rung/steps/event"
)

// The contract.
type (
	Provider  = provider.Provider
	Capacity  = provider.Capacity
	Needs     = provider.Needs
	Job       = provider.Job
	Machine   = provider.Machine
	Access    = provider.Access
	Setup     = provider.Setup
	Level     = executor.Level
	Life      = executor.Life
	Reporter  = executor.Reporter
	Preparing = event.Preparing
	// Fresh are machines that are made for one job each, and end with it. NewFresh makes a provider of them.
	Fresh = fresh.Options
)

// Errors that keep their identity on the way to the runner. All others are internal errors.
type (
	NoCapacity = provider.NoCapacity // there is no room now
	Gone       = executor.Gone       // the machine no longer exists
	// OptionError says which option is wrong, by a JSON pointer ("/hosts/one"), in an error of what opens the plugin: who wrote the configuration is shown the line.
	OptionError = pluginoption.Error
)

// And those that are values.
var (
	ErrNotReserved = provider.ErrNotReserved
	ErrReleased    = provider.ErrReleased
)

// SSH is the protocol of machines that are reached over it, and Local that of the runner's own.
const (
	SSH   = provider.SSH
	Local = provider.Local
)

// NewLife is the life of a machine that is there.
func NewLife() *Life { return executor.NewLife() }

// New makes a provider of a source of places.
func New[P comparable](source places.Source[P], setup Setup) Provider {
	return places.New(source, setup.Lease)
}

// NewFresh makes a provider of machines that are made for one job each. What it makes is on record in Setup.State before it is made: a plugin that
// was killed leaves nothing.
func NewFresh(o Fresh, setup Setup) (Provider, error) { return fresh.New(o, setup) }

// Plugin is what Serve serves.
type Plugin struct {
	// Name and Version are for people. The file of the plugin is called provider-plugin-NAME.
	Name, Version string
	// Summary says in one line where its machines are from.
	Summary string
	// Schema is a JSON schema that options must satisfy; empty takes no options.
	Schema string
	// Open makes the provider, once. The error says in one sentence what is missing.
	Open func(ctx context.Context, setup Setup, options json.RawMessage) (Provider, error)
}
