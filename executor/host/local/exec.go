package local

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/internal/process"
)

// Exec starts a process.
func (*Host) Exec(ctx context.Context, command *host.Command) (host.Process, error) {
	return start(ctx, command, environ(command, os.Environ()), nil)
}

// start starts a process with an environment, as a user, or as this program's.
func start(ctx context.Context, command *host.Command, env []string, user *process.User) (host.Process, error) {
	if err := command.Validate(); err != nil {
		return nil, err
	}
	p := &proc{command: command, kill: make(chan struct{}), ended: make(chan struct{})}
	started := make(chan struct{})
	spec := process.Spec{
		Args: command.Args, Dir: command.Dir, Env: env, User: user, Input: command.Stdin, Stdout: command.Stdout, Stderr: command.Stderr,
		Outlives: true, Group: command.Group,
		Started: func(pid int) {
			p.pid = pid
			close(started)
		},
	}
	if t := command.Terminal; t != nil {
		p.sizes = make(chan process.Size)
		spec.Terminal = &process.Terminal{Input: command.Stdin, Output: command.Stdout, Size: process.Size(t.Size), Resize: p.sizes}
		if spec.Terminal.Input == nil {
			spec.Terminal.Input = strings.NewReader("")
		}
		if spec.Terminal.Output == nil {
			spec.Terminal.Output = io.Discard
		}
	}
	go p.run(ctx, spec)
	select {
	case <-started:
		return p, nil
	case <-p.ended:
		select {
		case <-started: // and ended already
			return p, nil
		default:
			return nil, p.err
		}
	}
}

// proc is a running process.
type proc struct {
	command *host.Command
	pid     int
	sizes   chan process.Size // nil without a terminal
	killing sync.Once
	kill    chan struct{}
	ended   chan struct{}
	code    int
	err     error
}

func (p *proc) run(ctx context.Context, spec process.Spec) {
	defer close(p.ended)
	result, err := process.Run(ctx, p.kill, spec)
	p.code, p.err = result.ExitCode, err
	var notStarted *process.StartError
	switch {
	case errors.As(err, &notStarted):
		p.err = &host.StartError{Program: notStarted.Program, Host: Name, Reason: notStarted.Reason, Err: reason(notStarted)}
	case errors.Is(err, process.ErrKilled):
		p.err = host.ErrKilled
	case err == nil && result.Signal != "":
		p.err = &host.SignalError{Signal: result.Signal}
	}
	if p.err != nil && (ctx.Err() != nil || result.Signal != "") {
		p.code = -1
	}
}

// reason is the error below that of a process that did not start.
func reason(err *process.StartError) error {
	switch {
	case errors.Is(err, process.ErrNotFound), errors.Is(err, process.ErrWorkDir) && errors.Is(err, fs.ErrNotExist):
		return fs.ErrNotExist
	case errors.Is(err, process.ErrNotExecutable), errors.Is(err, process.ErrWorkDir):
		return fs.ErrPermission
	}
	return err.Err
}

func (p *proc) PID() int { return p.pid }

func (p *proc) Wait() (int, error) {
	<-p.ended
	return p.code, p.err
}

func (p *proc) Kill() error {
	p.killing.Do(func() { close(p.kill) })
	return nil
}

func (p *proc) Resize(size host.Size) error {
	if p.sizes == nil {
		return nil
	}
	select {
	case p.sizes <- process.Size(size):
	case <-p.ended:
	}
	return nil
}
