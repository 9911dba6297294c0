// Package levels opens the levels on which jobs run, each when it is first needed.
package levels

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/components"
	"github.com/rungci/rung/cmd/step-runner/command/runner"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/none"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/service"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/lock"
)

// engineWait is how long the container engine may take to answer.
const engineWait = 10 * time.Second

// Levels makes the levels on which jobs run, each when it is first needed.
type Levels struct {
	program *command.Program
	from    *components.Flags
	root    string // of the project, whose sources.toml counts

	mu   sync.Mutex
	open []executor.Executor
}

// New makes none yet. root is the project, whose sources.toml counts where jobs run; "" is none.
func New(p *command.Program, from *components.Flags, root string) *Levels {
	return &Levels{program: p, from: from, root: root}
}

// Close closes all that were opened.
func (p *Levels) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.open {
		_ = e.Close() // what is left is removed by the next one
	}
}

func (p *Levels) keep(e executor.Executor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = append(p.open, e)
}

// OpenNone makes the level of this machine.
func (p *Levels) OpenNone() (executor.Executor, error) {
	e, err := none.New(none.Options{StepRunner: p.stepRunner, Program: runner.File()})
	if err != nil {
		return nil, err
	}
	p.keep(e)
	go func() { _ = e.Sweep(context.Background()) }() // what a killed run has left
	return e, nil
}

// stepRunner makes the step-runner of one environment.
func (p *Levels) stepRunner() (none.StepRunner, error) {
	svc, err := service.New(service.Options{
		Parse:         gitlabsteps.ParseSteps,
		Engine:        func() engine.Options { return runner.EngineOptions(p.program) },
		Sources:       p.sources,
		RuntimeDigest: runner.Digest,
		Limits:        service.Limits{Runs: -1, LogBytes: -1, RequestBytes: -1, Duration: -1, AbandonAfter: -1},
	})
	if err != nil {
		return nil, err
	}
	return &stepRunner{svc, service.NewServer(svc, service.Access{})}, nil
}

// sources finds components by the rules of the project, and not of its copy, in which the settings are left out.
func (p *Levels) sources(folder, workDir string, given *lock.File) (source.Source, error) {
	components, err := p.from.Locking(given).Open(p.program, folder, workDir)
	if err != nil {
		return nil, err
	}
	components.Rules, err = p.from.Rules(p.program, p.root)
	return components, err
}

// stepRunner serves one environment.
type stepRunner struct {
	service *service.Service
	server  *service.Server
}

// Serve implements none.StepRunner.
func (r *stepRunner) Serve(listener net.Listener) error { return r.server.Serve(listener) }

// Close implements none.StepRunner.
func (r *stepRunner) Close() {
	r.service.Close()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	r.server.Stop(now)
}

// OpenContainer makes the level of containers, when there is an engine.
func (p *Levels) OpenContainer() (executor.Executor, error) {
	ctx, cancel := context.WithTimeout(context.Background(), engineWait)
	defer cancel()
	e, err := container.New(ctx, container.Options{Env: p.program.Env})
	if err != nil {
		return nil, err
	}
	p.keep(e)
	go func() { _ = e.Sweep(context.Background()) }()
	return e, nil
}
