package gitlab

import (
	"context"
	"fmt"
	"sync"

	"github.com/rungci/rung/local"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// schedule runs jobs in the order that GitLab runs them in: a job that says nothing of its needs when all stages before its own have
// ended, any other one when those that it needs have; both only if what came before ended as its `when` asks.
//
// Jobs that are not chosen are taken as if they had succeeded.
type schedule struct {
	jobs []*pipeline.Job
	// prefix stands before their names in results.
	prefix string
	// run runs one job and says how it ended.
	run func(context.Context, *pipeline.Job) local.Result
	// report is told of every job that ended or will not run, once.
	report func(local.Result)
	// manual reports whether a job is to be run that waits for somebody.
	manual func(*pipeline.Job) bool
	// stopOnFailure cancels all other jobs when one fails: `workflow: auto_cancel: on_job_failure: all`.
	stopOnFailure bool

	mu     sync.Mutex
	nodes  map[*pipeline.Job]*node
	stages []tally
	stop   context.CancelCauseFunc
}

// node is a job on its way.
type node struct {
	job    *pipeline.Job
	state  state
	result local.Result
}

type state uint8

const (
	waiting state = iota
	running
	done
)

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

// all runs the jobs and returns how each ended, in order.
func (s *schedule) all(ctx context.Context) []local.Result {
	ctx, s.stop = context.WithCancelCause(ctx)
	defer s.stop(nil)
	s.nodes = make(map[*pipeline.Job]*node, len(s.jobs))
	for _, j := range s.jobs {
		for len(s.stages) <= j.StageIndex {
			s.stages = append(s.stages, tally{})
		}
		s.stages[j.StageIndex].open++
		s.nodes[j] = &node{job: j}
	}
	var wg sync.WaitGroup
	ended := make(chan struct{}, 1)
	for {
		left := s.launch(ctx, &wg, ended)
		if left == 0 {
			break
		}
		select {
		case <-ended:
		case <-ctx.Done():
			s.cancelWaiting()
			wg.Wait()
		}
	}
	wg.Wait()
	out := make([]local.Result, len(s.jobs))
	for i, j := range s.jobs {
		out[i] = s.nodes[j].result
	}
	return out
}

// launch starts or settles all jobs that can be, and returns how many have not ended.
func (s *schedule) launch(ctx context.Context, wg *sync.WaitGroup, ended chan struct{}) (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for settled := true; settled; {
		settled, left = false, 0
		for _, j := range s.jobs {
			n := s.nodes[j]
			switch n.state {
			case done:
				continue
			case running:
				left++
				continue
			}
			left++
			status, why := s.decide(j)
			switch status {
			case undecided:
			case "":
				n.state = running
				wg.Go(func() {
					result := s.run(ctx, j)
					s.finish(n, result)
					select {
					case ended <- struct{}{}:
					default:
					}
				})
			default:
				s.settle(n, local.Result{Status: status, Note: why})
				settled = true
			}
		}
	}
	return left
}

// finish takes how a job ended.
func (s *schedule) finish(n *node, result local.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(n, result)
	if s.stopOnFailure && result.Status == local.Failed {
		s.stop(fmt.Errorf("the job %s failed, and `auto_cancel: on_job_failure` is all", n.job.Name))
	}
}

// settle counts a job that ended, or will not run. The caller holds the lock.
func (s *schedule) settle(n *node, result local.Result) {
	result.Name, result.Stage = s.prefix+n.job.Name, n.job.Stage
	n.state, n.result = done, result
	t := &s.stages[n.job.StageIndex]
	t.open--
	switch result.Status {
	case local.Success, local.Allowed:
		t.ran++
	case local.Failed:
		t.failed++
		if t.culprit == "" {
			t.culprit = n.job.Name
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
	if s.report != nil {
		s.report(result)
	}
}

// cancelWaiting settles all that has not begun.
func (s *schedule) cancelWaiting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if n := s.nodes[j]; n.state == waiting {
			s.settle(n, local.Result{Status: local.Cancelled, Note: "the pipeline was stopped before it began"})
		}
	}
}

// undecided is the decision to go on waiting.
const undecided local.Status = "undecided"

// before is how what a job waits for ended.
type before struct {
	status local.Status // Success, Failed, Skipped, Cancelled, Manual, or undecided
	who    string       // the job that is why
}

// decide says what becomes of a waiting job: "" is to run, undecided to go on waiting.
func (s *schedule) decide(j *pipeline.Job) (status local.Status, why string) {
	var b before
	dag := j.Needs != nil
	if dag {
		b = s.needs(j)
	} else {
		b = s.prior(j.StageIndex)
	}
	switch b.status {
	case undecided:
		return undecided, ""
	case local.Manual:
		return local.Skipped, fmt.Sprintf("it waits for the manual job %s; --manual %q runs that", b.who, b.who)
	}
	if ok, why := fits(j.When, b, dag); !ok {
		return local.Skipped, why
	}
	if j.When == when.Manual && !s.manual(j) {
		return local.Manual, fmt.Sprintf("--manual %q runs it", j.Name)
	}
	return "", ""
}

// fits reports whether a job whose `when` is w runs after what came before.
func fits(w when.When, b before, dag bool) (ok bool, why string) {
	switch w {
	case when.Always:
		return b.status != local.Cancelled, b.who + " was stopped"
	case when.OnFailure:
		return b.status == local.Failed, "when: on_failure, and nothing before it failed"
	}
	switch b.status {
	case local.Success:
		return true, ""
	case local.Skipped:
		// After stages of which nothing ran a job runs; after a job that it needs and that did not run it does not.
		return !dag, fmt.Sprintf("%s, which it needs, did not run", b.who)
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
		if n.state != done {
			return before{status: undecided}
		}
		switch n.result.Status {
		case local.Manual:
			if !e.Job.AllowFailure.Always {
				return before{local.Manual, e.Job.Name}
			}
			b = before{local.Skipped, e.Job.Name}
		case local.Skipped:
			b = before{local.Skipped, e.Job.Name}
		case local.Failed, local.Cancelled:
			if b.status != local.Skipped {
				b = before{n.result.Status, e.Job.Name}
			}
		}
	}
	return b
}
