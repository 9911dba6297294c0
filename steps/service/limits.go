package service

import (
	"math"
	"time"
)

// Limits bound the resources that clients can use on a server. Zero is the default; a negative value means no limit.
type Limits struct {
	// Runs is the maximum number of active runs.
	Runs int
	// Kept is the maximum number of finished runs that are kept for their clients. The oldest are removed first.
	Kept int
	// Followers is the maximum number of open streams of logs and events.
	Followers int
	// LogBytes is the maximum size of the stored log of a run, in bytes. The run continues beyond it.
	LogBytes int64
	// RequestBytes is the maximum size of a request, in bytes.
	RequestBytes int
	// Duration is the maximum duration of a run.
	Duration time.Duration
	// Keep is how long a finished run is kept if nobody closes it.
	Keep time.Duration
	// AbandonAfter is how long a run continues without its client: no call names it, and no stream of it is open.
	AbandonAfter time.Duration
	// Pause is how long a run may be paused at a time. Then it is stopped.
	Pause time.Duration
}

// The defaults of Limits.
const (
	DefaultRuns         = 100
	DefaultKept         = 1000
	DefaultFollowers    = 4096
	DefaultLogBytes     = 1 << 30
	DefaultRequestBytes = 32 << 20
	DefaultDuration     = 24 * time.Hour
	DefaultKeep         = time.Hour
	DefaultAbandonAfter = 30 * time.Minute
	DefaultPause        = 24 * time.Hour
)

const (
	// MaxID bounds the id of a run, in bytes.
	MaxID = 256
	// MaxReason bounds the reason that a client passes to Cancel, in bytes. The rest is cut off.
	MaxReason = 1024
	// MaxGrace bounds how long a client may let processes take to end.
	MaxGrace = 10 * time.Minute

	// killWait is how long a server that ends waits for processes that it has killed.
	killWait = 5 * time.Second
	// sweepLeast and sweepMost bound the time between two looks for what has expired.
	sweepLeast, sweepMost = 50 * time.Millisecond, 30 * time.Second
)

func (l Limits) withDefaults() Limits {
	fill(&l.Runs, DefaultRuns, math.MaxInt)
	fill(&l.Kept, DefaultKept, math.MaxInt)
	fill(&l.Followers, DefaultFollowers, math.MaxInt)
	fill(&l.LogBytes, DefaultLogBytes, math.MaxInt64)
	fill(&l.RequestBytes, DefaultRequestBytes, math.MaxInt32)
	fill(&l.Duration, DefaultDuration, math.MaxInt64)
	fill(&l.Keep, DefaultKeep, math.MaxInt64)
	fill(&l.AbandonAfter, DefaultAbandonAfter, math.MaxInt64)
	fill(&l.Pause, DefaultPause, math.MaxInt64)
	return l
}

// fill puts the default, or the most there can be, in the place of a number that stands for it.
func fill[T int | int64 | time.Duration](limit *T, value, most T) {
	switch {
	case *limit == 0:
		*limit = value
	case *limit < 0:
		*limit = most
	}
}

// sweepNowAndThen looks for what has expired until the service is closed.
func (s *Service) sweepNowAndThen() {
	every := min(max(min(s.limits.Keep, s.limits.AbandonAfter, s.limits.Pause)/4, sweepLeast), sweepMost)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-s.stopped:
			return
		case now := <-tick.C:
			s.sweep(now)
		}
	}
}

// sweep stops the runs whose clients have left them, and removes the finished ones that nobody has closed.
func (s *Service) sweep(now time.Time) {
	finished := 0
	all := s.all()
	for _, r := range all {
		if r.finished() {
			finished++
		}
	}
	for _, r := range all {
		switch quiet := r.quiet(now); {
		case r.finished() && (quiet > s.limits.Keep || finished > s.limits.Kept):
			finished--
			s.mu.Lock()
			if s.runs[r.id] == r {
				delete(s.runs, r.id)
			}
			s.mu.Unlock()
			r.remove()
		case !r.finished() && !r.adopted && r.streams.Load() == 0 && quiet > s.limits.AbandonAfter:
			r.stop(abandoned(quiet), false)
		case r.heldFor(now) > s.limits.Pause:
			r.stop(heldTooLong(s.limits.Pause), false)
		}
	}
}
