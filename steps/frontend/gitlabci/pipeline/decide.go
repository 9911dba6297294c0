package pipeline

import (
	"slices"

	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// State is how far a job is, for those that come after it.
type State uint8

// The states.
const (
	// Waiting is for a job that has not ended: it waits, or runs.
	Waiting State = iota
	// Success is for a job that succeeded.
	Success
	// Warned is for a job that failed and was allowed to.
	Warned
	// Failed is for a job that failed and was not allowed to.
	Failed
	// Canceled is for a job that was stopped.
	Canceled
	// Skipped is for a job whose turn never came.
	Skipped
	// Held is for a manual job whose turn has come, and which nobody has started.
	Held
	// Absent is for a job that is not part of what runs, where only some of the jobs were chosen. It counts as if it were not there.
	Absent
)

var stateNames = [...]string{"waiting", "success", "failed, which is allowed", "failed", "canceled", "skipped", "manual", "absent"}

// String returns what the state is called.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown"
}

// Failure returns the state of the job when its script has failed with an exit code: Failed or Warned.
func (j *Job) Failure(exitCode int) State {
	if j.AllowFailure.Always || slices.Contains(j.AllowFailure.ExitCodes, exitCode) {
		return Warned
	}
	return Failed
}

// Decision is what comes of a job.
type Decision uint8

// The decisions.
const (
	// Wait says that it cannot be decided yet.
	Wait Decision = iota
	// Run says that the job's turn has come: it runs, or, by its When, is held for a person or starts after StartIn.
	Run
	// Skip says that the job will not run.
	Skip
	// Block says that the job waits for a manual job that nobody has started: nothing but a person changes that.
	Block
)

var decisionNames = [...]string{"wait", "run", "skip", "block"}

// String returns what the decision is called.
func (d Decision) String() string {
	if int(d) < len(decisionNames) {
		return decisionNames[d]
	}
	return "unknown"
}

// Decide decides whether a job's turn has come, by the states of its predecessors, as GitLab does. Because is the predecessor
// that speaks for it: one that failed, was skipped, or is waited for; nil when there is none.
//
// After stages, what was skipped and what is manual and may fail counts as success. A job with needs is skipped as soon as one
// of them is not going to run, and a manual job that nobody starts does not, until somebody does.
func (p *Pipeline) Decide(j *Job, state func(*Job) State) (d Decision, because *Job) {
	s := survey{}
	if j.Needs != nil {
		for _, e := range j.Needs {
			s.add(e.Job, state(e.Job))
		}
	} else {
		for _, before := range p.Predecessors(j) {
			s.add(before, state(before))
		}
	}
	o, because := s.outcome(j.Needs != nil)
	switch o {
	case pending:
		return Wait, because
	case held:
		return Block, because
	}
	if j.runsAfter(o) {
		return Run, because
	}
	return Skip, because
}

// runsAfter reports whether a job runs when those before it came out like that.
func (j *Job) runsAfter(o outcome) bool {
	switch j.When {
	case when.OnFailure:
		return o == failed
	case when.Always:
		return o == succeeded || o == failed || o == skipped
	case when.Never:
		return false
	default: // on_success, manual, delayed
		return o == succeeded || o == skipped && j.Needs == nil
	}
}

// outcome is what several jobs come to.
type outcome uint8

const (
	pending outcome = iota
	held
	succeeded
	failed
	canceled
	skipped
)

// survey is which states there are, with the first job of each.
type survey struct {
	waiting, succeeded, failed, canceled, skipped, ignored, held *Job
}

func (s *survey) add(j *Job, state State) {
	first := func(at **Job) {
		if *at == nil {
			*at = j
		}
	}
	allowed := j.AllowFailure.Always
	switch state {
	case Success, Warned:
		first(&s.succeeded)
	case Failed:
		first(&s.failed)
	case Canceled:
		if allowed {
			first(&s.succeeded)
		} else {
			first(&s.canceled)
		}
	case Skipped:
		first(&s.skipped)
	case Held:
		if allowed {
			first(&s.ignored)
		} else {
			first(&s.held)
		}
	case Absent:
	default:
		first(&s.waiting)
	}
}

// outcome sums the states up. With needs, dag, one that will not run is enough to skip.
func (s *survey) outcome(dag bool) (outcome, *Job) {
	switch {
	case dag && s.skipped != nil:
		return skipped, s.skipped
	case dag && s.ignored != nil:
		return skipped, s.ignored
	case s.waiting != nil:
		return pending, s.waiting
	case s.held != nil:
		return held, s.held
	case s.failed != nil:
		return failed, s.failed
	case s.canceled != nil:
		return canceled, s.canceled
	case s.succeeded != nil:
		return succeeded, nil
	case s.skipped != nil:
		return skipped, s.skipped
	case s.ignored != nil:
		return skipped, s.ignored
	default:
		return succeeded, nil
	}
}
