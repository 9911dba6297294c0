// Package sandbox is the isolation level of gVisor: a job runs in its image, or in a folder of the host, on a kernel of its own in user
// space. It needs no KVM.
//
//	a container engine that knows the runtime runsc ──> executor/container with that runtime     images, services, networks, volumes
//	runsc on this machine alone ──────────────────────> executor/sandbox/direct                  images and folders, services, networks
//
// The engine comes first where there are both: it runs all that the level container does, and who has told it of runsc wants that used.
// Jobs that the other way has made are still found, and swept.
package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/sandbox/direct"
)

// Runtime is what engines call gVisor's OCI runtime, as its own documents say.
const Runtime = "runsc"

// Definition is the level's row in the registry.
var Definition = executor.Definition{
	Level:   executor.Sandbox,
	Summary: "a container on gVisor, with a kernel of its own in user space",
	Open: func(ctx context.Context, setup executor.Setup) (executor.Executor, error) {
		return New(ctx, setup, Options{})
	},
}

// Options are the level's own. The zero value is the usual way.
type Options struct {
	// Engine is the one to use; nil is the one that container.DetectOn finds.
	Engine *container.Engine
	// Container are those of sandboxes in an engine, but for the engine, the runtime and the level.
	Container container.Options
	// Way leaves out the other ways; empty is every one.
	Way Way
	// Direct are those of sandboxes without an engine.
	Direct direct.Options
}

// Way is how sandboxes are made.
type Way string

// The ways.
const (
	ThroughEngine Way = "engine" // by a container engine, with the runtime runsc
	Directly      Way = "runsc"  // by runsc alone
)

// Executor makes environments of this level.
type Executor struct {
	executor.Executor // the first of ways, which makes environments
	ways              []executor.Executor
}

// New finds out how sandboxes can be made. The error says what is missing for each way.
func New(ctx context.Context, setup executor.Setup, o Options) (*Executor, error) {
	e := &Executor{}
	var missing []error
	add := func(way Way, open func() (executor.Executor, error)) {
		if o.Way != "" && o.Way != way {
			return
		}
		if it, err := open(); err != nil {
			missing = append(missing, err)
		} else {
			e.ways = append(e.ways, it)
		}
	}
	add(ThroughEngine, func() (executor.Executor, error) { return throughEngine(ctx, setup, o) })
	add(Directly, func() (executor.Executor, error) {
		o.Direct.ServiceWait = cmp.Or(o.Direct.ServiceWait, o.Container.ServiceWait)
		o.Direct.Volumes = o.Container.Volumes
		return direct.New(setup, o.Direct)
	})
	if ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), e.Close())
	}
	if len(e.ways) == 0 {
		why := missing[0]
		for _, err := range missing[1:] {
			why = fmt.Errorf("%w; and %w", why, err)
		}
		return nil, fmt.Errorf("no sandbox can be made: %w", why)
	}
	e.Executor = e.ways[0]
	return e, nil
}

// throughEngine is the level of containers with gVisor's runtime.
func throughEngine(ctx context.Context, setup executor.Setup, o Options) (executor.Executor, error) {
	with := o.Container
	with.Engine, with.Level, with.Runtime = o.Engine, executor.Sandbox, Runtime
	with.OwnNames = true
	e, err := container.New(ctx, setup, with)
	if err != nil {
		return nil, err
	}
	known, err := e.HasRuntime(ctx, Runtime)
	if err == nil && !known {
		err = fmt.Errorf("the container engine at %s does not know the runtime %s; add it to the runtimes in its configuration", e.Engine(), Runtime)
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// Recover takes over the environment of a process that has ended, however that has made it.
func (e *Executor) Recover(ctx context.Context, handle executor.Handle) (executor.Environment, error) {
	for _, way := range e.ways {
		it, isEngine := way.(*container.Executor)
		if isEngine == (handle.Host != direct.Host) && (!isEngine || it.Engine().Host == handle.Host) {
			return way.Recover(ctx, handle)
		}
	}
	return nil, fmt.Errorf("the environment %s of level %s in %s was made in a way that is not to be had any more", handle.ID, handle.Level, handle.Host)
}

// Sweep removes what is left of environments whose lease has ended, however they were made.
func (e *Executor) Sweep(ctx context.Context) error {
	var problems []error
	for _, way := range e.ways {
		problems = append(problems, way.Sweep(ctx))
	}
	return errors.Join(problems...)
}

// Probe implements executor.Prober, for the way that makes environments.
func (e *Executor) Probe(ctx context.Context, least *executor.Job) error {
	if prober, ok := e.Executor.(executor.Prober); ok {
		return prober.Probe(ctx, least)
	}
	return nil
}

// Kept names the project folders that are kept between jobs, oldest first.
func (e *Executor) Kept(ctx context.Context) (all []executor.KeptProject, err error) {
	for _, way := range e.ways {
		if keeper, ok := way.(executor.Keeper); ok {
			return keeper.Kept(ctx)
		}
	}
	return nil, nil
}

// Forget removes one of those folders.
func (e *Executor) Forget(ctx context.Context, place string) error {
	for _, way := range e.ways {
		if keeper, ok := way.(executor.Keeper); ok {
			return keeper.Forget(ctx, place)
		}
	}
	return fmt.Errorf("there is no kept project folder %s", place)
}

// Stored lists what sandboxes keep for later jobs, however they are made.
func (e *Executor) Stored(ctx context.Context) (*executor.Stock, error) {
	all := &executor.Stock{}
	for _, way := range e.ways {
		storer, ok := way.(executor.Storer)
		if !ok {
			continue
		}
		stock, err := storer.Stored(ctx)
		if err != nil {
			return nil, err
		}
		for _, it := range stock.Things {
			it.Folder = cmp.Or(it.Folder, stock.Folder)
			all.Things = append(all.Things, it)
		}
		all.Folder = cmp.Or(all.Folder, stock.Folder)
		if stock.On != nil {
			all.On = stock.On
		}
	}
	return all, nil
}

// Discard removes one of those.
func (e *Executor) Discard(ctx context.Context, what executor.Stored) error {
	for _, way := range e.ways {
		storer, ok := way.(executor.Storer)
		if alone, is := way.(*direct.Executor); ok && (is && alone.Folder() == what.Place || !is && !e.unpacks(what.Place)) {
			return storer.Discard(ctx, what)
		}
	}
	return nil
}

// unpacks reports whether a folder is where sandboxes without an engine have the files of images.
func (e *Executor) unpacks(folder string) bool {
	for _, way := range e.ways {
		if alone, is := way.(*direct.Executor); is && alone.Folder() == folder {
			return true
		}
	}
	return false
}

// Close ends every way.
func (e *Executor) Close() error {
	var problems []error
	for _, way := range e.ways {
		problems = append(problems, way.Close())
	}
	return errors.Join(problems...)
}
