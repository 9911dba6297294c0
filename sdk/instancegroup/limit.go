package instancegroup

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rungci/rung/fleet/group"
)

// Limiter makes calls of a cloud's API: not more than so many in a second, and again when one fails with ErrTransient. The zero value has no limit. It is safe for concurrent use.
type Limiter struct {
	// PerSecond is how many calls begin in a second at most; 0 is no limit.
	PerSecond float64
	// Tries is how often a call is tried; 0 is 5.
	Tries int
	// Pause is that before the second try; each further one is twice as long, at most MaxPause. 0 is one second, and 30 seconds. Where the error says when (Error.After), that counts.
	Pause, MaxPause time.Duration

	mu    sync.Mutex
	next  time.Time // when the next call may begin
	tries int64
	waits int64
}

const (
	defaultTries    = 5
	defaultPause    = time.Second
	defaultMaxPause = 30 * time.Second
)

// Do makes a call. It returns the error of the last try, or that of ctx with it.
func (l *Limiter) Do(ctx context.Context, call func(context.Context) error) error {
	tries := cmp.Or(l.Tries, defaultTries)
	pause := cmp.Or(l.Pause, defaultPause)
	for try := 1; ; try++ {
		if err := wait(ctx, l.turn()); err != nil {
			return err
		}
		err := call(ctx)
		after, later := group.RetryAfter(err)
		if err == nil || !later || try == tries {
			return err
		}
		if after == 0 {
			after = pause/2 + rand.N(pause/2+1) //nolint:gosec // so that not all try at once
			pause = min(2*pause, cmp.Or(l.MaxPause, defaultMaxPause))
		}
		if stopped := wait(ctx, after); stopped != nil {
			return fmt.Errorf("%w (%w)", err, stopped)
		}
	}
}

// turn takes the next turn, and says how long it is until then.
func (l *Limiter) turn() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tries++
	if l.PerSecond <= 0 {
		return 0
	}
	now := time.Now()
	if l.next.Before(now) {
		l.next = now
	}
	until := l.next.Sub(now)
	if until > 0 {
		l.waits++
	}
	l.next = l.next.Add(time.Duration(float64(time.Second) / l.PerSecond))
	return until
}

// Metrics are how many calls there were, and how many of them had to wait: for the Metrics of a group.
func (l *Limiter) Metrics() []Metric {
	l.mu.Lock()
	defer l.mu.Unlock()
	return []Metric{
		{Name: "api_calls_total", Help: "Calls of the cloud's API.", Counter: true, Value: float64(l.tries)},
		{Name: "api_calls_delayed_total", Help: "Calls of the cloud's API that waited for their turn.", Counter: true, Value: float64(l.waits)},
	}
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
