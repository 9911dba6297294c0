// Package none is the isolation level without isolation: a job's steps are processes of the host, and run as the host's user.
//
// The step-runner of an environment is a process of its own, so that a crash of this one ends no job whose lease outlives it.
// The first one, and from the second job on the next one, is started ahead: jobs rarely wait for it.
//
//	rung-…/            one folder for each step-runner: its socket, and a link for PATH
//	ROOT/ID/project    the job's files
//	ROOT/ID/project.tmp
package none

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/ledger"
)

// Definition is the level's row in the registry.
var Definition = executor.Definition{
	Level:   executor.None,
	Summary: "a process on the host, as the host's user",
	Open: func(ctx context.Context, setup executor.Setup) (executor.Executor, error) {
		return New(ctx, setup, Options{Ahead: true})
	},
}

// ledgerName is what the ledgers of this level are called.
const ledgerName = "none"

// Options are the level's own.
type Options struct {
	// Ahead starts the step-runner of the next environment before it is asked for.
	Ahead bool
}

// New makes the level. Nothing is made on the host before it is needed, but with Options.Ahead the first step-runner.
func New(ctx context.Context, setup executor.Setup, o Options) (*Executor, error) {
	if setup.Host == nil {
		setup.Host = local.New()
	}
	var err error
	if setup.Program == nil {
		setup.Program = executor.ThisProgram
	}
	if setup.State == "" {
		if setup.State, err = ledger.Folder(); err != nil {
			return nil, err
		}
	}
	e := &Executor{setup: setup, opts: o, host: setup.Host}
	e.life, e.end = context.WithCancel(context.WithoutCancel(ctx))
	if o.Ahead {
		e.startAhead()
	}
	return e, nil
}

// Executor makes environments of this level.
type Executor struct {
	setup executor.Setup
	opts  Options
	host  host.Host
	life  context.Context // ends with the executor
	end   context.CancelFunc

	opening sync.Mutex
	book    *ledger.Ledger
	program string // on the host
	temp    string

	prepared atomic.Int64 // environments

	spares sync.Mutex
	closed bool
	spare  *spare // the step-runner of the next environment; nil if none was started
}

// spare is a step-runner that is being started.
type spare struct {
	done   chan struct{}
	runner *runner
	err    error
}

// Level returns executor.None.
func (e *Executor) Level() executor.Level { return executor.None }

// Capabilities says what the level can do.
func (e *Executor) Capabilities() executor.Capabilities {
	return executor.Capabilities{KeepProject: true, Reattach: true}
}

// begin opens the ledger and brings the program to the host, once.
func (e *Executor) begin(ctx context.Context) error {
	e.opening.Lock()
	defer e.opening.Unlock()
	if e.book != nil {
		return nil
	}
	file, err := e.setup.Program(e.host.Platform().OS, e.host.Platform().Arch)
	if err != nil {
		return fmt.Errorf("finding a step-runner for the host %s: %w", e.host.Name(), err)
	}
	if e.program, err = e.host.Put(ctx, file); err != nil {
		return fmt.Errorf("copying the step-runner to the host %s: %w", e.host.Name(), err)
	}
	if e.temp = e.setup.Temp; e.temp == "" {
		if e.temp, err = e.host.Files().Temp(ctx); err != nil {
			return err
		}
	}
	lease := ledger.Lease{Owner: e.setup.Lease.Owner, Keep: e.setup.Lease.Keep}
	e.book, err = ledger.Open(e.setup.State, ledgerName, lease)
	return err
}

// entry is what the ledger holds: folders of one environment or step-runner. The order of fields and folders is part of it.
type entry struct {
	Host string   `json:"host"`
	Dirs []string `json:"dirs"`
}

func (e *Executor) entry(dirs ...string) string {
	text, _ := json.Marshal(entry{Host: e.host.Name(), Dirs: dirs}) // strings alone cannot fail
	return string(text)
}

