package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// hooks are what components have to do before and after the run's own list.
type hooks struct {
	expected bool             // some component may have a Pre
	top      *scope           // of the run's own list
	names    map[string]bool  // of the steps of the list, and of hooks
	told     map[string]bool  // by the ID of the step: those whose Pre could not run, which was said
	early    map[string]*hook // by the ID of the step: those whose Pre had its turn. Whole before the first step begins.

	mu    sync.Mutex
	posts []*hook
}

// hook is the Post of a component that is to run.
type hook struct {
	scope *scope              // that the component's own process runs in
	over  map[string]variable // what its environment has beyond that of the run's own list
	inv   *invocation         // of that process
	early bool                // its Pre ran
}

// begin makes ready for the run's own list.
func (h *hooks) begin(s *scope, steps []plan.Step) {
	h.top, h.names, h.early = s, map[string]bool{}, nil
	for i := range steps {
		h.names[steps[i].Name] = true
		for j := range steps[i].Parallel {
			h.names[steps[i].Parallel[j].Name] = true
		}
	}
}

// push puts the Post of the invocation's component on the stack, once: its own process is about to start in s, with env.
func (h *hooks) push(s *scope, env *environ, inv *invocation) {
	if inv.def.Pre == nil && inv.def.Post == nil || inv.step == nil || inv.stacked {
		return
	}
	inv.stacked = true
	early := h.early[inv.id]
	if inv.def.Pre != nil && early == nil && !h.told[inv.id] {
		s.run.out.emit(inv.id, event.Warning{
			Message: "`pre` of the component did not run: it runs only for fetched components whose reference is known before the run starts, and not in a job that checks its project out, whose lock file and sources.toml count",
		})
	}
	if inv.def.Post == nil {
		return
	}
	scope := *s
	scope.files = nil
	post := &hook{scope: &scope, over: inv.apart.without(s.beyond(env)), inv: inv, early: early != nil && early.early}
	h.mu.Lock()
	defer h.mu.Unlock()
	if early != nil {
		if at := slices.Index(h.posts, early); at >= 0 {
			h.posts[at] = post
			return
		}
	}
	h.posts = append(h.posts, post)
}

// beyond is what env has that the run's own list does not give to all of its steps.
func (s *scope) beyond(env *environ) map[string]variable {
	var base *environ
	for at := s; at != nil && base == nil; at = at.parent {
		if at.barrier != nil {
			base = at.barrier.before
		} else if at == s.run.hooks.top {
			base = at.env
		}
	}
	over := map[string]variable{}
	for name, v := range env.vars {
		if base == nil || base.vars[name] != v {
			over[name] = v
		}
	}
	return over
}

// inherited is what earlier processes of the step left for the one to come.
func (h *hooks) inherited(inv *invocation) map[string]string {
	if early := h.early[inv.id]; early != nil && inv.state == nil {
		return early.inv.state
	}
	return inv.state
}

// runPosts runs what is on the stack, as steps that follow the last one. Those whose Pre ran were put there first. Where steps ran
// at the same time their places decide, so that a run is repeatable. next is the ID of the first one that has not run.
func (r *run) runPosts(l *listRun, last, next int) {
	posts := r.hooks.posts
	slices.SortStableFunc(posts, func(a, b *hook) int {
		if a.early != b.early {
			if a.early {
				return -1
			}
			return 1
		}
		return comparePlaces(a.inv.id, b.inv.id)
	})
	for i, h := range slices.Backward(posts) {
		id := last + len(posts) - i
		if id < next {
			continue
		}
		if !l.boundary(childID("", id), "post_"+h.inv.step.Name) {
			return
		}
		l.proceed()
		s := *h.scope
		s.parent, s.barrier, s.list = l.scope, nil, l.state
		s.env = s.call.inside(l.scope.env).with(h.over)
		l.state.note(r.runHook(l.ctx, &s, childID("", id), "", "post", h.inv.def.Post, h.inv))
	}
}

// comparePlaces compares the IDs of two steps.
func comparePlaces(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(a, b string) int {
		x, _ := strconv.Atoi(a)
		y, _ := strconv.Atoi(b)
		return cmp.Compare(x, y)
	})
}

// runHook runs a hook in s as a step of its own with the ID, in the step with the name group. It belongs to the component of the invocation.
func (r *run) runHook(ctx context.Context, s *scope, id, group, stage string, h *plan.Hook, of *invocation) *outcome {
	st := r.hooks.step(stage, h, of)
	path := joined(group, st.Name)
	holds, reason, err := s.holds(h.If)
	if err != nil {
		return r.report.stillborn(id, path, st, err)
	}
	if !holds {
		return r.report.skipped(id, st, reason)
	}
	inv := &invocation{id: id, path: path, step: st, spec: &st.Inline.Spec, def: &st.Inline.Definition, given: of.given, state: of.state}
	defer r.dirs.removeHome(s.env.vars["HOME"].text)
	o := r.framed(ctx, s, inv, func(ctx context.Context) *outcome {
		if of.found != nil && inv.attempt == 1 {
			r.components.announce(id, of.found)
		}
		return r.runDefinition(ctx, s, inv)
	})
	of.state = inv.state
	return o
}

// step is the step that a hook is.
func (h *hooks) step(stage string, one *plan.Hook, of *invocation) *plan.Step {
	name := stage + "_" + of.step.Name
	for n := 2; h.names[name]; n++ {
		name = fmt.Sprintf("%s_%s_%d", stage, of.step.Name, n)
	}
	h.names[name] = true
	title := strings.ToUpper(stage[:1]) + stage[1:] + " " + cmp.Or(of.step.Title, of.step.Name)
	spec := plan.Spec{AnyOutputs: true}
	for name, out := range of.spec.Outputs {
		if out.Sensitive { // as it is for the component, whichever of its processes gives it
			if spec.Outputs == nil {
				spec.Outputs = map[string]plan.Output{}
			}
			out.Default = &value.Value{}
			spec.Outputs[name] = out
		}
	}
	st := &plan.Step{Name: name, Title: title, Span: of.step.Span, Inline: &plan.Component{Spec: spec, Definition: plan.Definition{Exec: one.Exec}}}
	if of.step.Ref == nil { // else the call of the component confines
		st.Confine, st.AllowAccess = of.step.Confine, of.step.AllowAccess
	}
	return st
}
