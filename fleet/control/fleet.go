package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/store"
)

// Fleet is machines by demand. Its methods are safe for concurrent use.
type Fleet struct {
	o      Options
	log    *slog.Logger
	clock  *steady
	clouds []*cloud
	pools  map[string]scale.Pool

	life  context.Context // of the loop, lists, watches, checks and Prepare
	end   context.CancelFunc
	calls context.Context // of creates and deletes, which go on for a while after life
	stop  context.CancelFunc
	busy  sync.WaitGroup // what ends with life

	mu       sync.Mutex
	scale    *scale.Fleet
	machines map[string]*machine // by request: what scale has
	ids      map[string]*machine // by the id of the instance, once that is known
	underway int                 // creates and deletes
	jobs     map[string]*job
	changed  chan struct{} // closed at the next change
	pending  pending       // what is not committed
	entries  []store.Entry
	actions  []scale.Action // decided, and not recorded
	storeErr error
	closing  bool
	settled  chan struct{} // closed when the loop has ended

	wake chan struct{}
}

// Defaults of Options.
const (
	defaultUpdate    = time.Minute
	defaultExpecting = 2 * time.Second
	// ListWhileBusy is how often a group is listed at least while its machines have jobs, so that one that is gone ends its jobs soon.
	ListWhileBusy           = 15 * time.Second
	defaultCheck            = 10 * time.Second
	idleCheck               = 6 // times as long without jobs
	defaultThreshold        = 3
	defaultCallTimeout      = time.Minute
	defaultPrepareTimeout   = 5 * time.Minute
	defaultCheckTimeout     = 10 * time.Second
	defaultRecover          = 10 * time.Minute
	defaultShutdownInterval = 10 * time.Second
	defaultShutdownRetries  = 3
	// maxName leaves room for a number in the id of a request.
	maxName = 40
	// storePause is between attempts to record what could not be.
	storePause = time.Second
)

// withDefaults checks options, and completes them.
func (o Options) withDefaults() (Options, error) {
	o.UpdateInterval = cmp.Or(o.UpdateInterval, defaultUpdate)
	o.UpdateIntervalWhenExpecting = cmp.Or(o.UpdateIntervalWhenExpecting, defaultExpecting)
	o.CheckInterval = cmp.Or(o.CheckInterval, defaultCheck)
	o.FailureThreshold = cmp.Or(o.FailureThreshold, defaultThreshold)
	o.CallTimeout = cmp.Or(o.CallTimeout, defaultCallTimeout)
	o.PrepareTimeout = cmp.Or(o.PrepareTimeout, defaultPrepareTimeout)
	o.CheckTimeout = cmp.Or(o.CheckTimeout, defaultCheckTimeout)
	o.RecoverWithin = cmp.Or(o.RecoverWithin, defaultRecover)
	o.ShutdownDeletionInterval = cmp.Or(o.ShutdownDeletionInterval, defaultShutdownInterval)
	o.ShutdownDeletionRetries = cmp.Or(o.ShutdownDeletionRetries, defaultShutdownRetries)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = func(store.Entry) {}
	}
	switch name := o.Scale.Name; {
	case o.Store == nil || o.Policy == nil:
		return o, errors.New("internal error: a fleet needs a store and a policy")
	case name == "" || len(name) > maxName:
		return o, fmt.Errorf("the name of a fleet must have 1 to %d characters, not %q", maxName, name)
	}
	for _, p := range o.Scale.Pools {
		if o.Pools[p.Name].Group == nil {
			return o, fmt.Errorf("the pool %q has no group that makes its machines", p.Name)
		}
	}
	return o, nil
}

// Open takes over what the store has, and begins: machines of an earlier process are adopted, and its jobs keep their slots until they are recovered
// (Recover), or RecoverWithin is over. ctx bounds the opening alone.
func Open(ctx context.Context, o Options) (*Fleet, error) {
	o, err := o.withDefaults()
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	f := &Fleet{
		o: o, log: o.Log.With("fleet", o.Scale.Name), clock: newSteady(o.Clock), pools: map[string]scale.Pool{}, machines: map[string]*machine{}, ids: map[string]*machine{}, jobs: map[string]*job{},
		changed: make(chan struct{}), wake: make(chan struct{}, 1), settled: make(chan struct{}),
	}
	for _, p := range o.Scale.Pools {
		p.Slots = max(1, p.Slots)
		f.pools[p.Name] = p
		f.addCloud(p.Name, o.Pools[p.Name])
	}
	f.life, f.end = context.WithCancel(context.Background())
	f.calls, f.stop = context.WithCancel(context.Background())
	if err := f.restore(); err != nil {
		f.end()
		f.stop()
		return nil, err
	}
	f.begin()
	return f, nil
}

