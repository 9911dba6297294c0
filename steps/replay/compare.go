package replay

import (
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/trace"
)

// CompareOptions are how the two runs are compared.
type CompareOptions struct {
	Logs  bool // keep the lines of logs that differ
	Exact bool // times and temporary paths in logs are differences too
}

// Compare says what came out differently in the new run. What Notes have told already is not a difference; nor is what was not run.
func (r *Replay) Compare(again *trace.Trace, o CompareOptions) (*trace.Difference, error) {
	a, b := r.compared(r.recorded), r.compared(again)
	b.Runtime = a.Runtime
	return trace.Diff(a, b, trace.DiffOptions{Logs: o.Logs, Normalize: !o.Exact})
}

// compared is a trace with what is to be compared of it.
func (r *Replay) compared(t *trace.Trace) *trace.Trace {
	out := *t
	kept := map[string]bool{"": true}
	out.Steps = r.steps(t.Steps, kept)
	if !r.part.partial() {
		return &out
	}
	out.Warnings = nil
	for _, w := range t.Warnings {
		if kept[w.Step] {
			out.Warnings = append(out.Warnings, w)
		}
	}
	if r.part.until != nil || r.part.incomplete {
		out.Incomplete = true
		out.Run.Status, out.Run.Error, out.Run.ExitCode, out.Run.Outputs, out.Run.Stopping = event.Running, nil, nil, nil, nil
	}
	return &out
}

func (r *Replay) steps(steps []*trace.Step, kept map[string]bool) []*trace.Step {
	var out []*trace.Step
	for _, s := range steps {
		at := placeOf(s.ID)
		was := r.part.ids[s.ID]
		if r.part.before(at) || r.part.behind(at) || r.part.partial() && r.part.hook(at) || r.part.incomplete && was == nil {
			continue
		}
		kept[s.ID] = true
		shown := *s
		shown.Resolved = withoutSigners(s.Resolved)
		shown.Attempts = withoutPrograms(s.Attempts)
		if r.part.around(at) {
			unended(&shown)
		}
		if r.part.incomplete && was.Status == event.Running {
			unended(&shown)
			shown.Log = nil
			shown.Attempts = begun(shown.Attempts, len(was.Attempts))
		}
		shown.Steps = r.steps(s.Steps, kept)
		out = append(out, &shown)
	}
	return out
}

// unended makes a step look as it did before it ended.
func unended(s *trace.Step) {
	s.Status, s.Allowed, s.ExitCode, s.Error, s.Outputs, s.Exports = event.Running, false, nil, nil, nil, nil
}

// begun returns the first attempts of a step as they were before the last of them ended.
func begun(attempts []trace.Attempt, n int) []trace.Attempt {
	if n = min(n, len(attempts)); n == 0 {
		return nil
	}
	out := append([]trace.Attempt(nil), attempts[:n]...)
	last := &out[n-1]
	last.ExitCode, last.Signal, last.Error = nil, "", nil
	return out
}

// withoutSigners leaves out who signed a component: that is asked of the machine that runs it, and its content is compared.
func withoutSigners(r *trace.Resolved) *trace.Resolved {
	if r == nil || r.Origin == nil || r.Origin.SignedBy == nil {
		return r
	}
	resolved, origin := *r, *r.Origin
	origin.SignedBy = nil
	resolved.Origin = &origin
	return &resolved
}
