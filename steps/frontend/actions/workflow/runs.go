package workflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	ghexpr "github.com/rungci/rung/steps/expr/github"
	"github.com/rungci/rung/steps/value"
)

// Result is how a job ended.
type Result string

// The values of Result. A job that continue-on-error forgives is a Success to those that need it.
const (
	Success   Result = "success"
	Failure   Result = "failure"
	Cancelled Result = "cancelled"
	Skipped   Result = "skipped"
)

// Status is what status functions in a job's `if` ask about.
type Status struct {
	Results   map[string]Result // of all ancestors, by id as Workflow.Ancestors gives it
	Cancelled bool              // the run is cancelled
}

// Runs decides whether the job runs, when all that it needs has ended. The contexts are github, needs (of its direct needs: result and
// outputs), vars and inputs. The reason is for people: "needs build, which was skipped".
//
// A job without a status function in its `if` runs when all its ancestors succeeded, also those that it does not name itself: that is how
// GitHub counts.
func (j *Job) Runs(s Status, c Contexts) (runs bool, reason string, err error) {
	condition, text, err := j.condition()
	if err != nil {
		return false, "", err
	}
	scope := &jobScope{Values: ghexpr.Values(c), status: s}
	holds, err := condition.Holds(scope)
	if err != nil {
		ev := j.workflow.evaluate(c)
		ev.fail(j.place(j.node.condition), "the condition of the job %q cannot be computed: %s", j.ID, err)
		return false, "", ev.err()
	}
	if holds {
		return true, "", nil
	}
	if !condition.CallsStatus() {
		for _, id := range j.workflow.Ancestors(j) {
			if result := s.Results[id]; result != Success {
				return false, fmt.Sprintf("it needs %s, which %s", id, resultWords[result]), nil
			}
		}
		if s.Cancelled {
			return false, "the run is cancelled", nil
		}
	}
	return false, "its condition does not hold: " + shorten(text), nil
}

// resultWords say what became of a job.
var resultWords = map[Result]string{Failure: "failed", Cancelled: "was cancelled", Skipped: "was skipped", "": "did not run"}

// condition parses the job's `if`, and returns its text.
func (j *Job) condition() (ghexpr.Condition, string, error) {
	n := j.node.condition
	if n == nil {
		return ghexpr.Condition{}, "", nil
	}
	text := n.Text
	if n.Kind == yamlsource.Boolean {
		text = strings.ToLower(text)
	}
	condition, err := ghexpr.ParseCondition(text, nil)
	return condition, text, err
}

// AsksForOutputs reports whether the job's condition reads what the jobs that it needs gave: before they have run nobody knows it.
func (j *Job) AsksForOutputs() bool {
	condition, _, err := j.condition()
	if err != nil || condition.Expr == nil {
		return false
	}
	for _, r := range condition.Expr.References() {
		if len(r.Path) > 0 && r.Path[0] == "needs" && (len(r.Path) < 3 || r.Path[2] != "result") {
			return true
		}
	}
	return false
}

// jobScope is what the condition of a job can see.
type jobScope struct {
	ghexpr.Values
	status Status
}

// Call answers the status functions. success and failure may name jobs, and ask about those then.
func (s *jobScope) Call(name string, args []value.Value) (value.Value, bool, error) {
	holds := false
	switch name {
	case "always":
		holds = true
	case "cancelled":
		holds = s.status.Cancelled
	case "success":
		holds = !s.status.Cancelled
		for id, result := range s.status.Results {
			holds = holds && (result == Success || !asked(id, args))
		}
	case "failure":
		for id, result := range s.status.Results {
			holds = holds || result == Failure && asked(id, args)
		}
		holds = holds && !s.status.Cancelled
	default:
		return value.Value{}, false, nil
	}
	return value.OfBool(holds), true, nil
}

// asked reports whether a status function asks about a job: it names it, or none.
func asked(id string, args []value.Value) bool {
	return len(args) == 0 || slices.ContainsFunc(args, func(v value.Value) bool { return strings.EqualFold(v.Str(), id) })
}
