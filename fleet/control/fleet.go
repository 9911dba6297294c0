package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/store"
)

// Fleet is machines by demand. Its methods are safe for concurrent use.
type Fleet struct {
	o Options
	book

	endVolumes bool // with the fleet

	life  context.Context // of the loop, lists, watches, checks and Prepare
	end   context.CancelFunc
	calls context.Context // of creates and deletes, which go on for a while after life
	stop  context.CancelFunc
	busy  sync.WaitGroup // what ends with life
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
		if o.Pools[p.Name].Group == nil && !p.Retired {
			return o, fmt.Errorf("the pool %q has no group that makes its machines", p.Name)
		}
	}
	return o, nil
}

// Open takes over what the store has, and begins: machines of an earlier process are adopted, and its jobs keep their slots until they are recovered
// (Recover), or RecoverWithin is over. A machine that was ready is checked, and not prepared a second time. ctx bounds the opening alone.
func Open(ctx context.Context, o Options) (*Fleet, error) {
	o, err := o.withDefaults()
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	f := &Fleet{o: o, book: book{
		log: o.Log.With("fleet", o.Scale.Name), clock: newSteady(o.Clock), pools: map[string]scale.Pool{}, machines: map[string]*machine{}, ids: map[named]*machine{}, jobs: map[string]*job{},
		volumes: map[string]scale.VolumeRecord{}, calling: map[calling]bool{}, told: map[string]calling{}, volumePrice: o.Scale.Volumes.Price,
		changed: make(chan struct{}), wake: make(chan struct{}, 1), settled: make(chan struct{}),
	}}
	f.addPools()
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

// addPools finds the clouds, and completes what the decision is told of pools.
func (f *Fleet) addPools() {
	f.o.Scale.Pools = slices.Clone(f.o.Scale.Pools)
	for _, p := range f.o.Scale.Pools {
		if f.o.Pools[p.Name].Group != nil {
			f.addCloud(p.Name, f.o.Pools[p.Name])
		}
		f.pools[p.Name] = p
	}
	for i := range f.o.Scale.Pools {
		p := &f.o.Scale.Pools[i]
		of := f.o.Pools[p.Name]
		if p.Suspend = of.Suspend; p.Suspend > 0 && of.Group != nil && !of.Group.Can().Suspend {
			f.log.Warn("the group of a pool cannot suspend machines; they are deleted", "pool", p.Name)
			p.Suspend = 0
		}
		p.Volumes = p.Volumes && of.Group.Can().Volumes
		p.Slots, p.Group, p.GroupInstances = max(1, p.Slots), "", 0
		if of.Group != nil {
			if most := of.Group.Info().MaxSize; most < math.MaxInt32 { // which means that there is no limit
				p.GroupInstances = most
			}
		}
		switch {
		case of.Group == nil: // its machines are of no group that there is
			p.Group = "none"
		case len(f.clouds) > 1:
			p.Group = strconv.Itoa(1 + slices.Index(f.clouds, f.cloudOf(p.Name)))
		}
		f.pools[p.Name] = *p
	}
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
	// A group answers a request that it knows with the machine of then. Requests are numbered from the time on, so that they do not come again where the record was lost.
	state.Fleet.Created = max(state.Fleet.Created, uint64(max(0, now.Unix())))
	state.Fleet.Began = map[string]time.Time{}
	for key, j := range state.Jobs {
		state.Fleet.Began[key] = j.Placed
	}
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
	volumes := f.o.Scale.Volumes.Max > 0 || len(f.volumes) > 0 // who wants none may not be allowed to list any
	go f.run()
	for _, c := range f.clouds {
		f.busy.Go(c.lists)
		if volumes && c.group.Can().Volumes {
			f.busy.Go(c.volumeLists)
		}
		if c.group.Can().Watch {
			f.busy.Go(c.watch)
		}
	}
	f.busy.Go(f.checks)
	f.busy.Go(f.giveUp)
	if of, ok := f.o.Store.(store.Fenced); ok {
		f.busy.Go(func() { f.watchFence(of) })
	}
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
		case a.Kind >= scale.CreateVolume:
			doVolume(f, a)
		case m == nil: // it is gone already
		case a.Kind == scale.Create && !f.closing:
			m.cloud.create(m)
		case a.Kind == scale.Suspend || a.Kind == scale.Resume:
			m.cloud.power(m)
		case a.Kind == scale.Delete && m.cloud == nil:
			f.log.Error("a machine cannot be ended, as the plugin of its pool, which is not in the configuration any more, cannot be started; install the plugin, bring the pool back, or end the machine by hand", "pool", m.rec.Pool, "instance", m.rec.Instance)
		case a.Kind == scale.Delete:
			deletes[m.cloud] = append(deletes[m.cloud], a.Request)
		}
	}
	for _, c := range f.clouds {
		c.end(deletes[c])
	}
}

// Changed returns a channel that is closed at the next change of anything that Free counts.
func (f *book) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}
