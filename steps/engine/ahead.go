package engine

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/value"
)

// preID is the ID of the step that holds what components have to prepare: it stands before the first one.
const preID = "0"

// maxForeseen is how many steps of a run are looked at before it begins. Components that call others twice and more have more steps than
// anybody can wait for.
const maxForeseen = 10_000

// foreseen is a step of the run's own list, or in one of its steps, that has a Pre or holds steps that have.
type foreseen struct {
	id    string
	step  *plan.Step
	found *source.Component // nil where the step is not a reference
	pre   *plan.Hook
	inner []*foreseen
}

// runPre runs what the components of the run have to prepare, in order, whether or not their steps will run: that is known later.
// Only fetched components have it, and those written inline, as a component in the work directory may not be there yet.
func (r *run) runPre(l *listRun, steps []plan.Step) {
	if !r.hooks.expected {
		return
	}
	look := &lookout{run: r, ctx: source.WithProgress(l.ctx, func(p event.Progress) { r.out.emit("", p) }), known: map[string]*source.Component{}}
	nodes := look.steps(steps, "", r.opts.Dir)
	if look.count > maxForeseen {
		r.out.emit("", event.Warning{
			Message: fmt.Sprintf("`pre` is looked up in the first %d steps only; the run has more", maxForeseen),
		})
	}
	if len(nodes) == 0 {
		return
	}
	r.hooks.early, r.hooks.told = map[string]*hook{}, map[string]bool{}
	group := &plan.Step{Name: "pre", Title: "Pre"}
	for r.hooks.names[group.Name] {
		group.Name += "_"
	}
	r.hooks.names[group.Name] = true
	p := &preparation{run: r, group: group.Name, state: &listState{live: l.ctx}}
	l.state.note(r.framed(l.ctx, l.scope, &invocation{id: preID, step: group}, func(ctx context.Context) *outcome {
		p.steps(ctx, l.scope, nodes, nil)
		return p.state.outcome()
	}))
}

// lookout finds what has a Pre.
type lookout struct {
	run   *run
	ctx   context.Context
	known map[string]*source.Component // by reference and folder; nil is what cannot be loaded now
	path  []string                     // the files from the job to the component at hand
	count int                          // of the steps that were looked at
}