// Sweep removes what environments on this host have left whose lease has ended.
func (e *Executor) Sweep(ctx context.Context) error {
	var problems []error
	err := ledger.Sweep(e.setup.State, ledgerName, func(text string) error {
		var it entry
		if err := json.Unmarshal([]byte(text), &it); err != nil {
			return nil // not written by this level
		}
		if it.Host != e.host.Name() {
			return errElsewhere
		}
		err := context.Cause(ctx)
		for _, dir := range it.Dirs {
			if err == nil {
				err = e.remove(ctx, dir)
			}
		}
		if err != nil {
			problems = append(problems, err)
		}
		return err
	})
	if len(problems) > 0 || errors.Is(err, errElsewhere) {
		return errors.Join(problems...)
	}
	return err
}

// errElsewhere keeps the entries of other hosts for those who use them.
var errElsewhere = errors.New("on another host")

// remove kills the processes that a job in the folder has left, as far as they are known, and removes the folder. It is for jobs whose
// step-runner did not end by itself: one that does leaves none.
func (e *Executor) remove(ctx context.Context, dir string) error {
	project := strings.TrimSuffix(dir, busySuffix) // of a kept one, which stays
	switch {
	case e.host.Name() == local.Name:
		killLeft(project)
	case e.host.Platform().OS == "linux":
		if err := e.killLeftThere(ctx, project); err != nil {
			return err
		}
	}
	return e.host.Files().RemoveAll(ctx, dir)
}

// killScript kills the processes of a host whose project is in the folder $1, and waits until they are gone.
const killScript = `for try in 1 2 3 4 5 6 7 8 9 10; do
  found=
  for file in /proc/[0-9]*/environ; do
    if tr '\0' '\n' <"$file" | grep -q -F "CI_PROJECT_DIR=$1/"; then
      pid=${file#/proc/}; kill -9 "${pid%/environ}" && found=1
    fi
  done 2>/dev/null
  [ "$found" ] || exit 0
  sleep 0.1
done`

// killLeftThere is killLeft on another host.
func (e *Executor) killLeftThere(ctx context.Context, dir string) error {
	p, err := e.host.Exec(ctx, &host.Command{Args: []string{"sh", "-c", killScript, "sh", dir}})
	if err != nil {
		return err
	}
	_, err = p.Wait()
	return err
}

// startAhead starts a step-runner for the next environment.
func (e *Executor) startAhead() {
	e.spares.Lock()
	defer e.spares.Unlock()
	if e.closed || e.spare != nil {
		return
	}
	s := &spare{done: make(chan struct{})}
	e.spare = s
	go func() {
		defer close(s.done)
		if s.err = e.begin(e.life); s.err == nil {
			s.runner, s.err = e.startRunner(e.life)
		}
	}()
}

// takeRunner returns the step-runner that was started ahead, or a new one.
func (e *Executor) takeRunner(ctx context.Context) (*runner, error) {
	e.spares.Lock()
	s := e.spare
	e.spare = nil
	e.spares.Unlock()
	if s == nil {
		return e.startRunner(ctx)
	}
	select {
	case <-s.done:
		if s.err == nil && s.runner.alive() {
			return s.runner, nil
		}
		e.discard(s)
		return e.startRunner(ctx)
	case <-ctx.Done():
		go e.discard(s)
		return nil, context.Cause(ctx)
	}
}

// discard ends a step-runner that nobody uses.
func (e *Executor) discard(s *spare) {
	<-s.done
	if s.runner != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(e.life), cleanupTime)
		defer cancel()
		_, _ = s.runner.close(ctx) // what is left is swept
	}
}

// Close ends the step-runner that was started ahead, and the ledger.
func (e *Executor) Close() error {
	e.spares.Lock()
	e.closed = true
	s := e.spare
	e.spare = nil
	e.spares.Unlock()
	if s != nil {
		e.discard(s)
	}
	e.end()
	e.opening.Lock()
	defer e.opening.Unlock()
	if e.book == nil {
		return nil
	}
	return e.book.Close()
}

// random is part of a name that nobody else has, in small letters: some file systems do not tell them apart.
func random() string { return strings.ToLower(rand.Text()[:13]) }
