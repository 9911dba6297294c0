package github

import (
	"time"

	"github.com/rungci/rung/steps/event"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/value"
)

// Status is how a leg of a job ended, or that it did not run.
type Status string

// The statuses.
const (
	Success   Status = "success"
	Failed    Status = "failed"
	Allowed   Status = "allowed to fail" // it failed, and continue-on-error forgives it
	Skipped   Status = "skipped"
	Cancelled Status = "cancelled"
)

// Result is how a leg ended, or a job that has none.
type Result struct {
	// Name is what people know it by: "call / test (20)".
	Name   string
	Job    *definition.Job
	Status Status
	// Error is why it failed; nil when it did not, or its steps say it.
	Error *event.Error
	// ExitCode is that of the process that decided a failure; nil when none did.
	ExitCode *int
	Duration time.Duration
	// Ran says that its steps were started.
	Ran bool
	// Called says that it is a job that called a workflow, whose jobs have results of their own.
	Called bool
	// Note says why it failed or did not run, or what came of it, in one line.
	Note string
	// Trace is the file of its trace, "" when there is none.
	Trace   string
	Outputs map[string]value.Value
}

// Observer is told what happens. Its methods are called by several goroutines at once.
type Observer interface {
	// Run returns what takes the events of the steps of a leg. It is closed when they have ended.
	Run(name string) Sink
	// Say tells what a person may want to know, Warn what they should know; an empty name is the whole run.
	Say(name, text string)
	Warn(name, text, hint string)
	Started(name string)
	Finished(Result)
}

// Sink takes the events of a run.
type Sink interface {
	event.Sink
	Close() error
}
