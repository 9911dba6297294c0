// Package job is the life of one job of GitLab on this machine.
//
//	payload.Job ─> Level.Prepare ─> Environment ─> session.Run ─> events ─┬─> ui/joblog.Renderer ─> joblog.File ─> joblog.Sender ─> GitLab
//	     │              │                                                 └─> trace
//	     └── Record ────┴── Record ── written down before the job goes on: another process adopts the job from the last one
//
// A job ends once, for GitLab: with success, with a failure of its script and the exit code of that, or with one of the reasons of
// steps/event. Whatever happens, its environment is removed.
package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/manager/cachestore"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/joblog"
	"github.com/rungci/rung/manager/payload"
	"github.com/rungci/rung/manager/supply"
	"github.com/rungci/rung/manager/terminal"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/compile"
	"github.com/rungci/rung/steps/plan"
	screen "github.com/rungci/rung/ui/joblog"
)

// Options are what runs a job.
type Options struct {
	API   *gitlab.Client
	Level executor.Executor
	// Acquire gets the level of a job whose machine comes from a provider, and completes what is reserved there; nil where Level is known.
	Acquire func(ctx context.Context, reserved *supply.Reservation, report executor.Reporter) (executor.Executor, error)
	// Reserved is what a provider has for the job; nil for jobs that are run with Level.
	Reserved *supply.Reservation
	// Refused is why there is no Level for the job, which then fails; nil otherwise.
	Refused error
	// Folder is the job's own on this machine, for its log. It is created, and removed when GitLab has everything.
	Folder string
	// Caches is the folder with the caches of the job's project on this machine. CacheStore has them instead, unless it is nil.
	Caches     string
	CacheStore *cachestore.Project
	// Trace says what becomes of the job's trace; nil makes none.
	Trace *Tracing
	// Terminal is the job's terminal, for people; nil is none. Ending the job ends it.
	Terminal *terminal.Session
	// Bounds adds to what a job says itself what the operator says, or refuses the job with an *event.Error.
	Bounds func(*executor.Job) error
	// SlotGroup is the control group that the job is told of as that of its slot, once it has its level; nil, or "": none.
	SlotGroup func() string
	// Keep writes down how far the job is, before it goes on. An error of it ends the job.
	Keep func(Record) error
	// Adopted is called when an adopted job has its environment, or none; may be nil.
	Adopted func()
	// PrepareTimeout is how long the environment may take to be ready, all attempts together; 0 is the job's time.
	PrepareTimeout time.Duration
	// PreparePause is the time between two attempts at making the environment; 0 is DefaultPreparePause.
	PreparePause time.Duration
	// Title is what the first line of the log calls this program; LogLimit is in bytes, and 0 is none.
	Title    string
	LogLimit int64
	// Grace is how long a command may take to end that is told to.
	Grace  time.Duration
	Sender joblog.SenderOptions // but for its functions
	// Elsewhere says that a process on another host may go on with the job, where the log in Folder is not.
	Elsewhere bool
	// Left is given the removal of an environment, or of what an attempt to make one has left, that could not be removed yet, to try it again; may be nil.
	Left func(remove func(context.Context) error)
	// Note is told of what goes wrong beside the job, and does not end it.
	Note func(error)
	// Output is given the log as it is written; may be nil. It must not block for long, nor keep what it is given.
	Output func(log []byte)
}

