package session

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
)

func TestAJobThatDoesNotStartSaysWhoseFaultThatIs(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancelCause(t.Context())
	stop(&event.Stop{Code: event.CodeInterrupted, Reason: "interrupted"})
	pull := &executor.PullError{Image: "a", Err: errors.New("text")}
	for name, test := range map[string]struct {
		ctx    context.Context
		err    error
		code   event.Code
		reason event.FailureReason
	}{
		"a job that was stopped":                    {stopped, errors.New("any"), event.CodeInterrupted, event.ReasonInterrupted},
		"an image that the job may not have":        {t.Context(), &executor.UserError{Message: "m", Err: pull}, event.CodeImageUnavailable, event.ReasonImagePull},
		"an image that cannot be pulled now":        {t.Context(), fmt.Errorf("pulling: %w", pull), event.CodeImagePullFailed, event.ReasonImagePull},
		"an environment that cannot be made for it": {t.Context(), &executor.UserError{Message: "m"}, event.CodeEnvironmentInvalid, event.ReasonConfiguration},
		"an error that is data":                     {t.Context(), fmt.Errorf("x: %w", event.NewError(event.CodeFetchFailed, "m")), event.CodeFetchFailed, event.ReasonExternalDependency},
		"anything else":                             {t.Context(), errors.New("any"), event.CodeInternalError, event.ReasonSystem},
	} {
		got := AsError(test.ctx, test.err)
		if got.Code != test.code || got.Kind != test.code.Kind() || got.FailureReason() != test.reason {
			t.Errorf("%s is %s, %s, for GitLab %s", name, got.Code, got.Kind, got.FailureReason())
		}
	}
	if AsError(stopped, nil) != nil {
		t.Error("nothing is an error")
	}
}

func TestTheRunOfAJobTimesOutAsTheJob(t *testing.T) {
	t.Parallel()
	run, step := event.TimedOut(event.TimeoutRun, plan.Duration(90e9)), event.TimedOut(event.TimeoutStep, plan.Duration(1e9))
	if got := OfJob(run).Message; got != "the job timed out after 1m30s" {
		t.Errorf("got %q", got)
	}
	if got := OfJob(step).Message; got != step.Message {
		t.Errorf("of a step: %q", got)
	}
}
