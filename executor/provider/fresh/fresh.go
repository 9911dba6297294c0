// Package fresh is the provider of machines that are made for one job each, and end with it, by two functions: Create and Delete. What is made is on
// record before, so that nothing is left of a process that was killed.
package fresh

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/executor/provider/places"
)

// Options are those of a provider.
type Options struct {
	// Max is how many machines there are at once.
	Max int
	// Has is what every machine has.
	Has provider.Needs
	// Create makes the machine of an ID, and returns once it can be reached. A repeated call with an ID finds the machine that is there.
	// Name, Slot, Fresh and Handle are completed.
	Create func(ctx context.Context, id string, job provider.Job, report executor.Reporter) (*provider.Machine, error)
	// Delete ends the machine of an ID. That there is none is no error.
	Delete func(ctx context.Context, id string) error
	// Check reports whether the machine of an ID is still there: an error that wraps executor.ErrGone says that it is not. It is asked every
	// CheckEvery, and when a machine is recovered. Nil believes that machines stay.
	Check func(ctx context.Context, id string) error
	// CheckEvery is 10 seconds if it is 0.
	CheckEvery time.Duration
}

const (
	suffix    = ".machine"
	checkTime = 30 * time.Second
)

// New makes a provider, and ends what processes before have left and nobody recovers within a lease.
func New(o Options, setup provider.Setup) (provider.Provider, error) {
	if o.Max < 1 || o.Create == nil || o.Delete == nil {
		return nil, errors.New("machines need Max of 1 at least, Create and Delete")
	}
	if setup.State == "" {
		return nil, errors.New("there is no folder for what has to outlive the process (Setup.State)")
	}
	o.CheckEvery = cmp.Or(o.CheckEvery, 10*time.Second)
	if err := os.MkdirAll(setup.State, 0o700); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(setup.State, "*"+suffix))
	if err != nil {
		return nil, err
	}
	s := &source{o: o, folder: setup.State, left: map[string]bool{}}
	for _, file := range files {
		s.left[strings.TrimSuffix(filepath.Base(file), suffix)] = true
	}
	p := places.New(s, setup.Lease)
	life, end := context.WithCancel(context.Background())
	out := &closing{Provider: p, end: end}
	out.busy.Go(func() { s.sweep(life, cmp.Or(setup.Lease, provider.DefaultLease), p.Changed) })
	return out, nil
}

// closing is a provider that ends its sweep with it.
type closing struct {
	provider.Provider
	end  context.CancelFunc
	busy sync.WaitGroup
}

// Close implements provider.Provider.
func (c *closing) Close() error {
	c.end()
	c.busy.Wait()
	return c.Provider.Close()
}

// machine is the place of one.
type machine struct{ id string }

type source struct {
	o      Options
	folder string

	mu    sync.Mutex
	taken int
	left  map[string]bool // by processes before
}

// Free implements places.Source.
func (s *source) Free(needs provider.Needs) provider.Capacity {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !needs.Within(s.o.Has):
		return provider.Capacity{Reason: "the machines do not have what is needed"}
	case s.taken+len(s.left) >= s.o.Max:
		return provider.Capacity{Reason: fmt.Sprintf("there are %d machines, which is the limit", s.o.Max)}
	}
	return provider.Capacity{Free: s.o.Max - s.taken - len(s.left)}
}

// Take implements places.Source.
func (s *source) Take(needs provider.Needs) (*machine, error) {
	if c := s.Free(needs); c.Free <= 0 {
		return nil, &provider.NoCapacity{Reason: c.Reason}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken++
	return &machine{id: newID()}, nil
}

// Retake implements places.Source.
func (s *source) Retake(handle json.RawMessage) (*machine, error) {
	var id string
	if err := json.Unmarshal(handle, &id); err != nil || provider.CheckKey(id) != nil {
		return nil, &executor.Gone{Reason: "its handle cannot be read", Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.left[id] {
		return nil, &executor.Gone{Reason: "there is no record of the machine " + id}
	}
	delete(s.left, id)
	s.taken++
	return &machine{id: id}, nil
}

// Give implements places.Source.
func (s *source) Give(*machine, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
}

// newID makes the ID of a machine: letters and digits in lower case, with a letter first, as names in clouds have to be.
func newID() string { return "rung-" + strings.ToLower(rand.Text()[:20]) }

func (s *source) record(id string) string { return filepath.Join(s.folder, id+suffix) }

// Make implements places.Source.
func (s *source) Make(ctx context.Context, p *machine, job provider.Job, report executor.Reporter) (*provider.Machine, error) {
	_, err := os.Stat(s.record(p.id))
	again := err == nil
	if again && s.o.Check != nil {
		if err := s.o.Check(ctx, p.id); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(s.record(p.id), nil, 0o600); err != nil { // before it is made
		return nil, fmt.Errorf("recording a machine: %w", err)
	}
	m, err := s.o.Create(ctx, p.id, job, report)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, errors.New("Create returned neither a machine nor an error")
	}
	m.Name, m.Slot, m.Fresh = cmp.Or(m.Name, p.id), -1, true
	if m.Handle, err = json.Marshal(p.id); err != nil {
		return nil, err
	}
	if m.Life == nil {
		m.Life = executor.NewLife()
	}
	if s.o.Check != nil {
		go s.watch(p.id, m.Life)
	}
	return m, nil
}

// watch ends the life of a machine that is gone.
func (s *source) watch(id string, life *executor.Life) {
	tick := time.NewTicker(s.o.CheckEvery)
	defer tick.Stop()
	for {
		select {
		case <-life.Done():
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(life.Lifetime(), checkTime)
		if err := s.o.Check(ctx, id); errors.Is(err, executor.ErrGone) && ctx.Err() == nil {
			life.Finish(err)
		}
		cancel()
	}
}

// End implements places.Source.
func (s *source) End(ctx context.Context, p *machine) error { return s.delete(ctx, p.id) }

func (s *source) delete(ctx context.Context, id string) error {
	if err := s.o.Delete(ctx, id); err != nil {
		return err
	}
	if err := os.Remove(s.record(id)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// sweep deletes what processes before have left and nobody has recovered within the lease. It tries again what fails.
func (s *source) sweep(ctx context.Context, lease time.Duration, changed func()) {
	for {
		timer := time.NewTimer(lease)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		s.mu.Lock()
		ids := make([]string, 0, len(s.left))
		for id := range s.left {
			ids = append(ids, id)
		}
		s.mu.Unlock()
		if len(ids) == 0 {
			return
		}
		for _, id := range ids {
			s.mu.Lock()
			left := s.left[id]
			delete(s.left, id) // nobody recovers it meanwhile
			if left {
				s.taken++
			}
			s.mu.Unlock()
			if !left {
				continue
			}
			err := s.delete(ctx, id)
			s.mu.Lock()
			s.taken--
			if err != nil {
				s.left[id] = true
			}
			s.mu.Unlock()
			changed()
		}
	}
}