// restore takes over what the store has.
func (f *Fleet) restore() error {
	state, err := f.o.Store.Load()
	if err != nil {
		return fmt.Errorf("the state of the fleet: %w", err)
	}
	if state.Lost != "" {
		f.log.Error("a part of the fleet's state is lost; machines that are not in the rest are found in the lists of their groups, and ended", "state", state.Lost)
	}
	if name := state.Fleet.Name; name != "" && name != f.o.Scale.Name {
		return fmt.Errorf("the state is that of the fleet %q, and this one is %q; use another folder for it", name, f.o.Scale.Name)
	}
	if f.scale, err = scale.New(f.o.Scale, f.o.Policy); err != nil {
		return err
	}
	now := f.clock.Now()
	if err := f.scale.Restore(now, state.Fleet); err != nil {
		return fmt.Errorf("the state of the fleet: %w", err)
	}
	f.pending.name = f.o.Scale.Name
	f.follow(now)
	f.entries = nil // what is adopted was told before
	for _, m := range f.machines {
		m.asked = true
	}
	f.adopt(now, state.Jobs)
	return nil
}

// begin starts what goes on until Close.
func (f *Fleet) begin() {
	go f.run()
	for _, c := range f.clouds {
		f.busy.Go(c.lists)
		if c.group.Can().Watch {
			f.busy.Go(c.watch)
		}
	}
	f.busy.Go(f.checks)
	f.busy.Go(f.giveUp)
}

// tell lets the decision know what has happened.
func (f *Fleet) tell(event func(now time.Time)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	event(now)
	f.follow(now)
	f.kick()
}

// kick lets the loop decide. The caller holds the lock.
func (f *Fleet) kick() {
	close(f.changed)
	f.changed = make(chan struct{})
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// run is the loop.
func (f *Fleet) run() {
	defer close(f.settled)
	for {
		next := f.step()
		var later <-chan time.Time
		if !next.IsZero() {
			later = f.clock.After(max(0, next.Sub(f.clock.Now())))
		}
		select {
		case <-f.wake:
		case <-later:
		case <-f.life.Done():
			return
		}
	}
}

// launch does something beside the loop, which Close waits for. The caller holds the lock.
func (f *Fleet) launch(do func()) {
	f.underway++
	go func() {
		do()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.underway--
		f.kick()
	}()
}

// step decides, records, and does; it returns when the next is due.
func (f *Fleet) step() time.Time {
	f.mu.Lock()
	now := f.clock.Now()
	d := f.scale.Decide(now)
	f.follow(now)
	for _, a := range d.Actions {
		f.decided(now, a)
	}
	change, entries, actions := f.pending.take(), f.entries, f.actions
	f.entries, f.actions = nil, nil
	if len(d.Actions) > 0 {
		close(f.changed) // what Free counts is other than it was
		f.changed = make(chan struct{})
	}
	f.mu.Unlock()

	if !f.record(change, entries, actions) {
		f.do(f.losses())
		return f.clock.Now().Add(storePause)
	}
	f.do(actions)
	return d.Wake
}

// record keeps what was decided. Until it has, nothing is done.
func (f *Fleet) record(change store.Change, entries []store.Entry, actions []scale.Action) bool {
	var err error
	if !empty(change) {
		err = f.o.Store.Commit(change)
	}
	f.mu.Lock()
	was := f.storeErr
	f.storeErr = err
	if err != nil {
		f.pending.back(change)
		f.entries = append(entries, f.entries...)
		f.actions = append(actions, f.actions...)
	}
	f.mu.Unlock()
	switch {
	case err != nil && was == nil:
		f.log.Error("decisions of the fleet cannot be recorded, and are not carried out until they can; make room on the disk, or repair the folder of the fleet", "error", err)
	case err == nil && was != nil:
		f.log.Info("decisions of the fleet are recorded again")
	}
	if err != nil {
		return false
	}
	if len(entries) > 0 {
		if err := f.o.Store.Append(entries...); err != nil {
			f.log.Warn("the history of the fleet cannot be written", "error", err)
		}
	}
	for _, e := range entries {
		f.o.Observe(e)
	}
	return true
}

// losses are the jobs that have lost their machines, of what was decided: that is so, whether it is recorded or not.
func (f *Fleet) losses() (ends []scale.Action) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.actions = slices.DeleteFunc(f.actions, func(a scale.Action) bool {
		if a.Kind == scale.End {
			ends = append(ends, a)
		}
		return a.Kind == scale.End
	})
	return ends
}

// do carries out what was recorded.
func (f *Fleet) do(actions []scale.Action) {
	deletes := map[*cloud][]string{}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range actions {
		m := f.machines[a.Request]
		switch {
		case a.Kind == scale.Place:
			f.placed(a)
		case a.Kind == scale.End:
			f.lost(a)
		case m == nil: // it is gone already
		case a.Kind == scale.Create && !f.closing:
			m.cloud.create(m)
		case a.Kind == scale.Delete && m.cloud == nil:
			f.log.Error("a machine cannot be ended, as its pool is not in the configuration any more; bring the pool back, or end it by hand", "pool", m.rec.Pool, "instance", m.rec.Instance)
		case a.Kind == scale.Delete:
			deletes[m.cloud] = append(deletes[m.cloud], a.Request)
		}
	}
	for _, c := range f.clouds {
		c.end(deletes[c])
	}
}