// Record is how far a job is: what another process needs to go on with it. It holds secrets.
type Record struct {
	Payload *gitlab.Job    `json:"payload"`
	Runner  payload.Runner `json:"runner"`
	// Reserved is what a provider has for the job; nil where the machine is not a provider's.
	Reserved *supply.Reservation `json:"reserved,omitempty"`
	// Level is the name of the level that Handle belongs to; empty before it is known.
	Level executor.Level `json:"level"`
	Log   screen.Options `json:"log"`
	// Began is when GitLab handed the job out.
	Began time.Time `json:"began"`
	// Prepared is when its environment was there.
	Prepared time.Time `json:"prepared,omitzero"`
	// Earlier is how many bytes of the log are of an attempt that did not get as far as the job's environment.
	Earlier int64 `json:"earlier,omitempty"`
	// Handle is that of the job's environment; nil before there is one.
	Handle *executor.Handle `json:"handle,omitempty"`
	// Before are the events before the run, and Environment what RunStarted says of the place.
	Before      []event.Event      `json:"before,omitempty"`
	Environment *event.Environment `json:"environment,omitempty"`
	// Terminal is where GitLab was told that the job's terminal is; nil is nowhere.
	Terminal *terminal.Kept `json:"terminal,omitempty"`
	// Final is what GitLab is told in the end; nil before that is known.
	Final *gitlab.Update `json:"final,omitempty"`
	// Rest is, beside Final, what of the log GitLab did not have, for a process on another host; nil: the log is on this one.
	Rest *joblog.Rest `json:"rest,omitempty"`
}

// Ended is how a job ended.
type Ended struct {
	Final gitlab.Update
	// Err is why it failed; nil for a success.
	Err *event.Error
	// Gone says that GitLab had given up the job before.
	Gone bool
	// Unreported is why GitLab does not know the end; nil otherwise.
	Unreported error
	// Began is when GitLab handed the job out, Prepared when its environment was there, and Ran when its steps had ended; zero if that was not.
	Began, Prepared, Ran time.Time
	// Trace is where the job's trace is; empty if it is not kept.
	Trace string
}

// job is one on its way.
type job struct {
	*payload.Job
	o      Options
	record Record
	log    *joblog.File
	out    *output
	sender *joblog.Sender

	life context.Context         // ends soon after Run's kill, and whatever is still waited for with it
	stop context.CancelCauseFunc // ends the script, and after_script runs
	kill *session.Kill           // of the steps: they end now

	env     executor.Environment
	workDir string             // where its steps run
	made    atomic.Bool        // env is there
	exit    *int               // the exit code of a job that its driver has failed; nil is none
	ran     time.Time          // its steps have ended
	end     *event.RunFinished // as the run said, or as it was made up here

	trace *tracer
}

// Run runs a job that GitLab has just handed out. When ctx ends, the job is stopped, its after_script runs, and the cause of ctx says why: an
// *event.Stop. When kill says so, it ends at once, and soon after that nothing is waited for any more, GitLab neither.
func Run(ctx context.Context, kill *session.Kill, from *gitlab.Job, r payload.Runner, o Options) Ended {
	p, wrong := payload.New(from, r)
	j := newJob(p, o)
	j.record = Record{Payload: from, Runner: r, Reserved: o.Reserved, Began: time.Now(), Log: j.logOptions(), Terminal: o.Terminal.Kept()}
	if wrong == nil {
		wrong = o.Refused
	}
	if wrong == nil && o.Level != nil {
		j.record.Level = o.Level.Level()
	}
	ctx, end := j.within(ctx, kill)
	defer end()
	err := j.keep()
	if err == nil {
		err = j.open()
	}
	if err != nil {
		return j.unlogged(ctx, err)
	}
	defer j.log.Close()
	if !j.send(ctx) {
		return j.forget(Ended{Gone: true})
	}
	if wrong == nil {
		wrong = j.run(ctx)
	}
	if wrong != nil {
		j.fail(ctx, wrong)
	}
	return j.finish(ctx)
}

// canceled is why a job ends that somebody cancelled.
var canceled = &event.Stop{Code: event.CodeCancelledByClient, Reason: "canceled externally (UI, API)"}

// errGivenUp is why a job ends that GitLab has given up.
var errGivenUp = &event.Stop{Code: event.CodeKilled, Reason: "GitLab has ended the job"}

func newJob(p *payload.Job, o Options) *job {
	if o.Note == nil {
		o.Note = func(error) {}
	}
	return &job{Job: p, o: o, kill: session.NewKill(), trace: newTracer(o, p.GitLab(), p.Ref())}
}

