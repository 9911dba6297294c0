package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
)

// Control stops a run between two steps and lets it go on. The zero Control is ready for use and serves one run. Its methods are
// safe for concurrent use.
//
// A run stops at a boundary: before a step of its own list, or before one of the Posts that follow the list, while nothing of the
// run is under way. There the clock of the run stands still, and State returns all that another process needs to go on.
type Control struct {
	wanted atomic.Bool
	at     atomic.Pointer[place] // where the run is; nil before its first step

	before  string // set by PauseBefore
	refused func(reason string)

	mu      sync.Mutex
	changed chan struct{} // closed when something below has changed; nil when nobody waits
	stand   *Standing     // nil while the run goes on
	take    func() (*State, error)
	files   *directories // of the run
	late    string       // why the latest boundary was not taken
	over    error        // why no boundary will come
	going   going
	left    bool // Leave ended the run
}

// place is a step of the run's own list.
type place struct {
	id   string
	name string
}

// going is how a run that stands at a boundary is to go on.
type going int

const (
	goingNowhere going = iota
	goingOn
	goingAway // elsewhere, from its state
)

// Standing is how a run stands at a boundary.
type Standing struct {
	Before string    // the ID of the next step
	Since  time.Time // when the run got there
}

// What a Control refuses.
var (
	// ErrNotPaused says that a run does not stand at a boundary.
	ErrNotPaused = errors.New("the run is not paused")
	// ErrEnded says that a run has ended.
	ErrEnded = errors.New("the run has ended")
	// ErrStopping says that a run that is being stopped does not pause.
	ErrStopping = errors.New("the run is stopping and cannot pause: only cleanup is left")
)

// WaitingError says why a run does not stand at a boundary yet.
type WaitingError struct{ For string }

func (e *WaitingError) Error() string { return "the run is not at a boundary yet: " + e.For }

// Pause asks the run to stop at its next boundary. It does not wait.
func (c *Control) Pause() { c.wanted.Store(true) }

// PauseBefore asks a run that has not started to stop before the step of its own list with the ID. If the run gets there and cannot stop,
// it calls refused with the reason, and goes on when that returns: refused may cancel the run.
func (c *Control) PauseBefore(id string, refused func(reason string)) {
	c.before, c.refused = id, refused
}

// Await waits until the run stands at a boundary. When ctx ends before, the error is a *WaitingError; it is ErrEnded or ErrStopping
// where no boundary will come. The request of Pause stays.
func (c *Control) Await(ctx context.Context) (Standing, error) {
	for {
		c.mu.Lock()
		if c.stand != nil {
			defer c.mu.Unlock()
			return *c.stand, nil
		}
		if c.over != nil {
			defer c.mu.Unlock()
			return Standing{}, c.over
		}
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return Standing{}, &WaitingError{c.Waiting()}
		}
	}
}

// Standing returns where the run is paused; false while it goes on.
func (c *Control) Standing() (Standing, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stand == nil {
		return Standing{}, false
	}
	return *c.stand, true
}

// Waiting says what a run that is to pause waits for; "" when nobody asked it to, or when it is paused.
func (c *Control) Waiting() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.at.Load()
	switch {
	case !c.wanted.Load() || c.stand != nil || c.over != nil:
		return ""
	case c.late != "":
		return c.late
	case at == nil:
		return "its first step has not been reached"
	default:
		return fmt.Sprintf("step %s (%q) is running", at.id, at.name)
	}
}

// Resume lets a paused run go on, and takes back what Pause asked for. With step, the run stops again at its next boundary. It reports
// whether the run was paused.
func (c *Control) Resume(step bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted.Store(step)
	return c.move(goingOn)
}

// Leave ends a paused run here, without another step or event: it goes on elsewhere from its state. Asking again changes nothing.
func (c *Control) Leave() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.left && !c.move(goingAway) {
		return ErrNotPaused
	}
	c.left = true
	return nil
}

// State returns the state of a paused run, and copies the files that the run has in its own folders to a new folder; "" copies none. The
// error is ErrNotPaused, or says what of the run cannot be moved.
func (c *Control) State(folder string) (*State, error) {
	c.mu.Lock() // the run stays where it is as long
	defer c.mu.Unlock()
	if c.stand == nil {
		return nil, ErrNotPaused
	}
	s, err := c.take()
	if err == nil && folder != "" {
		err = c.files.copyTo(folder)
	}
	return s, err
}

