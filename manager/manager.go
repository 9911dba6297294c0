// Package manager is a GitLab runner: it asks GitLab for jobs and runs each of them in an environment of the isolation that the
// configuration says.
//
//	config.toml ──> entry, one for each [[runners]] ──asks──> GitLab
//	                  │
//	                  └── a job in a slot ──> job.Run ──> an environment of a level
//	                                             └── store: how far it is, for the next process
//
// A job is only asked for when there is a slot for it. A manager that was killed leaves its jobs running: the next one in the same state
// folder adopts them.
package manager

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/ledger"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/executor/usage"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/disk"
	"github.com/rungci/rung/manager/job"
	"github.com/rungci/rung/manager/store"
	"github.com/rungci/rung/manager/telemetry"
	"github.com/rungci/rung/manager/traces"
	"github.com/rungci/rung/steps/event"
)

const (
	// DefaultKeep is how long jobs go on without a manager.
	DefaultKeep = time.Hour
	// DefaultGrace is how long a command has to end that was told to.
	DefaultGrace = 10 * time.Second
	// JobsFolder is the folder of package store, within Options.State.
	JobsFolder = "jobs"
)

// Options are those of a Manager.
type Options struct {
	Config   *config.Config
	SystemID string
	// State is the folder that is this manager's alone: what runs, logs on their way, caches.
	State string
	// Fresh is that State does not outlive this process: jobs find nothing of earlier ones, and what a killed one has left is on record in
	// ledger.Folder.
	Fresh bool
	// Secret opens what the state folder has of runners that are not in the configuration any more, see config.StateSecret; nil: their jobs are lost.
	Secret []byte
	// Shared is the state that this manager shares with those on other hosts, while it has it; nil: State alone has all. The caller closes it, and ends the
	// process when it is lost.
	Shared *store.State
	// Open opens an isolation level for an entry of the configuration.
	Open func(ctx context.Context, r *config.Runner, level executor.Level, setup executor.Setup) (executor.Executor, error)
	// Provider opens where the machines of an entry come from that has a [runners.provider]; nil: there are no such entries.
	Provider func(ctx context.Context, r *config.Runner, setup provider.Setup) (provider.Provider, error)
	// Connect makes a host of a machine that a provider gives.
	Connect func(ctx context.Context, to provider.Access) (host.Host, error)
	// Program finds a step-runner, see executor.Setup.
	Program func(system, arch string) (file string, err error)
	// Version and Revision are this program's.
	Version, Revision string
	Log               *slog.Logger
	// Keep is how long jobs go on without a manager; 0 is DefaultKeep.
	Keep time.Duration
	// StandIn is the address of what has the place of GitLab for a job of Try; empty: there is none.
	StandIn string
	// Telemetry sends the spans of jobs; nil sends none.
	Telemetry *telemetry.Exporter
	// Observer is told what the manager does; may be nil.
	Observer Observer
}

// Manager runs the jobs of a configuration.
type Manager struct {
	o        Options
	identity string // of this manager, whatever process it is
	store    *store.Store
	left     string // the folder of the ledgers of what is made on this machine
	slots    *slots
	read     atomic.Pointer[config.Config] // the configuration, for its places; else it is config

	asking    context.Context // ends when no more jobs are taken
	endAsk    context.CancelFunc
	working   context.Context // ends when jobs are stopped; its cause says why
	endWork   context.CancelCauseFunc
	kill      *job.Kill
	jobs      sync.WaitGroup // and what asks for them; begun by one another, or while started, under the lock
	aside     sync.WaitGroup // what only the end of the manager waits for; begun under the lock, unless closed
	traces    traces.Folder
	digest    digest
	terminals terminals
	levels    *levels
	disk      *disk.Disk
	disks     disks

	mu      sync.Mutex
	config  *config.Config
	entries []*entry
	known   []*entry              // those of earlier configurations, too
	issued  map[string]store.Next // tokens that are not in the configuration yet, by the ID of the runner's records
	started bool                  // entries may ask for jobs
	closed  bool                  // nothing begins any more
	running map[*run]bool
	freed   chan struct{} // closed when a job has ended, and made again
	adopted chan struct{} // closed when the jobs of the process before have their environments, or none
}

