package manager

import (
	"context"
	"sync"
)

// slots are what jobs run in: as many as `concurrent` says, and of each entry as many as its `limit`. Its methods are safe for concurrent use.
type slots struct {
	mu      sync.Mutex
	most    int
	used    map[int]int // jobs in each slot, by its number from 0: more than one only if they were adopted
	jobs    int
	entries map[*entry]int
	waiting int // entries that want a slot
	changed chan struct{}
}

func newSlots(most int) *slots {
	return &slots{most: most, used: map[int]int{}, entries: map[*entry]int{}, changed: make(chan struct{})}
}

// take waits for a slot for an entry, and returns its number.
func (s *slots) take(ctx context.Context, e *entry) (int, error) {
	s.mu.Lock()
	s.waiting++
	defer func() {
		s.waiting--
		s.mu.Unlock()
	}()
	for {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		if limit := e.settings().Limit; s.jobs < s.most && (limit <= 0 || s.entries[e] < limit) {
			n := 0
			for s.used[n] > 0 {
				n++
			}
			s.add(e, n)
			return n, nil
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
}

// occupy takes a slot for a job that runs already, whatever the limits say. Another one may be there: a job whose end GitLab has not taken gives its
// slot back, and is adopted all the same.
func (s *slots) occupy(e *entry, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(e, n)
}

// add puts a job into a slot. The caller holds the lock.
func (s *slots) add(e *entry, n int) {
	s.used[n]++
	s.entries[e]++
	s.jobs++
}

// leave gives a slot back.
func (s *slots) leave(e *entry, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs--
	if s.used[n]--; s.used[n] == 0 {
		delete(s.used, n)
	}
	if s.entries[e]--; s.entries[e] == 0 {
		delete(s.entries, e)
	}
	s.change()
}

// resize changes how many slots there are. Jobs that run go on.
func (s *slots) resize(most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = most
	s.change()
}

// change wakes those who wait. The caller holds the lock.
func (s *slots) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// wanted reports whether an entry waits for a slot.
func (s *slots) wanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting > 0
}

// busy is how many jobs are in slots, with those that are asked for.
func (s *slots) busy() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs
}
