package gitlab

import (
	"context"
	"fmt"

	"github.com/rungci/rung/local"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// schedule says when jobs run, as GitLab does: a job that says nothing of its needs when all stages before its own have ended, any other
// one when those that it needs have; both only if what came before ended as its `when` asks.
//
// Jobs that are not chosen are taken as if they had succeeded.
type schedule struct {
	jobs []*pipeline.Job
	// prefix stands before their names in results.
	prefix string
	// unit is what runs of a job.
	unit func(*pipeline.Job) *local.Unit
	// manual reports whether a job is to be run that waits for somebody.
	manual func(*pipeline.Job) bool
	// stopOnFailure cancels all other jobs when one fails: `workflow: auto_cancel: on_job_failure: all`.
	stopOnFailure bool

	nodes  map[*pipeline.Job]*node
	stages []tally
	runs   *local.Pipeline
}

// node is a job on its way: a local.Job.
type node struct {
	*schedule
	job    *pipeline.Job
	done   bool
	status local.Status
}

// tally counts the jobs of a stage by how they stand.
type tally struct {
	open     int // waiting or running
	failed   int
	ran      int // succeeded, or failed as they may
	skipped  int
	stopped  int
	blocking []string // manual jobs that what comes later waits for
	culprit  string   // the first that failed
}

// pipeline makes the jobs ready to run.
func (s *schedule) pipeline() *local.Pipeline {
	s.nodes, s.stages, s.runs = make(map[*pipeline.Job]*node, len(s.jobs)), nil, &local.Pipeline{}
	for _, j := range s.jobs {
		for len(s.stages) <= j.StageIndex {
			s.stages = append(s.stages, tally{})
		}
		s.stages[j.StageIndex].open++
		s.nodes[j] = &node{schedule: s, job: j}
		s.runs.Jobs = append(s.runs.Jobs, s.nodes[j])
	}
	return s.runs
}

// all runs the jobs and returns how each ended, in order.
func (s *schedule) all(ctx context.Context, slots int, report func(local.Result)) []local.Result {
	runner := &local.Schedule{Slots: slots, Report: report}
	return runner.Run(ctx, s.pipeline())
}

// Name implements local.Job.
func (n *node) Name() string { return n.prefix + n.job.Name }

// Stage is the job's stage, for results.
func (n *node) Stage() string { return n.job.Stage }

// Units implements local.Job.
func (n *node) Units() (local.Units, *event.Error) {
	u := n.unit(n.job)
	u.Name, u.Stage = n.Name(), n.job.Stage
	return local.Units{List: []*local.Unit{u}}, nil
}

// Concluded implements local.Job.
func (n *node) Concluded(results []local.Result) {
	n.done, n.status = true, results[0].Status
	t := &n.stages[n.job.StageIndex]
	t.open--
	switch n.status {
	case local.Success, local.Allowed:
		t.ran++
	case local.Failed:
		t.failed++
		if t.culprit == "" {
			t.culprit = n.job.Name
		}
		if n.stopOnFailure {
			n.runs.Stop(fmt.Errorf("the job %s failed and `auto_cancel: on_job_failure` is all", n.job.Name))
		}
	case local.Skipped:
		t.skipped++
	case local.Cancelled:
		t.stopped++
	case local.Manual:
		if !n.job.AllowFailure.Always {
			t.blocking = append(t.blocking, n.job.Name)
		}
	}
}

// undecided is what others came to that have not ended.
const undecided local.Status = "undecided"

// before is how what a job waits for ended.
type before struct {
	status local.Status // Success, Failed, Skipped, Cancelled, Manual, or undecided
	who    string       // the job that is why
}

// Decide implements local.Job.
func (n *node) Decide() local.Decision {
	var b before
	j, dag := n.job, n.job.Needs != nil
	if dag {
		b = n.needs(j)
	} else {
		b = n.prior(j.StageIndex)
	}
	switch b.status {
	case undecided:
		return local.Decision{Wait: true}
	case local.Manual:
		return local.Decision{Status: local.Skipped, Note: fmt.Sprintf("it waits for the manual job %s; --manual %q starts it", b.who, b.who)}
	}
	if ok, why := fits(j.When, b, dag); !ok {
		return local.Decision{Status: local.Skipped, Note: why}
	}
	if j.When == when.Manual && !n.manual(j) {
		return local.Decision{Status: local.Manual, Note: fmt.Sprintf("--manual %q starts it", j.Name)}
	}
	return local.Decision{}
}

// fits reports whether a job whose `when` is w runs after what came before.
func fits(w when.When, b before, dag bool) (ok bool, why string) {
	switch w {
	case when.Always:
		return b.status != local.Cancelled, b.who + " was stopped"
	case when.OnFailure:
		return b.status == local.Failed, "when: on_failure, but no earlier job failed"
	}
	switch b.status {
	case local.Success:
		return true, ""
	case local.Skipped:
		// After stages of which nothing ran a job runs; after a job that it needs and that did not run it does not.
		return !dag, fmt.Sprintf("it needs %s, which did not run", b.who)
	case local.Cancelled:
		return false, b.who + " was stopped"
	}
	return false, b.who + " failed"
}

// prior is how all stages before one ended, taken together.
func (s *schedule) prior(stage int) before {
	var all tally
	for i := range s.stages[:stage] {
		t := &s.stages[i]
		if t.open > 0 {
			return before{status: undecided}
		}
		all.failed += t.failed
		all.ran += t.ran
		all.skipped += t.skipped
		all.stopped += t.stopped
		all.blocking = append(all.blocking, t.blocking...)
		if all.culprit == "" {
			all.culprit = t.culprit
		}
	}
	switch {
	case len(all.blocking) > 0:
		return before{local.Manual, all.blocking[0]}
	case all.failed > 0:
		return before{local.Failed, all.culprit}
	case all.stopped > 0:
		return before{local.Cancelled, "a job before it"}
	}
	return before{status: local.Success}
}

// needs is how the jobs that a job needs ended, taken together.
func (s *schedule) needs(j *pipeline.Job) before {
	b := before{status: local.Success}
	for _, e := range j.Needs {
		n := s.nodes[e.Job]
		if n == nil {
			continue // not chosen
		}
		if !n.done {
			return before{status: undecided}
		}
		switch n.status {
		case local.Manual:
			if !e.Job.AllowFailure.Always {
				return before{local.Manual, e.Job.Name}
			}
			b = before{local.Skipped, e.Job.Name}
		case local.Skipped:
			b = before{local.Skipped, e.Job.Name}
		case local.Failed, local.Cancelled:
			if b.status != local.Skipped {
				b = before{n.status, e.Job.Name}
			}
		}
	}
	return b
}