// New makes a manager. The error is store.ErrInUse while another one has the state folder.
func New(o Options) (*Manager, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = Unobserved{}
	}
	o.Keep = cmp.Or(o.Keep, DefaultKeep)
	if err := os.MkdirAll(o.State, 0o700); err != nil {
		return nil, &store.FolderError{Folder: o.State, Err: err}
	}
	state, err := filepath.Abs(o.State)
	if err != nil {
		return nil, err
	}
	o.State = state
	kept, err := openStore(o)
	if err != nil {
		return nil, err
	}
	identity := o.State
	if o.Shared != nil {
		if identity, err = store.Identity(o.Shared); err != nil {
			return nil, err
		}
	}
	m := &Manager{
		identity: identity,
		o:        o, store: kept,
		slots: newSlots(o.Config.Concurrent), kill: job.NewKill(), running: map[*run]bool{}, issued: map[string]store.Next{}, freed: make(chan struct{}),
		terminals: terminals{log: o.Log}, adopted: make(chan struct{}),
	}
	m.left = m.ledgers()
	if o.Fresh {
		if m.left, err = ledger.Folder(); err != nil {
			kept.Close()
			return nil, err
		}
	}
	uses := usage.New(filepath.Join(o.State, usesFolder))
	m.levels = newLevels(o.Log, func(ctx context.Context, r *config.Runner, of executor.Level) (executor.Executor, error) {
		lease := executor.Lease{Owner: m.owner(), Keep: o.Keep, Elsewhere: o.Shared != nil && r.Apart(of)}
		if o.Fresh { // nobody would go on with the job
			lease = executor.Lease{}
		}
		opened, err := o.Open(ctx, r, of, executor.Setup{Program: o.Program, State: m.left, Lease: lease, Uses: uses})
		return opened, placed(m, r, config.PluginOptions, err)
	})
	m.disk = disk.New(disk.Options{Limits: space{m}.limits, Storers: space{m}.storers, Here: true, Folders: []string{o.State}, Log: o.Log})
	m.asking, m.endAsk = context.WithCancel(context.Background())
	m.working, m.endWork = context.WithCancelCause(context.Background())
	return m, nil
}

// owner names this manager to its environments, whatever process it is.
func (m *Manager) owner() string {
	sum := sha256.Sum256([]byte(m.identity))
	return "manager-" + hex.EncodeToString(sum[:6])
}

// ledgers is the folder of the ledgers of environments that end with the state folder: those on machines, which end with their fleet, and all others unless
// Options.Fresh is set.
func (m *Manager) ledgers() string { return filepath.Join(m.o.State, "environments") }

// Run adopts the jobs of the process before, asks for more, and returns when Drain, Stop or Kill was called and no job runs any more.
func (m *Manager) Run(ctx context.Context) error {
	defer m.store.Close()
	defer m.close()
	m.mu.Lock()
	known := m.config != nil // a newer one
	m.mu.Unlock()
	if !known {
		if err := m.Reload(ctx, m.o.Config); err != nil {
			return err
		}
	}
	m.adopt(ctx)
	m.mu.Lock()
	m.started = true
	for _, e := range m.entries {
		m.start(ctx, e)
	}
	m.mu.Unlock()
	<-m.asking.Done()
	m.mu.Lock()
	m.started = false // no reload begins anything that would be waited for already
	m.mu.Unlock()
	m.jobs.Wait()
	return nil
}

// Drain ends the asking for jobs. Run returns when those that run have ended.
func (m *Manager) Drain() { m.endAsk() }

// Stop drains, and ends the jobs: their after_script runs, and GitLab is told that the runner was interrupted.
func (m *Manager) Stop(reason string) {
	m.endAsk()
	m.endWork(&event.Stop{Code: event.CodeTerminated, Reason: reason})
}

// Kill ends all jobs now: nothing more of them runs, after_script neither. Reason is for their logs. Run returns within some seconds, and what GitLab
// has not heard by then the next process tells it.
func (m *Manager) Kill(reason string) {
	m.Stop(reason)
	m.kill.Now(reason)
}

// close closes the levels.
func (m *Manager) close() {
	m.terminals.close()
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.aside.Wait()
	m.levels.closing.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.levels.all() {
		m.levels.close(l)
	}
	for _, e := range m.known {
		if !e.gone {
			e.closeSupply(false)
		}
	}
}

