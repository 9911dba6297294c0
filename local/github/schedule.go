package github

import (
	"context"
	"strings"

	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/steps/event"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/source/lock"
	"github.com/rungci/rung/steps/value"
)

// schedule says when jobs run, as GitHub does: a job when all that it needs has ended, and its legs side by side.
type schedule struct {
	// slots is how many legs run at a time.
	slots int
	// decide says whether a job runs whose needs have ended, and why it does not.
	decide func(*node) (runs bool, why string, err *event.Error)
	// expand makes the legs of a job that runs.
	expand func(*node) (*legs, *event.Error)
	// run runs the steps of one leg.
	run func(context.Context, *leg) local.Result
	// called says what a called workflow gives, all of whose jobs have ended.
	called func(*leg) (map[string]value.Value, *event.Error)
	// report is told of every leg that ended, and of every job that does not run.
	report func(local.Result)
}

// node is a job on its way.
type node struct {
	job   *definition.Job
	scope *scope
	done  bool
	// conclusion is what `needs` says of the job, when it is done.
	conclusion definition.Result
	outputs    map[string]value.Value
	unknown    bool // what it gives only a run knows
}

// legs are what becomes of a job.
type legs struct {
	list        []*leg
	failFast    bool
	maxParallel int // 0 is all
}

// leg is a job with one combination of its matrix: what runs.
type leg struct {
	*definition.Leg
	*definition.Settings
	name string // for people, with those of the jobs that call it
	node *node
	call *scope // the workflow that it calls; nil runs steps
}

// scope is a workflow whose jobs run: the one of the file, or one that a job calls.
type scope struct {
	*definition.Workflow
	caller   *leg // nil for the one of the file
	nodes    []*node
	contexts definition.Contexts
	source   *definition.Source      // the repository that it was fetched from; nil is the project
	lock     *lock.File              // what its actions, and the workflows that it calls, are locked to; nil locks nothing
	most     *definition.Permissions // of its caller; nil for the one of the file
	depth    int                     // how many workflows call each other up to it, 1 for the one of the file
}

// node returns a job by its id.
func (s *scope) node(id string) *node {
	for _, n := range s.nodes {
		if n.job.ID == id {
			return n
		}
	}
	return nil
}

// prefix stands before the names of the jobs of a called workflow.
func (s *scope) prefix() string {
	if s.caller == nil {
		return ""
	}
	return s.caller.name + " / "
}

// all runs the jobs of a workflow and returns how each ended, in order.
func (s *schedule) all(ctx context.Context, root *scope) []local.Result {
	runner := &local.Schedule{Slots: s.slots, Report: s.report}
	return runner.Run(ctx, s.pipeline(root))
}

func (s *schedule) pipeline(of *scope) *local.Pipeline {
	p := &local.Pipeline{}
	for _, n := range of.nodes {
		p.Jobs = append(p.Jobs, &scheduled{n, s})
	}
	return p
}

// scheduled is a job in a schedule: a local.Job.
type scheduled struct {
	*node
	s *schedule
}

// Name implements local.Job.
func (j *scheduled) Name() string { return j.scope.prefix() + j.job.ID }

// Decide implements local.Job.
func (j *scheduled) Decide() local.Decision {
	for _, id := range j.job.Needs {
		if before := j.scope.node(id); before != nil && !before.done {
			return local.Decision{Wait: true}
		}
	}
	runs, why, err := j.s.decide(j.node)
	switch {
	case err != nil:
		return local.Decision{Status: local.Failed, Error: err, Note: session.OneLine(err.Error())}
	case !runs:
		return local.Decision{Status: local.Skipped, Note: why}
	}
	return local.Decision{}
}

// Units implements local.Job.
func (j *scheduled) Units() (out local.Units, err *event.Error) {
	made, err := j.s.expand(j.node)
	if err != nil {
		return out, err
	}
	out.FailFast, out.MaxParallel = made.failFast, made.maxParallel
	for _, l := range made.list {
		l.node = j.node
		out.List = append(out.List, j.s.unit(l))
	}
	return out, nil
}

// unit is a leg in a schedule.
func (s *schedule) unit(l *leg) *local.Unit {
	u := &local.Unit{Name: l.name, Run: func(ctx context.Context, _ int) local.Result { return s.run(ctx, l) }}
	if l.Settings != nil {
		u.Forgiven = l.ContinueOnError
		if c := l.Concurrency; c != nil {
			u.Group = local.Group{Name: strings.ToLower(c.Group), Cancel: c.Cancel, Queue: c.Queue}
		}
	}
	if l.call != nil {
		l.call.caller = l
		u.Call = &local.Call{Pipeline: s.pipeline(l.call), Ended: func([]local.Result) local.Result { return s.endOf(l) }}
	}
	return u
}

// endOf is the result of a leg whose called workflow has ended.
func (s *schedule) endOf(l *leg) local.Result {
	out := local.Result{Status: local.Success}
	for _, n := range l.call.nodes {
		switch n.conclusion {
		case definition.Failure:
			out.Status, out.Note = local.Failed, n.job.ID+" failed"
		case definition.Cancelled:
			if out.Status == local.Success {
				out.Status, out.Note = local.Cancelled, n.job.ID+" was cancelled"
			}
		}
	}
	if out.Status != local.Success {
		return out
	}
	outputs, err := s.called(l)
	if out.Outputs = outputs; err != nil {
		out.Status, out.Error, out.Note = local.Failed, err, session.OneLine(err.Error())
	}
	return out
}

// Concluded implements local.Job.
func (n *node) Concluded(results []local.Result) {
	n.done, n.conclusion = true, definition.Success // also of one that was not chosen
	skipped := 0
	for _, r := range results {
		switch r.Status {
		case local.Skipped:
			skipped++
		case local.Failed:
			n.conclusion = definition.Failure
		case local.Cancelled:
			if n.conclusion != definition.Failure {
				n.conclusion = definition.Cancelled
			}
		}
		for name, v := range r.Outputs { // of several legs the last one that says something
			if _, there := n.outputs[name]; !there || v.Text() != "" {
				if n.outputs == nil {
					n.outputs = map[string]value.Value{}
				}
				n.outputs[name] = v
			}
		}
	}
	if skipped > 0 && skipped == len(results) {
		n.conclusion = definition.Skipped
	}
}

// before are the results of the jobs that a job waits for, of those that they wait for too.
func (n *node) before() map[string]definition.Result {
	out := map[string]definition.Result{}
	for _, id := range n.scope.Ancestors(n.job) {
		if before := n.scope.node(id); before != nil {
			out[id] = before.conclusion
		} else {
			out[id] = definition.Success // not chosen
		}
	}
	return out
}

var _ local.Job = (*scheduled)(nil)
