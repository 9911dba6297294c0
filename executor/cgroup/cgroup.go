// Package cgroup is the isolation level of bounded processes: all that level none does, with the step-runner of each job, and all that it
// starts, in a control group of its own. The group holds what the job may use, says what it has used, and is killed as a whole.
//
//	rung/rung-…                     the group of an environment; the same name as the folder of its step-runner
//	gitlab-runner/slot-0/rung-…     one in the group of a slot (executor.Job.Slot)
//
// On a host behind SSH, a copy of this program handles the groups.
package cgroup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/none"
	"github.com/rungci/rung/internal/cgroup"
)

// Definition is the level's row in the registry.
var Definition = executor.Definition{
	Level:   executor.CGroup,
	Summary: "a process on the host with bounded resources (Linux)",
	Open: func(ctx context.Context, setup executor.Setup) (executor.Executor, error) {
		return New(ctx, setup, Options{Ahead: true})
	},
}

// Options are the level's own.
type Options struct {
	// Ahead starts the step-runner of the next environment before it is asked for, in a group without limits.
	Ahead bool
}

// New makes the level. The error says in one sentence what the machine lacks, and the command that gives it.
func New(ctx context.Context, setup executor.Setup, o Options) (executor.Executor, error) {
	b := &bounds{}
	if setup.Host == nil || setup.Host.Name() == local.Name {
		tree, err := cgroup.Open()
		if err != nil {
			return nil, err
		}
		b.tree, b.machine, b.local = tree, here{tree}, true
	} else {
		t, err := openThere(ctx, setup)
		if err != nil {
			return nil, err
		}
		b.tree, b.machine = t.tree, t
	}
	return none.New(ctx, setup, none.Options{Ahead: o.Ahead, Bounds: b})
}

// bounds make control groups.
type bounds struct {
	tree    *cgroup.Tree
	machine machine
	local   bool // it is this machine
}

// Level implements none.Bounds.
func (*bounds) Level() executor.Level { return executor.CGroup }

// Capabilities implements none.Bounds.
func (b *bounds) Capabilities() executor.Capabilities {
	return executor.Capabilities{KeepProject: true, Reattach: true, Resources: true, IO: b.tree.Version == 2, Slots: true,
		User:      b.local && b.tree.Version == 2 && local.CanBeOthers(), // a launcher of version 1 could not enter a group as another user
		NeedsRoot: b.tree.Version == 1}
}

// Admit implements none.Bounds.
func (b *bounds) Admit(job *executor.Job) error {
	limits, err := limitsOf(job.Resources)
	if err != nil {
		return err
	}
	if lacks := b.tree.Lacks(limits); len(lacks) > 0 {
		return &executor.Refusal{Level: executor.CGroup, What: fmt.Sprintf("limits of %s on this machine, whose control groups lack them", strings.Join(lacks, ", "))}
	}
	return nil
}

// limitsOf are the limits of a job, but for the disk that it works on.
func limitsOf(r executor.Resources) (cgroup.Limits, error) {
	l := cgroup.Limits{CPU: r.CPU, Memory: r.Memory, Swap: r.Swap, PIDs: r.PIDs, CPUSet: r.CPUSet, IO: cgroup.IO{Read: r.Read, Write: r.Write}}
	return l, l.Validate()
}

// Bound implements none.Bounds.
func (b *bounds) Bound(slot, name string) (none.Bound, error) {
	group, err := b.tree.Group(slot, name)
	if err != nil {
		return nil, err
	}
	return &bound{b.machine, group, slot, name}, nil
}

// Find implements none.Bounds.
func (b *bounds) Find(state json.RawMessage) (none.Bound, error) {
	group := &cgroup.Group{}
	if err := json.Unmarshal(state, group); err != nil {
		return nil, err
	}
	if len(group.Dirs) == 0 {
		return nil, errors.New("it names no control group")
	}
	return &bound{machine: b.machine, group: group}, nil
}

// bound is the group of an environment.
type bound struct {
	machine    machine
	group      *cgroup.Group
	slot, name string // of one to be made
}

// State implements none.Bound.
func (b *bound) State() json.RawMessage {
	text, _ := json.Marshal(b.group) // strings alone cannot fail
	return text
}

// Make implements none.Bound.
func (b *bound) Make(ctx context.Context) error { return b.machine.create(ctx, b.slot, b.name) }

// Into implements none.Bound.
func (b *bound) Into(command *host.Command) { b.machine.command(b.group, command) }

// Limit implements none.Bound.
func (b *bound) Limit(ctx context.Context, job *executor.Job, project string) error {
	limits, err := limitsOf(job.Resources)
	if err != nil {
		return err
	}
	return b.machine.limit(ctx, b.group, limits, project)
}

// Explain implements none.Bound.
func (b *bound) Explain(reason string, err error) (string, error) {
	used := b.machine.usage(b.group)
	if used.Kills == 0 {
		return reason, err
	}
	return "it ran out of memory, and the kernel killed its step-runner" + used.Words(), executor.ErrOutOfMemory
}

// Remove implements none.Bound.
func (b *bound) Remove(ctx context.Context) error { return b.machine.remove(ctx, b.group) }
