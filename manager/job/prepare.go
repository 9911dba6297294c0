package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/event"
)

// How often an environment is tried to be made that cannot be for reasons beyond the job, and the time between two attempts (gitlab-runner:
// PreparationRetries, PreparationRetryInterval).
const (
	prepareAttempts     = 3
	DefaultPreparePause = 3 * time.Second
	// moment is how long the attempts so far may have taken: what hangs is not over in a moment. A registry may take its time.
	moment = 30 * time.Second
)

// environment makes it, within its own time limit if there is one.
func (j *job) environment(ctx context.Context, what *executor.Job, preparing *session.Preparation) (executor.Environment, error) {
	limit := j.o.PrepareTimeout
	if limit <= 0 {
		return attempts(ctx, j, what, preparing.Report)
	}
	within, release := context.WithTimeout(ctx, limit)
	defer release()
	env, err := attempts(within, j, what, preparing.Report)
	if err != nil && ctx.Err() == nil && within.Err() != nil {
		return nil, event.NewError(event.CodeInternalError, "the environment was not ready within %s (prepare_timeout)", limit)
	}
	return env, err
}

// attempts tries to make the environment until it is there, cannot be because of the job, or was tried often enough.
func attempts(ctx context.Context, j *job, what *executor.Job, report executor.Reporter) (executor.Environment, error) {
	pause := cmp.Or(j.o.PreparePause, DefaultPreparePause)
	began, driver := time.Now(), j.o.Level.Capabilities().Driver // which tries again by itself
	for attempt := 1; ; attempt++ {
		env, err := j.o.Level.Prepare(ctx, what, report)
		var left *executor.LeftError
		if errors.As(err, &left) && j.o.Left != nil {
			j.o.Left(left.Remove)
		}
		if err == nil || driver || attempt == prepareAttempts || !passing(ctx, err, time.Since(began)) {
			return env, err
		}
		j.before(event.Warning{Message: j.Hide(fmt.Sprintf("attempt %d of %d to make the environment failed, the next one is in %s: %v", attempt, prepareAttempts, pause, err))})
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// passing reports whether what keeps an environment from being made may be over in a moment: neither the job is the reason, nor that it is to end.
func passing(ctx context.Context, err error, took time.Duration) bool {
	if ctx.Err() != nil || session.AsError(ctx, err).Kind != event.ErrorSystem {
		return false
	}
	var pull *executor.PullError
	return took < moment || errors.As(err, &pull)
}
