// Package none is the level without isolation: a job's steps are processes of this machine, and run as this user.
//
// The step-runner of an environment is in this program: connections to it never leave the memory. So an environment is made
// in less than a millisecond, and costs a folder.
package none

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/ledger"
)

// ledgerName is what the ledgers of this level are called.
const ledgerName = "none"

// StepRunner serves connections, as that of steps/service does.
type StepRunner interface {
	// Serve takes connections until the listener is closed.
	Serve(listener net.Listener) error
	// Close kills what still runs and ends all connections.
	Close()
}

// Options are what the level is made of. StepRunner is required.
type Options struct {
	// StepRunner makes the step-runner of one environment.
	StepRunner func() (StepRunner, error)
	// Program is the file of the program that is called step-runner in environments; empty is this program's.
	Program string
	// State is the folder that says, across processes, what is to be cleaned up; empty is ledger.Folder().
	State string
	// Temp is the folder for jobs that name none, and for the level's own; empty is the system's for temporary files.
	Temp string
}

// New makes the level. Nothing is made on disk before it is needed.
func New(o Options) (*Executor, error) {
	if o.StepRunner == nil {
		return nil, errors.New("the level none needs a step-runner")
	}
	var err error
	if o.Program == "" {
		if o.Program, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("finding the file of this program: %w", err)
		}
	}
	if o.State == "" {
		if o.State, err = ledger.Folder(); err != nil {
			return nil, err
		}
	}
	if o.Temp == "" {
		o.Temp = os.TempDir()
	}
	e := &Executor{opts: o}
	e.begin = sync.OnceValue(e.open)
	return e, nil
}

// Executor makes environments of this level.
type Executor struct {
	opts   Options
	begin  func() error // opens the ledger and makes the level's own folder, once
	ledger *ledger.Ledger
	own    string
}

// Level returns executor.None.
func (e *Executor) Level() executor.Level { return executor.None }

// Capabilities says what the level can do: none of it.
func (e *Executor) Capabilities() executor.Capabilities { return executor.Capabilities{} }

func (e *Executor) bin() string { return filepath.Join(e.own, "bin") }

// open makes what all environments share.
func (e *Executor) open() (err error) {
	if e.ledger, err = ledger.Open(e.opts.State, ledgerName); err != nil {
		return err
	}
	if e.own, err = e.makeTemp("rung-"); err != nil {
		return err
	}
	if err := os.Mkdir(e.bin(), 0o755); err != nil {
		return err
	}
	name := "step-runner"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return link(e.opts.Program, filepath.Join(e.bin(), name))
}

// makeTemp makes a folder that nobody else may enter, and that is on record before it is there.
func (e *Executor) makeTemp(prefix string) (string, error) {
	return e.make(filepath.Join(e.opts.Temp, prefix+random()))
}

// make makes a folder, which must not be there.
func (e *Executor) make(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("%s is there already; remove it if nobody needs it", path)
	}
	if err := e.ledger.Add(path); err != nil {
		return "", err
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		return "", errors.Join(fmt.Errorf("making a folder for the job: %w", err), e.ledger.Done(path))
	}
	return path, nil
}

// link gives a program another name, in the first way that works: not every system, or user, can make links.
func link(program, name string) error {
	if os.Symlink(program, name) == nil || os.Link(program, name) == nil {
		return nil
	}
	in, err := os.Open(program)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Prepare makes the folders of an environment and starts its step-runner.
func (e *Executor) Prepare(ctx context.Context, job *executor.Job, _ func(string)) (executor.Environment, error) {
	if err := errors.Join(job.Validate(), context.Cause(ctx)); err != nil {
		return nil, err
	}
	if err := executor.Check(e, job); err != nil {
		return nil, err
	}
	if err := e.begin(); err != nil {
		return nil, err
	}
	root, err := e.makeRoot(job)
	if err != nil {
		return nil, err
	}
	env := &environment{executor: e, root: root, keep: job.Keep}
	if err := env.start(job); err != nil {
		env.keep = false
		return nil, errors.Join(err, env.Close(context.WithoutCancel(ctx)))
	}
	return env, nil
}

// makeRoot makes the folder that everything of an environment is in.
func (e *Executor) makeRoot(job *executor.Job) (string, error) {
	if job.Root == "" {
		return e.makeTemp("rung-" + job.ID + "-")
	}
	if err := os.MkdirAll(job.Root, 0o755); err != nil {
		return "", fmt.Errorf("making a folder for the job: %w", err)
	}
	return e.make(filepath.Join(job.Root, job.ID))
}

// Sweep removes the folders of environments whose process was killed, and on Linux kills the processes that they left.
func (e *Executor) Sweep(ctx context.Context) error {
	return ledger.Sweep(e.opts.State, ledgerName, func(root string) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		killLeft(root)
		return removeAll(root)
	})
}

// Close removes what environments shared.
func (e *Executor) Close() error {
	if e.ledger == nil {
		return nil
	}
	var err error
	if e.own != "" {
		if err = removeAll(e.own); err == nil {
			err = e.ledger.Done(e.own)
		}
		e.own = ""
	}
	return errors.Join(err, e.ledger.Close())
}
