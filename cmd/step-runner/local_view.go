package main

import (
	"time"

	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/ui"
)

// traceName is the file of a job's trace in a folder.
func traceName(job string) string { return store.Slug(job) + ".json" }

// jobsView shows what the package local tells.
type jobsView struct{ ui.JobsView }

// viewOptions are what the flags say of a view.
func (o *localFlags) viewOptions() (ui.Options, error) {
	mode, err := ui.ParseMode(o.progress)
	if err != nil {
		return ui.Options{}, usage("--progress: %v", err)
	}
	show, err := ui.ParseShow(o.show)
	if err != nil {
		return ui.Options{}, usage("--show: %v", err)
	}
	if o.quiet {
		mode = ui.ModeQuiet
	}
	a := o.app
	return ui.Options{
		Mode: mode, Show: show, Verbose: o.verbose, Stdout: a.stdout, Stderr: a.stderr,
		StdoutTTY: isTerminal(a.stdout), StderrTTY: isTerminal(a.stderr),
		Width:  func() int { w, _ := terminalSize(a.stderr); return w },
		Height: func() int { _, h := terminalSize(a.stderr); return h },
		Color:  a.color(a.stderr), ASCII: asciiOnly(a.getenv),
	}, nil
}

// view makes the view that the flags ask for: of one job as of any run, of several with their names.
func (o *localFlags) view(jobs []*pipeline.Job) (*jobsView, error) {
	options, err := o.viewOptions()
	if err != nil {
		return nil, err
	}
	if len(jobs) == 1 && jobs[0].Keywords.Trigger == nil {
		options.TraceFile = o.traceFile(jobs[0].Name)
		return &jobsView{ui.NewJob(options)}, nil
	}
	names := make([]string, len(jobs))
	for i, j := range jobs {
		names[i] = j.Name
	}
	return &jobsView{ui.NewJobs(options, names)}, nil
}

// Run implements local.Observer.
func (v *jobsView) Run(job string) gitlab.Sink { return v.JobsView.Run(job) }

// Finished implements local.Observer.
func (v *jobsView) Finished(r gitlab.Result) { v.JobsView.Finished(shownResult(r)) }

func (v *jobsView) ended(results []gitlab.Result, took time.Duration) {
	v.Ended(flattened("", results), took)
}

// flattened are jobs, each followed by those of its child pipeline.
func flattened(prefix string, results []gitlab.Result) []ui.JobResult {
	var out []ui.JobResult
	for _, r := range results {
		r.Prefix = prefix
		out = append(out, shownResult(r))
		out = append(out, flattened(prefix+r.Job.Name+" / ", r.Children)...)
	}
	return out
}

func shownResult(r gitlab.Result) ui.JobResult {
	return ui.JobResult{
		Name: r.Name(), Stage: r.Job.Stage, Status: ui.JobStatus(r.Status), Duration: r.Duration, Attempts: r.Attempts,
		ExitCode: r.ExitCode, Note: r.Note, Trace: r.Trace,
	}
}
