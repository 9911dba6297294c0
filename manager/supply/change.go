package supply

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/provider"
)

// Change closes the provider and opens it again, with what the configuration says now. Jobs keep their machines: the new one recovers them, as it
// would those of another process. Places without a machine are given back.
func (s *Supply) Change(terms Terms) {
	if s == nil {
		return
	}
	s.opening.Lock() // until the one before has let go of what both know
	defer s.opening.Unlock()
	defer func() {
		select {
		case s.anew <- struct{}{}:
		default:
		}
	}()
	before := s.provider
	s.provider = nil
	var reserved []string
	s.update(func() {
		s.terms, s.capacity = terms, provider.Capacity{Reason: "the provider is being asked"}
		for key, m := range s.held {
			if m == nil {
				reserved = append(reserved, key)
			}
		}
	})
	if before == nil {
		return
	}
	for _, key := range reserved {
		ctx, cancel := context.WithTimeout(s.life, pause)
		_ = before.Release(ctx, key, "") // else its lease ends
		cancel()
	}
	if err := before.Close(); err != nil {
		s.o.Log.Warn("cannot close the previous provider", "error", err)
	}
}

// is reports whether a provider is the one that is open.
func (s *Supply) is(p provider.Provider) bool {
	s.opening.Lock()
	defer s.opening.Unlock()
	return s.provider == p
}

// recoverTime bounds how long places wait until a changed provider knows of a machine that a job has.
const recoverTime = 10 * time.Second

// takeOver gives a provider that was opened the machines that jobs have of the one before. It is asked for nothing else before it knows of them: it would
// give their places to others.
func (s *Supply) takeOver(p provider.Provider) {
	ctx, cancel := context.WithTimeout(s.life, recoverTime)
	defer cancel()
	s.mu.Lock()
	held := maps.Clone(s.held)
	s.mu.Unlock()
	var asked sync.WaitGroup
	for key, m := range held {
		if m == nil {
			continue
		}
		asked.Go(func() {
			if !s.recover(ctx, p, key, m) {
				s.busy.Go(func() { s.recoverAgain(p, key, m) })
			}
		})
	}
	asked.Wait()
}

// recoverAgain recovers a machine that a job has, until that is done.
func (s *Supply) recoverAgain(p provider.Provider, key string, m *provider.Machine) {
	for {
		sleep(s.life, pause)
		if s.life.Err() != nil || m.Life.Err() != nil || !s.holds(key, m) || !s.is(p) || s.recover(s.life, p, key, m) {
			return
		}
	}
}

// recover recovers a machine that a job has, and returns false if that is to be tried again. The machine is then gone when the provider says so. One that
// the provider does not know is the job's until it ends: a host that was taken out of a list still works.
func (s *Supply) recover(ctx context.Context, p provider.Provider, key string, m *provider.Machine) bool {
	again, err := p.Recover(ctx, key, m.Handle)
	switch {
	case errors.Is(err, executor.ErrGone):
		s.o.Log.Info("the changed provider does not know the machine of a job", "machine", m.Name, "error", err)
	case err != nil:
		s.o.Log.Warn("cannot recover the machine of a job from the changed provider", "machine", m.Name, "error", err)
		return false
	case again != m:
		go func() {
			select {
			case <-again.Done():
				m.Finish(again.Err())
			case <-m.Done():
			}
		}()
	}
	return true
}

func (s *Supply) holds(key string, m *provider.Machine) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[key] == m
}
