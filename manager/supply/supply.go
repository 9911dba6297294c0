// Package supply is the provider of one entry of the configuration, as a runner uses it: whether there is room for another job, what is
// reserved, and the machines of jobs until they are given back.
package supply

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/internal/background"
	"github.com/rungci/rung/internal/sharedstate"
	"github.com/rungci/rung/manager/fleet"
	"github.com/rungci/rung/steps/event"
)

const (
	// pause is how long nobody asks a provider again that has failed, or has no room and does not say until when.
	pause = time.Second
	// longPause is the longest time until it is asked again.
	longPause = time.Minute
	// tries is how many machines a job gets when one after the other is of no use.
	tries = 3
	// releaseTime bounds one attempt to give something back.
	releaseTime = 5 * time.Minute
	// closeTime is how long Close waits for what is being given back; its lease ends it otherwise.
	closeTime = 5 * time.Second
)

// Options are those of a Supply.
type Options struct {
	// Open opens the provider, see provider.Setup for removed. It is called again if that fails, and after Change.
	Open func(ctx context.Context, removed bool) (provider.Provider, error)
	Terms
	// Closed is how the fleet is while it is not open; nil: the provider is none.
	Closed func() *fleet.Status
	// Lease is that of the provider's Setup; 0 is provider.DefaultLease.
	Lease time.Duration
	Log   *slog.Logger
}

// Terms are what of a supply can change.
type Terms struct {
	// Needs are those of every job.
	Needs provider.Needs
	// Timeout is how long a job waits for its machine; 0: the job's own time.
	Timeout time.Duration
	// TimeoutKey is the key of the configuration that says so, for errors.
	TimeoutKey string
}

// Supply is a provider, and what is reserved of it. Its methods are safe for concurrent use; those of a nil Supply do nothing: there is always
// room on this machine.
type Supply struct {
	o    Options
	life context.Context // ends with Close
	end  context.CancelFunc
	last context.Context // ends closeTime after that, for what is being given back
	cut  context.CancelFunc
	busy background.Group
	anew chan struct{} // the provider was changed: it is opened at once, also if that has failed lately

	opening  sync.Mutex
	provider provider.Provider // nil until it is open; under opening
	removed  bool              // the entry is gone; under opening

	mu       sync.Mutex
	capacity provider.Capacity
	trouble  error // why it cannot be asked; nil if it can
	rest     time.Time
	terms    Terms
	held     map[string]*provider.Machine // by key; nil before there is one
	waiting  int                          // jobs that GitLab has handed out, and that have no place: the next one is theirs
	changed  chan struct{}
}

// Status is how a supply is.
type Status struct {
	// Free is how many more jobs there is room for; Reason says why there is none.
	Free   int    `json:"free"`
	Reason string `json:"reason,omitempty"`
	// Reserved is how many places are kept that have no machine yet, and Used how many have one.
	Reserved int `json:"reserved"`
	Used     int `json:"used"`
	// Fleet is how the fleet is that the provider is; nil where it is none.
	Fleet *fleet.Status `json:"fleet,omitempty"`
}

// New makes a supply, which opens its provider at once, and again and again while that fails.
func New(o Options) *Supply {
	if o.Lease <= 0 {
		o.Lease = provider.DefaultLease
	}
	s := &Supply{o: o, held: map[string]*provider.Machine{}, terms: o.Terms, changed: make(chan struct{}), anew: make(chan struct{}, 1), capacity: provider.Capacity{Reason: "the provider is being asked"}}
	s.life, s.end = context.WithCancel(context.Background())
	s.last, s.cut = context.WithCancel(context.Background())
	s.busy.Go(s.watch)
	s.busy.Go(s.keep)
	return s
}

// open returns the provider.
func (s *Supply) open(ctx context.Context) (provider.Provider, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	switch {
	case s.provider != nil:
		return s.provider, nil
	case s.life.Err() != nil:
		return nil, errors.New("the provider is closed")
	}
	p, err := s.o.Open(ctx, s.removed)
	if err != nil {
		return nil, fmt.Errorf("opening the provider of machines: %w", err)
	}
	s.provider = p
	s.takeOver(p)
	return p, nil
}

