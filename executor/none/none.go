// Package none is the isolation level without isolation: a job's steps are processes of the host, and run as the host's user. Levels
// that put something around the same processes are built on it (Bounds).
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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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

const (
	// maxAhead bounds how many step-runners are started ahead.
	maxAhead = 8
	// maxSpared is how long more of them than are wanted stay.
	maxSpared = 10 * time.Second
)

// Options are the level's own.
type Options struct {
	// Ahead starts the step-runner of the next environment before it is asked for.
	Ahead bool
	// Bounds is what another level puts around each step-runner; nil is nothing.
	Bounds Bounds
}

// Bounds make what a level that is built on this one puts around each step-runner, and so around all that a job starts.
type Bounds interface {
	Level() executor.Level
	// Capabilities are those of the level.
	Capabilities() executor.Capabilities
	// Admit refuses a job whose limits cannot be held, before anything is made.
	Admit(job *executor.Job) error
	// Bound returns a bound that Make makes. name is one that nobody else has; slot is Job.Slot.
	Bound(slot, name string) (Bound, error)
	// Find returns the bound with a state.
	Find(state json.RawMessage) (Bound, error)
}

// Bound is around one step-runner.
type Bound interface {
	// State finds the bound again, in another process too. It is the same before Make.
	State() json.RawMessage
	Make(ctx context.Context) error
	// Into makes a command one that runs within the bound, from its first instruction.
	Into(command *host.Command)
	// Limit sets the limits of a job. None of its processes has started.
	Limit(ctx context.Context, job *executor.Job, project string) error
	// Explain says why the step-runner has ended, where that was the bound's doing; otherwise what it was given.
	Explain(reason string, err error) (string, error)
	// Remove kills what runs within the bound, and removes it. It may be gone already, or not yet made.
	Remove(ctx context.Context) error
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
		e.startAhead(1)
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

	claims claims

	prepared atomic.Int64 // environments

	mu     sync.Mutex // guards the following
	closed bool
	spares []*spare             // the step-runners of the next environments, the oldest first
	others map[string]*Executor // for the jobs of other users

	discards sync.WaitGroup
}

// spare is a step-runner that is being started.
type spare struct {
	began  time.Time
	done   chan struct{}
	runner *runner
	err    error
}

// Level returns executor.None, or that of the bounds.
func (e *Executor) Level() executor.Level {
	if e.opts.Bounds != nil {
		return e.opts.Bounds.Level()
	}
	return executor.None
}

// Capabilities says what the level can do.
func (e *Executor) Capabilities() executor.Capabilities {
	if e.opts.Bounds != nil {
		return e.opts.Bounds.Capabilities()
	}
	return executor.Capabilities{KeepProject: true, Reattach: true, User: e.host.Name() == local.Name && local.CanBeOthers()}
}

// as returns the level for the jobs of another user.
func (e *Executor) as(user string) (*Executor, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errors.New("the level is closed")
	}
	if other := e.others[user]; other != nil {
		return other, nil
	}
	program, err := e.setup.Program(e.host.Platform().OS, e.host.Platform().Arch)
	if err != nil {
		return nil, fmt.Errorf("finding a step-runner: %w", err)
	}
	setup := e.setup
	if setup.Host, err = local.As(user, program); err != nil {
		return nil, err
	}
	other, err := New(e.life, setup, Options{Bounds: e.opts.Bounds})
	if err != nil {
		return nil, err
	}
	if e.others == nil {
		e.others = map[string]*Executor{}
	}
	e.others[user] = other
	return other, nil
}

// on returns the level on a host that is this one, as the same or as another user; nil is another machine.
func (e *Executor) on(hostName string) (*Executor, error) {
	if hostName == e.host.Name() {
		return e, nil
	}
	if user, is := local.UserOf(hostName); is && e.host.Name() == local.Name {
		return e.as(user)
	}
	return nil, nil
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
	lease := ledger.Lease{Owner: e.setup.Lease.Owner, Keep: e.setup.Lease.Keep, Elsewhere: e.setup.Lease.Elsewhere}
	e.book, err = ledger.Open(e.setup.State, e.ledger(), lease)
	return err
}

