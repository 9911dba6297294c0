package step

import (
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/plan"
)

// started notes that a step runs in the background from here on.
func (r *Reader) started(name string) {
	for id, c := range r.ids {
		if c.name == name {
			c.background = true
			r.ids[id] = c
		}
	}
}

// await reads wait, wait-all and cancel.
func (r *Reader) await(s *plan.Step, kind string, n *yamlsource.Node) {
	s.Await = &plan.Await{Cancel: kind == "cancel"}
	s.When = plan.Always
	switch {
	case kind == "wait-all":
		if s.Title = "Wait for all background steps"; n.Kind != yamlsource.Null && !(n.Kind == yamlsource.Boolean && n.Text == "true") {
			r.Report(n.Span, "write `wait-all:`, or `wait: [id, id]`", `"wait-all" takes nothing`)
		}
		return
	case n.Kind == yamlsource.Sequence && kind == "wait":
		if len(n.Items) == 0 {
			r.Report(n.Span, "name steps by their ids, or write `wait-all:`", "there is no step to wait for")
		}
		for _, item := range n.Items {
			r.awaited(s, kind, item)
		}
	default:
		r.awaited(s, kind, n)
	}
	s.Title = map[string]string{"wait": "Wait for ", "cancel": "Cancel "}[kind] + strings.Join(s.Await.Steps, ", ")
}

// awaited reads the id of a step that was started in the background before.
func (r *Reader) awaited(s *plan.Step, kind string, n *yamlsource.Node) {
	id, ok := r.Filled(n, "the id of the step")
	if !ok {
		return
	}
	step, known := r.ids[strings.ToLower(id)]
	if known && step.background {
		s.Await.Steps = append(s.Await.Steps, step.name)
		return
	}
	hint := "give the step an id and `background: true`"
	var near []string
	for other, c := range r.ids {
		if c.background {
			near = append(near, other)
		}
	}
	if like := diag.Suggest(strings.ToLower(id), near); like != "" {
		hint = "did you mean \"" + like + "\"?"
	}
	r.Report(n.Span, hint, "no step before this one runs in the background with the id %q, so there is nothing to %s", Shorten(id), strings.Replace(kind, "wait", "wait for", 1))
}

// parallel reads a group of steps that run at the same time.
func (r *Reader) parallel(s *plan.Step, n *yamlsource.Node) {
	if s.Title = "Parallel steps"; n.Kind != yamlsource.Sequence || len(n.Items) == 0 {
		r.Report(n.Span, "begin each step with `- `", "a parallel group must be a list with at least one step")
		return
	}
	s.Limit = MaxBackground
	for _, item := range n.Items {
		s.Parallel = append(s.Parallel, r.step(item, true))
	}
}
