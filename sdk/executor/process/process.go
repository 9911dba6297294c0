// Package process has an executor for plugins whose jobs are processes of this machine: each job's step-runner is started through a command that
// the plugin chooses, such as bwrap, systemd-run or a program of its own. Folders, files, shells, clean-up after a crash, leases and project
// folders that are kept between jobs are those of level none.
package process

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/none"
)

// Through puts something around a command: it returns the command that starts the given one. What is started must end when its standard input
// ends, as the step-runner does, and see the folders of this machine that the setup names, at the same paths.
type Through func(command []string) []string

// New makes the executor. level is what it is called, as in the plugin.
func New(ctx context.Context, setup executor.Setup, level executor.Level, through Through) (executor.Executor, error) {
	return none.New(ctx, setup, none.Options{Bounds: &bounds{level, through}})
}

// bounds put the command around each step-runner.
type bounds struct {
	level   executor.Level
	through Through
}

// Level implements none.Bounds.
func (b *bounds) Level() executor.Level { return b.level }

// Capabilities implements none.Bounds.
func (b *bounds) Capabilities() executor.Capabilities {
	return executor.Capabilities{KeepProject: true, Reattach: true}
}

// Admit implements none.Bounds.
func (*bounds) Admit(*executor.Job) error { return nil }

// Bound implements none.Bounds.
func (b *bounds) Bound(slot, _ string) (none.Bound, error) {
	if slot != "" {
		return nil, errors.New("the level has no slots")
	}
	return bound{b}, nil
}

// Find implements none.Bounds.
func (b *bounds) Find(json.RawMessage) (none.Bound, error) { return bound{b}, nil }

// bound is the command around one step-runner. It has no state.
type bound struct{ *bounds }

// State implements none.Bound.
func (bound) State() json.RawMessage { return json.RawMessage("{}") }

// Make implements none.Bound.
func (bound) Make(context.Context) error { return nil }

// Into implements none.Bound.
func (b bound) Into(command *host.Command) { command.Args = b.through(command.Args) }

// Limit implements none.Bound.
func (bound) Limit(context.Context, *executor.Job, string) error { return nil }

// Explain implements none.Bound.
func (bound) Explain(reason string, err error) (string, error) { return reason, err }

// Remove implements none.Bound.
func (bound) Remove(context.Context) error { return nil }
