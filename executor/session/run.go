package session

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/service/client"
)

// Time limits. They are kept on this side of the connection: an environment that is broken, or hostile, keeps none.
const (
	// patience is how long a call to the step-runner of an environment may take.
	patience = 18 * time.Second
	// Closing bounds how long an environment may take to be removed.
	Closing = time.Minute
	// heartbeat is how often a step-runner that says nothing is asked how its run is.
	heartbeat = 3 * time.Second
	// silence is how long a step-runner may not answer until its environment counts as gone.
	silence = 18 * time.Second
	// checkPause is the time between two looks at an environment in which something has just failed.
	checkPause = 100 * time.Millisecond
	// overtime is what a run gets beyond its timeout and grace: to clean up, and to say how it ended.
	overtime = 6 * time.Minute
)

// End ends something that was made for a job, whatever stopped the job, within Closing.
func End(ctx context.Context, end func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Closing)
	defer cancel()
	return end(ctx)
}

// Within returns a context that ends with ctx, and when the environment ends or is found unable to run anything; the cause then is
// a *executor.Gone.
func Within(ctx context.Context, env executor.Environment) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-env.Done():
				cancel(env.Err())
				return
			case <-ctx.Done():
				return
			case <-tick.C:
				checking, end := context.WithTimeout(ctx, heartbeat)
				if err := env.Check(checking); errors.Is(err, executor.ErrGone) {
					cancel(err)
				}
				end()
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// Run runs a list of steps in an environment and passes on what happens. When ctx ends, the run is stopped gracefully, and then
// killed when kill says so. How the run ended is in its events. The error says that the environment failed: it wraps
// executor.ErrGone if the environment ended, and ErrTimeout if it did not end a run that timed out. Either comes within 30 seconds.
func Run(ctx context.Context, kill *Kill, env executor.Environment, request client.Request, to event.Sink) error {
	f, err := newFollower(env, kill, to)
	if err != nil {
		return err
	}
	defer f.client.Disconnect()
	starting, cancel := f.call(ctx)
	err = f.client.Run(starting, request)
	cancel()
	if err != nil {
		return f.explain(ctx, "starting the job's steps", err)
	}
	return f.follow(ctx, Position{ID: request.ID, Timeout: request.Timeout, Grace: request.Grace, LogFile: request.LogFile})
}

// Position is where a process that has ended was in following a run.
type Position struct {
	ID    string // of the run
	After int64  // the number of the last event that was passed on and kept
	// Timeout is what is left of the run's time; 0 means no limit.
	Timeout time.Duration
	Grace   time.Duration // of the run
	LogFile string        // see client.Request
}

// Resume follows a run that another process started, in an environment that was recovered. It passes on the events after the
// position, each once, and otherwise does what Run does.
func Resume(ctx context.Context, kill *Kill, env executor.Environment, at Position, to event.Sink) error {
	f, err := newFollower(env, kill, to)
	if err != nil {
		return err
	}
	defer f.client.Disconnect()
	return f.follow(ctx, at)
}

// Knows reports whether the step-runner of an environment has begun a run. The error says that it cannot be asked.
func Knows(ctx context.Context, env executor.Environment, id string) (bool, error) {
	f, err := newFollower(env, nil, nil)
	if err != nil {
		return false, err
	}
	defer f.client.Disconnect()
	asking, cancel := f.call(ctx)
	defer cancel()
	_, err = f.client.Status(asking, id)
	switch {
	case errors.Is(err, client.ErrNoRun):
		return false, nil
	case err != nil:
		return false, f.explain(ctx, "asking for the job's run", err)
	}
	return true, nil
}

// ErrTimeout says that a step-runner did not end a run whose time was over.
var ErrTimeout = errors.New("the job timed out, and its step-runner did not end it")

// follower follows one run.
type follower struct {
	env    executor.Environment
	client *client.Client
	kill   *Kill
	to     event.Sink
	heard  atomic.Int64 // when the step-runner was last heard of, in nanoseconds since 1970
	ended  event.Status // of the run; empty until it is known
}

func newFollower(env executor.Environment, kill *Kill, to event.Sink) (*follower, error) {
	c, err := client.Dial(env.Handle().ID, client.WithDialer(env.Connect))
	if err != nil {
		return nil, err
	}
	f := &follower{env: env, client: c, kill: kill, to: to}
	f.hear()
	return f, nil
}

func (f *follower) hear() { f.heard.Store(time.Now().UnixNano()) }

// call is a context for one call to the step-runner.
func (f *follower) call(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := Within(ctx, f.env)
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
	return ctx, func() { cancel(); end() }
}

var errSilent = fmt.Errorf("the step-runner has not answered for %s", patience)

// explain says why a call to the step-runner failed: because the environment is gone, or the job was stopped, if that is so.
func (f *follower) explain(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		if gone := f.env.Err(); gone != nil {
			return gone
		}
		return err
	}
	if gone := goneWith(ctx, f.env, err); gone != nil {
		return gone
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errSilent) {
		return &executor.Gone{Reason: errSilent.Error(), Err: err}
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// goneWith is a *executor.Gone where an error came because the environment ended, as may be seen a moment later, or because nobody answers
// who could say how it is; nil otherwise.
func goneWith(ctx context.Context, env executor.Environment, err error) error {
	if errors.Is(err, executor.ErrGone) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answered := time.Now().Add(heartbeat) // until when an environment that seems well is looked at
	for {
		how := env.Check(ctx)
		switch {
		case errors.Is(how, executor.ErrGone):
			return how
		case how == nil && time.Now().After(answered):
			return nil
		}
		select {
		case <-env.Done():
			return env.Err()
		case <-ctx.Done():
			if cause := context.Cause(ctx); errors.Is(cause, executor.ErrGone) { // by Within, which sees the end of the environment, too
				return cause
			}
			if how == nil || !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				return nil
			}
			return &executor.Gone{Reason: fmt.Sprintf("neither it nor its host has answered for %s", patience), Err: errors.Join(err, how)}
		case <-time.After(checkPause):
		}
	}
}