// lastWords is how long a job that is ended at once may take to remove its environment and to tell GitLab; the next process does it otherwise.
const lastWords = 5 * time.Second

// within is a context that ends with ctx and when the job is stopped.
func (j *job) within(ctx context.Context, kill *session.Kill) (context.Context, func()) {
	life, endLife := context.WithCancel(context.WithoutCancel(ctx))
	ctx, stop := context.WithCancelCause(ctx)
	j.life, j.stop = life, stop
	done := make(chan struct{})
	go func() {
		defer endLife()
		select {
		case <-kill.Done():
			stop(&event.Stop{Code: event.CodeTerminated, Reason: kill.Reason()})
			j.kill.Now(kill.Reason())
		case <-done:
			return
		}
		select {
		case <-time.After(lastWords):
		case <-done:
		}
	}()
	return ctx, func() { close(done); stop(nil) }
}

// logOptions say how the job's log looks. They are written down: the log is the same whoever goes on with it.
func (j *job) logOptions() screen.Options {
	return screen.Options{
		Timestamps: j.Flag("FF_TIMESTAMPS", true), Sections: j.GitLab().Features.TraceSections, TokenPrefixes: j.GitLab().Features.TokenMaskPrefixes,
		Limit: j.o.LogLimit, Runner: j.o.Title,
	}
}

func (j *job) keep() error {
	if j.o.Keep == nil {
		return nil
	}
	if err := j.o.Keep(j.record); err != nil {
		return fmt.Errorf("cannot record the state of the job: %w", err)
	}
	return nil
}

// logName is the name of the log in Options.Folder.
const logName = "job.log"

// open opens the log, behind what an earlier process has written of it.
func (j *job) open() error {
	if err := os.MkdirAll(j.o.Folder, 0o700); err != nil {
		return err
	}
	var err error
	if j.log, err = joblog.Open(filepath.Join(j.o.Folder, logName)); err != nil {
		return err
	}
	j.show()
	return nil
}

// show shows events in the log.
func (j *job) show() {
	j.out = &output{
		log: j.log, earlier: j.record.Earlier, told: j.o.Output,
		failed: func(err error) { j.stop(event.NewError(event.CodeDiskFull, "%v", err)); j.kill.Now(err.Error()) },
	}
	j.out.renderer = screen.Resume(j.record.Log, screen.Position{Bytes: max(0, j.log.Size()-j.record.Earlier)})
}

// send tells GitLab that the job runs, and begins to send the log and to hear from there. It returns false when GitLab has given up the job.
func (j *job) send(ctx context.Context) bool {
	reply, err := j.o.API.UpdateJob(ctx, j.Ref(), gitlab.Update{State: gitlab.Running})
	switch {
	case errors.Is(err, gitlab.ErrJobGone):
		return false
	case err != nil:
		j.o.Note(fmt.Errorf("telling GitLab that the job %d runs: %w", j.GitLab().ID, err))
	case reply.Cancelled():
		j.stop(canceled)
	}
	o := j.o.Sender
	o.Pending, o.Debug, o.Note = err != nil, j.Debug(), j.o.Note
	o.Cancelled = func() { j.stop(canceled) }
	o.Gone = func(error) { j.stop(errGivenUp); j.kill.Now(errGivenUp.Reason) }
	j.sender = joblog.Send(j.life, j.o.API, j.Ref(), j.log, o)
	return true
}

// run makes the environment and runs the job's steps in it.
func (j *job) run(ctx context.Context) error {
	compiled, err := j.prepare(ctx)
	if err != nil {
		return err
	}
	return j.steps(ctx, compiled)
}

