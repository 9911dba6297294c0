package github

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/value"
)

// RunOptions say how jobs are run.
type RunOptions struct {
	local.Options
	Selection *Selection
	// RealCheckout lets actions/checkout of the project itself fetch it, in the place of the work tree's files.
	RealCheckout bool
}

// runner is a workflow that is being run.
type runner struct {
	*local.Runner
	project *Project
	o       *RunOptions
	ctx     context.Context
	taking  *sync.Mutex // held while what a job left is taken over
}

// Run runs jobs and returns how each leg ended, in order. Cancelling ctx stops them gracefully.
func (p *Project) Run(ctx context.Context, o RunOptions) []local.Result {
	r := p.runner(ctx, &o)
	root := p.root(o.Selection)
	s := &schedule{
		slots: r.Concurrency, decide: r.decide, expand: r.expand, run: r.run, called: r.called, report: o.Observer.Finished,
	}
	if c, err := p.Workflow.Concurrency(p.contexts()); err == nil && c != nil && o.Verbose {
		o.Observer.Say("", fmt.Sprintf("concurrency: %s: a local run has no other runs in the group", c.Group))
	}
	results := s.all(ctx, root)
	r.keep(results)
	return results
}

func (p *Project) runner(ctx context.Context, o *RunOptions) *runner {
	return &runner{Runner: local.NewRunner(o.Options), project: p, o: o, ctx: ctx, taking: new(sync.Mutex)}
}

// root is the workflow of the file, with the jobs that were chosen.
func (p *Project) root(chosen *Selection) *scope {
	s := &scope{Workflow: p.Workflow, contexts: p.contexts(), lock: p.lock, depth: 1}
	for _, j := range p.Workflow.Jobs {
		if chosen.has(j) {
			s.nodes = append(s.nodes, &node{job: j, scope: s})
		}
	}
	return s
}

// decide says whether a job runs whose needs have ended.
func (r *runner) decide(n *node) (runs bool, why string, err *event.Error) {
	for _, id := range n.job.Needs {
		if n.scope.node(id) == nil {
			r.SayOnce(n.scope.prefix()+n.job.ID, fmt.Sprintf("it needs %s, which does not run: it counts as succeeded without outputs; --needs runs it", id))
		}
	}
	runs, why, wrong := n.job.Runs(definition.Status{Results: n.before(), Cancelled: r.ctx.Err() != nil}, n.contexts())
	return runs, why, r.refused(n, wrong)
}

// refused tells why a job cannot run.
func (r *runner) refused(n *node, err error) *event.Error {
	if err == nil {
		return nil
	}
	out := session.AsError(r.ctx, err)
	r.Refuse(n.scope.prefix()+n.job.ID, out)
	return out
}

// expand makes the legs of a job.
func (r *runner) expand(n *node) (*legs, *event.Error) {
	made, err := r.legs(n)
	if err == nil && n.scope.caller == nil {
		made.list = r.o.Selection.legs(n.job, made.list)
	}
	return made, r.refused(n, err)
}

// legs computes the legs of a job, and loads the workflow that it calls.
func (r *runner) legs(n *node) (*legs, error) {
	c := n.contexts()
	computed, err := n.job.Legs(c)
	if err != nil {
		return nil, err
	}
	out := &legs{failFast: computed.FailFast, maxParallel: computed.MaxParallel}
	for _, l := range computed.List {
		settings, err := n.job.Settings(l, c)
		if err != nil {
			return nil, err
		}
		made := &leg{Leg: l, Settings: settings, name: n.scope.prefix() + l.Name}
		if n.job.Call != nil {
			if made.call, err = r.project.call(r.ctx, n, made); err != nil {
				return nil, err
			}
			if settings.Concurrency == nil { // that of the called workflow holds for all of its jobs together
				if settings.Concurrency, err = made.call.Concurrency(made.call.contexts); err != nil {
					return nil, err
				}
			} else if c, err := made.call.Concurrency(made.call.contexts); err == nil && c != nil {
				r.SayOnce(made.name, fmt.Sprintf("the concurrency group %s of the called workflow is ignored: the job has its own", c.Group))
			}
		}
		out.list = append(out.list, made)
	}
	return out, nil
}

// called computes what a called workflow gives.
func (r *runner) called(l *leg) (map[string]value.Value, *event.Error) {
	c := maps.Clone(l.call.contexts)
	jobs := map[string]value.Value{}
	for _, n := range l.call.nodes {
		jobs[n.job.ID] = l.call.outcome(n.job.ID)
	}
	c["jobs"] = value.OfStruct(jobs)
	outputs, err := l.call.Outputs(c)
	return outputs, r.refused(l.node, err)
}

// wrongCall is what is wrong with a call, at its place.
func wrongCall(c *definition.Call, hint, format string, args ...any) error {
	return diag.List{{Span: c.Span, Message: fmt.Sprintf(format, args...), Hint: hint}}
}
