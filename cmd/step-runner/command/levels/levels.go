// Package levels opens the isolation levels on which this program runs jobs.
package levels

import (
	"context"
	"time"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/components"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/levels"
	"github.com/rungci/rung/local/store"
)

// ProjectFolder is the folder that every project has whose jobs ran on this machine.
const ProjectFolder = store.Folder

// openTime bounds how long a container engine may take to answer.
const openTime = 10 * time.Second

// Levels makes the levels on which jobs run, each when it is first needed.
type Levels struct {
	// Root is the project whose sources.toml counts where jobs run; "" is none.
	Root   string
	opener levels.Opener
}

// New makes none yet.
func New(p *command.Program, from *components.Flags, root string) *Levels {
	return &Levels{Root: root, opener: levels.Opener{Setup: func(level executor.Level) executor.Setup {
		setup := executor.Setup{Env: p.Env}
		if level == executor.None || level == executor.CGroup {
			// On this machine components are found by the rules of the project, not of its copy, in which the settings are left out.
			if setup.Serve = from.Args(); root != "" {
				setup.Serve = append(setup.Serve, "--rules-of="+root)
			}
		}
		return setup
	}}}
}

// Close closes all that were opened.
func (l *Levels) Close() {
	_ = l.opener.Close() // what is left is removed by the next one
}

// Open opens a level.
func (l *Levels) Open(level executor.Level) (executor.Executor, error) {
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	return l.opener.Open(ctx, level)
}

// OpenNone opens the level on this machine.
func (l *Levels) OpenNone() (executor.Executor, error) { return l.Open(executor.None) }

// OpenCGroup opens the level of bounded processes on this machine, if it has control groups.
func (l *Levels) OpenCGroup() (executor.Executor, error) { return l.Open(executor.CGroup) }

// OpenSandbox opens the level of gVisor, if an engine or this machine has it.
func (l *Levels) OpenSandbox() (executor.Executor, error) { return l.Open(executor.Sandbox) }

// OpenContainer opens the level of containers, if there is an engine.
func (l *Levels) OpenContainer() (executor.Executor, error) { return l.Open(executor.Container) }