// inherited is a job of the process before, and the entry that goes on with it.
type inherited struct {
	entry  *entry
	record job.Record
}

// inherit reads the jobs of the process before.
func inherit(m *Manager, entries []*entry) (out []inherited) {
	read := map[string]bool{}
	for _, e := range slices.Concat(entries, left(m)) {
		if read[e.records.ID()] { // its token is that of an entry before
			continue
		}
		read[e.records.ID()] = true
		records, err := e.records.Jobs()
		if err != nil {
			m.o.Log.Error("lost a job of the previous manager", "runner", e.settings().Name, "error", err)
		}
		for id, data := range records {
			record, err := readRecord(data)
			if err != nil {
				m.o.Log.Error("lost a job of the previous manager", "job", id, "error", err)
				_ = e.records.Delete(id)
				continue
			}
			out = append(out, inherited{cmp.Or(ownerOf(entries, e.records.ID(), record), e), record})
		}
	}
	return out
}

// adopt goes on with the jobs of the process before, and removes what nobody can go on with.
func (m *Manager) adopt(ctx context.Context) {
	m.mu.Lock()
	entries := slices.Clone(m.entries)
	m.mu.Unlock()
	jobs := inherit(m, entries)
	m.terminals.start(jobs)
	var adopted sync.WaitGroup
	for _, j := range jobs {
		m.slots.occupy(j.entry, j.record.Runner.Slot)
		m.mu.Lock()
		r := m.begin(j.entry, j.record.Payload, j.record.Runner.Slot)
		r.projectSlot = j.record.Runner.ProjectSlot
		m.mu.Unlock()
		if r.terminal = m.terminals.resume(j.record.Terminal); r.terminal == nil && j.record.Terminal != nil {
			r.entry.log.Warn("an adopted job has lost its terminal: [session_server] is no longer at the address that GitLab has", "job", r.from.ID, "address", j.record.Terminal.Server.Address)
		}
		adopted.Add(1)
		m.jobs.Go(func() { m.adoptJob(ctx, r, j.record, sync.OnceFunc(adopted.Done)) })
	}
	m.jobs.Go(func() {
		for _, e := range entries { // what was left on levels that no job has now
			if e.supply != nil {
				continue // on its machines, that is seen when they are used
			}
			e.mu.Lock()
			level := e.levels.Default
			e.mu.Unlock()
			l, _ := m.levels.open(ctx, e, level) // what is wrong with it is said before jobs are asked for
			m.levels.leave(l)
		}
		adopted.Wait()
		close(m.adopted)
		m.mu.Lock()
		for _, e := range slices.Clone(m.known) { // those that had no jobs, and are in the configuration no more
			m.dismiss(e)
		}
		m.mu.Unlock()
		m.sweep(m.working) // a level that hangs does not keep a manager that is stopped
		select {           // a program that the process before was starting when it was killed held on to its ledger for a moment
		case <-time.After(sweepAgain):
		case <-m.asking.Done():
		}
		m.sweep(m.working)
	})
}

// ownerOf is the entry that goes on with a job: of those with the token that its record was found by, the one of the same server and name.
func ownerOf(entries []*entry, id string, record job.Record) *entry {
	var owner *entry
	best := -1
	for _, e := range entries {
		if e.records.ID() != id {
			continue
		}
		like := 0
		if e.client().URL() == record.Runner.API {
			like += 2
		}
		if e.settings().Name == record.Runner.Name {
			like++
		}
		if like > best {
			owner, best = e, like
		}
	}
	return owner
}

// sweepAgain is how long after the first sweep the second one is; a manager that ends does not wait for it.
const sweepAgain = 10 * time.Second

// sweep removes what is left of environments that nobody adopted.
func (m *Manager) sweep(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	if err := ledger.Expire(m.left, m.owner()); err != nil {
		m.o.Log.Warn("cannot list what earlier processes left behind", "error", err)
	}
	for _, l := range m.levels.all() {
		if !l.open.Load() {
			continue
		}
		if err := l.executor.Sweep(ctx); err != nil {
			m.o.Log.Warn("cannot remove what earlier processes left behind", "error", err)
		}
	}
}
