// Package places makes a provider of a source that only knows how to take and make places: keys, repeated and concurrent calls, leases and the
// stream of capacity are the same for every provider, and are here.
package places

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/internal/background"
	"github.com/rungci/rung/steps/event"
)

// Source is what places come from. Free, Take, Retake and Give are quick, and never called at once.
type Source[P comparable] interface {
	// Free says how many more places for jobs with these needs there are.
	Free(needs provider.Needs) provider.Capacity
	// Take takes one. The error is a *provider.NoCapacity where there is none.
	Take(needs provider.Needs) (P, error)
	// Retake takes the place that a machine of another process has, by the handle of that.
	Retake(handle json.RawMessage) (P, error)
	// Give gives a place back that has no machine any more. fault is why its machine was of no use; empty if nothing was wrong.
	Give(place P, fault string)
	// Make makes the machine of a place ready, or finds that of a place that was retaken; the error then wraps executor.ErrGone if there is
	// none. It is called once at a time for a place, and again after a failure. Life is the source's to end when the machine is gone; without
	// one, the machine ends when it is released.
	Make(ctx context.Context, place P, job provider.Job, report executor.Reporter) (*provider.Machine, error)
	// End ends what Make has made, or was about to: nothing may be left. It is tried again after a failure.
	End(ctx context.Context, place P) error
}

// Queue is a Source whose Make waits for a place in the order of asking, if there is none yet.
type Queue[P comparable] interface {
	Source[P]
	// Queue is Take without a place. The error is a *provider.NoCapacity where there will never be one.
	Queue(needs provider.Needs) (P, error)
}

const (
	// endTime bounds one attempt to end a machine.
	endTime = 5 * time.Minute
	// maxOver is how many keys that are over are remembered.
	maxOver = 4096
)

// Provider is a source as a provider.
type Provider[P comparable] struct {
	source Source[P]
	lease  time.Duration
	life   context.Context // ends with Close
	end    context.CancelFunc
	busy   background.Group

	mu      sync.Mutex
	held    map[string]*holding[P]
	over    map[string]bool
	order   []string // of over
	changed chan struct{}
}

// holding is what there is of a key.
type holding[P comparable] struct {
	place   P
	until   time.Time // of its lease
	attempt *attempt  // to make the machine; nil before the first, and after one that failed
	machine *provider.Machine
	tried   bool // there was an attempt

	ending context.CancelFunc // stops the attempt; nil before Release
	ended  chan struct{}      // closed when an attempt to end it is over; nil if none is under way
	fault  string
	err    error // of the last attempt to end it
}

// attempt is one to make a machine.
type attempt struct {
	stop  context.CancelFunc
	done  chan struct{} // closed when machine or err is there
	err   error
	mu    sync.Mutex
	heard map[int]executor.Reporter
	next  int
}

func (a *attempt) report(p event.Preparing) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, to := range a.heard {
		to.Report(p)
	}
}

// join lets a caller hear of the attempt until leave is called.
func (a *attempt) join(to executor.Reporter) (leave func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.next
	a.next++
	a.heard[n] = to
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.heard, n)
	}
}

// New makes a provider of a source. A lease of 0 is provider.DefaultLease.
func New[P comparable](source Source[P], lease time.Duration) *Provider[P] {
	p := &Provider[P]{
		source: source, lease: cmp.Or(lease, provider.DefaultLease), held: map[string]*holding[P]{}, over: map[string]bool{}, changed: make(chan struct{}),
	}
	p.life, p.end = context.WithCancel(context.Background())
	p.busy.Go(p.expire)
	return p
}

// Changed tells that the source has more or fewer places than before, for other reasons than the calls of this provider.
func (p *Provider[P]) Changed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change()
}

// change wakes those who wait. The caller holds the lock.
func (p *Provider[P]) change() {
	close(p.changed)
	p.changed = make(chan struct{})
}

var errClosed = errors.New("the provider is closed")

