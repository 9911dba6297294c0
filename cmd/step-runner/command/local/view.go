package local

import (
	"time"

	"github.com/rungci/rung/local"
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/ui"
)

// traceName is the file of a job's trace in a folder.
func traceName(job string) string { return store.Slug(job) + ".json" }

// jobsView shows what the package local tells.
type jobsView struct{ ui.JobsView }

// view makes the view that the flags ask for: of one job as of any run, of several with their names.
func (o *localFlags) view(names []string, several bool) (*jobsView, error) {
	options, err := o.Options(o.app.Program, o.app.Stdout)
	if err != nil {
		return nil, err
	}
	if several {
		return &jobsView{ui.NewJobs(options, names)}, nil
	}
	options.TraceFile = o.traceFile(names[0])
	return &jobsView{ui.NewJob(options)}, nil
}

// Run implements local.Observer.
func (v *jobsView) Run(job string) local.Sink { return v.JobsView.Run(job) }

// Finished implements local.Observer.
func (v *jobsView) Finished(r local.Result) { v.JobsView.Finished(shownResult(r)) }

func (v *jobsView) ended(results []local.Result, took time.Duration) {
	var all []ui.JobResult
	for _, r := range local.Flatten(results) {
		all = append(all, shownResult(r))
	}
	v.Ended(all, took)
}

func shownResult(r local.Result) ui.JobResult {
	return ui.JobResult{
		Name: r.Name, Stage: r.Stage, Status: ui.JobStatus(r.Status), Duration: r.Duration, Attempts: r.Attempts,
		ExitCode: r.ExitCode, Ignored: r.Ignored, Note: r.Note, Apart: r.Apart, Trace: r.Trace,
	}
}
