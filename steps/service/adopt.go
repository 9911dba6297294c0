package service

import (
	"context"
	"strings"
	"time"

	"github.com/rungci/rung/steps/event"
)

// Adopted is a run that somebody else runs and lets clients follow and cancel. It is the sink of that run's events.
type Adopted struct{ run *run }

// Adopt gives clients a run with the given id.
func (s *Service) Adopt(id string, grace time.Duration) (*Adopted, error) {
	r := s.newRun(&request{id: id, grace: grace})
	r.adopted = true
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[id] != nil {
		r.discard()
		return nil, alreadyExists("there is a run with the id %q", id)
	}
	s.admit(r)
	return &Adopted{r}, nil
}

// Event implements event.Sink.
func (a *Adopted) Event(e event.Event) { a.run.Event(e) }

// Cancelled is closed when a client asks the run to end. Reason then says why.
func (a *Adopted) Cancelled() <-chan struct{} { return a.run.ctx.Done() }

// Reason is why the run is to end.
func (a *Adopted) Reason() error { return context.Cause(a.run.ctx) }

// Killed is closed when a client asks the run to end at once.
func (a *Adopted) Killed() <-chan struct{} { return a.run.kill }

// Finish says that the run has ended; no event comes after it.
func (a *Adopted) Finish() {
	a.run.finish(nil)
	a.run.service.departed(a.run)
	close(a.run.ended)
}

// cancelReason makes the reason of a cancel from what the client gives. The code is that of a run that was stopped, or ran out of time.
func cancelReason(code, text string) (*event.Stop, error) {
	stop := &event.Stop{Code: event.Code(code), Reason: shorten(strings.TrimSpace(text), MaxReason)}
	if code == "" {
		stop.Code = event.CodeCancelledByClient
	}
	if kind := stop.Code.Kind(); kind != event.ErrorCancelled && kind != event.ErrorTimeout {
		return nil, invalid("%q is not the code of a run that is stopped; leave it out for %s", code, event.CodeCancelledByClient)
	}
	if stop.Reason == "" {
		stop.Reason = "cancelled by the client"
	}
	return stop, nil
}