// Capacity implements provider.Provider.
func (p *Provider[P]) Capacity(ctx context.Context, needs provider.Needs, tell func(provider.Capacity)) error {
	var last *provider.Capacity
	for {
		p.mu.Lock()
		now, changed := p.source.Free(needs), p.changed
		p.mu.Unlock()
		if last == nil || *last != now {
			tell(now)
			last = &now
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.life.Done():
			return errClosed
		}
	}
}

// Reserve implements provider.Provider.
func (p *Provider[P]) Reserve(ctx context.Context, key string, needs provider.Needs) error {
	return p.reserve(ctx, key, needs, p.source.Take)
}

// Queue implements provider.Queuer.
func (p *Provider[P]) Queue(ctx context.Context, key string, needs provider.Needs) error {
	if q, ok := p.source.(Queue[P]); ok {
		return p.reserve(ctx, key, needs, q.Queue)
	}
	return p.Reserve(ctx, key, needs)
}

func (p *Provider[P]) reserve(ctx context.Context, key string, needs provider.Needs, take func(provider.Needs) (P, error)) error {
	if err := cmp.Or(provider.CheckKey(key), context.Cause(ctx)); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch h := p.held[key]; {
	case p.life.Err() != nil:
		return errClosed
	case p.over[key]:
		return provider.ErrReleased
	case h != nil:
		h.until = time.Now().Add(p.lease)
		return nil
	}
	place, err := take(needs)
	if err != nil {
		return err
	}
	p.hold(key, place)
	return nil
}

// hold begins to hold a key. The caller holds the lock.
func (p *Provider[P]) hold(key string, place P) *holding[P] {
	h := &holding[P]{place: place, until: time.Now().Add(p.lease)}
	p.held[key] = h
	p.change()
	return h
}

// Keep implements provider.Provider.
func (p *Provider[P]) Keep(ctx context.Context, keys []string) (lost []string, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range keys {
		if h := p.held[key]; h != nil && h.ending == nil {
			h.until = time.Now().Add(p.lease)
		} else {
			lost = append(lost, key)
		}
	}
	return lost, nil
}

// Acquire implements provider.Provider.
func (p *Provider[P]) Acquire(ctx context.Context, key string, job provider.Job, report executor.Reporter) (*provider.Machine, error) {
	p.mu.Lock()
	h := p.held[key]
	if h == nil || h.ending != nil || p.life.Err() != nil {
		p.mu.Unlock()
		return nil, provider.ErrNotReserved
	}
	a := p.begin(key, h, job)
	p.mu.Unlock()
	return p.await(ctx, h, a, report)
}

// Recover implements provider.Provider.
func (p *Provider[P]) Recover(ctx context.Context, key string, handle json.RawMessage) (*provider.Machine, error) {
	if err := provider.CheckKey(key); err != nil {
		return nil, err
	}
	p.mu.Lock()
	h := p.held[key]
	if p.over[key] || h != nil && h.ending != nil || p.life.Err() != nil {
		p.mu.Unlock()
		return nil, &executor.Gone{Reason: "it was given back", Err: provider.ErrReleased}
	}
	known := h != nil
	if !known {
		place, err := p.source.Retake(handle)
		if err != nil {
			p.mu.Unlock()
			return nil, err
		}
		h = p.hold(key, place)
	}
	a := p.begin(key, h, provider.Job{})
	p.mu.Unlock()
	machine, err := p.await(ctx, h, a, nil)
	if err != nil && !known && ctx.Err() == nil && p.life.Err() == nil {
		err = errors.Join(err, p.Release(ctx, key, "")) // there is none: nobody has to give it back
	}
	return machine, err
}

