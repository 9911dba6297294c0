package process

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rungci/rung/internal/confine"
)

// startConfined starts a process in a view of its own. What is started is the init of its namespaces, which ends as it ends.
func (c *child) startConfined(spec *Spec, program string, attr *syscall.ProcAttr) error {
	inside, err := confine.New(spec.Confine, &confine.Command{
		Program: program, Args: spec.Args, Env: spec.Env, Dir: spec.Dir, Files: len(attr.Files),
	})
	if err != nil {
		return spec.failConfine(err)
	}
	name, args := inside.Prepare(attr)
	if err := c.fork(func() (int, error) { return syscall.ForkExec(name, args, attr) }); err != nil {
		inside.Close()
		return spec.failConfine(&confine.SetupError{What: "namespaces", Err: err})
	}
	c.inside = inside
	if err = inside.Started(); err == nil {
		return nil
	}
	inside.Close()
	c.discard()
	if errno := syscall.Errno(0); errors.As(err, &errno) && !isSetup(err) {
		return spec.explainConfined(program, errno)
	}
	return spec.failConfine(err)
}

func isSetup(err error) bool {
	var setup *confine.SetupError
	return errors.As(err, &setup)
}

// explainConfined finds out why a start failed in a view.
func (s *Spec) explainConfined(program string, err error) error {
	var found *StartError
	if explained := s.explain(program, err); errors.As(explained, &found) && found.Kind != nil && !errors.Is(found.Kind, ErrNotExecutable) {
		return explained
	}
	return s.fail(ErrNotExecutable, err, "%s cannot be executed by a confined step: %v; if it exists, request the folder that it is in with "+
		"`spec: {access: […]}`, and allow it on the step with `allow_access`", program, err)
}

// confinable leaves it to the start to find out.
func (s *Spec) confinable() error { return nil }

// confinedResult is how a confined process ended; false for others, and where its init was killed.
func (c *child) confinedResult() (Result, bool) {
	if c.inside == nil {
		return Result{}, false
	}
	defer c.inside.Close()
	code, sig, ok := c.inside.Status()
	switch {
	case !ok:
		return Result{}, false
	case sig != 0:
		return Result{ExitCode: -1, Signal: signalName(sig)}, true
	default:
		return Result{ExitCode: code}, true
	}
}

// CanConfine says why processes cannot be confined on this machine; nil if they can. It tries.
func CanConfine() error {
	inside, err := confine.New(&confine.View{}, nil)
	if err != nil {
		return err
	}
	defer inside.Close()
	devNull, err := null()
	if err != nil {
		return err
	}
	attr := &syscall.ProcAttr{Files: []uintptr{devNull.Fd(), devNull.Fd(), devNull.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true}}
	c := &child{pidfd: -1}
	name, args := inside.Prepare(attr)
	if err := c.fork(func() (int, error) { return syscall.ForkExec(name, args, attr) }); err != nil {
		return &confine.SetupError{What: "namespaces", Err: err}
	}
	err = inside.Started()
	c.discard()
	return err
}

// discard ends a process that is not to be attended.
func (c *child) discard() {
	c.inside = nil
	c.finish()
	if c.pidfd >= 0 {
		_ = unix.Close(c.pidfd)
	}
}