// follow passes on the events of a run until it ends.
func (f *follower) follow(ctx context.Context, at Position) error {
	following, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	following, end := Within(following, f.env)
	defer end()
	if at.Timeout > 0 {
		limit := at.Timeout + at.Grace + overtime
		late := time.AfterFunc(limit, func() { giveUp(fmt.Errorf("%w (after %s)", ErrTimeout, limit)) })
		defer late.Stop()
	}
	done := make(chan struct{})
	defer close(done)
	go f.stopWith(ctx, following, done, at, giveUp)
	go f.keepAsking(following, done, at.ID, giveUp)

	err := f.events(following, at)
	if cause := context.Cause(following); cause != nil {
		err = cause
	}
	if err != nil {
		return f.explain(context.WithoutCancel(ctx), "the connection to the job's step-runner is lost", err)
	}
	switch f.ended {
	case event.Success, event.Failure:
	case event.Cancelled:
		if ctx.Err() == nil {
			return f.stoppedElsewhere()
		}
	default:
		return &executor.Gone{Reason: fmt.Sprintf("its step-runner ended the run without a result (%q)", f.ended)}
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := f.client.Close(closing, at.ID); err != nil {
		return f.explain(context.WithoutCancel(ctx), "ending the run", err)
	}
	return nil
}

// stoppedElsewhere is the error of a run that was stopped, and not by us: its step-runner was asked to end, which is about to be seen.
func (f *follower) stoppedElsewhere() error {
	select {
	case <-f.env.Done():
		return f.env.Err()
	case <-time.After(heartbeat):
		return &executor.Gone{Reason: "its step-runner stopped the run, and nobody here asked for that"}
	}
}

// events passes on events. When the step-runner could not keep all of the log, the other events go on.
func (f *follower) events(ctx context.Context, at Position) error {
	var last event.Event
	pass := func(e event.Event) error {
		f.hear()
		last = e
		if end, ok := e.Body.(event.RunFinished); ok {
			f.ended = end.Status
		}
		f.to.Event(e)
		return nil
	}
	after, err := f.client.FollowSteps(ctx, at.ID, client.StepOptions{After: at.After, Logs: true, LogFile: at.LogFile, Most: MaxReported}, pass)
	if errors.Is(err, client.ErrTooMuch) {
		return &executor.Gone{Reason: fmt.Sprintf("its step-runner has reported more of the run than is allowed: %v", err), Err: err}
	}
	if !errors.Is(err, client.ErrLogLost) {
		return err
	}
	f.to.Event(event.Event{Seq: last.Seq, Time: time.Now().UTC(), Body: event.Warning{Message: fmt.Sprintf("the rest of the log is missing: %v", err)}})
	_, err = f.client.FollowSteps(ctx, at.ID, client.StepOptions{After: after, Most: MaxReported}, pass)
	return err
}

// stopWith stops the run when ctx ends, kills it when kill is closed, and gives up when neither helps. A step-runner that refuses to stop
// gets no time to clean up.
func (f *follower) stopWith(ctx, following context.Context, done <-chan struct{}, at Position, giveUp context.CancelCauseFunc) {
	cancel := func(stop event.Stop, force bool) error {
		calling, end := f.call(following)
		defer end()
		return f.client.Cancel(calling, at.ID, stop, force) // one that is not heard is noticed by keepAsking
	}
	wait := at.Grace + overtime
	select {
	case <-done:
		return
	case <-ctx.Done():
		if err := cancel(*event.StopOf(context.Cause(ctx)), false); err != nil {
			wait = patience
		}
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case <-done:
		return
	case <-late.C:
		giveUp(errUnstoppable)
		return
	case <-f.kill.Done():
		_ = cancel(event.Stop{Code: event.CodeKilled, Reason: f.kill.Reason()}, true)
	}
	select {
	case <-done:
	case <-time.After(patience):
		giveUp(errUnstoppable)
	}
}

// errUnstoppable is no *executor.Gone: whoever stopped the run is told that it was stopped.
var errUnstoppable = errors.New("the step-runner does not end the run")

// MaxReported bounds what a step-runner may report of one run: more than one that keeps its own limits (executor.Limits) ever does. What it
// reports beside its log is kept in memory here.
var MaxReported = client.Reported{Log: executor.DefaultLogBytes + executor.DefaultLogBytes/16, Events: 1 << 30}

// keepAsking gives up when the step-runner has not been heard of for a while.
func (f *follower) keepAsking(ctx context.Context, done <-chan struct{}, id string, giveUp context.CancelCauseFunc) {
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		quiet := time.Since(time.Unix(0, f.heard.Load()))
		if quiet < heartbeat {
			continue
		}
		calling, cancel := context.WithTimeout(ctx, heartbeat)
		_, err := f.client.Status(calling, id)
		if err == nil {
			f.hear()
		} else if errors.Is(err, client.ErrNoRun) {
			cancel()
			giveUp(&executor.Gone{Reason: "its step-runner does not know the run: it was started again", Err: err})
			return
		}
		cancel()
		if err != nil && quiet > silence {
			giveUp(&executor.Gone{Reason: fmt.Sprintf("its step-runner has not answered for %s", silence), Err: err})
			return
		}
	}
}
