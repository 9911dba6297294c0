package fake

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/event"
)

// Step is the ID of the step that a run's log is of.
const Step = "1"

// Run is what steps do, as the test tells it.
type Run struct {
	// Request is how the run was asked for.
	Request *runnerv1.RunRequest

	world   *world
	stop    context.CancelCauseFunc
	started time.Time

	mu     sync.Mutex
	events []*runnerv1.Event
	log    int64
	status event.Status
	err    *event.Error
	more   chan struct{} // closed, and made again, with each event
	ended  time.Time
}

// Put leaves a file in the environment.
func (r *Run) Put(name, text string) { r.world.put(name, text) }

// Log writes to the log of the run.
func (r *Run) Log(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(&runnerv1.Event{Type: event.Log{}.Type(), Step: Step, Log: &runnerv1.Log{Stream: runnerv1.Stream_STREAM_STDOUT, Offset: r.log, Data: []byte(text)}})
	r.log += int64(len(text))
}

// Event reports something of the run.
func (r *Run) Event(step string, body event.Body) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // bodies are made for this
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(&runnerv1.Event{Type: body.Type(), Step: step, Body: string(text)})
}

// Fail says why the run fails; Run then returns event.Failure.
func (r *Run) Fail(code event.Code, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = event.NewError(code, "%s", message)
}

// add numbers an event. The caller holds mu.
func (r *Run) add(e *runnerv1.Event) {
	e.Seq, e.Time = int64(len(r.events)+1), timestamppb.Now()
	r.events = append(r.events, e)
	close(r.more)
	r.more = make(chan struct{})
}

// since are the events after a number, and what is closed when there are more; nil when there will be none.
func (r *Run) since(after int64) ([]*runnerv1.Event, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.events[min(max(after, 0), int64(len(r.events))):]
	if r.status != event.Running {
		return events, nil
	}
	return events, r.more
}

// begin starts a run, or finds the one of its ID.
func (w *world) begin(request *runnerv1.RunRequest, do func(context.Context, *Run) event.Status) (started bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs[request.GetId()] != nil {
		return false
	}
	ctx, stop := context.WithCancelCause(context.Background())
	r := &Run{Request: request, world: w, stop: stop, started: time.Now(), status: event.Running, more: make(chan struct{})}
	w.runs[request.GetId()] = r
	r.Event("", event.RunStarted{ID: request.GetId()})
	go func() {
		status := event.Success
		if do != nil {
			status = do(ctx, r)
		}
		r.finish(ctx, status)
	}()
	return true
}

// finish ends a run. One that was stopped and does not say how it ended is cancelled.
func (r *Run) finish(ctx context.Context, status event.Status) {
	r.mu.Lock()
	err := r.err
	r.mu.Unlock()
	switch {
	case ctx.Err() != nil && status != event.Failure:
		status = event.Cancelled
		if err == nil {
			stop := event.StopOf(context.Cause(ctx))
			err = event.NewError(stop.Code, "%s", stop.Reason)
		}
	case status == event.Failure && err == nil:
		err = event.NewError(event.CodeStepFailed, "the test has let the run fail")
	}
	r.Event("", event.RunFinished{Status: status, Error: err})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status, r.err, r.ended = status, err, time.Now()
	close(r.more)
	r.more = make(chan struct{})
}

func (w *world) find(id string) *Run {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs[id]
}

// end stops all runs.
func (w *world) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		r.stop(context.Canceled)
	}
}
