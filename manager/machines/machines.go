// Package machines opens levels of isolation on the machines that providers give. Jobs on one machine share its connection and its levels, and
// what runs there ends when the machine does.
package machines

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/ledger"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/executor/usage"
	"github.com/rungci/rung/internal/background"
	"github.com/rungci/rung/manager/disk"
)

const (
	// idle is how long a level stays open on a machine that no job uses.
	idle = time.Minute
	// answerTime is how long a machine may take to do nothing.
	answerTime = 10 * time.Second
	// goneTime is how long may be spent on removing what was on a machine that is gone.
	goneTime = 5 * time.Second
	// closeTime is how long Close waits for levels that nobody uses to be closed.
	closeTime = 10 * time.Second
	// maxFailures is how many jobs in a row a machine may fail before they could run.
	maxFailures = 2
)

// Options are those of an Opener.
type Options struct {
	// Connect makes a host of a machine.
	Connect func(ctx context.Context, to provider.Access) (host.Host, error)
	// Open opens a level.
	Open func(ctx context.Context, level executor.Level, setup executor.Setup) (executor.Executor, error)
	// Made is what the configuration says of levels now: one that was opened when it said something else is not used by more jobs. nil: it never changes.
	Made func() string
	// Setup is what every level is made with. Host, and a folder below State for each machine, are added.
	Setup executor.Setup
	// Adopted is closed when the jobs of the process before have been taken over: what is then left of it on a machine is removed.
	Adopted <-chan struct{}
	// Note is told of what goes wrong beside jobs.
	Note func(error)
	// Limits are those of the disk of each machine, see Level.Room; nil is none.
	Limits func() disk.Limits
	Log    *slog.Logger
}

// Opener opens levels on machines. Its methods are safe for concurrent use.
type Opener struct {
	o    Options
	life context.Context // ends with Close
	end  context.CancelFunc
	busy background.Group // what Close waits for

	mu   sync.Mutex
	open map[string]*shared
	kept map[string]*kept // by the folder of the machine's state
}

// kept is what a machine has for later jobs. Its levels share it.
type kept struct {
	name string // of the machine
	uses *usage.Book
	disk *disk.Disk

	levels   int   // that are open, under Opener.mu
	failures int   // of jobs in a row, see Level.Failed; under Opener.mu
	failed   error // the last of them
}

// New makes an opener.
func New(o Options) *Opener {
	n := &Opener{o: o, open: map[string]*shared{}, kept: map[string]*kept{}}
	n.life, n.end = context.WithCancel(context.Background())
	return n
}

// shared is a level on a machine, for all jobs there.
type shared struct {
	name  string
	state string
	ready chan struct{} // closed when it is open, or cannot be
	err   error
	host  host.Host
	level executor.Executor
	kept  *kept

	closing sync.Once

	users int // under Opener.mu
	rest  *time.Timer
}

// Level opens a level on a machine for one job. Closing it gives it back.
func (o *Opener) Level(ctx context.Context, m *provider.Machine, level executor.Level) (*Level, error) {
	name := strings.Join([]string{string(level), m.Name, m.Access.String(), m.Access.HostKey, m.Temp, strings.Join(m.Env, " ")}, "\n")
	if o.o.Made != nil {
		name += "\n" + o.o.Made()
	}
	o.mu.Lock()
	s, known := o.open[name]
	if !known {
		sum := sha256.Sum256([]byte(m.Name + "\n" + m.Access.String()))
		s = &shared{name: name, ready: make(chan struct{}), state: filepath.Join(o.o.Setup.State, "machines", hex.EncodeToString(sum[:8]))}
		s.kept = o.keep(s.state, m.Name)
		o.open[name] = s
		go o.begin(context.WithoutCancel(ctx), s, m, level)
	}
	s.users++
	if s.rest != nil {
		s.rest.Stop()
		s.rest = nil
	}
	o.mu.Unlock()
	s.kept.disk.Changed()
	l := &Level{opener: o, shared: s, machine: m}
	select {
	case <-s.ready:
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), l.Close())
	case <-m.Done():
		return nil, errors.Join(m.Err(), l.Close())
	}
	if s.err != nil {
		return nil, errors.Join(s.err, l.Close())
	}
	l.Executor = s.level
	if known {
		if err := s.answers(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("it does not answer: %w", err), l.Close())
		}
	}
	return l, nil
}

// keep returns what a machine has for later jobs, for one more level there. The caller holds the lock.
func (o *Opener) keep(state, name string) *kept {
	k := o.kept[state]
	if k == nil {
		limits := o.o.Limits
		if limits == nil {
			limits = func() disk.Limits { return disk.Limits{} }
		}
		log := o.o.Log
		if log == nil {
			log = slog.New(slog.DiscardHandler)
		}
		k = &kept{
			name: name,
			uses: usage.New(filepath.Join(state, "uses")), // of this machine alone: the next one with its address has things of the same names
			disk: disk.New(disk.Options{Limits: limits, Storers: func() []executor.Storer { return o.storers(state) }, Log: log.With("machine", name)}),
		}
		o.kept[state] = k
	}
	k.levels++
	return k
}

