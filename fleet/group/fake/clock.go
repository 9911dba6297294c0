package fake

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Clock is the time of a cloud.
type Clock interface {
	Now() time.Time
	// After sends the time once d has passed.
	After(d time.Duration) <-chan time.Time
}

// system is this machine's clock.
type system struct{}

func (system) Now() time.Time                         { return time.Now() }
func (system) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Manual is a clock that a test moves. It is safe for concurrent use.
type Manual struct {
	mu      sync.Mutex
	now     time.Time
	waiting []waiter
}

type waiter struct {
	at   time.Time
	tell chan time.Time
}

// NewManual is a clock that stands at a time.
func NewManual(at time.Time) *Manual { return &Manual{now: at} }

// Now implements Clock.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// After implements Clock.
func (m *Manual) After(d time.Duration) <-chan time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	tell := make(chan time.Time, 1)
	if d <= 0 {
		tell <- m.now
		return tell
	}
	m.waiting = append(m.waiting, waiter{m.now.Add(d), tell})
	return tell
}

// Advance moves the clock on, and tells those whose time has come, the earliest first.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
	slices.SortStableFunc(m.waiting, func(a, b waiter) int { return a.at.Compare(b.at) })
	due := 0
	for due < len(m.waiting) && !m.waiting[due].at.After(m.now) {
		m.waiting[due].tell <- m.now
		due++
	}
	m.waiting = slices.Clone(m.waiting[due:])
}

// Waiting is how many wait for the clock, so that a test can wait for them.
func (m *Manual) Waiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.waiting)
}

// sleep waits by a clock.
func sleep(ctx context.Context, c Clock, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-c.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