// Changed returns a channel that is closed at the next change of anything that Free counts.
func (f *Fleet) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// machine is a machine as scale has it, and what this process knows of it.
type machine struct {
	request string
	rec     scale.InstanceRecord
	cloud   *cloud // nil: its pool is not in the configuration, and no list had it
	since   time.Time
	seen    group.Instance
	access  *access

	asked    bool      // a create may have been called, by this process or by another one
	creating bool      // a call is under way
	deleting bool      // a call is under way
	told     bool      // that it is deleted, in the history
	unnamed  time.Time // since when lists are looked at for it, while nobody knows its id
	looks    int       // lists since then

	preparing  context.CancelFunc // nil: nobody does
	prepareErr error
	health     health
}

// follow brings machines to what scale has. The caller holds the lock.
func (f *Fleet) follow(now time.Time) {
	created, changed, gone := f.scale.Changes()
	for _, rec := range changed {
		f.followOne(now, rec)
	}
	for _, rec := range gone {
		if m := f.machines[rec.Request]; m != nil {
			m.halt()
			delete(f.machines, rec.Request)
			delete(f.ids, rec.Instance)
			e := f.entry(now, store.Gone, rec)
			e.Began, e.Uses, e.Why = rec.Created, rec.Uses, rec.Reason
			f.entries = append(f.entries, e)
		}
		f.pending.lose(rec.Request)
	}
	if len(changed)+len(gone) > 0 {
		f.pending.created = created
	}
}

func (f *Fleet) followOne(now time.Time, rec scale.InstanceRecord) {
	m := f.machines[rec.Request]
	if m == nil {
		m = &machine{request: rec.Request, cloud: f.cloudOf(rec.Pool), since: now}
		m.rec.State = scale.Requested
		f.machines[rec.Request] = m
	}
	was := m.rec
	m.rec = rec
	f.pending.keep(rec)
	if rec.Instance != "" {
		f.ids[rec.Instance] = m
	}
	if rec.Instance != "" && m.access == nil && m.cloud != nil {
		m.access = newAccess(m.cloud, rec.Instance)
	}
	if rec.State == was.State {
		return
	}
	m.since = now
	if rec.State != scale.Creating {
		m.halt()
	}
	if rec.State == scale.Ready {
		m.health.checked = now
		e := f.entry(now, store.Ready, rec)
		e.Began = rec.Created
		f.entries = append(f.entries, e)
	}
	if m.cloud != nil {
		m.cloud.soon()
	}
}

// halt ends Prepare.
func (m *machine) halt() {
	if m.preparing != nil {
		m.preparing()
		m.preparing = nil
	}
}

// public is the machine for Prepare, Check, and whoever has a slot.
func (m *machine) public() Machine {
	return Machine{Pool: m.rec.Pool, Request: m.rec.Request, Instance: m.rec.Instance, Group: m.seen, access: m.access}
}

// entry begins an entry about a machine.
func (f *Fleet) entry(now time.Time, kind store.Kind, rec scale.InstanceRecord) store.Entry {
	p := f.pools[rec.Pool]
	return store.Entry{At: now, Kind: kind, Pool: rec.Pool, Request: rec.Request, Instance: rec.Instance, Price: p.Price, Billing: p.Billing, Slots: len(rec.Jobs)}
}

// decided notes an action, to be done once it is recorded. The caller holds the lock.
func (f *Fleet) decided(now time.Time, a scale.Action) {
	f.actions = append(f.actions, a)
	m := f.machines[a.Request]
	e := store.Entry{At: now, Pool: a.Pool, Request: a.Request, Instance: a.Instance, Why: a.Why}
	switch a.Kind {
	case scale.Create:
		if m == nil || m.asked {
			return
		}
		e = f.entry(now, store.Create, m.rec)
		e.Why = a.Why
	case scale.Delete:
		if m == nil || m.told {
			return
		}
		m.told, e.Kind = true, store.Delete
	case scale.Drain:
		e.Kind = store.Drain
	case scale.Place, scale.End:
		j := f.jobs[a.Key]
		if j == nil {
			return
		}
		e.Key, e.Slot = a.Key, a.Slot
		j.note(&e)
		if e.Kind, e.Began = store.Ended, j.placed; a.Kind == scale.Place {
			j.placed, j.request = now, a.Request
			e.Kind, e.Began = store.Place, j.asked
			f.pending.placed(store.Job{Key: a.Key, ID: j.ID, Project: j.Project, Needs: j.Needs, Request: a.Request, Asked: j.asked, Placed: now})
		} else {
			j.request = ""
			f.pending.over(a.Key)
		}
	}
	f.entries = append(f.entries, e)
	f.log.Info(string(e.Kind), "pool", a.Pool, "request", a.Request, "instance", a.Instance, "job", e.JobID, "why", e.Why)
}

// requestsOf are the requests of machines that satisfy something, in order. The caller holds the lock.
func (f *Fleet) requestsOf(is func(*machine) bool) (requests []string) {
	for request, m := range f.machines {
		if is(m) {
			requests = append(requests, request)
		}
	}
	slices.Sort(requests)
	return requests
}
