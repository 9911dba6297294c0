package control_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/fake"
	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/schedule"
	"github.com/rungci/rung/fleet/store"
)

// world is a cloud, and the processes that manage it, one after the other. Time in it is made up: it passes while all wait.
type world struct {
	t       *testing.T
	cloud   *fake.Group
	others  map[string]*fake.Group // of pools that have another cloud
	memory  *memory
	options control.Options
	policy  func() scale.Policy            // for each process one; nil: that of options
	counts  bool                           // the group only counts
	crossed bool                           // volumes that are made are of somebody else
	deletes func(p *process, ids []string) // is told each call that deletes; may be nil
	shared  func(p *process) store.Store   // what records the process; nil: the memory
	fleet   *control.Fleet
	process *process
}

// inWorld runs a test in a world with one pool.
func inWorld(t *testing.T, o fake.Options, set func(*control.Options), test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, o)
		if set != nil {
			set(&w.options)
		}
		w.open()
		defer func() { w.process.kill() }()
		test(w)
	})
}

func newWorld(t *testing.T, o fake.Options) *world {
	w := &world{t: t, cloud: fake.New(o), memory: &memory{state: store.State{Jobs: map[string]store.Job{}}, machines: map[string]scale.InstanceRecord{}, volumes: map[string]scale.VolumeRecord{}}}
	w.options = control.Options{
		Scale:  scale.Config{Name: "f", Pools: []scale.Pool{{Name: "small", Shape: scale.Shape{CPUs: 2}, Price: 0.1}}},
		Policy: classic(schedule.Policy{IdleTime: time.Minute}),
	}
	if os.Getenv("FLEET_LOG") != "" {
		w.options.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return w
}

// classic is the existing policy with one schedule for all time.
func classic(p schedule.Policy) scale.Policy {
	p.Periods, _ = schedule.Parse("UTC", "* * * * *")
	return &scale.Classic{Policies: schedule.Policies{p}}
}

// open starts a process, which goes on from what the last has left.
func (w *world) open() {
	w.t.Helper()
	w.process = &process{w: w, opened: make(chan struct{})}
	o := w.options
	if w.policy != nil {
		o.Policy = w.policy()
	}
	first := w.group(w.cloud)
	o.Pools = map[string]control.Pool{}
	for _, p := range o.Scale.Pools {
		pool := w.options.Pools[p.Name]
		if pool.Group = first; w.others[p.Name] != nil {
			pool.Group = w.group(w.others[p.Name])
		}
		o.Pools[p.Name] = pool
	}
	if o.Store == nil {
		o.Store = w.process
	}
	if w.shared != nil {
		o.Store = w.shared(w.process)
	}
	var err error
	if w.fleet, err = control.Open(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
	w.process.fleet = w.fleet
	close(w.process.opened)
}

// group is a cloud as the process has it.
func (w *world) group(cloud *fake.Group) *group.Group {
	w.t.Helper()
	var basic group.Basic = &gate{Group: cloud, p: w.process}
	if w.counts {
		basic = counter{basic}
	}
	g := group.Adapt(basic)
	if _, err := g.Init(w.t.Context(), hclog.NewNullLogger(), group.Settings{Owner: "us"}); err != nil {
		w.t.Fatal(err)
	}
	return g
}

// restart kills the process, and starts another.
func (w *world) restart() {
	w.t.Helper()
	w.process.kill()
	synctest.Wait()
	w.open()
}

// acquire waits for a slot.
func (w *world) acquire(key string) *control.Slot {
	w.t.Helper()
	slot, err := w.fleet.Acquire(w.t.Context(), key, control.Job{ID: key, Project: "p"}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return slot
}

// wants lets a job wait for a slot, until the process ends.
func (w *world) wants(key string) {
	fleet := w.fleet
	go func() { _, _ = fleet.Acquire(w.t.Context(), key, control.Job{ID: key, Project: "p"}, nil) }()
}

// exist are the machines that exist.
func (w *world) exist() (ids []string) {
	for _, m := range w.cloud.Machines() {
		if m.Exists {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// made is how many machines were ever made.
func (w *world) made() int { return len(w.cloud.Machines()) }

// until lets time pass until something is so, a second at a time.
func (w *world) until(limit time.Duration, what string, is func() bool) time.Duration {
	w.t.Helper()
	for passed := time.Duration(0); ; passed += time.Second {
		synctest.Wait()
		if is() {
			return passed
		}
		if passed > limit {
			w.t.Fatalf("after %s: not %s: %+v", limit, what, w.fleet.Status())
		}
		time.Sleep(time.Second)
	}
}

// ends waits until no machine is left.
func (w *world) ends(limit time.Duration) {
	w.t.Helper()
	w.until(limit, "without machines", func() bool { return len(w.exist()) == 0 && len(w.fleet.Status().Machines) == 0 })
}

// history is the entries of some kinds.
func (w *world) history(kinds ...store.Kind) (found []store.Entry) {
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	for _, e := range w.memory.history {
		if slices.Contains(kinds, e.Kind) {
			found = append(found, e)
		}
	}
	return found
}

// process is what a process is allowed: after its death nothing that it does has an effect. It is its store.
type process struct {
	opened chan struct{} // closed once fleet is there
	w      *world
	fleet  *control.Fleet
	store  store.Store // where its records go; nil: to the memory
	state  interface{ Abandon() }
	lost   func() bool // another process has its store; nil: never

	mu      sync.Mutex
	dead    bool
	commits int
	fate    func(commit int) fate // what becomes of the process with each commit; nil: nothing
	refuse  error                 // of commits
}

// fate is when a process dies.
type fate int

const (
	lives fate = iota
	diesBefore
	diesAfter
)

var errDead = fmt.Errorf("the process is dead")

func (p *process) kill() {
	p.mu.Lock()
	p.dead = true
	p.mu.Unlock()
	if p.state != nil {
		p.state.Abandon()
	}
	if p.fleet != nil {
		p.fleet.Kill()
	}
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

func (p *process) Load() (store.State, error) {
	if p.store == nil {
		return p.w.memory.load(), nil
	}
	state, err := p.store.Load()
	p.w.memory.replace(state)
	return state, err
}

func (p *process) Commit(c store.Change) error {
	does, err := p.nextFate()
	if err != nil {
		return err
	}
	if does != diesBefore && p.store != nil {
		if err := p.store.Commit(c); err != nil { // it may wait, and nobody may wait for the lock meanwhile: time would not pass
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead { // meanwhile
		return errDead
	}
	if does != diesBefore {
		p.w.memory.apply(c)
	}
	if does != lives {
		p.dead = true
		return errDead
	}
	return nil
}

// nextFate says what becomes of the process with its next commit.
func (p *process) nextFate() (fate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return lives, errDead
	}
	if p.refuse != nil {
		return lives, p.refuse
	}
	p.commits++
	if p.fate != nil {
		return p.fate(p.commits), nil
	}
	return lives, nil
}

func (p *process) Append(entries ...store.Entry) error {
	if p.isDead() {
		return errDead
	}
	p.w.memory.mu.Lock()
	defer p.w.memory.mu.Unlock()
	p.w.memory.history = append(p.w.memory.history, entries...)
	return nil
}

func (p *process) History(_, _ time.Time, _ func(store.Entry) bool) error { return nil }
func (p *process) Close() error                                           { return nil }

// memory is what outlives processes.
type memory struct {
	mu       sync.Mutex
	state    store.State
	machines map[string]scale.InstanceRecord
	volumes  map[string]scale.VolumeRecord
	history  []store.Entry
	asked    map[string]bool // all that were ever on record; nil: they are not counted
}

func (m *memory) load() store.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := store.State{Fleet: scale.Record{Name: m.state.Fleet.Name, Created: m.state.Fleet.Created}, Jobs: maps.Clone(m.state.Jobs)}
	for _, request := range slices.Sorted(maps.Keys(m.machines)) {
		s.Fleet.Instances = append(s.Fleet.Instances, m.machines[request])
	}
	for _, name := range slices.Sorted(maps.Keys(m.volumes)) {
		s.Fleet.Volumes = append(s.Fleet.Volumes, m.volumes[name])
	}
	return s
}

// replace makes the memory what another store has.
func (m *memory) replace(s store.State) {
	m.mu.Lock()
	clear(m.machines)
	m.state = store.State{Jobs: map[string]store.Job{}}
	m.mu.Unlock()
	all := store.Change{Name: s.Fleet.Name, Created: s.Fleet.Created, Machines: s.Fleet.Instances}
	for _, job := range s.Jobs {
		all.Jobs = append(all.Jobs, job)
	}
	m.apply(all)
}

func (m *memory) apply(c store.Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.Name != "" {
		m.state.Fleet.Name = c.Name
	}
	m.state.Fleet.Created = max(m.state.Fleet.Created, c.Created)
	for _, one := range c.Machines {
		m.machines[one.Request] = one
		if m.asked != nil {
			m.asked[one.Request] = true
		}
	}
	for _, request := range c.Gone {
		delete(m.machines, request)
	}
	for _, v := range c.Volumes {
		m.volumes[v.Name] = v
	}
	for _, name := range c.Lost {
		delete(m.volumes, name)
	}
	for _, job := range c.Jobs {
		m.state.Jobs[job.Key] = job
	}
	for _, key := range c.Over {
		delete(m.state.Jobs, key)
	}
}

// has reports whether a request is on record.
func (m *memory) has(request string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.machines[request]
	return ok
}

// gate is the group as one process has it.
type gate struct {
	*fake.Group
	p *process
}

// counter is a group as plugins of the first generation are.
type counter struct{ group.Basic }

func (g *gate) Update(ctx context.Context, update func(string, group.State)) error {
	if g.p.isDead() {
		return errDead
	}
	return g.Group.Update(ctx, update)
}

func (g *gate) List(ctx context.Context, update func(group.Instance)) error {
	if g.p.isDead() {
		return errDead
	}
	return g.Group.List(ctx, update)
}

func (g *gate) Increase(ctx context.Context, n int) (int, error) {
	if g.p.isDead() {
		return 0, errDead
	}
	return g.Group.Increase(ctx, n)
}

func (g *gate) IncreaseShape(ctx context.Context, r group.Request) ([]string, error) {
	if g.p.isDead() {
		return nil, errDead
	}
	if w := g.p.w; w.options.Store == nil && !w.memory.has(r.ID) {
		g.p.w.t.Errorf("%s is asked for, and is not on record", r.ID)
	}
	g.fenced("asks for a machine")
	return g.Group.IncreaseShape(ctx, r)
}

func (g *gate) Decrease(ctx context.Context, ids []string) ([]string, error) {
	if g.p.isDead() {
		return nil, errDead
	}
	g.fenced("deletes machines")
	if g.p.w.deletes != nil {
		g.p.w.deletes(g.p, ids)
	}
	return g.Group.Decrease(ctx, ids)
}

// fenced fails the test if another process has the store.
func (g *gate) fenced(does string) {
	if g.p.lost != nil && g.p.lost() {
		g.p.w.t.Errorf("a process that is fenced %s", does)
	}
}
