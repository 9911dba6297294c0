package local

import (
	"time"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/value"
)

// Status is how a job ended, or why it did not run.
type Status string

// The statuses.
const (
	Success   Status = "success"
	Failed    Status = "failed"
	Allowed   Status = "allowed to fail" // it failed, and the pipeline continues
	Skipped   Status = "skipped"         // what it waits for did not end as it needs
	Manual    Status = "manual"          // it waits for somebody to start it
	Cancelled Status = "cancelled"
)

// Result is how one job ended: a job of GitLab, or a job of a workflow with one combination of its matrix.
type Result struct {
	// Name is what people know it by, with the jobs that call it: "call / test (20)".
	Name string
	// Stage is empty for workflows.
	Stage  string
	Status Status
	// Error is why it failed; nil when it did not, or when the jobs that it calls tell.
	Error *event.Error
	// ExitCode is that of the process that decided a failure; nil when none did.
	ExitCode *int
	Duration time.Duration
	// Attempts is how often it ran; 0 when it did not.
	Attempts int
	// Ignored is the image that the job asks for and did not run in; empty when it ran as it asks.
	Ignored string
	// Note says why it failed or did not run, or what it produced, in one line.
	Note string
	// Trace is the file of its trace, "" when there is none.
	Trace   string
	Outputs map[string]value.Value
	// Beside says that the pipeline ends as it does whatever comes of the children; Apart that this one is such a child.
	Beside, Apart bool
	// Children are the jobs of the pipeline that it started.
	Children []Result
}

// Flatten returns results in the order in which people read them: each one followed by its children.
func Flatten(results []Result) []Result {
	var out []Result
	for _, r := range results {
		out = append(out, r)
		children := Flatten(r.Children)
		for i := range children {
			children[i].Apart = children[i].Apart || r.Apart || r.Beside
		}
		out = append(out, children...)
	}
	return out
}
