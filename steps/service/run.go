package service

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/value"
)

// running is the status of a run that has not ended.
const running = event.Running

// run is one run, from its start until it is removed.
type run struct {
	service *Service
	id      string
	number  int64    // in the order of starts
	digest  [32]byte // of the request
	grace   time.Duration
	timeout time.Duration
	started time.Time
	adopted bool // somebody else runs it

	log    *spool // what steps wrote, as it is
	events *spool // what happened, as records

	ctx      context.Context
	cancel   context.CancelCauseFunc
	kill     chan struct{}
	killOnce sync.Once
	killed   string          // why, once kill is closed
	control  *engine.Control // nil for a run that somebody else runs

	streams    atomic.Int64
	ended      chan struct{} // closed when the engine has returned and its folder is gone
	removed    chan struct{} // closed when nothing is left on disk
	removeOnce sync.Once

	mu    sync.Mutex
	heard time.Time // when a client last named the run, or when it ended
	state state

	runtime event.Runtime // of the engine, once that is known
	record  []byte        // the sink's buffer
}

// state is what Status tells of a run.
type state struct {
	status   event.Status
	err      *event.Error
	exitCode *int
	finished time.Time
	outputs  map[string]value.Value // sensitive ones replaced
	events   int64                  // how many there are
}

// execute runs the request to its end.
func (r *run) execute(req *request) {
	defer close(r.ended)
	defer r.service.departed(r)
	folder, err := r.runEngine(req)
	if err != nil && err.Kind != event.ErrorCancelled {
		r.service.opts.Log(fmt.Sprintf("run %q: %s", r.id, err.Message))
	}
	if err != nil && err.Code != event.CodeMoved {
		r.conclude(req, err)
	}
	r.finish(err)
	engine.RemoveFolder(folder)
}

// runEngine runs the engine. The error is that of a run whose engine gave no result.
func (r *run) runEngine(req *request) (folder string, failure *event.Error) {
	defer func() {
		if bug := recover(); bug != nil {
			r.service.opts.Log(fmt.Sprintf("run %q: a bug: %v\n%s", r.id, bug, debug.Stack()))
			failure = system("internal error; the server's log has the details")
		}
	}()
	folder, err := r.service.runFolder(r.number)
	if err != nil {
		return "", system("creating the run's folder: %v", err)
	}
	opts := r.service.opts.Engine()
	r.runtime = opts.Runtime
	of := SourcesOf{Folder: folder, WorkDir: req.workDir, Lock: req.lock, ChecksOut: req.from == nil && source.ChecksOut(req.component.Definition.Steps)}
	if opts.Source, err = r.service.opts.Sources(of); err != nil {
		return folder, failureOf(err)
	}
	if err := req.writeVariables(folder); err != nil {
		return folder, system("%v", err)
	}
	req.options(&opts, folder)
	opts.Sink, opts.Kill, opts.Control = r, r.kill, r.control
	opts.KillReason = func() string { return r.killed }
	opts.Timeout, opts.Grace = r.timeout, r.grace
	if req.paused {
		r.control.Pause()
	}
	result := engine.Run(r.ctx, opts)
	if r.unfinished() { // it goes on elsewhere
		return folder, result.Error
	}
	return folder, nil
}

// unfinished reports whether the last event of the run has not come.
func (r *run) unfinished() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.status == running
}

func system(format string, args ...any) *event.Error {
	return event.NewError(event.CodeInternalError, format, args...)
}

// failureOf makes what keeps a run from starting its failure: the server's own, unless it says whose it is.
func failureOf(err error) *event.Error {
	var own *event.Error
	if errors.As(err, &own) {
		return own
	}
	return system("%v", err)
}