// prepare makes the environment, and puts into it what the steps need. It is a part of the job's time.
func (j *job) prepare(ctx context.Context) (*compile.Compiled, error) {
	ctx, release := context.WithDeadlineCause(ctx, j.deadline(), &event.Stop{Code: event.CodeRunTimeout, Reason: fmt.Sprintf("the job timed out after %s", j.Timeout())})
	defer release()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	preparing := &session.Preparation{Tell: j.prepared, Hide: j.Hide, Now: time.Now}
	if err := acquire(ctx, j, preparing.Report); err != nil {
		return nil, err
	}
	what, err := j.place()
	if err != nil {
		return nil, err
	}
	if j.o.Bounds != nil {
		if err := j.o.Bounds(what); err != nil {
			return nil, err
		}
	}
	if j.env, err = j.environment(ctx, what, preparing); err != nil {
		return nil, err
	}
	j.made.Store(true)
	j.record.Prepared = time.Now()
	handle := j.env.Handle()
	j.record.Handle = &handle
	compiled, err := j.compiled(ctx)
	if err != nil {
		return nil, err
	}
	j.record.Environment = session.Describe(j.o.Level.Level(), what, j.env, texts(compiled), j.Hide)
	j.record.Environment.Prepared = preparing.Ended()
	if layout := j.env.Layout(); layout.Shared {
		j.record.Environment.Programs = layout.Bin
	}
	if text := j.trace.unwanted(hasArchive(j.GitLab())); text != "" {
		compiled.Notes = append(compiled.Notes, text)
	}
	if can := j.o.Level.Capabilities(); !can.Image && !can.Driver && len(j.GitLab().Services) > 0 { // they are often those of a whole pipeline
		compiled.Notes = append(compiled.Notes, fmt.Sprintf("the services of the job are not started: it runs at level %s, which has none", j.record.Level))
	}
	for _, text := range compiled.Notes {
		j.before(event.Warning{Message: text})
	}
	if err := j.keep(); err != nil {
		return nil, err
	}
	return compiled, j.bring(ctx, compiled)
}

// acquire gets the job's level, where that comes with a machine. What it has is written down before anything is made there.
func acquire(ctx context.Context, j *job, report executor.Reporter) error {
	if j.o.Acquire == nil {
		return nil
	}
	var err error
	if j.o.Level, err = j.o.Acquire(ctx, j.record.Reserved, report); err != nil {
		return err
	}
	j.record.Level = j.o.Level.Level()
	return j.keep()
}

// place is what the job asks of its place, in the terms of its level.
func (j *job) place() (*executor.Job, error) {
	can := j.o.Level.Capabilities()
	if can.Driver {
		return j.DriverPlace()
	}
	return j.Place(can.Image)
}

// deadline is when the job's time is over: making its environment is a part of it.
func (j *job) deadline() time.Time { return j.record.Began.Add(j.Timeout()) }

// prepared shows what is made for the job. It may be called by several goroutines.
func (j *job) prepared(p event.Preparing) {
	if j.made.Load() { // a driver says something while the job runs
		j.out.beside(event.Event{Time: time.Now().UTC(), Body: p})
		return
	}
	j.before(p)
}

// before shows an event before the run, which nobody else knows.
func (j *job) before(body event.Body) {
	e := event.Event{Time: time.Now().UTC(), Body: body}
	j.out.before(e, func() { j.record.Before = append(j.record.Before, e) })
}

// fail ends the log of a job that its steps do not end.
func (j *job) fail(ctx context.Context, err error) {
	if j.end != nil {
		return // it is known already
	}
	wrong := session.AsError(ctx, err)
	wrong.Message, wrong.Hint = j.Hide(wrong.Message), j.Hide(wrong.Hint)
	if wrong.Code == event.CodeRunTimeout && wrong.Timeout == nil {
		wrong.Timeout = &event.Timeout{Of: event.TimeoutRun, Limit: plan.Duration(j.Timeout())}
	}
	var failed *executor.JobFailure
	if errors.As(err, &failed) {
		j.exit = failed.Code
	}
	j.finished(wrong)
}

