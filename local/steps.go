package local

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/service/client"
	"github.com/rungci/rung/steps/value"
)

const (
	// patience is how long the step-runner of an environment may take to end a run that is killed.
	patience = 20 * time.Second
	// closing bounds how long an environment may take to be removed.
	closing = time.Minute
)

// watch is a sink that remembers how a run ended and what its steps gave.
type watch struct {
	to      []event.Sink
	started bool
	end     *event.RunFinished
	refs    map[string]string // of running steps, what they are made of
	inputs  map[string]map[string]value.Value
	names   map[string]string // of built-in steps of the job's own list
	given   []given
}

// given is what a step of the catalog gave.
type given struct {
	ref     string // builtin://artifacts/upload
	inputs  map[string]value.Value
	outputs map[string]value.Value
}

// Event implements event.Sink.
func (w *watch) Event(e event.Event) {
	switch b := e.Body.(type) {
	case event.RunStarted:
		w.started = true
		w.refs, w.inputs, w.names = map[string]string{}, map[string]map[string]value.Value{}, map[string]string{}
	case event.StepStarted:
		if b.Ref != "" {
			w.refs[e.Step] = b.Ref
			if strings.HasPrefix(b.Ref, builtinPrefix) {
				w.names[e.Step] = b.Name
			}
		}
	case event.StepInputs:
		if w.refs[e.Step] != "" {
			w.inputs[e.Step] = b.Inputs
		}
	case event.StepFinished:
		if ref := w.refs[e.Step]; ref != "" {
			if b.Status == event.Success {
				w.given = append(w.given, given{ref, w.inputs[e.Step], b.Outputs})
			}
			delete(w.refs, e.Step)
			delete(w.inputs, e.Step)
		}
	case event.RunFinished:
		w.end = &b
	}
	for _, sink := range w.to {
		sink.Event(e)
	}
}

// runSteps runs a list of steps in an environment and hands on what happens. When ctx ends, the run is stopped gracefully, and killed
// when kill is closed. The error says that the environment failed; how the run ended is in the watch.
func runSteps(ctx context.Context, kill <-chan struct{}, env executor.Environment, request client.Request, w *watch) error {
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
			_ = c.Cancel(follow, request.ID, context.Cause(ctx).Error(), false)
		}
		select {
		case <-done:
			return
		case <-kill:
			_ = c.Cancel(follow, request.ID, "asked again", true)
		}
		select {
		case <-done:
		case <-time.After(patience):
			giveUp(errors.New("the step-runner does not end the run"))
		}
	}()
	_, err = c.FollowSteps(follow, request.ID, client.StepOptions{Logs: true}, func(e event.Event) error {
		w.Event(e)
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

// asError makes an error of a job of one that is not told by its steps.
func asError(ctx context.Context, err error) *event.Error {
	var refusal *executor.Refusal
	var user *executor.UserError
	var definition *client.Definition
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &event.Error{Kind: event.ErrorCancelled, Message: context.Cause(ctx).Error()}
	case errors.As(err, &refusal):
		return &event.Error{Kind: event.ErrorDefinition, Message: err.Error()}
	case errors.As(err, &user):
		return &event.Error{Kind: event.ErrorDefinition, Message: user.Message, Hint: user.Hint}
	case errors.As(err, &definition):
		return &event.Error{Kind: event.ErrorDefinition, Message: definition.Message, Hint: definition.Hint, Diagnostics: definition.Diagnostics}
	}
	var own *event.Error
	if errors.As(err, &own) {
		return own
	}
	var unloaded *LoadError
	if errors.As(err, &unloaded) {
		list := unloaded.Problems
		return &event.Error{Kind: unloaded.kind(), Message: list[0].Message, Hint: list[0].Hint, Diagnostics: list}
	}
	if list := diag.Of(err); list != nil {
		return &event.Error{Kind: event.ErrorDefinition, Message: list[0].Message, Hint: list[0].Hint, Diagnostics: list}
	}
	return &event.Error{Kind: event.ErrorSystem, Message: err.Error()}
}

// problem is an error of a job that is found before it starts.
func problem(kind event.ErrorKind, hint, format string, args ...any) *event.Error {
	return &event.Error{Kind: kind, Message: fmt.Sprintf(format, args...), Hint: hint}
}