// begin begins to make the machine of a key, or joins what is under way or done. The caller holds the lock.
func (p *Provider[P]) begin(key string, h *holding[P], job provider.Job) *attempt {
	if h.attempt != nil {
		return h.attempt
	}
	a := &attempt{done: make(chan struct{}), heard: map[int]executor.Reporter{}}
	ctx, stop := context.WithCancel(p.life)
	a.stop = stop
	h.attempt, h.tried = a, true
	p.busy.Go(func() {
		defer stop()
		machine, err := guard(func() (*provider.Machine, error) { return p.source.Make(ctx, h.place, job, a.report) })
		if err == nil {
			err = check(machine)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		defer close(a.done)
		if err != nil {
			a.err = err
			h.attempt = nil // another may have better luck
			return
		}
		if machine.Life == nil {
			machine.Life = executor.NewLife()
		}
		h.machine = machine
	})
	return a
}

// check refuses machines that cannot be.
func check(m *provider.Machine) error {
	if m == nil {
		return errors.New("the provider returned neither a machine nor an error")
	}
	if err := m.Access.Validate(); err != nil {
		return fmt.Errorf("the machine %q cannot be reached: %w", m.Name, err)
	}
	return nil
}

// guard turns a panic of a source into an error of its job.
func guard[T any](do func() (T, error)) (out T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the provider panicked: %v", p)
		}
	}()
	return do()
}

// await waits for an attempt.
func (p *Provider[P]) await(ctx context.Context, h *holding[P], a *attempt, report executor.Reporter) (*provider.Machine, error) {
	leave := a.join(report)
	defer leave()
	select {
	case <-a.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case h.ending != nil:
		return nil, provider.ErrNotReserved
	case a.err != nil:
		return nil, a.err
	}
	return h.machine, nil
}

// Release implements provider.Provider.
func (p *Provider[P]) Release(ctx context.Context, key string, fault string) error {
	p.mu.Lock()
	p.finished(key)
	h := p.held[key]
	if h == nil {
		p.mu.Unlock()
		return nil
	}
	ended := p.release(key, h, fault)
	p.mu.Unlock()
	select {
	case <-ended:
	case <-ctx.Done():
		return context.Cause(ctx) // it goes on
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return h.err
}

// finished remembers a key that is over. The caller holds the lock.
func (p *Provider[P]) finished(key string) {
	if p.over[key] {
		return
	}
	p.over[key] = true
	if p.order = append(p.order, key); len(p.order) > maxOver {
		delete(p.over, p.order[0])
		p.order = slices.Delete(p.order, 0, 1)
	}
}

// release begins to end what there is of a key, or joins who does. The caller holds the lock.
func (p *Provider[P]) release(key string, h *holding[P], fault string) (ended chan struct{}) {
	h.fault = cmp.Or(h.fault, fault)
	if h.ended != nil {
		return h.ended
	}
	if a := h.attempt; a != nil {
		a.stop()
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(p.life), endTime)
	h.ending = stop
	if h.machine != nil {
		h.machine.Finish(&executor.Gone{Reason: "the machine was given back", Err: executor.ErrClosed})
	}
	h.ended = make(chan struct{})
	ended, attempt := h.ended, h.attempt
	do := func() {
		defer stop()
		if attempt != nil {
			<-attempt.done
		}
		var err error
		if h.tried {
			_, err = guard(func() (struct{}, error) { return struct{}{}, p.source.End(ctx, h.place) })
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		defer close(ended)
		h.err, h.ended = err, nil
		if err != nil {
			h.until = time.Now().Add(p.lease) // when it is tried again
			return
		}
		delete(p.held, key)
		p.source.Give(h.place, h.fault)
		p.change()
	}
	if !p.busy.Go(do) {
		go do() // Close is over, and only the caller waits
	}
	return ended
}

// expire releases keys that nobody keeps, until the provider is closed.
func (p *Provider[P]) expire() {
	tick := time.NewTicker(max(p.lease/8, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-p.life.Done():
			return
		case <-tick.C:
		}
		p.mu.Lock()
		for key, h := range p.held {
			if p.life.Err() == nil && time.Now().After(h.until) && h.ended == nil {
				p.finished(key)
				p.release(key, h, "")
			}
		}
		p.mu.Unlock()
	}
}

// Close implements provider.Provider.
func (p *Provider[P]) Close() error {
	p.mu.Lock()
	closed := p.life.Err() != nil
	p.end()
	p.mu.Unlock()
	if !closed {
		p.busy.End()
	}
	return nil
}
