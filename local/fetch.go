package local

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/event"
)

// lateFetch is how long it may take to fetch what a job has left that was stopped or timed out.
const lateFetch = 30 * time.Second

// fetch takes over what the steps have left in an environment with files of its own, also after a failure.
func (a *attempt) fetch(ctx context.Context, began time.Time, outcome *session.Outcome) (err error) {
	if a.env.Layout().Shared {
		return nil
	}
	arrivals := a.Fetch(outcome)
	if len(arrivals) == 0 {
		return nil
	}
	staging, err := a.Staging()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(staging)) }()
	ctx, end := a.fetchTime(ctx, began)
	defer end()
	for i, one := range arrivals {
		folder := filepath.Join(staging, strconv.Itoa(i))
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
		to := filepath.Join(folder, path.Base(one.From))
		if err := session.Fetch(ctx, a.env, one.From, to); err != nil {
			return err
		}
		if err := one.Take(ctx, to); err != nil {
			return err
		}
	}
	return nil
}

// fetchTime bounds how long fetching may take: it is part of the job's time, and a person can stop it. A job that was stopped, or
// whose time has passed, has lateFetch, so that what it keeps for that case arrives.
func (a *attempt) fetchTime(ctx context.Context, began time.Time) (context.Context, context.CancelFunc) {
	timeout := a.steps.Timeout
	deadline := began.Add(timeout)
	late := ctx.Err() != nil || timeout > 0 && !time.Now().Before(deadline)
	if late {
		ctx, timeout, deadline = context.WithoutCancel(ctx), lateFetch, time.Now().Add(lateFetch)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stopped := make(chan struct{})
	go func() {
		select {
		case <-a.Kill:
			cancel(&event.Stop{Code: event.CodeKilled, Reason: "asked again"})
		case <-stopped:
		}
	}()
	end := func() { close(stopped); cancel(nil) }
	if timeout <= 0 {
		return ctx, end
	}
	why := event.NewError(event.CodeRunTimeout, "the job timed out after %s", timeout)
	if late {
		why = event.NewError(event.CodeRunTimeout, "the job had ended late, and this took longer than %s", timeout)
	} else {
		why.Hint = "what a job keeps is fetched within its timeout: raise it, or keep less"
	}
	ctx, release := context.WithDeadlineCause(ctx, deadline, why)
	return ctx, func() { release(); end() }
}
