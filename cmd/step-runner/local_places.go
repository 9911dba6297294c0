package main

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/none"
	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/service"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/lock"
)

// engineWait is how long the container engine may take to answer.
const engineWait = 10 * time.Second

// places make the levels on which jobs run, each when it is first needed.
type places struct {
	app  *app
	from *sourceFlags
	root string // of the project, whose sources.toml counts

	mu   sync.Mutex
	open []executor.Executor
}

func (a *app) newPlaces(from *sourceFlags, p *gitlab.Project) *places {
	return &places{app: a, from: from, root: p.Repository.Root}
}

func (p *places) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.open {
		_ = e.Close() // what is left is removed by the next one
	}
}

func (p *places) keep(e executor.Executor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = append(p.open, e)
}

// openNone makes the level of this machine.
func (p *places) openNone() (executor.Executor, error) {
	e, err := none.New(none.Options{StepRunner: p.stepRunner, Program: programFile()})
	if err != nil {
		return nil, err
	}
	p.keep(e)
	go func() { _ = e.Sweep(context.Background()) }() // what a killed run has left
	return e, nil
}

// stepRunner makes the step-runner of one environment.
func (p *places) stepRunner() (none.StepRunner, error) {
	svc, err := service.New(service.Options{
		Parse:         gitlabsteps.ParseSteps,
		Engine:        p.app.engineOptions,
		Sources:       p.sources,
		RuntimeDigest: programDigest,
		Limits:        service.Limits{Runs: -1, LogBytes: -1, RequestBytes: -1, Duration: -1, AbandonAfter: -1},
	})
	if err != nil {
		return nil, err
	}
	return &stepRunner{svc, service.NewServer(svc, service.Access{})}, nil
}

// sources finds components by the rules of the project, and not of its copy, in which the settings are left out.
func (p *places) sources(folder, workDir string, given *lock.File) (source.Source, error) {
	components, err := p.app.openResolver(p.from.locking(given), folder, workDir)
	if err != nil {
		return nil, err
	}
	components.Rules, err = p.app.rules(p.from, p.root)
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

// openContainer makes the level of containers, when there is an engine.
func (p *places) openContainer() (executor.Executor, error) {
	ctx, cancel := context.WithTimeout(context.Background(), engineWait)
	defer cancel()
	e, err := container.New(ctx, container.Options{Env: p.app.env})
	if err != nil {
		return nil, err
	}
	p.keep(e)
	go func() { _ = e.Sweep(context.Background()) }()
	return e, nil
}
