package manager

import (
	"slices"
	"time"

	"github.com/rungci/rung/internal/otlp"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/job"
	"github.com/rungci/rung/manager/telemetry"
	"github.com/rungci/rung/steps/event"
)

// parentVariable tells programs which span theirs are below.
const parentVariable = "TRACEPARENT"

// span is that of the job's steps.
func (r *run) span() otlp.Parent {
	return telemetry.Run(r.entry.client().URL(), r.from.ID, r.from.Features.Tracing)
}

// environment is what the configuration adds to the variables of jobs, and the job's span.
func (r *run) environment(of []string) []string {
	if !r.entry.manager.o.Telemetry.Traces() {
		return of
	}
	return slices.Concat([]string{parentVariable + "=" + r.span().String()}, of)
}

// export sends the spans of a job that has ended.
func (r *run) export(ended job.Ended) {
	if ended.Began.IsZero() {
		return // GitLab had ended it before
	}
	seen := r.describe()
	j := telemetry.Job{
		GitLab: r.entry.client().URL(), ID: r.from.ID, Given: r.from.Features.Tracing, Identity: seen.Identity, URL: seen.URL, Level: string(seen.Level),
		Runner: seen.Entry.Name, Result: "success", Began: ended.Began, Prepared: ended.Prepared, Ran: ended.Ran, Ended: time.Now(),
	}
	if ended.Final.State == gitlab.Failed {
		j.Result, j.Reason, j.ExitCode = "failure", ended.Final.FailureReason, ended.Final.ExitCode
	}
	if err := ended.Err; err != nil {
		j.Error = err.Message
		switch {
		case err.Kind == event.ErrorCancelled:
			j.Result = "cancellation"
		case err.Fault() == event.FaultTimeout:
			j.Result = "timeout"
		case err.Fault() == event.FaultSystem:
			j.Result = "error"
		}
	}
	r.entry.manager.o.Telemetry.Job(j)
}
