package gitlab

import (
	"context"
	"errors"
	"strings"

	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/value"
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

// asError makes an error of a job of one that is not told by its steps.
func asError(ctx context.Context, err error) *event.Error {
	var unloaded *LoadError
	if ctx.Err() == nil && errors.As(err, &unloaded) {
		list := unloaded.Problems
		return &event.Error{Kind: unloaded.kind(), Message: list[0].Message, Hint: list[0].Hint, Diagnostics: list}
	}
	return session.AsError(ctx, err)
}
