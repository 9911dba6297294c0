package control_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/fake"
	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/schedule"
)

// What a seed is made of.
const (
	seeds   = 60
	jobs    = 15
	arrive  = 25 * time.Minute // all jobs come within
	settles = 4 * time.Hour    // after the last job, in which all machines must have ended
)

// TestWhateverFails runs fleets through faults in every call of their group, machines that fail in every way, and processes that die before and after each record.
// No machine with a job is deleted, no job loses a machine that is well, every job ends once, no request makes two machines, and in the end nothing is left.
func TestWhateverFails(t *testing.T) {
	t.Parallel()
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { newTrial(t, seed).run() })
		})
	}
}

// trial is a world in which much fails.
type trial struct {
	*world
	mu      sync.Mutex
	dice    *rand.Rand
	calm    bool // nothing fails any more
	busy    map[string]map[string]*worker
	theirs  string
	tenants int           // whose jobs have volumes; 0: none has
	next    chan struct{} // closed when there is another process
	ends    map[string]int
	deaths  int
	current *process
	share   *share // nil: the processes are one after the other, with the memory as their store
}

func newTrial(t *testing.T, seed uint64) *trial {
	r := &trial{dice: rand.New(rand.NewPCG(seed, 1)), busy: map[string]map[string]*worker{}, next: make(chan struct{}), ends: map[string]int{}}
	volumes := seed%3 != 2 && r.one(2)
	o := fake.Options{
		Boot: r.upTo(90 * time.Second), Deleting: r.upTo(time.Minute), Lag: r.upTo(20 * time.Second), KeepDeleted: r.one(2), Quota: 3 + r.n(8), Page: r.n(3),
		Machine: func(int) fake.Fate { return r.fate() },
		Before:  r.fault, After: r.fault,
	}
	counts := seed%3 == 2
	if r.one(5) && !counts {
		o.Surplus = 1
	}
	r.world = newWorld(t, o)
	r.counts, r.world.deletes = counts, r.checkDelete
	r.memory.asked = map[string]bool{}
	r.options.CallTimeout = 20 * time.Second
	r.options.RecoverWithin = 5 * time.Minute
	r.options.Scale.Pools[0].BootTimeout = 5 * time.Minute
	r.options.Scale.Pools[0].Slots = 1 + r.n(3)
	r.options.Scale.Pools[0].MaxUses = r.n(4)
	r.options.Scale.Pools[0].MaxInstances = r.n(8)
	if !counts {
		r.options.Pools = map[string]control.Pool{"small": {Suspend: r.n(3)}}
	}
	if volumes {
		p := &r.options.Scale.Pools[0]
		p.Volumes, p.Apart = true, r.one(2)
		r.tenants = 1 + r.n(4)
		r.options.Scale.Volumes = scale.Volumes{Max: 1 + r.n(3), Size: 1 << 30, Idle: time.Minute + r.upTo(time.Hour), Shared: r.one(2), Wait: r.upTo(2 * time.Minute)}
	}
	idle, old := r.upTo(3*time.Minute), r.one(2)
	r.policy = func() scale.Policy {
		if old {
			return classic(schedule.Policy{IdleTime: idle})
		}
		return &scale.Adaptive{Linger: idle}
	}
	if r.one(2) {
		r.options.Prepare = func(ctx context.Context, m *control.Machine) error {
			if _, err := m.ConnectInfo(ctx); err != nil {
				return err
			}
			return r.fault(ctx, fake.Call{Name: "Prepare"})
		}
	}
	return r
}

// n is a number from 0, below another.
func (r *trial) n(below int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dice.IntN(below)
}

func (r *trial) one(in int) bool                    { return r.n(in) == 0 }
func (r *trial) upTo(d time.Duration) time.Duration { return time.Duration(r.n(int(d))) }

// fate is what becomes of a machine.
func (r *trial) fate() (f fake.Fate) {
	if r.isCalm() {
		return f
	}
	later := time.Minute + r.upTo(30*time.Minute)
	switch r.n(12) {
	case 0:
		f.Stuck = true
	case 1:
		f.Fails = r.upTo(3 * time.Minute)
	case 2:
		f.Fails = later
	case 3:
		f.Vanishes = later
	case 4:
		f.Interrupted, f.Notice = later, r.upTo(3*time.Minute)
	case 5:
		f.Back = later
	case 6:
		f.Unhealthy = later
	}
	f.Undeletable = max(0, r.n(8)-4)
	return f
}