// Disks are those of machines that jobs use, or lately did, by the names of machines: as they were looked at last.
func (o *Opener) Disks() map[string]*disk.Status {
	all := map[string]*disk.Status{}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, k := range o.kept {
		if s := k.disk.Status(); k.levels > 0 && s != nil && !s.Looked.IsZero() {
			all[k.name] = s
		}
	}
	return all
}

// storers are the levels on a machine that keep things for later jobs.
func (o *Opener) storers(state string) (all []executor.Storer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.open {
		if s.state != state {
			continue
		}
		select {
		case <-s.ready:
			if storer, ok := s.level.(executor.Storer); ok {
				all = append(all, storer)
			}
		default:
		}
	}
	return all
}

// answers reports whether a machine that was reached before still does what it is told.
func (s *shared) answers(ctx context.Context) error {
	if s.host.Name() == local.Name {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, fmt.Errorf("it has said nothing for %s", answerTime))
	defer cancel()
	p, err := s.host.Exec(ctx, &host.Command{Args: []string{"true"}})
	if err == nil {
		_, err = p.Wait()
	}
	return err
}

// begin opens a level on a machine, for those who wait for it.
func (o *Opener) begin(ctx context.Context, s *shared, m *provider.Machine, level executor.Level) {
	defer close(s.ready)
	connect := m.Connect
	if connect == nil {
		connect = func(ctx context.Context) (host.Host, error) { return o.o.Connect(ctx, m.Access) }
	}
	if s.host, s.err = connect(ctx); s.err != nil {
		s.host = nil // or a nil pointer in an interface
		o.drop(s)
		return
	}
	setup := o.o.Setup
	setup.Host, setup.State, setup.Temp, setup.HostEnv, setup.Uses = s.host, s.state, m.Temp, m.Env, s.kept.uses
	if s.level, s.err = o.o.Open(ctx, level, setup); s.err != nil {
		s.level = nil
		s.err = fmt.Errorf("isolation level %q: %w", level, s.err)
		o.drop(s)
		return
	}
	o.busy.Go(func() {
		select {
		case <-o.o.Adopted:
		case <-s.host.Done():
			return
		case <-o.life.Done():
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(o.life, cancel)()
		if err := errors.Join(ledger.Expire(s.state, setup.Lease.Owner), s.level.Sweep(ctx)); err != nil && s.host.Err() == nil && o.life.Err() == nil {
			o.o.Note(fmt.Errorf("removing what earlier jobs left on %s: %w", m.Name, err))
		}
	})
	go func() { // nobody else gets a machine that is lost
		<-s.host.Done()
		o.drop(s)
	}()
}

// drop lets nobody else have a level.
func (o *Opener) drop(s *shared) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[s.name] == s {
		delete(o.open, s.name)
	}
}

// leave ends the use of a level by one job.
func (o *Opener) leave(s *shared, m *provider.Machine) {
	s.kept.disk.Changed()
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.users--; s.users > 0 {
		return
	}
	known := o.open[s.name] == s
	if known && !m.Fresh && m.Life.Err() == nil && s.rest == nil {
		s.rest = time.AfterFunc(idle, func() { o.busy.Go(func() { o.finish(s, false) }) }) // else Close does it
		return
	}
	finish := func() { o.finish(s, m.Fresh) }
	if !o.busy.Go(finish) {
		go finish() // a job has outlived Close, which knows nothing of it
	}
}

// finish closes a level that nobody uses.
func (o *Opener) finish(s *shared, forGood bool) {
	o.mu.Lock()
	if s.users > 0 {
		o.mu.Unlock()
		return
	}
	if o.open[s.name] == s {
		delete(o.open, s.name)
	}
	o.mu.Unlock()
	<-s.ready
	o.close(s)
	if forGood { // what is on record of it is gone with it
		_ = os.RemoveAll(s.state)
	}
}

func (o *Opener) close(s *shared) {
	s.closing.Do(func() {
		o.mu.Lock()
		if s.kept.levels--; s.kept.levels == 0 && (s.kept.failures == 0 || s.kept.failures >= maxFailures) { // else the next job may fail, too
			delete(o.kept, s.state)
		}
		o.mu.Unlock()
		if s.level != nil {
			if err := s.level.Close(); err != nil && s.host.Err() == nil {
				o.o.Note(fmt.Errorf("closing an isolation level: %w", err))
			}
		}
		if s.host != nil {
			_ = s.host.Close() // nothing is on its way
		}
	})
}

