package engine

import (
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
)

// report tells of steps whether they begin, and of those that never do.
type report struct {
	out    *emitter
	places *places
}

// started makes the first event of a step.
func (r *report) started(st *plan.Step, span diag.Span) event.StepStarted {
	e := event.StepStarted{Name: st.Name, Title: st.Title, Span: span}
	switch {
	case st.Ref != nil:
		e.Kind, e.Ref = event.KindComponent, st.Ref.Text
	case len(st.Parallel) > 0:
		e.Kind = event.KindParallel
	case st.Await != nil:
		e.Kind = event.KindAwait
	case st.Inline == nil || st.Inline.Definition.Exec == nil:
		e.Kind = event.KindSteps
	case st.Inline.Definition.Exec.Script != nil:
		e.Kind = event.KindScript
	default:
		e.Kind = event.KindExec
	}
	return e
}

func (r *report) skipped(id string, st *plan.Step, reason string) *outcome {
	r.out.emit(id, event.StepSkipped{Name: st.Name, Title: st.Title, Reason: reason, Span: r.places.shown(st.Span)})
	return (&outcome{status: event.Skipped}).countOne()
}

// stillborn reports a step that failed before it began.
func (r *report) stillborn(id, path string, st *plan.Step, err *event.Error) *outcome {
	r.out.emit(id, r.started(st, r.places.shown(st.Span)))
	o := failed(r.places.in(err, id, path, st))
	r.out.emit(id, event.StepFinished{Status: o.status, Error: o.err})
	return o.countOne()
}
