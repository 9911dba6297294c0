package ui

import (
	"sync"
	"time"

	"github.com/rungci/rung/steps/event"
)

// JobStatus is how a job of a pipeline ended, or that it did not run.
type JobStatus string

// The statuses of jobs.
const (
	JobSuccess   JobStatus = "success"
	JobFailed    JobStatus = "failed"
	JobAllowed   JobStatus = "allowed to fail" // it failed, and the pipeline goes on
	JobSkipped   JobStatus = "skipped"         // what it waits for did not end as it needs
	JobManual    JobStatus = "manual"          // it waits for somebody to start it
	JobCancelled JobStatus = "cancelled"
)

// JobResult is how a job ended.
type JobResult struct {
	Name     string        `json:"name"`
	Stage    string        `json:"stage"`
	Status   JobStatus     `json:"status"`
	Duration time.Duration `json:"duration_ns,omitempty"`
	// Attempts is how often it ran; 0 when it did not.
	Attempts int  `json:"attempts,omitempty"`
	ExitCode *int `json:"exit_code,omitempty"`
	// Ignored is the image that the job asks for and did not run in.
	Ignored string `json:"ignored_image,omitempty"`
	// Note says why it failed or did not run, or what came of it, such as its coverage; one line.
	Note string `json:"note,omitempty"`
	// Apart says that the pipeline ends as it does whatever comes of this job: it is of a child pipeline that nothing waits for.
	Apart bool   `json:"apart,omitempty"`
	Trace string `json:"trace,omitempty"` // the file of its trace
}

// JobsView shows the jobs of a pipeline. Its methods are safe for concurrent use.
type JobsView interface {
	// Run returns the view of one run of a job's steps. Close it when the run has ended.
	Run(job string) View
	// Say tells what a person may want to know of a job, in one line. An empty name is the pipeline.
	Say(job, text string)
	// Warn tells what a person should know. The hint may be empty.
	Warn(job, text, hint string)
	// Prepare tells how far the place of a job is.
	Prepare(job string, p event.Preparing)
	// Started and Finished are called for every job that runs, Finished also for those that do not.
	Started(job string)
	Finished(result JobResult)
	// Suspend keeps the view from the terminal, for somebody else to use it, until resume is called.
	Suspend() (resume func())
	// Ended says how the pipeline ended. The results are in the order in which they are shown.
	Ended(results []JobResult, took time.Duration)
	// Close flushes the view and returns the first error of writing.
	Close() error
}

// NewJobs returns the view of a pipeline of the jobs that are named: lines with the names of their jobs, on a terminal above a live area of
// those that run; in a job log that folds, one job after the other. It may start a goroutine, which ends with Close.
func NewJobs(o Options, names []string) JobsView {
	o = o.withDefaults()
	if o.Mode == ModeJSON {
		return &jobsJSON{w: o.Stdout, now: o.Now}
	}
	if o.Fold != FoldNone {
		return newJobTurns(o, names)
	}
	v := newJobLines(o, names)
	if v.live != nil {
		v.startClock()
	}
	return v
}

// NewJob returns the view of a pipeline of one job: it looks as the view of a run does.
func NewJob(o Options) JobsView { return &oneJob{o: o.withDefaults()} }

// oneJob shows every run of its job in a view of its own, and what else is said between them.
type oneJob struct {
	o         Options
	open      View
	err       error
	mu        sync.Mutex
	preparing preparing
}

// Run implements JobsView.
func (v *oneJob) Run(string) View {
	v.open = New(v.o)
	return v.open
}

// Say implements JobsView.
func (v *oneJob) Say(_, text string) {
	if v.o.Mode == ModeQuiet {
		return
	}
	l := newLook(v.o)
	v.commit(l.paint(styleFaint, cleanText(text)) + "\n")
}

// Prepare implements JobsView.
func (v *oneJob) Prepare(job string, p event.Preparing) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if text := v.preparing.line(job, p, false, v.o.Now()); text != "" {
		v.Say(job, text)
	}
}

// Warn implements JobsView.
func (v *oneJob) Warn(_, text, hint string) { v.commit(warning(v.o, text, hint)) }

// commit puts out text where the view of the run has it.
func (v *oneJob) commit(text string) {
	if r, ok := v.open.(*reporter); ok && r.commit(text) {
		return
	}
	if _, err := v.o.Stderr.Write([]byte(text)); v.err == nil {
		v.err = err
	}
}

// commit puts out lines between what happens in a run; false when the view is closed.
func (r *reporter) commit(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.insist(text)
	return true
}

// Started implements JobsView: the run says it.
func (v *oneJob) Started(string) {}

// Finished implements JobsView.
func (v *oneJob) Finished(r JobResult) {
	switch {
	case r.Attempts == 0 && r.Status != JobSuccess:
		v.Warn("", "the job "+r.Name+" did not run: "+string(r.Status)+", "+r.Note, "")
	case r.Note != "" && (r.Status == JobSuccess || r.Status == JobAllowed):
		v.Say("", r.Note)
	}
	if r.Ignored != "" && r.Attempts > 0 {
		v.Warn("", "the job ran without its image "+r.Ignored, "")
	}
}

// Suspend implements JobsView: when others use the terminal, the run's view is closed.
func (v *oneJob) Suspend() (resume func()) { return func() {} }

// Ended implements JobsView.
func (v *oneJob) Ended([]JobResult, time.Duration) {}

// Close implements JobsView.
func (v *oneJob) Close() error {
	if v.open != nil {
		if err := v.open.Close(); v.err == nil {
			v.err = err
		}
	}
	return v.err
}

// warning renders what a person should know.
func warning(o Options, text, hint string) string {
	r := &reporter{o: o, look: newLook(o)}
	body := event.Warning{Message: text}
	out := r.problems().warningText(body)
	if hint != "" {
		out += r.look.paintDiagnostic("hint: " + cleanLines(hint) + "\n")
	}
	return out
}