// Close closes what is open, and waits a while for what is being closed: a machine may hang. No job uses it any more.
func (o *Opener) Close() {
	o.end()
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		_ = o.busy.EndWithin(ctx) // what goes on has nobody to tell
	}()
	o.mu.Lock()
	all := o.open
	o.open = map[string]*shared{}
	o.mu.Unlock()
	for _, s := range all {
		o.mu.Lock()
		if s.rest != nil {
			s.rest.Stop()
		}
		o.mu.Unlock()
		<-s.ready
		o.close(s)
	}
}

// Level is a level on a machine, as one job uses it.
type Level struct {
	executor.Executor
	opener  *Opener
	shared  *shared
	machine *provider.Machine
	once    sync.Once
}

// Machine is what it is on.
func (l *Level) Machine() *provider.Machine { return l.machine }

// Room makes room for another job on the machine, by removing what was not used for longest. The error says what the machine lacks: it is of no use to a
// job then. A machine of the job's own has nothing that could be removed.
func (l *Level) Room(ctx context.Context) error {
	d := l.shared.kept.disk
	if l.machine.Fresh || d.Room(ctx) {
		return nil
	}
	if s := d.Status(); s != nil && s.Waiting != "" {
		return fmt.Errorf("it has no disk space for another job: %s", s.Waiting)
	}
	return context.Cause(ctx)
}

// Fault says why the machine is of no use to other jobs; empty if nothing is known to be wrong with it.
func (l *Level) Fault() string {
	if err := l.shared.host.Err(); err != nil {
		return err.Error()
	}
	l.opener.mu.Lock()
	defer l.opener.mu.Unlock()
	if k := l.shared.kept; k.failures >= maxFailures {
		return fmt.Sprintf("%d jobs in a row could not run there, and not by their own fault: %v", k.failures, k.failed)
	}
	return ""
}

// Failed notes that a job could not run on the machine, not by its own fault; nil: it could.
func (l *Level) Failed(err error) {
	l.opener.mu.Lock()
	defer l.opener.mu.Unlock()
	k := l.shared.kept
	if k.failed = err; err == nil {
		k.failures = 0
		return
	}
	k.failures++
}

// Rank is that of the level, or of a machine of the job's own.
func (l *Level) Rank() int {
	if l.machine.Fresh {
		return max(executor.RankOf(l.Executor), executor.Instance.Rank())
	}
	return executor.RankOf(l.Executor)
}

// Prepare implements executor.Executor.
func (l *Level) Prepare(ctx context.Context, job *executor.Job, report executor.Reporter) (executor.Environment, error) {
	return l.make(ctx, func(ctx context.Context) (executor.Environment, error) { return l.Executor.Prepare(ctx, job, report) })
}

// Recover implements executor.Executor.
func (l *Level) Recover(ctx context.Context, handle executor.Handle) (executor.Environment, error) {
	return l.make(ctx, func(ctx context.Context) (executor.Environment, error) { return l.Executor.Recover(ctx, handle) })
}

// make makes an environment that ends with the machine.
func (l *Level) make(ctx context.Context, how func(context.Context) (executor.Environment, error)) (executor.Environment, error) {
	within, cancel := l.machine.Within(ctx)
	inner, err := how(within)
	cancel()
	if gone := l.machine.Life.Err(); err != nil && gone != nil {
		return nil, gone
	}
	if err != nil {
		return nil, err
	}
	env := &environment{Environment: inner, life: executor.NewLife(), machine: l.machine}
	go env.watch()
	return env, nil
}

// Close gives the level back: others may use it.
func (l *Level) Close() error {
	l.once.Do(func() { l.opener.leave(l.shared, l.machine) })
	return nil
}

// environment is one on a machine.
type environment struct {
	executor.Environment
	life    *executor.Life
	machine *provider.Machine
}

// watch ends the environment with its machine.
func (e *environment) watch() {
	select {
	case <-e.Environment.Done():
		e.life.Finish(e.Environment.Err())
	case <-e.machine.Done():
		e.life.Finish(&executor.Gone{Reason: fmt.Sprintf("the machine %s is gone", e.machine.Name), Err: e.machine.Err()})
	}
}

// Done implements executor.Environment.
func (e *environment) Done() <-chan struct{} { return e.life.Done() }

// Err implements executor.Environment.
func (e *environment) Err() error { return e.life.Err() }

// Check implements executor.Environment.
func (e *environment) Check(ctx context.Context) error {
	if err := e.life.Err(); err != nil {
		return err
	}
	return e.Environment.Check(ctx)
}

// Close implements executor.Environment. What was on a machine that is gone is gone.
func (e *environment) Close(ctx context.Context) error {
	if e.machine.Life.Err() == nil {
		return e.Environment.Close(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, goneTime)
	defer cancel()
	_ = e.Environment.Close(ctx)
	return nil
}
