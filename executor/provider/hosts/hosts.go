// Package hosts is the provider of machines that are there already: a list in the configuration, each with so many places for jobs.
package hosts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/executor/provider/places"
)

// Away is how long a machine that was of no use is left alone.
const Away = 30 * time.Second

// Host is a machine of the list.
type Host struct {
	// Name is what people call it; empty is its address. No two have the same.
	Name   string
	Access provider.Access
	// Slots is how many jobs it runs at once.
	Slots int
	// Has is what the machine says of itself, and what each of its slots has.
	Has provider.Needs
	// Level, Env and Temp are those of provider.Machine.
	Level executor.Level
	Env   []string
	Temp  string
}

// list is the machines as a source of places.
type list struct {
	away    time.Duration
	changed func()

	mu       sync.Mutex
	machines []*machine
	timers   []*time.Timer
}

// machine is a host, and who is on it.
type machine struct {
	Host
	taken []bool    // by slot
	until time.Time // when it is looked at again after a fault
	fault string
}

func (m *machine) free() (n int) {
	for _, taken := range m.taken {
		if !taken {
			n++
		}
	}
	return n
}

// seat is a place. It can move to another machine until that is made ready. Its fields are guarded by list.mu.
type seat struct {
	needs provider.Needs
	on    *machine
	slot  int
}

// Provider is the list as a provider.
type Provider struct {
	*places.Provider[*seat]
	list *list
}

// New makes a provider of machines. The error says what of the list is wrong.
func New(machines []Host, setup provider.Setup) (*Provider, error) {
	return newProvider(machines, setup, Away)
}

func newProvider(machines []Host, setup provider.Setup, away time.Duration) (*Provider, error) {
	l := &list{away: away}
	known := map[string]bool{}
	for _, h := range machines {
		h.Name = cmp.Or(h.Name, h.Access.String())
		h.Slots = cmp.Or(h.Slots, 1)
		switch err := h.Access.Validate(); {
		case err != nil:
			return nil, fmt.Errorf("the machine %q: %w", h.Name, err)
		case h.Slots < 0:
			return nil, fmt.Errorf("the machine %q cannot have %d slots", h.Name, h.Slots)
		case known[h.Name]:
			return nil, fmt.Errorf("there are two machines %q: give each a name of its own", h.Name)
		}
		known[h.Name] = true
		l.machines = append(l.machines, &machine{Host: h, taken: make([]bool, h.Slots)})
	}
	if len(l.machines) == 0 {
		return nil, fmt.Errorf("the list of machines is empty")
	}
	p := &Provider{Provider: places.New(l, setup.Lease), list: l}
	l.changed = p.Changed
	return p, nil
}

// Close implements provider.Provider.
func (p *Provider) Close() error {
	p.list.mu.Lock()
	for _, t := range p.list.timers {
		t.Stop()
	}
	p.list.mu.Unlock()
	return p.Provider.Close()
}

// best is the machine with the most room for these needs; nil is none. why says what is in the way then, and after when that is over, where no
// job has to end for it.
func (l *list) best(needs provider.Needs) (best *machine, after time.Duration, why string) {
	why = "no machine of the list has what is needed"
	full := false
	for _, m := range l.machines {
		if !needs.Within(m.Has) {
			continue
		}
		wait := time.Until(m.until)
		switch n := m.free(); {
		case wait > 0:
			if after == 0 || wait < after {
				after, why = wait, fmt.Sprintf("%s is left alone for a while: %s", m.Name, m.fault)
			}
		case n == 0:
			full = true
		case best == nil || n > best.free():
			best = m
		}
	}
	if full {
		return best, 0, "all slots are taken"
	}
	return best, after, why
}

// Free implements places.Source.
func (l *list) Free(needs provider.Needs) provider.Capacity {
	l.mu.Lock()
	defer l.mu.Unlock()
	var c provider.Capacity
	for _, m := range l.machines {
		if needs.Within(m.Has) && time.Until(m.until) <= 0 {
			c.Free += m.free()
		}
	}
	if c.Free == 0 {
		_, _, c.Reason = l.best(needs)
	}
	return c
}

// Take implements places.Source.
func (l *list) Take(needs provider.Needs) (*seat, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &seat{needs: needs}
	return s, l.sit(s)
}

// sit gives a seat the best machine. The caller holds the lock.
func (l *list) sit(s *seat) error {
	m, after, why := l.best(s.needs)
	if m == nil {
		return &provider.NoCapacity{Reason: why, After: after}
	}
	for i, taken := range m.taken {
		if !taken {
			s.on, s.slot, m.taken[i] = m, i, true
			break
		}
	}
	return nil
}

// handle is that of a machine.
type handle struct {
	Host string `json:"host"`
	Slot int    `json:"slot"`
}

// Retake implements places.Source.
func (l *list) Retake(text json.RawMessage) (*seat, error) {
	var h handle
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, &executor.Gone{Reason: "its handle cannot be read", Err: err}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.machines {
		if m.Name != h.Host {
			continue
		}
		if h.Slot < 0 || h.Slot >= len(m.taken) || m.taken[h.Slot] {
			return nil, &executor.Gone{Reason: fmt.Sprintf("slot %d of %s is another job's, or does not exist any more", h.Slot, h.Host)}
		}
		m.taken[h.Slot] = true
		return &seat{on: m, slot: h.Slot}, nil
	}
	return nil, &executor.Gone{Reason: fmt.Sprintf("the list has no machine %q any more", h.Host)}
}

// Give implements places.Source.
func (l *list) Give(s *seat, fault string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.on.taken[s.slot] = false
	if fault == "" {
		return
	}
	s.on.until, s.on.fault = time.Now().Add(l.away), fault
	l.timers = append(l.timers, time.AfterFunc(l.away+time.Millisecond, l.changed))
	if len(l.timers) > len(l.machines) { // those that are over
		l.timers = l.timers[1:]
	}
}

// Make implements places.Source. A machine that turned out to be of no use since the reservation is exchanged.
func (l *list) Make(_ context.Context, s *seat, _ provider.Job, _ executor.Reporter) (*provider.Machine, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, slot := s.on, s.slot; s.needs.Within(before.Has) && time.Until(before.until) > 0 {
		if err := l.sit(s); err != nil {
			return nil, err
		}
		before.taken[slot] = false
	}
	text, err := json.Marshal(handle{s.on.Name, s.slot})
	if err != nil {
		return nil, err
	}
	h := s.on.Host
	return &provider.Machine{Name: h.Name, Slot: s.slot, Access: h.Access, Level: h.Level, Env: h.Env, Temp: h.Temp, Handle: text}, nil
}

// End implements places.Source: the machine stays.
func (l *list) End(context.Context, *seat) error { return nil }