// Probe implements executor.Prober: the host answers and has the step-runner, and the jobs' user can make folders where they are to be.
func (e *Executor) Probe(ctx context.Context, least *executor.Job) error {
	if least.User != "" {
		other, err := e.as(least.User)
		if err != nil {
			return err
		}
		own := *least
		own.User = ""
		return other.Probe(ctx, &own)
	}
	if err := e.begin(ctx); err != nil {
		return err
	}
	files := e.host.Files()
	if _, err := files.Stat(ctx, e.program); err != nil {
		return fmt.Errorf("the step-runner on the host %s: %w", e.host.Name(), err)
	}
	if least.Root == "" {
		return nil
	}
	dir := e.host.Path().Join(least.Root, "rung-probe-"+random())
	err := files.MkdirAll(ctx, least.Root, 0o755)
	if err == nil {
		err = files.Mkdir(ctx, dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("jobs on the host %s can have no folders in %s: %w", e.host.Name(), least.Root, err)
	}
	return files.RemoveAll(ctx, dir)
}

// ledger is what the ledgers of this level are called.
func (e *Executor) ledger() string { return string(e.Level()) }

// entry is what the ledger holds: a folder of an environment or step-runner, and what is around that. The order of fields is part of it.
type entry struct {
	Host  string          `json:"host"`
	Dirs  []string        `json:"dirs"`
	Bound json.RawMessage `json:"bound,omitempty"`
}

func (e *Executor) entry(dir string, bound Bound) string {
	it := entry{Host: e.host.Name(), Dirs: []string{dir}}
	if bound != nil {
		it.Bound = bound.State()
	}
	text, _ := json.Marshal(it) // strings and JSON cannot fail
	return string(text)
}

// find returns the bound with a state; nil is for none.
func (e *Executor) find(state json.RawMessage) (Bound, error) {
	switch {
	case state == nil:
		return nil, nil
	case e.opts.Bounds == nil:
		return nil, fmt.Errorf("level %s has no bounds", e.Level())
	}
	return e.opts.Bounds.Find(state)
}

// Sweep removes what environments on this host have left whose lease has ended.
func (e *Executor) Sweep(ctx context.Context) error {
	return ledger.Sweep(e.setup.State, e.ledger(), func(text string) error {
		var it entry
		if err := json.Unmarshal([]byte(text), &it); err != nil {
			return nil // not written by this level
		}
		there, err := e.on(it.Host)
		if there == nil && err == nil {
			return ledger.ErrElsewhere
		}
		err = errors.Join(err, context.Cause(ctx))
		if bound, wrong := e.find(it.Bound); wrong != nil {
			return nil // nor is this
		} else if bound != nil && err == nil {
			err = bound.Remove(ctx)
		}
		for _, dir := range it.Dirs {
			if err == nil {
				err = there.claims.unless(dir, func() error { return there.remove(ctx, dir) })
			}
		}
		return err
	})
}

// remove kills the processes that a job in the folder has left, as far as they are known, and removes the folder. It is for jobs whose
// step-runner did not end by itself: one that does leaves none.
func (e *Executor) remove(ctx context.Context, dir string) error {
	if err := e.kill(ctx, strings.TrimSuffix(dir, busySuffix)); err != nil { // that of a kept project stays
		return err
	}
	return e.host.Files().RemoveAll(ctx, dir)
}

// kill kills the processes that a job in the folder has left, or the step-runner in it, as far as they are known.
func (e *Executor) kill(ctx context.Context, dir string) error {
	switch {
	case e.host.Name() == local.Name:
		killLeft(dir)
	case e.host.Platform().OS == "linux":
		p, err := e.host.Exec(ctx, &host.Command{Args: []string{"sh", "-c", killScript, "sh", dir}})
		if err != nil {
			return err
		}
		_, err = p.Wait()
		return err
	}
	return nil
}

// killScript kills the processes of a host whose project, or whose step-runner's socket, is in the folder $1, and waits until they are gone.
const killScript = `for try in 1 2 3 4 5 6 7 8 9 10; do
  found=
  for process in /proc/[0-9]*; do
    if cat "$process/environ" "$process/cmdline" | tr '\0' ' ' | grep -q -F -e "CI_PROJECT_DIR=$1/" -e "--socket $1/s "; then
      kill -9 "${process#/proc/}" && found=1
    fi
  done 2>/dev/null
  [ "$found" ] || exit 0
  sleep 0.1
done`

// startAhead sees to it that step-runners are started for the next environments, as many as that, and returns them.
func (e *Executor) startAhead(n int) []*spare {
	e.mu.Lock()
	defer e.mu.Unlock()
	for !e.closed && len(e.spares) < n {
		s := &spare{began: time.Now(), done: make(chan struct{})}
		e.spares = append(e.spares, s)
		go func() {
			defer close(s.done)
			if s.err = e.begin(e.life); s.err == nil {
				s.runner, s.err = e.startRunner(e.life, "")
			}
		}()
	}
	return slices.Clone(e.spares[:min(n, len(e.spares))])
}

// Ready implements executor.Readier: what takes long in making an environment is to start its step-runner.
func (e *Executor) Ready(ctx context.Context, n int) {
	if !e.opts.Ahead {
		return
	}
	n = min(n, maxAhead)
	wanted := e.startAhead(n)
	e.discardOld(n)
	for _, s := range wanted {
		select {
		case <-s.done:
		case <-ctx.Done():
			return
		}
	}
}

// discardOld ends the step-runners beyond so many that nobody has needed for a while.
func (e *Executor) discardOld(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for last := len(e.spares) - 1; !e.closed && last >= n && time.Since(e.spares[last].began) > maxSpared; last-- {
		s := e.spares[last]
		e.spares = e.spares[:last]
		e.discards.Go(func() { e.discard(s) })
	}
}

// takeRunner returns a step-runner that was started ahead, or a new one.
func (e *Executor) takeRunner(ctx context.Context, slot string) (*runner, error) {
	if slot != "" { // where none is started ahead
		return e.startRunner(ctx, slot)
	}
	e.mu.Lock()
	var s *spare
	if len(e.spares) > 0 {
		s, e.spares = e.spares[0], e.spares[1:]
	}
	e.mu.Unlock()
	if s == nil {
		return e.startRunner(ctx, "")
	}
	select {
	case <-s.done:
		if s.err == nil && s.runner.alive() {
			return s.runner, nil
		}
		e.discard(s)
		return e.startRunner(ctx, "")
	case <-ctx.Done():
		e.mu.Lock()
		closed := e.closed
		if !closed {
			e.discards.Go(func() { e.discard(s) })
		}
		e.mu.Unlock()
		if closed { // and waits for nothing else
			e.discard(s)
		}
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

// Close ends the step-runners that were started ahead, and the ledger.
func (e *Executor) Close() error {
	e.mu.Lock()
	e.closed = true
	spares := e.spares
	e.spares = nil
	e.mu.Unlock()
	for _, s := range spares {
		e.discard(s)
	}
	e.discards.Wait()
	var problems []error
	for _, other := range e.others {
		problems = append(problems, other.Close())
	}
	e.end()
	e.opening.Lock()
	defer e.opening.Unlock()
	if e.book != nil {
		problems = append(problems, e.book.Close())
	}
	return errors.Join(problems...)
}

// random is part of a name that nobody else has, in small letters: some file systems do not tell them apart.
func random() string { return strings.ToLower(rand.Text()[:13]) }
