package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	executorv1 "github.com/rungci/rung/api/rung/executor/v1"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/plugin/wire"
)

// cleanupTime bounds how long it is waited for the clean-up of what could not be prepared, and for the recovery of an environment.
const cleanupTime = time.Minute

// environment is one that a process of a plugin has.
type environment struct {
	executor *Executor
	process  *process
	id       string
	handle   executor.Handle
	layout   executor.Layout
	*executor.Life

	mu     sync.Mutex
	closed bool
}

// prepare waits for the environment. When ctx ends it returns at once: abandon then waits for the end of the preparation.
func (v *environment) prepare(ctx context.Context, job *executor.Job, report executor.Reporter) error {
	call := v.process.Begin(ctx, "Prepare", v.process.silence)
	defer call.End()
	stream, err := v.process.rpc.Prepare(call.Ctx, &executorv1.PrepareRequest{Environment: v.id, Job: wire.EncodeJob(job)})
	for err == nil {
		var m *executorv1.PrepareResponse
		if m, err = stream.Recv(); err != nil {
			break
		}
		call.Heard()
		switch {
		case m.GetPreparing() != nil:
			call.Rest()
			report.Report(wire.DecodePreparing(m.GetPreparing()))
			call.Heard()
		case m.GetEnvironment() != nil:
			return v.believe("Prepare", m.GetEnvironment())
		}
	}
	if errors.Is(err, io.EOF) {
		return &Failure{Kind: ExecutorKind.Name, Plugin: v.process.Name(), Call: "Prepare", What: "has ended the preparation without an environment or an error"}
	}
	return call.Failed(err)
}

// believe takes over what the plugin says of the environment.
func (v *environment) believe(call string, m *executorv1.Environment) (err error) {
	if v.handle, v.layout, err = wire.DecodeEnvironment(m, v.executor.Level()); err != nil {
		return &Failure{Kind: ExecutorKind.Name, Plugin: v.process.Name(), Call: call, What: "says what cannot be", Err: err}
	}
	return nil
}

// abandon waits until nothing is left of an environment that could not be prepared for a reason. That of a plugin which has ended is swept.
func (v *environment) abandon(why error) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTime)
	defer cancel()
	if v.process.Err() != nil {
		return errors.Join(why, v.sweep(ctx))
	}
	return errors.Join(why, v.cleanup(ctx))
}

func (v *environment) recover(ctx context.Context, handle executor.Handle) error {
	call := v.process.Begin(ctx, "Recover", limits.silence)
	defer call.End()
	m, err := v.process.rpc.Recover(call.Ctx, &executorv1.RecoverRequest{Environment: v.id, Handle: wire.EncodeHandle(handle)})
	if err != nil {
		return call.Failed(err)
	}
	return v.believe("Recover", m.GetEnvironment())
}

// watch ends the life of the environment when the plugin says so, and with the plugin's process.
func (v *environment) watch() {
	ctx, cancel := context.WithCancel(v.Lifetime())
	stop := context.AfterFunc(v.process.Lifetime(), func() { v.Finish(v.process.Err()) })
	go func() {
		defer cancel()
		defer stop()
		stream, err := v.process.rpc.Watch(ctx, &executorv1.WatchRequest{Environment: v.id})
		var m *executorv1.WatchResponse
		if err == nil {
			m, err = stream.Recv()
		}
		if v.Err() != nil {
			return
		}
		var why error
		if err == nil {
			why = wire.Decode(m.GetError())
		} else {
			call := v.process.Begin(ctx, "Watch", limits.silence)
			why = call.Failed(err)
			call.End()
		}
		v.Finish(gone(why))
	}()
}

// gone makes an error one that says that the environment is gone.
func gone(err error) error {
	if errors.Is(err, executor.ErrGone) {
		return err
	}
	return &executor.Gone{Reason: err.Error(), Err: err}
}

func (v *environment) Layout() executor.Layout { return v.layout }

func (v *environment) Handle() executor.Handle { return v.handle }

// during calls the plugin about the environment. When the environment has ended, that is why the call failed.
func (v *environment) during(ctx context.Context, name string, limit time.Duration, do func(*call) error) error {
	if err := v.Err(); err != nil {
		return err
	}
	ctx, end := v.Within(ctx)
	defer end()
	call := v.process.Begin(ctx, name, limit)
	defer call.End()
	return v.endedBy(call.Failed(do(call)))
}

// endedBy is the error of a call, or why the environment has ended, if it has.
func (v *environment) endedBy(err error) error {
	if gone := v.process.Err(); gone != nil {
		v.Finish(gone)
	}
	if err != nil && v.Err() != nil {
		return v.Err()
	}
	return err
}

// Check implements executor.Environment.
func (v *environment) Check(ctx context.Context) error {
	return v.during(ctx, "Check", limits.prompt, func(c *call) error {
		_, err := v.process.rpc.Check(c.Ctx, &executorv1.CheckRequest{Environment: v.id})
		return err
	})
}

// Detach implements executor.Environment.
func (v *environment) Detach() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil
	}
	if err := v.Err(); err != nil {
		return err
	}
	call := v.process.Begin(context.Background(), "Detach", limits.silence) // not within the life of the environment, which this ends
	defer call.End()
	_, err := v.process.rpc.Detach(call.Ctx, &executorv1.DetachRequest{Environment: v.id})
	if err == nil {
		v.closed = true
		v.Finish(&executor.Gone{Reason: "it was left to another process"})
		return nil
	}
	return v.endedBy(call.Failed(err))
}

// Close implements executor.Environment.
func (v *environment) Close(ctx context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil
	}
	v.Finish(&executor.Gone{Err: executor.ErrClosed})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var err error
	if v.process.Err() == nil {
		err = v.cleanup(ctx)
	}
	if v.process.Err() != nil {
		err = v.closeElsewhere(ctx)
	}
	v.closed = err == nil
	return err
}

// cleanup has the plugin remove the environment.
func (v *environment) cleanup(ctx context.Context) error {
	call := v.process.Begin(ctx, "Cleanup", limits.silence)
	defer call.End()
	_, err := v.process.rpc.Cleanup(call.Ctx, &executorv1.CleanupRequest{Environment: v.id})
	return call.Failed(err)
}

// closeElsewhere removes an environment whose process of the plugin has ended, through another one.
func (v *environment) closeElsewhere(ctx context.Context) error {
	if !v.executor.setup.Lease.Outlives() {
		return v.sweep(ctx)
	}
	env, err := v.executor.Recover(ctx, v.handle)
	switch {
	case err == nil:
		return env.Close(ctx)
	case errors.Is(err, executor.ErrGone):
		return nil
	}
	return fmt.Errorf("removing the environment %s, whose plugin has ended: %w", v.handle.ID, err)
}

// sweep has another process of the plugin remove what this one has left.
func (v *environment) sweep(ctx context.Context) error {
	v.process.Kill() // what a living process has is not swept
	if err := v.executor.Sweep(ctx); err != nil {
		return fmt.Errorf("removing what a plugin has left that ended: %w", err)
	}
	return nil
}
