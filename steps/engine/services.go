package engine

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/rungci/rung/steps/event"
)

// services are what toolkits made for the run as a whole.
type services struct {
	mu    sync.Mutex
	named map[string]*service
	saved map[string][]byte // of an earlier process of the run, until what it is about is made again
	order []*service
}

type service struct {
	name string
	mu   sync.Mutex // held while it is made: who asks for the same waits, others do not
	made io.Closer
}

// once is ToolkitProcess.Once.
func (s *services) once(name string, make func() (io.Closer, error)) (io.Closer, error) {
	one := s.entry(name)
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.made != nil {
		return one.made, nil
	}
	made, err := make()
	if err != nil {
		return nil, err
	}
	if err := s.restore(name, made); err != nil {
		return nil, errors.Join(fmt.Errorf("resuming %s: %w", name, err), made.Close())
	}
	one.made = made
	return made, nil
}

// restore gives what was made what it had in an earlier process of the run.
func (s *services) restore(name string, made io.Closer) error {
	s.mu.Lock()
	saved, ok := s.saved[name]
	s.mu.Unlock()
	if !ok {
		return nil
	}
	movable, ok := made.(Movable)
	if !ok {
		return errors.New("it cannot be moved")
	}
	if err := movable.Restore(saved); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.saved, name)
	return nil
}

func (s *services) entry(name string) *service {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.named == nil {
		s.named = map[string]*service{}
	}
	if s.named[name] == nil {
		s.named[name] = &service{name: name}
		s.order = append(s.order, s.named[name])
	}
	return s.named[name]
}

// close ends them all, the last one first.
func (s *services) close(out *emitter) {
	for _, one := range slices.Backward(s.order) {
		if one.made == nil {
			continue
		}
		if err := one.made.Close(); err != nil {
			out.emit("", event.Warning{Message: fmt.Sprintf("stopping %s: %v", one.name, err)})
		}
	}
}