func (s *Supply) now() Terms {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.terms
}

// update changes what is known, and wakes those who wait.
func (s *Supply) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// watch follows the capacity of the provider, whatever becomes of that.
func (s *Supply) watch() {
	for wait := pause; s.life.Err() == nil; wait = min(2*wait, longPause) {
		select {
		case <-s.anew: // which this is
		default:
		}
		p, err := s.open(s.life)
		if err == nil {
			err = p.Capacity(s.life, s.now().Needs, func(c provider.Capacity) {
				wait = pause
				s.update(func() { s.capacity, s.trouble = c, nil })
			})
		}
		if s.life.Err() != nil {
			return
		}
		if p != nil && !s.is(p) { // it was changed
			wait = pause / 2
			continue
		}
		s.o.Log.Error("the provider does not report its capacity; no jobs are taken", "error", err, "retry_in", wait)
		s.update(func() { s.trouble = err })
		rest, cancel := context.WithTimeout(s.life, wait)
		select {
		case <-rest.Done():
		case <-s.anew:
			wait = pause / 2
		}
		cancel()
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// keep tells the provider what is still wanted.
func (s *Supply) keep() {
	for s.life.Err() == nil {
		sleep(s.life, s.o.Lease/4)
		s.mu.Lock()
		keys := slices.Sorted(maps.Keys(s.held))
		s.mu.Unlock()
		if len(keys) == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(s.life, s.o.Lease/4)
		p, err := s.open(ctx)
		if err == nil {
			_, err = p.Keep(ctx, keys) // what is lost is seen when it is used
		}
		cancel()
		if err != nil && s.life.Err() == nil {
			s.o.Log.Warn("cannot tell the provider which machines are in use", "error", err)
		}
	}
}

// Status is how the supply is now; nil for one that is nil.
func (s *Supply) Status() *Status {
	if s == nil {
		return nil
	}
	out := &Status{}
	now := s.Provider()
	if f, ok := now.(*fleet.Provider); ok {
		out.Fleet = f.Status()
	} else if now == nil && s.o.Closed != nil { // its machines go on, and may cost money
		out.Fleet = s.o.Closed()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out.Free, out.Reason = s.capacity.Free, s.capacity.Reason
	for _, machine := range s.held {
		if machine == nil {
			out.Reserved++
		} else {
			out.Used++
		}
	}
	if s.trouble != nil {
		out.Free, out.Reason = 0, s.trouble.Error()
	}
	if out.Fleet != nil && out.Fleet.Closed {
		out.Fleet.Trouble = strings.Join(slices.DeleteFunc([]string{out.Reason, out.Fleet.Trouble}, func(text string) bool { return text == "" }), "; ")
	}
	return out
}

// Wait waits until there is room for another job.
func (s *Supply) Wait(ctx context.Context) error {
	for s != nil {
		s.mu.Lock()
		room, rest, changed := s.trouble == nil && s.capacity.Free > 0 && s.waiting == 0, time.Until(s.rest), s.changed
		s.mu.Unlock()
		if room && rest <= 0 {
			break
		}
		if !room {
			rest = longPause
		}
		timer := time.NewTimer(rest)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
	return context.Cause(ctx)
}

// Reserve keeps a place for a job that is about to be asked for. ok is false where there is none now: Wait waits until it is worth another try.
func (s *Supply) Reserve(ctx context.Context) (key string, ok bool) {
	if s == nil {
		return "", true
	}
	p, err := s.open(ctx)
	if err == nil {
		key, err = s.reserve(ctx, p.Reserve, s.now().Needs)
	}
	var none *provider.NoCapacity
	switch {
	case err == nil:
		return key, true
	case errors.As(err, &none):
		s.update(func() { s.rest = time.Now().Add(restOf(none)) })
	case ctx.Err() == nil:
		s.o.Log.Error("cannot reserve a machine", "error", err)
		s.update(func() { s.rest = time.Now().Add(pause) })
	}
	return "", false
}

// reserve makes a key, and reserves with it, by a call of the provider.
func (s *Supply) reserve(ctx context.Context, call func(context.Context, string, provider.Needs) error, needs provider.Needs) (string, error) {
	key := rand.Text()
	s.hold(key, nil) // whatever comes of the call: it is given back then
	if err := call(ctx, key, needs); err != nil {
		var none *provider.NoCapacity
		if errors.As(err, &none) {
			s.forget(key)
		} else {
			s.Release(key, "")
		}
		return "", err
	}
	return key, nil
}

// hold notes that a key is wanted, with its machine; nil is none yet.
func (s *Supply) hold(key string, m *provider.Machine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[key] = m
}

func (s *Supply) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, key)
}

func restOf(none *provider.NoCapacity) time.Duration { return min(max(none.After, pause), longPause) }

// Release gives back what there is of a key, in the background. fault is why its machine is of no use; empty if nothing is wrong.
func (s *Supply) Release(key, fault string) {
	if s == nil || key == "" {
		return
	}
	begun := s.busy.Go(func() {
		defer s.forget(key)
		for wait := pause; ; wait = min(2*wait, longPause) {
			ctx, cancel := context.WithTimeout(s.last, releaseTime)
			p, err := s.open(ctx)
			if err == nil {
				err = p.Release(ctx, key, fault)
			}
			cancel()
			if err == nil || s.life.Err() != nil {
				return // or its lease ends
			}
			s.o.Log.Warn("cannot return a machine; it is released when its lease expires", "error", err, "retry_in", wait)
			sleep(s.life, wait)
		}
	})
	if !begun {
		s.forget(key) // its lease ends it
	}
}

// Close gives up the provider, after what is being given back, or soon. removed says that the entry of the configuration is gone: nobody will come for
// what the provider has.
func (s *Supply) Close(removed bool) error {
	if s == nil {
		return nil
	}
	if removed { // what an earlier process has left is to be found
		s.opening.Lock()
		s.removed = true
		s.opening.Unlock()
		ctx, cancel := context.WithTimeout(s.life, releaseTime)
		if _, err := s.open(ctx); err != nil {
			s.o.Log.Warn("cannot open the provider of a removed runner, which may have machines", "error", err)
		}
		cancel()
	}
	s.end()
	defer s.cut()
	defer time.AfterFunc(closeTime, s.cut).Stop()
	s.busy.End()
	s.opening.Lock()
	defer s.opening.Unlock()
	if s.provider == nil {
		return nil
	}
	if p, ok := s.provider.(provider.Ender); ok {
		return p.End(removed)
	}
	return s.provider.Close()
}

// Fleet is how a fleet is.
type Fleet = fleet.Status

// Closed is how the fleet of a folder is while it is not open, see fleet.Closed.
var Closed = fleet.Closed

// Left reports whether a folder is that of a fleet which may have machines, by what is in it, or in the state that hosts share; nil: there is none.
func Left(folder string, shared *sharedstate.State) bool { return fleet.Left(folder, shared) }

// Provider is the provider, if it is open; nil otherwise.
func (s *Supply) Provider() provider.Provider {
	if s == nil || !s.opening.TryLock() {
		return nil
	}
	defer s.opening.Unlock()
	return s.provider
}

// Reservation is what a job has of a supply. It can be written down.
type Reservation struct {
	Key string `json:"key"`
	// Machine is the handle of the job's machine; nil before there is one.
	Machine json.RawMessage `json:"machine,omitempty"`
}

// Acquire gets a machine for a job, and uses it: where use fails, the machine is of no use, and the job gets another one. The reservation is that
// of the machine then; it may have another key than before. A job that needs more than every job gives its place back, and waits for one that is enough:
// in the order of the provider's jobs if that is a Queuer. Others are asked for meanwhile.
func (s *Supply) Acquire(ctx context.Context, r *Reservation, job provider.Job, report executor.Reporter, use func(*provider.Machine) error) error {
	terms := s.now()
	if terms.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, terms.Timeout, fmt.Errorf("no machine was ready within %s (%s)", terms.Timeout, terms.TimeoutKey))
		defer cancel()
	}
	more := !reflect.DeepEqual(job.Needs, terms.Needs)
	if more && r.Machine == nil {
		s.Release(r.Key, "")
		*r = Reservation{}
	}
	began, said := time.Now(), "" // the last reason
	report.Report(event.Preparing{Phase: event.PhaseProvisioning})
	for try := 1; ; {
		m, err := s.machine(ctx, r, job, report)
		fault := ""
		if err == nil {
			if err = use(m); err == nil {
				r.Machine = m.Handle
				report.Report(event.Preparing{Phase: event.PhaseProvisioning, Subject: m.Name, Done: true, Duration: time.Since(began)})
				return nil
			}
			if ctx.Err() == nil {
				fault = err.Error()
			}
			err = fmt.Errorf("the machine %s: %w", m.Name, err)
		}
		var none *provider.NoCapacity
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &none) && none.Never:
			return event.NewError(event.CodeEnvironmentInvalid, "no machine of this runner is enough for the job: %s", none.Reason)
		case errors.As(err, &none):
			if none.Reason != said {
				said = none.Reason
				report.Say(event.PhaseProvisioning, "", fmt.Sprintf("Waiting for a machine: %s", said))
			}
			if more { // of which nobody tells
				sleep(ctx, restOf(none))
			} else {
				s.awaitRoom(ctx, none)
			}
			continue
		case errors.Is(err, errChanged), errors.Is(err, provider.ErrNotReserved) && try < tries:
			s.forget(r.Key)
			*r = Reservation{}
			if !errors.Is(err, errChanged) {
				try++
			}
			continue
		}
		s.o.Log.Warn("cannot get a machine for a job", "job", job.ID, "try", try, "error", err)
		if fault != "" {
			s.Release(r.Key, fault)
			*r = Reservation{}
		}
		if try == tries {
			return err
		}
		try++
		if fault != "" {
			report.Say(event.PhaseProvisioning, "", err.Error()+". The job gets another machine.")
		}
		sleep(ctx, pause)
	}
}