func (o *lookout) steps(steps []plan.Step, prefix, dir string) []*foreseen {
	var nodes []*foreseen
	for i := range steps {
		st := &steps[i]
		if st.If != nil && st.If.Value.Kind() != value.String && !st.If.Value.Truthy() {
			continue
		}
		if o.count++; o.count > maxForeseen {
			break
		}
		n := &foreseen{id: childID(prefix, i+1), step: st}
		switch {
		case len(st.Parallel) > 0:
			n.inner = o.steps(st.Parallel, n.id, dir)
		case st.Inline != nil:
			n.pre = st.Inline.Definition.Pre
			n.inner = o.steps(st.Inline.Definition.Steps, n.id, dir)
		case st.Ref != nil:
			o.reference(n, dir)
		}
		if n.pre != nil || len(n.inner) > 0 {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// reference looks into what a step refers to. An error is for the step itself, should it be reached.
func (o *lookout) reference(n *foreseen, dir string) {
	ref := n.step.Ref
	if ref.Kind != plan.RefAction && ref.Kind != plan.RefLocal || o.ctx.Err() != nil || len(o.path) >= MaxDepth {
		return
	}
	if ref = o.run.components.static(ref); ref == nil {
		return
	}
	key := referenceKey(ref, dir)
	found, known := o.known[key]
	if found == nil {
		found, known = o.run.components.loaded[key], o.run.components.loaded[key] != nil
	}
	if !known {
		if loaded, err := o.run.opts.Source.Load(o.ctx, ref, dir); err == nil {
			found = loaded
			o.run.components.learn(found)
		}
		o.known[key] = found
	}
	if found == nil {
		return
	}
	file := filepath.Join(found.Dir, found.File)
	if slices.Contains(o.path, file) {
		return
	}
	n.found = found
	o.run.components.meet(n.id, ref, found)
	if found.Origin != nil {
		n.pre = found.Plan.Definition.Pre
	}
	o.path = append(o.path, file)
	n.inner = o.steps(found.Plan.Definition.Steps, n.id, found.Dir)
	o.path = o.path[:len(o.path)-1]
}

// preparation runs what was found.
type preparation struct {
	run   *run
	group string     // the name of the step that the hooks are in
	state *listState // of the hooks
	count int
}

// steps runs the hooks of steps in s. What stands for steps that are not run, because Options.Recorded says so, stands for their hooks.
func (p *preparation) steps(ctx context.Context, s *scope, nodes []*foreseen, instead *Recorded) {
	for _, n := range nodes {
		if ctx.Err() != nil {
			return
		}
		rec := instead
		if rec == nil {
			rec = p.run.recording.of(n.id, n.step)
		}
		if rec != nil {
			p.leaveOut(ctx, s, n, rec)
			continue
		}
		inv := &invocation{id: n.id, step: n.step, found: n.found}
		inner, err := p.enter(ctx, s, inv)
		if err != nil {
			p.run.out.emit(preID, event.Warning{
				Message: "`pre` of the step " + n.step.Name + " did not run: its inputs are not known yet: " + err.Message,
			})
			p.skip(n)
			continue
		}
		if n.pre != nil {
			p.hook(ctx, inner, n, inv)
		}
		p.steps(ctx, inner, n.inner, nil)
	}
}

// enter makes the scope in which the step's definition would run now.
func (p *preparation) enter(ctx context.Context, s *scope, inv *invocation) (*scope, *event.Error) {
	if len(inv.step.Parallel) > 0 {
		vars, err := s.expandEnv(inv.step.Env)
		if err != nil {
			return nil, err
		}
		group := s.child()
		group.env, group.path = s.env.with(vars), joined(s.path, inv.step.Name)
		return group, nil
	}
	inner, err := p.run.prepare(ctx, s, inv)
	if err != nil {
		return nil, err
	}
	local := inner.child()
	local.own, local.list = inner.own, p.state
	if err := local.surround(inv.def); err != nil {
		return nil, err
	}
	vars, err := local.definitionEnv(inv.def)
	if err != nil {
		return nil, err
	}
	local.env = inner.env.with(vars)
	return local, nil
}

// hook runs one hook, and puts the Post of the component on the stack: whoever prepares something has to clean it up.
func (p *preparation) hook(ctx context.Context, s *scope, n *foreseen, inv *invocation) {
	p.count++
	scope := *s
	early := &hook{scope: &scope, over: s.beyond(s.env), inv: inv}
	o := p.run.runHook(ctx, s, childID(preID, p.count), p.group, "pre", n.pre, inv)
	p.state.note(o)
	early.early = o.status != event.Skipped
	p.run.hooks.early[n.id] = early
	if early.early && inv.def.Post != nil {
		p.run.hooks.posts = append(p.run.hooks.posts, early)
	}
}

// leaveOut lets what is recorded stand for the hooks of a step that is not run.
func (p *preparation) leaveOut(ctx context.Context, s *scope, n *foreseen, rec *Recorded) {
	if n.pre != nil {
		p.count++
		id := childID(preID, p.count)
		st := p.run.hooks.step("pre", n.pre, &invocation{step: n.step, spec: &plan.Spec{}})
		if own := p.run.recording.of(id, st); own != nil {
			rec = own
		} else {
			rec = &Recorded{Reason: rec.Reason, Status: event.Skipped}
		}
		p.state.note(p.run.recording.standIn(s, id, st, rec))
	}
	p.steps(ctx, s, n.inner, rec)
}

// skip counts the hooks of a step that cannot run, so that those behind them have the same IDs as in another run.
func (p *preparation) skip(n *foreseen) {
	if n.pre != nil {
		p.run.hooks.told[n.id] = true
		p.count++
	}
	for _, inner := range n.inner {
		p.skip(inner)
	}
}