func (r *trial) isCalm() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calm
}

// fault may befall a call, when it begins and when it ends.
func (r *trial) fault(ctx context.Context, c fake.Call) error {
	if r.isCalm() || c.Name == "Init" || !r.one(8) {
		return nil
	}
	switch r.n(8) {
	case 0:
		return errors.New("internal error of the cloud")
	case 1:
		return group.Transient(r.upTo(time.Minute), errors.New("429"))
	case 2:
		return &group.Error{Kind: group.ErrUncertain, Message: "the connection broke"}
	case 3:
		if c.Name == "Increase" || c.Name == "CreateVolume" { // a call that has had its effect must not say that it had none: nobody could know of it
			return &group.Error{Kind: group.ErrUncertain}
		}
		return &group.Error{Kind: group.ErrQuota, Message: "no capacity"}
	case 4:
		return fake.Hang(ctx, c)
	case 5:
		panic("the plugin has a bug")
	default:
		select {
		case <-time.After(r.upTo(40 * time.Second)):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// start opens a process that may die with each of its records.
func (r *trial) start() {
	r.world.open()
	r.process.mu.Lock()
	r.process.fate = func(int) fate {
		if r.isCalm() || !r.one(40) {
			return lives
		}
		return []fate{diesBefore, diesAfter}[r.n(2)]
	}
	r.process.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = r.process
	close(r.next)
	r.next = make(chan struct{})
}

// lead starts a process whenever one has died, until all is over.
func (r *trial) lead(over chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-time.After(time.Second):
		}
		if kill := !r.isCalm() && r.one(600); !kill && !r.process.isDead() && (r.process.lost == nil || !r.process.lost()) {
			continue
		}
		r.deaths++
		if r.share != nil && r.one(2) { // the next one begins beside it
			last := r.process
			r.share.cut(last)
			r.start()
			last.kill()
			continue
		}
		r.process.kill()
		time.Sleep(r.upTo(30 * time.Second))
		r.start()
	}
}

// manager is the process now, and what is closed when it is another one.
func (r *trial) manager() (*process, chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current, r.next
}

// checkDelete checks a call that deletes.
func (r *trial) checkDelete(p *process, ids []string) {
	<-p.opened // a machine may be deleted while the fleet opens
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if id == r.theirs {
			r.t.Errorf("%s is deleted, and belongs to somebody else", id)
		}
		for _, w := range r.busy[id] {
			if w.slot.Reason() != "" { // it was told
				continue
			}
			if w.of == p {
				r.t.Errorf("%s is deleted, and has the job %s", id, w.key)
			} else if _, err := p.fleet.Recover(context.Background(), w.key); !errors.Is(err, control.ErrGone) {
				r.t.Errorf("%s is deleted, and has the job %s of an earlier process: %v", id, w.key, err)
			}
		}
	}
}

// worker is a job that runs.
type worker struct {
	key  string
	slot *control.Slot
	of   *process
}

// work is a job from its question to its end.
func (r *trial) work(key string) {
	time.Sleep(r.upTo(arrive))
	p, next := r.manager()
	for p.fleet.Reserve(key, scale.Needs{}) != nil {
		select {
		case <-next:
		case <-time.After(10 * time.Second):
		}
		p, next = r.manager()
	}
	if r.one(4) { // there was none, and later there is
		p.fleet.Release(key, "")
		time.Sleep(time.Second)
	}
	w := &worker{key: key}
	for w.slot == nil {
		w.of, next = r.manager()
		w.slot, _ = w.of.fleet.Acquire(r.t.Context(), key, control.Job{ID: key, Needs: r.needs(key)}, nil)
		if w.slot == nil {
			<-next
		}
	}
	r.occupy(w, true)
	r.reaches(w)
	ended := time.After(time.Second + r.upTo(10*time.Minute))
	for {
		_, next = r.manager()
		select {
		case <-w.slot.Done():
			r.lost(w, w.slot.Reason())
			return
		case <-ended:
			r.reaches(w)
			r.occupy(w, false)
			fault := ""
			if r.one(10) {
				fault = "its disk is full"
			}
			p, _ := r.manager()
			p.fleet.Release(key, fault)
			r.count(key)
			return
		case <-next:
		}
		p, _ := r.manager()
		slot, err := p.fleet.Recover(r.t.Context(), key)
		if errors.Is(err, control.ErrGone) {
			r.lost(w, err.Error())
			return
		}
		if err == nil {
			r.mu.Lock()
			if slot.Instance != w.slot.Instance {
				r.t.Errorf("%s was on %s, and is recovered on %s", key, w.slot.Instance, slot.Instance)
			}
			w.slot, w.of = slot, p
			r.mu.Unlock()
		}
	}
}

