package plugin

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	executorv1 "github.com/rungci/rung/api/rung/executor/v1"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/plugin/wire"
	"github.com/rungci/rung/internal/pluginhost"
	"github.com/rungci/rung/internal/pluginhost/handshake"
)

// Executor is a plugin as an executor.
type Executor struct {
	config Config
	setup  executor.Setup
	file   string
	remove func()

	described *executorv1.DescribeResponse
	can       executor.Capabilities

	starting sync.Mutex // held while a process is started

	mu      sync.Mutex // guards the fields below, and described and can
	process *process
	closed  bool
}

// Open starts a plugin and configures it. The error says what of the file, its pin, its options or the plugin is wrong.
func Open(ctx context.Context, config Config, setup executor.Setup) (*Executor, error) {
	if setup.Host != nil && setup.Host.Name() != local.Name {
		return nil, fmt.Errorf("the executor plugin %q runs on this machine, and cannot be used for the host %s", config.Name, setup.Host.Name())
	}
	file, remove, err := ExecutorKind.Verified(&config)
	if err != nil {
		return nil, err
	}
	e := &Executor{config: config, setup: setup, file: file, remove: remove}
	if _, err := e.running(ctx); err != nil {
		remove()
		return nil, err
	}
	return e, nil
}

// running is the process of the plugin. One that has ended is started again.
func (e *Executor) running(ctx context.Context) (*process, error) {
	e.starting.Lock()
	defer e.starting.Unlock()
	e.mu.Lock()
	closed, last := e.closed, e.process
	e.mu.Unlock()
	switch {
	case closed:
		return nil, fmt.Errorf("the executor plugin %q is closed", e.config.Name)
	case last != nil && last.Err() == nil:
		return last, nil
	}
	p, err := started(ctx, &e.config, e.file)
	if err != nil {
		return nil, err
	}
	if err := e.configure(ctx, p); err != nil {
		p.Fail("was not used")
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.process, e.described, e.can = p, p.described, p.can
	return p, nil
}

// configure asks what a process is, and opens it with options that it accepts.
func (e *Executor) configure(ctx context.Context, p *process) error {
	call := p.Begin(ctx, "Describe", limits.silence)
	d, err := p.rpc.Describe(call.Ctx, &executorv1.DescribeRequest{})
	call.End()
	if err != nil {
		return call.Failed(err)
	}
	if err := e.believe(d); err != nil {
		return &Failure{Kind: ExecutorKind.Name, Plugin: e.config.Name, Call: "Describe", What: "says what cannot be", Err: err}
	}
	p.described = d
	if d.GetPrepareSilence() != nil {
		p.silence = d.GetPrepareSilence().AsDuration()
	}
	options, err := ExecutorKind.CheckOptions(&e.config, d.GetOptionsSchema())
	if err != nil {
		return err
	}
	if err := p.open(ctx, wire.EncodeSetup(e.setup, options)); err != nil {
		return fmt.Errorf("opening the executor plugin %q: %w", e.config.Name, err)
	}
	return nil
}

// believe checks what a plugin says that it is. One that is started again must be what it was.
func (e *Executor) believe(d *executorv1.DescribeResponse) error {
	level, rank := d.GetLevel(), executor.Level(d.GetRank())
	silence := d.GetPrepareSilence().AsDuration()
	switch {
	case level == "" || len(level) > 40 || strings.Trim(level, pluginhost.NameCharacters) != "":
		return fmt.Errorf("a level must be 1 to 40 letters, digits, - and _, not %q", level)
	case rank != "" && rank != executor.None && rank.Rank() == 0:
		return fmt.Errorf("its rank must be one of Rung's own levels, not %q", rank)
	case silence < 0 || silence > handshake.MaxSilence:
		return fmt.Errorf("Prepare may be silent for at most %s, not %s", handshake.MaxSilence, silence)
	case e.described != nil && (level != e.described.GetLevel() || d.GetRank() != e.described.GetRank()):
		return fmt.Errorf("it was level %q of rank %q when it was started first, and is now level %q of rank %q", e.described.GetLevel(), e.described.GetRank(), level, rank)
	}
	return nil
}

// Level is what the plugin calls its environments.
func (e *Executor) Level() executor.Level {
	e.mu.Lock()
	defer e.mu.Unlock()
	return executor.Level(e.described.GetLevel())
}

// Rank is that of the level which the plugin says that it is as strong as. The configuration, which names the plugin, vouches for that.
func (e *Executor) Rank() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return executor.Level(cmp.Or(e.described.GetRank(), e.described.GetLevel())).Rank()
}

