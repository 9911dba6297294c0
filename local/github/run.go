package github

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/value"
)

// RunOptions say how jobs are run.
type RunOptions struct {
	Selection *Selection
	// Concurrency is how many legs run at a time; less than 1 is 1.
	Concurrency int
	Isolation   Isolation
	// None makes the level without isolation, Container that of containers. Each is called once, when a job needs it. Container may
	// be nil. The levels are the caller's to close.
	None, Container func() (executor.Executor, error)
	// NoServices leaves services out where there is no engine for them.
	NoServices bool
	// RealCheckout lets actions/checkout of the project itself fetch it, in the place of the work tree's files.
	RealCheckout bool
	// Keep leaves the folders of jobs.
	Keep bool
	// Shell is called with the environment of a job that failed, before it is removed. It may be nil.
	Shell func(ctx context.Context, name string, env executor.Environment, dir string, vars []string)
	// Trace returns the file for the trace of a leg; "" and nil are the store's.
	Trace func(name string) string
	// Grace is how long processes have to end when they are stopped; 0 is the default.
	Grace time.Duration
	// Kill is closed to end everything at once; it may be nil.
	Kill <-chan struct{}
	// RuntimeDigest returns the digest of this program, for traces; it may be nil.
	RuntimeDigest func() string
	Observer      Observer
	Verbose       bool
}

// runner is a workflow that is being run.
type runner struct {
	project *Project
	o       *RunOptions
	id      string // names the run in the store: later ones sort behind it
	counter atomic.Int64
	levels  *session.Levels
	ctx     context.Context

	mu   sync.Mutex
	said map[string]bool
}

// Run runs jobs and returns how each leg ended, in order. Cancelling ctx stops them gracefully.
func (p *Project) Run(ctx context.Context, o RunOptions) []Result {
	r := p.runner(ctx, &o)
	root := p.root(o.Selection)
	s := &schedule{
		slots: max(o.Concurrency, 1), decide: r.decide, expand: r.expand, run: r.attempt, called: r.called, report: o.Observer.Finished,
	}
	if c, err := p.Workflow.Concurrency(p.contexts()); err == nil && c != nil && o.Verbose {
		o.Observer.Say("", fmt.Sprintf("concurrency: %s: on one machine there is no other run of the group", c.Group))
	}
	results := s.all(ctx, root)
	r.keep(results)
	return results
}

func (p *Project) runner(ctx context.Context, o *RunOptions) *runner {
	return &runner{
		project: p, o: o, id: store.NewRun(), ctx: ctx, said: map[string]bool{},
		levels: &session.Levels{MakeNone: o.None, MakeContainer: o.Container},
	}
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

// say tells something once.
func (r *runner) say(name, text string) {
	r.mu.Lock()
	again := r.said[text]
	r.said[text] = true
	r.mu.Unlock()
	if !again {
		r.o.Observer.Say(name, text)
	}
}

// decide says whether a job runs whose needs have ended.
func (r *runner) decide(n *node) (runs bool, why string, err *event.Error) {
	for _, id := range n.job.Needs {
		if n.scope.node(id) == nil {
			r.say(n.scope.prefix()+n.job.ID, fmt.Sprintf("%s, which it needs, does not run: it is taken to have succeeded, and to give nothing; --needs runs it", id))
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
	name := n.scope.prefix() + n.job.ID
	for _, d := range out.Diagnostics {
		r.o.Observer.Warn(name, d.Error(), d.Hint)
	}
	if out.Diagnostics == nil {
		r.o.Observer.Warn(name, "the job does not start: "+out.Message, out.Hint)
	}
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
				r.say(made.name, fmt.Sprintf("the concurrency group %s of the workflow that it calls is left out: it has one of its own", c.Group))
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
