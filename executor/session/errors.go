package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/internal/scarcity"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
)

// AsError says whose fault it is that a job did not get as far as its steps. It returns nil for nil.
func AsError(ctx context.Context, err error) *event.Error {
	var refusal *executor.Refusal
	var user *executor.UserError
	var pull *executor.PullError
	var own *event.Error
	var stopped *event.Stop
	var failed *executor.JobFailure
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failed):
		return event.NewError(event.CodeStepFailed, "%s", failed.Message)
	case errors.Is(err, executor.ErrOutOfMemory):
		return scarce(event.CodeOutOfMemory, event.HintMemory, err)
	case errors.Is(err, host.ErrNoSpace), scarcity.DiskFull(err):
		return scarce(event.CodeDiskFull, event.HintDisk, err)
	case errors.Is(err, executor.ErrGone): // before ctx: it may be why ctx ended
		return event.NewError(event.CodeEnvironmentGone, "%v", err)
	case errors.Is(err, ErrTimeout):
		return event.NewError(event.CodeRunTimeout, "%v", err)
	case ctx.Err() != nil:
		stop := event.StopOf(context.Cause(ctx))
		return event.NewError(stop.Code, "%s", stop.Reason)
	case errors.As(err, &refusal):
		e := event.NewError(event.CodeEnvironmentInvalid, "%v", err)
		switch refusal.Could {
		case executor.CGroup:
			e.Hint = "run the job at the isolation level cgroup (Linux) or container, or leave that out"
		case executor.Container:
			e.Hint = "give the job an image and run it in a container, or leave that out"
		}
		return e
	case errors.As(err, &user):
		code := event.CodeEnvironmentInvalid
		if errors.As(err, &pull) {
			code = event.CodeImageUnavailable
		}
		e := event.NewError(code, "%s", user.Message)
		e.Hint = user.Hint
		return e
	case errors.As(err, &pull):
		return event.NewError(event.CodeImagePullFailed, "%v", err)
	case errors.As(err, &own):
		return own
	case errors.As(err, &stopped): // a part of the work had less time than the whole
		return event.NewError(stopped.Code, "%s", stopped.Reason)
	}
	if list := diag.Of(err); list != nil {
		e := event.NewError(event.CodeDefinitionInvalid, "%s", list[0].Message)
		e.Hint, e.Diagnostics = list[0].Hint, list
		return e
	}
	return event.NewError(event.CodeInternalError, "%v", err)
}

func scarce(code event.Code, hint string, err error) *event.Error {
	e := event.NewError(code, "%v", err)
	e.Hint = hint
	return e
}

// OfJob returns the error of a run as that of the job that the run is.
func OfJob(err *event.Error) *event.Error {
	out := *err
	if t := err.Timeout; t != nil && t.Of == event.TimeoutRun {
		out.Message = fmt.Sprintf("the job timed out after %s", time.Duration(t.Limit))
	}
	return &out
}

// Problem is an error of a job that is found before it starts.
func Problem(kind event.ErrorKind, hint, format string, args ...any) *event.Error {
	e := event.NewError(kind.Code(), format, args...)
	e.Hint = hint
	return e
}