// Capabilities are what the plugin says that it can do.
func (e *Executor) Capabilities() executor.Capabilities {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.can
}

// Prepare implements executor.Executor.
func (e *Executor) Prepare(ctx context.Context, job *executor.Job, report executor.Reporter) (executor.Environment, error) {
	if err := errors.Join(job.Validate(), context.Cause(ctx)); err != nil {
		return nil, err
	}
	if err := executor.Check(e, job); err != nil {
		return nil, err
	}
	p, err := e.running(ctx)
	if err != nil {
		return nil, err
	}
	env := &environment{executor: e, process: p, id: rand.Text(), Life: executor.NewLife()}
	if err := env.prepare(ctx, job, report); err != nil {
		return nil, env.abandon(err)
	}
	env.watch()
	return env, nil
}

// ownedTime is how long an environment that has an owner is asked for again: that of a runner which was killed ends a moment after it.
const (
	ownedTime  = 3 * time.Second
	ownedPause = 100 * time.Millisecond
)

// Recover implements executor.Executor.
func (e *Executor) Recover(ctx context.Context, handle executor.Handle) (executor.Environment, error) {
	if handle.Level != e.Level() {
		return nil, fmt.Errorf("the environment %s is one of level %q, not of level %q", handle.ID, handle.Level, e.Level())
	}
	p, err := e.running(ctx)
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(ownedTime); ; {
		env := &environment{executor: e, process: p, id: rand.Text(), Life: executor.NewLife()}
		err := env.recover(ctx, handle)
		if err == nil {
			env.watch()
			return env, nil
		}
		if !errors.Is(err, executor.ErrOwned) || time.Now().After(until) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(ownedPause):
		}
	}
}

// Sweep implements executor.Executor.
func (e *Executor) Sweep(ctx context.Context) error {
	p, err := e.running(ctx)
	if err != nil {
		return err
	}
	call := p.Begin(ctx, "Sweep", handshake.MaxSilence) // much may be left, and no job waits for it
	defer call.End()
	_, err = p.rpc.Sweep(call.Ctx, &executorv1.SweepRequest{})
	return call.Failed(err)
}

// Kept implements executor.Keeper. A plugin that cannot name what it keeps names nothing.
func (e *Executor) Kept(ctx context.Context) ([]executor.KeptProject, error) {
	p, err := e.running(ctx)
	if err != nil {
		return nil, err
	}
	call := p.Begin(ctx, "Kept", limits.silence)
	defer call.End()
	answer, err := p.rpc.Kept(call.Ctx, &executorv1.KeptRequest{})
	if err := call.Failed(err); err != nil {
		if errors.Is(err, errors.ErrUnsupported) {
			return nil, nil
		}
		return nil, err
	}
	var out []executor.KeptProject
	for _, one := range answer.GetProjects() {
		out = append(out, executor.KeptProject{Name: one.GetName(), Place: one.GetPlace(), Made: one.GetMade().AsTime()})
	}
	return out, nil
}

// Forget implements executor.Keeper.
func (e *Executor) Forget(ctx context.Context, place string) error {
	p, err := e.running(ctx)
	if err != nil {
		return err
	}
	call := p.Begin(ctx, "Forget", limits.silence)
	defer call.End()
	_, err = p.rpc.Forget(call.Ctx, &executorv1.ForgetRequest{Place: place})
	return call.Failed(err)
}

// Close ends the plugin.
func (e *Executor) Close() error {
	e.mu.Lock()
	closed, p := e.closed, e.process
	e.closed = true
	e.mu.Unlock()
	if closed {
		return nil
	}
	defer e.remove()
	if p.Err() != nil {
		p.Kill()
		return nil // what it left is swept
	}
	call := p.Begin(context.Background(), "Close", limits.silence)
	_, err := p.rpc.Close(call.Ctx, &executorv1.CloseRequest{})
	err = call.Failed(err)
	call.End()
	p.Finish(&executor.Gone{Reason: "the executor was closed", Err: executor.ErrClosed})
	p.Leave()
	return err
}
