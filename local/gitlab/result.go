package gitlab

import (
	"time"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
)

// Status is how a job ended, or that it did not run.
type Status string

// The statuses.
const (
	Success   Status = "success"
	Failed    Status = "failed"
	Allowed   Status = "allowed to fail" // it failed, and the pipeline goes on
	Skipped   Status = "skipped"         // what it waits for did not end as it needs
	Manual    Status = "manual"          // it waits for somebody to start it
	Cancelled Status = "cancelled"
)

// Result is how a job ended.
type Result struct {
	Job    *pipeline.Job
	Status Status
	// Error is why it failed; nil when it did not, or its steps say it.
	Error *event.Error
	// ExitCode is that of the process that decided a failure; nil when none did.
	ExitCode *int
	Duration time.Duration
	// Attempts is how often it ran; 0 when it did not.
	Attempts int
	// Note says why it failed or did not run, or what came of it, in one line.
	Note string
	// Trace is the file of its trace, "" when there is none.
	Trace string
	// Prefix stands before the name of a job of a child pipeline: "trigger / ".
	Prefix string
	// Children are the jobs of the child pipeline that the job triggered.
	Children []Result
}

// Name is what people know the job by.
func (r Result) Name() string { return r.Prefix + r.Job.Name }

// Observer is told what happens. Its methods are called by several goroutines at once.
type Observer interface {
	// Run returns what takes the events of one run of a job's steps. It is closed when the run has ended.
	Run(job string) Sink
	// Say tells what a person may want to know, Warn what they should know; an empty name is the pipeline.
	Say(job, text string)
	Warn(job, text, hint string)
	Started(job string)
	Finished(Result)
}

// Sink takes the events of a run.
type Sink interface {
	event.Sink
	Close() error
}
