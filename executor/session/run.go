package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/service/client"
)

// Time limits.
const (
	// patience is how long the step-runner of an environment may take to end a run that is killed.
	patience = 20 * time.Second
	// Closing bounds how long an environment may take to be removed.
	Closing = time.Minute
)

// End ends something that was made for a job, whatever stopped the job, within Closing.
func End(ctx context.Context, end func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Closing)
	defer cancel()
	return end(ctx)
}

// Run runs a list of steps in an environment and hands on what happens. When ctx ends, the run is stopped gracefully, and killed
// when kill is closed. The error says that the environment failed; how the run ended is in its events.
func Run(ctx context.Context, kill <-chan struct{}, env executor.Environment, request client.Request, to event.Sink) error {
	c, err := client.Dial(request.ID, client.WithDialer(env.Connect))
	if err != nil {
		return err
	}
	defer c.Disconnect()
	if err := c.Run(ctx, request); err != nil {
		return err
	}
	follow, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-done:
			return
		case <-ctx.Done():
			_ = c.Cancel(follow, request.ID, *event.StopOf(context.Cause(ctx)), false)
		}
		select {
		case <-done:
			return
		case <-kill:
			_ = c.Cancel(follow, request.ID, event.Stop{Code: event.CodeKilled, Reason: "asked again"}, true)
		}
		select {
		case <-done:
		case <-time.After(patience):
			giveUp(errors.New("the step-runner does not end the run"))
		}
	}()
	_, err = c.FollowSteps(follow, request.ID, client.StepOptions{Logs: true, LogFile: request.LogFile}, func(e event.Event) error {
		to.Event(e)
		return nil
	})
	if cause := context.Cause(follow); cause != nil {
		err = cause
	}
	if err != nil && !errors.Is(err, client.ErrLogLost) {
		return fmt.Errorf("the connection to the job's step-runner is lost: %w", err)
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return c.Close(end, request.ID)
}
