package service

import (
	"os"

	system "github.com/kardianos/service"
)

// Run runs f. If this process is a service of Windows, stop is closed when that is told to stop.
func Run(name string, f func(stop <-chan struct{}) error) error {
	if system.Interactive() || name == "" {
		return f(nil)
	}
	p := &program{f: f, stop: make(chan struct{}), ended: make(chan struct{})}
	s, err := system.New(p, &system.Config{Name: name})
	if err != nil {
		return err
	}
	if err := s.Run(); err != nil {
		return err
	}
	return p.err
}

type program struct {
	f     func(stop <-chan struct{}) error
	stop  chan struct{}
	ended chan struct{}
	err   error
}

// Start implements system.Interface. It must not block.
func (p *program) Start(system.Service) error {
	go func() {
		p.err = p.f(p.stop)
		close(p.ended)
		select {
		case <-p.stop:
		default:
			os.Exit(1) // it was not told to: Windows starts it again
		}
	}()
	return nil
}

// Stop implements system.Interface.
func (p *program) Stop(system.Service) error {
	close(p.stop)
	<-p.ended
	return nil
}
