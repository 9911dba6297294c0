// Package sharedstate is what one of several processes, on whatever hosts, knows and the next one takes over: values by names, in an object store with
// conditional writes, which need not be more than a Kubernetes API server.
//
//	lease            who has the state; its holder writes it again and again, each time on condition that it is as it was written last
//	log/N            a change, sealed; written on condition that there is no N yet
//	snapshot/N       all values after log/N, sealed
//
// The log is the fence. Whoever takes the state over writes log/N before anything else, so that the holder before, whose next change would be that N, cannot
// record another one: it learns so, and from then on it has lost the state. The lease only says when to take over: not before its holder has given up by itself.
//
// No two clocks are compared. A holder gives up when its own clock says that the lease's time has passed since it began to write the lease; somebody else takes
// it after a quarter more than that time has passed, by its own clock, since it saw the lease change.
package sharedstate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// DefaultLease is how long a holder may be silent.
	DefaultLease = 30 * time.Second
	// MinLease is the shortest lease: an object store must have time to answer.
	MinLease = 3 * time.Second
	// MinKey is how long a key is at least, in bytes.
	MinKey = 16
	// MaxValue bounds a value, in bytes, and MaxState all of them, unless Options say less: they are in memory, and are written whole now and then.
	MaxValue = 16 << 20
	MaxState = 512 << 20
	// retryPause is between attempts to write what could not be written.
	retryPause = 500 * time.Millisecond
)

// ErrFenced says that this process does not have the state any more, because another one has it, or may have it. Nothing more is recorded.
var ErrFenced = errors.New("this manager has lost the shared state")

// ErrKey says that the state is sealed by another key.
var ErrKey = errors.New("the shared state is sealed by another key")

// Options are those of Acquire.
type Options struct {
	Objects Objects
	// Key seals all values: MinKey bytes at least, the same for all processes.
	Key []byte
	// Holder is this process's place, such as a folder of a host, which only one process at a time has: its successor there takes the lease at once.
	Holder string
	// Name is Holder for people.
	Name string
	// Lease is how long this process may be silent before others take over; 0 is DefaultLease.
	Lease time.Duration
	// MaxState bounds all values, in bytes, where the store keeps less than others; 0 is MaxState.
	MaxState int
	Log      *slog.Logger
	// OnLost is told that the state is lost, and why, before anybody else can learn of it: a process that ends in it does nothing more. nil: nobody is told.
	OnLost func(why error)
	// OnWait is told for what Acquire waits, each time that changes; nil: nobody is told.
	OnWait func(Waiting)
}

// Waiting is for what Acquire waits.
type Waiting struct {
	Name string // of the holder, for people; empty while nobody can say
	// Until is when its lease is over for this process, if it is silent from now on.
	Until time.Time
	// Err is why the store does not answer; nil if it does.
	Err error
}

// State is the values, for the process that has them. Its methods are safe for concurrent use.
type State struct {
	o     Options
	seal  *sealer
	lease lease // of the goroutine that renews
	life  context.Context
	end   context.CancelFunc
	busy  sync.WaitGroup
	wake  chan struct{}
	lost  chan struct{}
	told  sync.Once // of OnLost

	next, base uint64 // the entry to be written next, and the last one in a snapshot; the writer's
	grown      int    // bytes of entries since then
	size       int    // of that snapshot

	mu      sync.Mutex
	values  map[string][]byte
	total   int
	waiting *batch
	closed  bool
	why     error
	limit   deadline
}

// batch is changes that are written together.
type batch struct {
	changes map[string][]byte
	grow    int // bytes
	done    chan struct{}
	err     error
}

// Acquire waits until no other process has the state, and takes it over. Bad options, and another key, are errors at once; a store that cannot be
// reached, or refuses this process, is waited for, and told.
func Acquire(ctx context.Context, o Options) (*State, error) {
	if o.OnWait == nil {
		o.OnWait = func(Waiting) {}
	}
	o.Lease, o.MaxState = cmp.Or(o.Lease, DefaultLease), cmp.Or(o.MaxState, MaxState)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case len(o.Key) < MinKey:
		return nil, fmt.Errorf("the key of the shared state has %d bytes, and needs at least %d; make one with `openssl rand -base64 32`", len(o.Key), MinKey)
	case o.Lease < MinLease:
		return nil, fmt.Errorf("the lease of the shared state is %s, and must be at least %s", o.Lease, MinLease)
	}
	seal, err := newSealer(o.Key)
	if err != nil {
		return nil, err
	}
	s := &State{o: o, seal: seal, values: map[string][]byte{}, wake: make(chan struct{}, 1), lost: make(chan struct{})}
	s.life, s.end = context.WithCancel(context.Background())
	if err := s.take(ctx); err != nil {
		s.end()
		return nil, err
	}
	s.busy.Go(s.renew)
	s.busy.Go(s.watch)
	if err := s.begin(ctx); err != nil {
		s.end()
		s.busy.Wait()
		if s.Err() == nil {
			_ = s.release() // others wait for the lease otherwise
		}
		return nil, err
	}
	s.busy.Go(s.write)
	return s, nil
}