// conclude gives the last event of a run whose engine gave none, and its first where there is none: followers are told by events, and by
// nothing else, how a run ended. The first says nothing of the steps, as only the engine knows what is to be masked.
func (r *run) conclude(req *request, failure *event.Error) {
	if !r.unfinished() {
		return
	}
	last := r.current().events
	tell := func(body event.Body) {
		last++
		r.Event(event.Event{Seq: last, Time: time.Now().UTC(), Body: body})
	}
	if last == 0 {
		tell(event.RunStarted{ID: r.id, Runtime: r.runtime, WorkDir: req.workDir, Env: map[string]string{}})
	}
	status := event.Failure
	if failure.Kind == event.ErrorCancelled {
		status = event.Cancelled
	}
	tell(event.RunFinished{Status: status, Error: failure, Duration: time.Since(r.started)})
}

// Event implements event.Sink. The events of a run come one at a time.
func (r *run) Event(e event.Event) {
	if l, ok := e.Body.(event.Log); ok {
		at, whole := r.log.append(l.Data, false)
		r.service.metrics.logBytes.Add(int64(len(l.Data)))
		if !whole {
			return // a log that has a gap is told by its spool
		}
		r.record = appendLogRecord(r.record[:0], &e, &l, at)
	} else {
		record, err := appendEventRecord(r.record[:0], &e)
		if err != nil {
			r.service.opts.Log(fmt.Sprintf("run %q: event %d is lost: %v", r.id, e.Seq, err))
			return
		}
		r.record = record
	}
	r.mu.Lock()
	r.state.events = e.Seq
	if end, last := e.Body.(event.RunFinished); last {
		r.state.status, r.state.err, r.state.exitCode, r.state.outputs = end.Status, end.Error, end.ExitCode, end.Outputs
	}
	r.mu.Unlock()
	r.events.append(r.record, true)
	if cap(r.record) > maxKeptRecord {
		r.record = nil
	}
}

// maxKeptRecord is how large a buffer is kept for the next event, in bytes.
const maxKeptRecord = 64 << 10

// finish says how the run ended, to those who ask and to those who follow. failure is nil when the engine gave its last event.
func (r *run) finish(failure *event.Error) {
	r.mu.Lock()
	if r.state.status == running {
		if failure == nil {
			failure = system("the run ended without a result")
		}
		r.state.status, r.state.err = event.Failure, failure
		if failure.Kind == event.ErrorCancelled {
			r.state.status = event.Cancelled
		}
	}
	r.state.finished = time.Now()
	r.heard = r.state.finished
	end := r.state
	r.mu.Unlock()
	r.service.metrics.ended(r, end)
	r.record = nil
	r.log.finish()
	r.events.finish()
}

// stop asks the run to end: gracefully, or at once with force. It may be called again, with force.
func (r *run) stop(reason error, force bool) {
	r.cancel(reason)
	if force {
		r.killOnce.Do(func() {
			r.killed = reason.Error()
			close(r.kill)
		})
	}
}

// remove removes all that is kept of the run when it has ended. It returns at once; removed tells when that is done.
func (r *run) remove() {
	r.removeOnce.Do(func() {
		go func() {
			<-r.ended
			r.discard()
			close(r.removed)
		}()
	})
}

// discard gives up the run's files.
func (r *run) discard() {
	r.cancel(errors.New("the run is removed"))
	r.log.remove()
	r.events.remove()
}

// same says whether a request is the one that the run was started with.
func (r *run) same(req *request) error {
	if r.digest != req.digest {
		return alreadyExists("the ID %q belongs to a run with different steps, variables, secrets or inputs", r.id).
			hinted("close that run or choose another ID")
	}
	r.touch()
	return nil
}

func (r *run) touch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = time.Now()
}

// quiet returns how long no client has named the run, or how long ago it ended if that is less.
func (r *run) quiet(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Sub(r.heard)
}

func (r *run) finished() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.status != running && !r.state.finished.IsZero()
}

// current returns how the run is now. A run is running until its followers may know that it has ended.
func (r *run) current() state {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.state
	if now.finished.IsZero() {
		return state{status: running, events: now.events}
	}
	return now
}

// abandoned is the reason of a run that is stopped because its client left it.
func abandoned(after time.Duration) error {
	return &event.Stop{Code: event.CodeAbandoned, Reason: fmt.Sprintf("no client has asked for the run for %s", after.Round(time.Second))}
}
