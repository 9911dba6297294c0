package session

import (
	"sync"
	"time"

	"github.com/rungci/rung/steps/event"
)

// Preparation follows how the place of a job is made: people are told, and what it took is for the trace.
type Preparation struct {
	Tell func(event.Preparing)
	Hide func(string) string
	Now  func() time.Time

	mu    sync.Mutex
	parts []*part
}

// part is a phase on its way.
type part struct {
	event.Prepared
	done bool
}

// Report takes one report of a level; it may be called by several goroutines.
func (p *Preparation) Report(e event.Preparing) {
	e.Subject, e.Message = p.Hide(e.Subject), p.Hide(e.Message)
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Now()
	found := p.find(e, now)
	if e.Current > 0 {
		found.Amount, found.Unit = e.Current, e.Unit
	}
	if e.Done && !found.done {
		found.done, found.Duration = true, now.Sub(found.Started)
		e.Duration = found.Duration
	}
	p.Tell(e)
}

// find returns the phase that a report is about. One that begins ends those before it that work on something else and did not say so.
func (p *Preparation) find(e event.Preparing, now time.Time) *part {
	for _, known := range p.parts {
		if known.Phase == e.Phase && known.Subject == e.Subject {
			return known
		}
	}
	for _, before := range p.parts {
		if !before.done && before.Phase != e.Phase {
			before.done, before.Duration = true, now.Sub(before.Started)
		}
	}
	added := &part{Prepared: event.Prepared{Phase: e.Phase, Subject: e.Subject, Started: now.UTC()}}
	p.parts = append(p.parts, added)
	return added
}

// Ended ends all phases, and returns what they took.
func (p *Preparation) Ended() (all []event.Prepared) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Now()
	for _, one := range p.parts {
		if !one.done {
			one.done, one.Duration = true, now.Sub(one.Started)
		}
		all = append(all, one.Prepared)
	}
	return all
}