func (r *trial) count(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends[key]++
}

func (r *trial) occupy(w *worker, is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := w.slot.Instance
	if r.busy[id] == nil {
		r.busy[id] = map[string]*worker{}
	}
	if is {
		r.busy[id][w.key] = w
	} else {
		delete(r.busy[id], w.key)
	}
}

// lost ends a job whose machine is gone. One that is well must not be.
func (r *trial) lost(w *worker, why string) {
	r.occupy(w, false)
	r.count(w.key)
	for _, m := range r.cloud.Machines() {
		if m.ID == w.slot.Instance && m.State == group.StateRunning && m.Interruption == nil && m.Exists {
			r.t.Errorf("%s has lost %s, which is well: %s", w.key, m.ID, why)
		}
	}
}

func (r *trial) run() {
	r.theirs = r.cloud.Add(map[string]string{group.OwnerLabel: "them"})
	if r.counts {
		r.theirs = ""
		r.cloud.Vanish("fake-0") // such a group has all machines to itself
	}
	r.start()
	over := make(chan struct{})
	var lead, work sync.WaitGroup
	lead.Go(func() { r.lead(over) })
	for i := range jobs {
		work.Go(func() { r.work(fmt.Sprint("job-", i)) })
	}
	done := make(chan struct{})
	go func() { work.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(settles):
		r.mu.Lock()
		r.calm = true
		r.mu.Unlock()
		select {
		case <-done:
		case <-time.After(settles):
			r.t.Fatalf("jobs do not end: %+v", r.fleet.Status())
		}
	}
	r.mu.Lock()
	r.calm = true
	r.mu.Unlock()
	close(over)
	lead.Wait()
	r.process.kill()
	r.options.Pools = nil // nothing is suspended any more
	r.start()
	for passed := time.Duration(0); !r.empty(); passed += 15 * time.Second {
		if passed > settles {
			r.t.Fatalf("nobody asks for anything, and there are still %v: %+v", r.exist(), r.fleet.Status())
		}
		time.Sleep(15 * time.Second)
	}
	r.process.kill()
	for i := range jobs {
		if n := r.ends[fmt.Sprint("job-", i)]; n != 1 {
			r.t.Errorf("job-%d has ended %d times", i, n)
		}
	}
	r.doubles()
	if n := len(r.memory.load().Jobs); n > 0 {
		r.t.Errorf("%d jobs are left in the store", n)
	}
	r.t.Logf("%d machines for %d requests, %d processes have died", r.made(), len(r.memory.asked), r.deaths)
}

// empty reports whether no machine of ours exists, or is on record.
func (r *trial) empty() bool {
	left := slices.DeleteFunc(r.exist(), func(id string) bool { return id == r.theirs })
	return len(left) == 0 && len(r.cloud.Disks())+len(r.memory.load().Fleet.Volumes) == 0 && len(r.memory.load().Fleet.Instances) == 0
}

// doubles fails the test if there were more machines than requests on record.
func (r *trial) doubles() {
	perRequest := map[string]int{}
	for _, m := range r.cloud.Machines() {
		perRequest[m.Request]++
	}
	asked := slices.DeleteFunc(slices.Collect(maps.Keys(r.memory.asked)), func(request string) bool { return strings.Contains(request, "/") })
	if r.counts && r.made()-1 > len(asked) {
		r.t.Errorf("%d machines for %d requests", r.made()-1, len(asked))
	}
	for request, n := range perRequest {
		if request != "" && (!slices.Contains(asked, request) || n > 2) {
			r.t.Errorf("%d machines for the request %s", n, request)
		}
	}
}