// begin reads what is there, and writes the entry that fences whoever had it.
func (s *State) begin(ctx context.Context) error {
	if err := s.load(ctx); err != nil {
		return fmt.Errorf("the shared state cannot be read: %w", err)
	}
	for { // the process before may have written one more
		err := s.append(nil)
		if !errors.Is(err, errTaken) {
			return err
		}
		if err := s.follow(ctx); err != nil {
			return fmt.Errorf("the shared state cannot be read: %w", err)
		}
	}
}

// Get is a value.
func (s *State) Get(name string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.values[name]
	return slices.Clone(value), ok
}

// Names are those that begin so, sorted.
func (s *State) Names(prefix string) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.values {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Commit changes values, all of them or none; nil removes one. It returns when the change will be there for whoever comes next. While the store cannot be
// reached, it waits, until the state is lost: the error is ErrFenced then, and nobody knows whether the change is there.
func (s *State) Commit(changes map[string][]byte) error {
	grow := 0
	for name, value := range changes {
		if len(value) > MaxValue {
			return fmt.Errorf("%s has %d bytes, and the shared state keeps values of at most %d", name, len(value), MaxValue)
		}
		grow += len(value)
	}
	s.mu.Lock()
	if s.why != nil {
		defer s.mu.Unlock()
		return s.why
	}
	if s.closed {
		defer s.mu.Unlock()
		return errors.New("the shared state is closed")
	}
	waiting := 0
	if s.waiting != nil {
		waiting = s.waiting.grow
	}
	if s.total+waiting+grow > s.o.MaxState {
		defer s.mu.Unlock()
		return fmt.Errorf("the shared state would have more than %d bytes; let fewer jobs run at once", s.o.MaxState)
	}
	if s.waiting == nil {
		s.waiting = &batch{changes: map[string][]byte{}, done: make(chan struct{})}
	}
	b := s.waiting
	b.grow += grow
	for name, value := range changes {
		b.changes[name] = slices.Clone(value)
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	<-b.done
	return b.err
}

// write records what waits, until the state is closed or lost.
func (s *State) write() {
	for {
		select {
		case <-s.wake:
		case <-s.life.Done():
			s.finish()
			return
		}
		s.flush()
		s.compact()
	}
}

// finish answers what waits when no more is written.
func (s *State) finish() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.flush()
}

func (s *State) flush() {
	s.mu.Lock()
	b := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	if b == nil {
		return
	}
	b.err = s.append(b.changes)
	if errors.Is(b.err, errTaken) {
		s.lose(errors.New("another manager has taken it over"))
		b.err = s.Err()
	}
	close(b.done)
}

// Lost is closed when the state is not this process's any more.
func (s *State) Lost() <-chan struct{} { return s.lost }

// Err says why Lost is closed, and is an ErrFenced; nil while it is not.
func (s *State) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// lose ends all.
func (s *State) lose(why error) {
	why = fmt.Errorf("%w: %w", ErrFenced, why)
	s.told.Do(func() {
		if s.o.OnLost != nil {
			s.o.OnLost(why)
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why != nil {
		return
	}
	s.why = why
	close(s.lost)
	s.end()
}

// Close gives the state free for others, which need not wait.
func (s *State) Close() error {
	s.end()
	s.busy.Wait()
	if s.Err() != nil {
		return nil
	}
	return s.release()
}

// Abandon ends all that this process does with the state, as its death would. Others have to wait until its lease is over.
func (s *State) Abandon() {
	s.lose(errors.New("it was abandoned"))
	s.busy.Wait()
}

// pause waits, and reports whether the state is still there.
func (s *State) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.lost:
		return false
	}
}

// limited is a context for one call of the store.
func (s *State) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.o.Lease/callPart, errors.New("the object store has not answered in time"))
}