// errChanged says that a job has lost its place because the provider was changed. It asks the new one, however often that happens.
var errChanged = errors.New("the provider was changed")

// awaitRoom waits, for a job that has no place, until it is worth another try. No other job is asked for meanwhile.
func (s *Supply) awaitRoom(ctx context.Context, none *provider.NoCapacity) {
	s.update(func() { s.waiting++ })
	defer s.update(func() { s.waiting-- })
	least, most := time.After(pause), time.After(restOf(none))
	for waited := false; ; {
		s.mu.Lock()
		room, changed := s.capacity.Free > 0, s.changed
		s.mu.Unlock()
		if waited && room {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-most:
			return
		case <-least:
			waited = true
		case <-changed:
		}
	}
}

// machine gets the machine of a reservation, or of a new one.
func (s *Supply) machine(ctx context.Context, r *Reservation, job provider.Job, report executor.Reporter) (*provider.Machine, error) {
	p, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	if r.Machine != nil {
		m, err := s.Recover(ctx, *r)
		if errors.Is(err, executor.ErrGone) {
			return nil, provider.ErrNotReserved
		}
		return m, err
	}
	if r.Key == "" {
		call := p.Reserve
		if q, ok := p.(provider.Queuer); ok { // no job that comes later gets the place first
			call = q.Queue
		}
		if r.Key, err = s.reserve(ctx, call, job.Needs); err != nil {
			return nil, err
		}
	}
	s.hold(r.Key, nil) // it may be that of a record, and a machine takes longer than a lease
	m, err := p.Acquire(ctx, r.Key, job, report)
	switch {
	case errors.Is(err, provider.ErrNotReserved) && !s.is(p):
		return nil, errChanged
	case err != nil:
		return nil, err
	}
	s.hold(r.Key, m)
	if !s.is(p) { // it was changed meanwhile: the next one must know of the machine
		return s.Recover(ctx, Reservation{Key: r.Key, Machine: m.Handle})
	}
	return m, nil
}

// Recover gets the machine of a job of the process before.
func (s *Supply) Recover(ctx context.Context, r Reservation) (*provider.Machine, error) {
	p, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	s.hold(r.Key, nil)
	m, err := p.Recover(ctx, r.Key, r.Machine)
	switch {
	case err == nil:
		s.hold(r.Key, m)
	case errors.Is(err, executor.ErrGone):
		s.forget(r.Key)
	}
	return m, err
}
