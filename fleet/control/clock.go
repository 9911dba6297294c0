package control

import (
	"sync"
	"time"
)

// system is this machine's clock. A time of it has a monotonic part, so that setting the clock changes no duration.
type system struct{}

func (system) Now() time.Time                         { return time.Now() }
func (system) After(d time.Duration) <-chan time.Time { return time.After(d) }

// steady is a clock that is never put back: after that it goes on from where it was.
type steady struct {
	Clock
	mu     sync.Mutex
	last   time.Time
	behind time.Duration // by how much the clock is
}

func newSteady(c Clock) *steady {
	if c == nil {
		c = system{}
	}
	return &steady{Clock: c}
}

func (s *steady) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Clock.Now().Add(s.behind)
	if now.Before(s.last) {
		s.behind += s.last.Sub(now)
		now = s.last
	}
	s.last = now
	return now
}
