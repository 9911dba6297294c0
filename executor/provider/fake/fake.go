// Package fake is a provider for tests of others: it makes machines that are nothing, and every call can be delayed, hang, refuse or lie.
package fake

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/executor/provider/places"
)

// Call is a call of the provider that is about to be answered.
type Call struct {
	Name string // of the method: "Acquire"
	Key  string // empty where a call has none
}

// World is what goes on without any process: the machines. Providers of one world find each other's machines.
type World struct {
	mu       sync.Mutex
	machines map[int]*executor.Life
	made     int
}

// Options are those of a provider.
type Options struct {
	World *World // nil is one of its own
	Room  int
	// Machine completes the machine of a number; nil leaves them on this machine.
	Machine func(number int, m *provider.Machine)
	// Before is called before each call, also of the source: "Make" and "End". What it returns, if not nil, is the error of the call. It may wait.
	Before func(ctx context.Context, call Call) error
}

// Provider is the fake.
type Provider struct {
	*places.Provider[*place]
	o Options
	s *source
}

// New makes a fake.
func New(o Options, setup provider.Setup) *Provider {
	if o.World == nil {
		o.World = &World{}
	}
	if o.Before == nil {
		o.Before = func(context.Context, Call) error { return nil }
	}
	s := &source{o: o, room: o.Room}
	return &Provider{Provider: places.New(s, setup.Lease), o: o, s: s}
}

// Resize changes how many places there are. Those that are taken stay.
func (p *Provider) Resize(room int) {
	p.s.mu.Lock()
	p.s.room = room
	p.s.mu.Unlock()
	p.Changed()
}

// Kill ends a machine from outside.
func (w *World) Kill(number int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if life := w.machines[number]; life != nil {
		life.Finish(&executor.Gone{Reason: fmt.Sprintf("the machine %d was removed from outside", number)})
		delete(w.machines, number)
	}
}

// Machines is how many there are, and how many there ever were.
func (w *World) Machines() (now, ever int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.machines), w.made
}

// Reserve implements provider.Provider.
func (p *Provider) Reserve(ctx context.Context, key string, needs provider.Needs) error {
	if err := p.o.Before(ctx, Call{"Reserve", key}); err != nil {
		return err
	}
	return p.Provider.Reserve(ctx, key, needs)
}

// Acquire implements provider.Provider.
func (p *Provider) Acquire(ctx context.Context, key string, job provider.Job, report executor.Reporter) (*provider.Machine, error) {
	if err := p.o.Before(ctx, Call{"Acquire", key}); err != nil {
		return nil, err
	}
	return p.Provider.Acquire(ctx, key, job, report)
}

// Recover implements provider.Provider.
func (p *Provider) Recover(ctx context.Context, key string, handle json.RawMessage) (*provider.Machine, error) {
	if err := p.o.Before(ctx, Call{"Recover", key}); err != nil {
		return nil, err
	}
	return p.Provider.Recover(ctx, key, handle)
}

// Keep implements provider.Provider.
func (p *Provider) Keep(ctx context.Context, keys []string) ([]string, error) {
	if err := p.o.Before(ctx, Call{Name: "Keep"}); err != nil {
		return nil, err
	}
	return p.Provider.Keep(ctx, keys)
}

// Release implements provider.Provider.
func (p *Provider) Release(ctx context.Context, key, fault string) error {
	if err := p.o.Before(ctx, Call{"Release", key}); err != nil {
		return err
	}
	return p.Provider.Release(ctx, key, fault)
}

// Capacity implements provider.Provider.
func (p *Provider) Capacity(ctx context.Context, needs provider.Needs, tell func(provider.Capacity)) error {
	if err := p.o.Before(ctx, Call{Name: "Capacity"}); err != nil {
		return err
	}
	return p.Provider.Capacity(ctx, needs, tell)
}

// place is that of one machine, once it is made.
type place struct{ number int }

type source struct {
	o     Options
	mu    sync.Mutex
	room  int
	taken int
}

func (s *source) Free(needs provider.Needs) provider.Capacity {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !needs.Within(provider.Needs{}):
		return provider.Capacity{Reason: "the machines have nothing"}
	case s.taken >= s.room:
		return provider.Capacity{Reason: fmt.Sprintf("all %d places are taken", s.room)}
	}
	return provider.Capacity{Free: s.room - s.taken}
}

func (s *source) Take(needs provider.Needs) (*place, error) {
	if c := s.Free(needs); c.Free <= 0 {
		return nil, &provider.NoCapacity{Reason: c.Reason}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken++
	return &place{}, nil
}

func (s *source) Retake(handle json.RawMessage) (*place, error) {
	p := &place{}
	if err := json.Unmarshal(handle, &p.number); err != nil || p.number <= 0 {
		return nil, &executor.Gone{Reason: "its handle cannot be read", Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken++
	return p, nil
}

func (s *source) Give(*place, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
}

func (s *source) Make(ctx context.Context, p *place, _ provider.Job, _ executor.Reporter) (*provider.Machine, error) {
	if err := s.o.Before(ctx, Call{Name: "Make"}); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w := s.o.World
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.machines == nil {
		w.machines = map[int]*executor.Life{}
	}
	if p.number == 0 {
		w.made++
		p.number = w.made
		w.machines[p.number] = executor.NewLife()
	}
	life := w.machines[p.number]
	if life == nil {
		return nil, &executor.Gone{Reason: fmt.Sprintf("there is no machine %d", p.number)}
	}
	m := &provider.Machine{Name: fmt.Sprintf("machine-%d", p.number), Slot: -1, Access: provider.Access{Protocol: provider.Local}, Life: life}
	m.Handle, _ = json.Marshal(p.number) // numbers cannot fail
	if s.o.Machine != nil {
		s.o.Machine(p.number, m)
	}
	return m, nil
}

func (s *source) End(ctx context.Context, p *place) error {
	if err := s.o.Before(ctx, Call{Name: "End"}); err != nil {
		return err
	}
	s.o.World.mu.Lock()
	defer s.o.World.mu.Unlock()
	delete(s.o.World.machines, p.number)
	return nil
}