// finished makes up the end of a run that has none.
func (j *job) finished(wrong *event.Error) {
	end := event.RunFinished{Status: event.Failure, Error: session.OfJob(wrong), ExitCode: j.exit, Duration: time.Since(j.record.Began)}
	if wrong.Kind == event.ErrorCancelled {
		end.Status = event.Cancelled
	}
	j.end = &end
	j.out.Event(event.Event{Time: time.Now().UTC(), Body: end})
}

// final is what GitLab is told.
func (j *job) final() gitlab.Update {
	if j.end == nil || j.end.Status == event.Success {
		return gitlab.Update{State: gitlab.Success}
	}
	out := gitlab.Update{State: gitlab.Failed, FailureReason: gitlab.ReasonScript}
	if j.end.Error != nil {
		out.FailureReason = string(j.end.Error.FailureReason())
	}
	if j.end.ExitCode != nil && out.FailureReason == gitlab.ReasonScript {
		out.ExitCode = *j.end.ExitCode
	}
	out.FailureReason = gitlab.FailureReason(out.FailureReason, j.GitLab().Features.FailureReasons)
	return out
}

// finish removes the environment and tells GitLab how the job ended.
func (j *job) finish(ctx context.Context) Ended {
	if err := j.out.err(); err != nil { // a log that is not whole is not the job's
		j.end = &event.RunFinished{Status: event.Failure, Error: event.NewError(event.CodeDiskFull, "%v", err)}
		j.end.Error.Hint = hintRunnerDisk
		j.out.last(j.record.Log, *j.end)
	}
	j.ran = time.Now()
	attend(ctx, j.o.Terminal, j.deadline())
	j.trace.finish(j.life, j.end, hasArchive(j.GitLab()))
	j.out.end()
	final := j.final()
	j.record.Final = &final
	if j.o.Elsewhere {
		rest, err := j.sender.Rest()
		if err != nil {
			j.o.Note(err)
		}
		j.record.Rest = rest
	}
	if err := j.keep(); err != nil {
		j.o.Note(err)
	}
	return j.report()
}

// report tells GitLab how the job ended, while its environment is removed.
func (j *job) report() Ended {
	out := Ended{Final: *j.record.Final, Trace: j.trace.kept, Began: j.record.Began, Prepared: j.record.Prepared, Ran: j.ran}
	if j.end != nil {
		out.Err = j.end.Error
	}
	removed := make(chan struct{})
	go func() {
		defer close(removed)
		if j.env == nil {
			return
		}
		closing, end := context.WithTimeout(j.life, session.Closing)
		defer end()
		j.removed(j.env.Close(closing))
	}()
	err := j.sender.Finish(j.life, out.Final)
	<-removed
	switch {
	case errors.Is(err, gitlab.ErrJobGone):
		out.Gone = true
	case err != nil:
		out.Unreported = err
		return out // the record stays: somebody tries again
	}
	return j.forget(out)
}

// hintRunnerDisk is for whoever reads the log of a job for which this machine had no room.
const hintRunnerDisk = "ask the runner's operator to free disk space"

// removed is told how the removal of the environment went.
func (j *job) removed(err error) {
	if err == nil {
		return
	}
	j.o.Note(fmt.Errorf("removing the environment of the job %d: %w", j.GitLab().ID, err))
	if j.o.Left != nil {
		j.o.Left(j.env.Close)
	}
}

// unlogged ends a job that can have no log here: GitLab is told why.
func (j *job) unlogged(ctx context.Context, err error) Ended {
	j.log = joblog.InMemory()
	j.show()
	if !j.send(ctx) {
		return j.forget(Ended{Gone: true})
	}
	if j.record.Final != nil {
		return j.report()
	}
	j.fail(ctx, err)
	return j.finish(ctx)
}

// forget removes what this machine has of the job.
func (j *job) forget(out Ended) Ended {
	if err := os.RemoveAll(j.o.Folder); err != nil {
		j.o.Note(err)
	}
	return out
}
