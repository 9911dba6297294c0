package replay

import (
	"slices"
	"strings"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/trace"
)

// failure is a reference of the recorded run that led to nothing, and why: where there is no network, or something is at its place by now, the
// replay could not fail in the same way.
type failure struct {
	step string // the ID of the step
	ref  string // as written, with expressions
	err  *event.Error
}

// loadCodes are the codes of references that led to nothing.
var loadCodes = []event.Code{event.CodeComponentNotFound, event.CodeComponentDenied, event.CodeFetchFailed}

// failures are those of the recorded run, with paths as they are now.
func (r *Replay) failures() []failure {
	var out []failure
	at := r.relocation()
	here := &relocation{moved: [][2]string{{r.recorded.Run.WorkDir, r.opts.WorkDir}}}
	r.recorded.Walk(func(s *trace.Step, _ int) {
		if s.Ref == "" || s.Resolved != nil || s.Error == nil || !slices.Contains(loadCodes, s.Error.Code) {
			return
		}
		text := func(t string) string {
			if r.recorded.Run.WorkDir == "" {
				return at.text(t)
			}
			return here.text(at.text(t))
		}
		out = append(out, failure{trace.WithoutRounds(s.ID), s.Ref, &event.Error{Code: s.Error.Code, Kind: s.Error.Kind, Message: text(s.Error.Message), Hint: text(s.Error.Hint)}})
	})
	return out
}

// failure returns why the reference of a step led to nothing in the recorded run; nil if it did not. What an expression in one came to is not
// recorded: only the step tells those apart. Of a step that failed in several rounds the first counts.
func (l *locals) failure(step string, ref *plan.Reference) error {
	for _, f := range l.failed {
		if f.ref == ref.Text || f.step == step && strings.Contains(f.ref, "${{") {
			return f.err
		}
	}
	return nil
}
