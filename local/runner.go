package local

import (
	"context"
	"sync/atomic"

	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/internal/shellword"
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/event"
)

// Runner runs jobs, of one pipeline and of those that it starts.
type Runner struct {
	Options
	// ID names the run in the store: later ones sort after it.
	ID     string
	Levels *session.Levels
	// Prefix stands before the names of jobs of a pipeline that a job started: "trigger / ".
	Prefix string

	counter *atomic.Int64
	once    *Once
}

// NewRunner returns a runner of a new run.
func NewRunner(o Options) *Runner {
	o.Concurrency = max(o.Concurrency, 1)
	return &Runner{
		Options: o, ID: store.NewRun(), Levels: &session.Levels{MakeNone: o.None, MakeContainer: o.Container},
		counter: new(atomic.Int64), once: new(Once),
	}
}

// Under returns the runner of a pipeline that a job started, whose jobs have names of their own. It is the same run.
func (r *Runner) Under(job string) *Runner {
	out := *r
	prefix := job + " / "
	out.Prefix = r.Prefix + prefix
	out.Observer = &under{r.Observer, prefix}
	if r.Trace != nil {
		out.Trace = func(job string) string { return r.Trace(prefix + job) }
	}
	return &out
}

// under tells of jobs with a prefix before their names. Results have it already.
type under struct {
	Observer
	prefix string
}

// Run implements Observer.
func (u *under) Run(job string) Sink { return u.Observer.Run(u.prefix + job) }

// Say implements Observer.
func (u *under) Say(job, text string) { u.Observer.Say(u.prefix+job, text) }

// Warn implements Observer.
func (u *under) Warn(job, text, hint string) { u.Observer.Warn(u.prefix+job, text, hint) }

// Prepare implements Observer.
func (u *under) Prepare(job string, p event.Preparing) { u.Observer.Prepare(u.prefix+job, p) }

// Started implements Observer.
func (u *under) Started(job string) { u.Observer.Started(u.prefix + job) }

// Number returns the next number of a job or pipeline of the run, from 1 on.
func (r *Runner) Number() int64 { return r.counter.Add(1) }

// SayOnce tells something about a job, however often it is found; an empty name is the pipeline.
func (r *Runner) SayOnce(job, text string) {
	if r.once.First(job + "\x00" + text) {
		r.Observer.Say(job, text)
	}
}

// First reports whether nothing was said yet under a key.
func (r *Runner) First(key string) bool { return r.once.First(key) }

// Refuse tells why a job does not start, unless it was cancelled.
func (r *Runner) Refuse(job string, err *event.Error) {
	if err.Kind == event.ErrorCancelled {
		return
	}
	for _, d := range err.Diagnostics {
		r.Observer.Warn(job, d.Error(), d.Hint)
	}
	if err.Diagnostics == nil {
		r.Observer.Warn(job, "the job does not start: "+err.Error(), err.Hint)
	}
}

// end removes something that was made for a job, whatever stopped the job.
func (r *Runner) end(ctx context.Context, job, otherwise string, remove func(context.Context) error) {
	if err := session.End(ctx, remove); err != nil {
		r.Observer.Warn(job, otherwise+": "+err.Error(), "")
	}
}

// CommandOf is the command that runs a job of the project in a folder.
func CommandOf(dir, job string) string {
	return "step-runner local --project-dir " + shellword.Of(dir) + " " + shellword.Of(job)
}
