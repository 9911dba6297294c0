// Package plugin runs executors and providers that are programs of somebody else, through hashicorp/go-plugin over gRPC. To the rest of the program they
// are executors and providers like any other.
//
// A plugin is not trusted to work. Every call has a limit; one that hangs, lies or crashes ends the jobs that it concerns, with a *Failure
// that says which plugin and what, and the next job starts it again. It is trusted with the machine: it runs as this user, and what runs
// is the file that the configuration pins.
package plugin

import (
	"encoding/json"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/plugin/wire"
	"github.com/rungci/rung/internal/pluginhost"
	"github.com/rungci/rung/internal/pluginhost/handshake"
)

// Prefix begins the name of an executor plugin's file, and ProviderPrefix that of a provider plugin's.
const (
	Prefix         = "executor-plugin-"
	ProviderPrefix = "provider-plugin-"
)

// ExecutorKind and ProviderKind are the contracts of plugins that are run here.
var (
	ExecutorKind = &pluginhost.Kind{Name: "executor plugin", Prefix: Prefix, Services: map[int]string{handshake.Version: "rung.executor.v1.Executor"}, Said: wire.FromStatus, Gone: ended}
	ProviderKind = &pluginhost.Kind{Name: "provider plugin", Prefix: ProviderPrefix, Services: map[int]string{handshake.Version: "rung.provider.v1.Provider"}, Said: wire.FromProviderStatus, Gone: ended}
)

type (
	// Config is what the configuration says of a plugin.
	Config = pluginhost.Config
	// Failure is a plugin that did not do what the contract says. It is an internal error, never the job's.
	Failure = pluginhost.Failure
)

// limits are how long a plugin may say nothing: in a call, and in one that does nothing.
var limits = struct{ silence, prompt time.Duration }{handshake.Silence, handshake.Prompt}

// ended is the error of what a process had that has ended.
func ended(f *Failure) error { return &executor.Gone{Reason: f.Error(), Err: f} }

// Options are a configuration's as JSON.
func Options(options map[string]any) (json.RawMessage, error) {
	if len(options) == 0 {
		return nil, nil
	}
	return json.Marshal(options)
}

// PID is that of the plugin's process that has the environment, for tests of what happens when it ends. It is 0 for other environments.
func PID(env executor.Environment) int {
	v, ok := env.(*environment)
	if !ok {
		return 0
	}
	return v.process.PID()
}