// move lets the run go, and reports whether it stood. The caller holds the lock.
func (c *Control) move(how going) bool {
	if c.stand == nil {
		return false
	}
	c.stand, c.going = nil, how
	c.wake()
	return true
}

// wake wakes those who wait for a change. The caller holds the lock.
func (c *Control) wake() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// refuse says why the run does not stop at the boundary that it has reached, and with over that it will not stop at another one.
func (c *Control) refuse(late string, over error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late, c.over = late, over
	c.wake()
}

// hold keeps the run at a boundary until it may go on, or must: it is stopped.
func (c *Control) hold(ctx context.Context, r *run, before string, take func() (*State, error)) going {
	kill := r.opts.Kill
	c.mu.Lock()
	c.stand, c.files, c.take, c.late, c.going = &Standing{Before: before, Since: time.Now()}, &r.dirs, take, "", goingNowhere
	c.wake()
	for c.going == goingNowhere && ctx.Err() == nil && !isClosed(kill) {
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		case <-kill:
		}
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	how := c.going
	if how == goingNowhere {
		how = goingOn
	}
	c.stand, c.files, c.take, c.going = nil, nil, nil, goingNowhere
	c.wake()
	return how
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// finish says that the run has ended.
func (c *Control) finish() {
	if c != nil {
		c.refuse("", ErrEnded)
	}
}

// boundary is the point before a step of the run's own list, or before a Post that follows it. It reports whether the list goes on here.
func (l *listRun) boundary(id, name string) bool {
	r := l.run
	c := r.opts.Control
	if c == nil {
		return true
	}
	defer c.at.Store(&place{id, name})
	named := c.before == id
	if !named && !c.wanted.Load() {
		return true
	}
	switch b := l.underWay(); {
	case l.cleanup != nil || l.ctx.Err() != nil:
		c.refuse("", ErrStopping)
		return true
	case b != nil:
		late := fmt.Sprintf("the step %q is running in the background", b.step.Name)
		c.refuse(late, nil)
		if named {
			c.refused(late)
		}
		return true
	}
	r.clock.stop()
	r.out.emit("", event.Paused{Before: id})
	how := c.hold(l.ctx, r, id, func() (*State, error) { return r.state(l, id) })
	if how == goingAway {
		r.moved = true
		r.out.end()
		return false
	}
	r.out.emit("", event.Resumed{Before: id})
	r.clock.start()
	return true
}

// underWay is a background step that has not ended; nil when there is none.
func (l *listRun) underWay() *background {
	for _, b := range l.background {
		if !b.settled && !isClosed(b.done) {
			return b
		}
	}
	return nil
}

// clock is the time that a run has left. It stands still while the run is paused.
type clock struct {
	mu    sync.Mutex
	limit time.Duration // what the run has in all; 0 means no limit
	left  time.Duration // when the clock was last started
	since time.Time     // when that was
	timer *time.Timer
}

// begin starts the clock. What it calls when the time is up returns at once.
func (k *clock) begin(limit, left time.Duration, up func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.limit, k.left, k.since = limit, left, time.Now()
	k.timer = time.AfterFunc(left, up)
}

func (k *clock) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.timer != nil && k.timer.Stop() {
		k.left -= min(time.Since(k.since), k.left)
	}
}

func (k *clock) start() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.timer != nil {
		k.since = time.Now()
		k.timer.Reset(k.left)
	}
}

// remaining returns what the run has in all, and what is left of that while the clock stands still.
func (k *clock) remaining() (limit, left time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.timer == nil {
		return 0, 0
	}
	return k.limit, max(k.left, 1)
}

// limited returns a context that ends when the time of the run is up.
func (r *run) limited(ctx context.Context) (context.Context, func()) {
	limit, left := r.opts.Timeout, r.opts.Timeout
	if from := r.from; from != nil && from.Left > 0 && (limit == 0 || from.Left < limit) {
		limit, left = from.Limit, from.Left
	}
	if limit == 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r.clock.begin(limit, left, func() { cancel(event.TimedOut(event.TimeoutRun, plan.Duration(limit))) })
	return ctx, func() { r.clock.stop(); cancel(nil) }
}
