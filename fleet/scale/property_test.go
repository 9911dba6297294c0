package scale_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/schedule"
)

// What a random run is made of.
const (
	runs   = 60
	events = 400
)

// TestWhatAlwaysHolds runs fleets through random events: jobs, machines that boot, fail, are refused, vanish and come back in lists, deletes that fail,
// answers that are lost or repeated, restarts. The cloud checks that no busy machine is deleted and no limit exceeded. In the end all jobs have
// run that still wait, and all machines are gone.
func TestWhatAlwaysHolds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(runs) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := newRandom(t, seed)
			for range events {
				r.event()
				r.decide()
				r.known()
			}
			r.settle()
		})
	}
}

// FuzzWhatAlwaysHolds is the same with seeds of the fuzzer.
func FuzzWhatAlwaysHolds(f *testing.F) {
	f.Add(uint64(1), uint16(50))
	f.Fuzz(func(t *testing.T, seed uint64, n uint16) {
		r := newRandom(t, seed)
		for range n % 2000 {
			r.event()
			r.decide()
			r.known()
		}
		r.settle()
	})
}

type random struct {
	*cloud
	dice   *rand.Rand
	policy scale.Policy
	config scale.Config
	keys   []string
	needs  map[string]scale.Needs
	next   int
}

func newRandom(t *testing.T, seed uint64) *random {
	dice := rand.New(rand.NewPCG(seed, 0))
	pools := []scale.Pool{
		{Name: "small", Shape: scale.Shape{CPUs: 2, Memory: 4 << 30}, Price: 0.1, MaxInstances: dice.IntN(6), Slots: 1 + dice.IntN(3), MaxUses: dice.IntN(4)},
		{Name: "big", Shape: scale.Shape{CPUs: 16, Memory: 64 << 30}, Price: 0.8, MaxInstances: 1 + dice.IntN(4), Slots: 1 + dice.IntN(2)},
		{Name: "hourly", Shape: scale.Shape{CPUs: 4, Memory: 8 << 30}, Price: 0.3, Billing: scale.Billing{Granularity: time.Hour}, MaxInstances: dice.IntN(4), BootTimeout: 3 * time.Minute},
	}
	var policy scale.Policy = &scale.Adaptive{Worth: []float64{0.05, 0.3, 1}[dice.IntN(3)], Linger: time.Duration(dice.IntN(3)) * time.Minute, Patience: dice.Float64(), Hedge: 2 * dice.Float64()}
	if dice.IntN(2) == 0 {
		always, _ := schedule.Parse("UTC", "* * * * *")
		policy = &scale.Classic{RoundUp: dice.IntN(2) == 0, Policies: schedule.Policies{
			{Periods: always, IdleTime: time.Minute, ScaleFactor: dice.Float64(), Preemptive: dice.IntN(2) == 0},
		}}
	}
	if dice.IntN(2) == 0 {
		most := 1 + dice.IntN(6)
		for i := range pools {
			pools[i].GroupInstances = most
		}
	}
	c := newCloud(t, policy, pools...)
	c.hold = true
	r := &random{cloud: c, dice: dice, policy: policy, config: scale.Config{Name: "f", Pools: pools}, needs: map[string]scale.Needs{}}
	if dice.IntN(4) > 0 {
		for i := range pools {
			pools[i].Volumes, pools[i].Apart = dice.IntN(4) > 0, dice.IntN(2) == 0
			p := c.pools[pools[i].Name]
			p.Apart = pools[i].Apart
			c.pools[p.Name] = p
		}
		r.config.Volumes = scale.Volumes{Max: 1 + dice.IntN(4), Idle: time.Duration(1+dice.IntN(20)) * time.Minute, Shared: dice.IntN(2) == 0, Wait: time.Duration(dice.IntN(3)) * time.Minute}
		c.shared = r.config.Volumes.Shared
	}
	fleet, err := scale.New(r.config, policy)
	if err != nil {
		t.Fatal(err)
	}
	c.fleet = fleet
	return r
}

// event does one thing.
func (r *random) event() {
	r.now = r.now.Add(time.Duration(r.dice.IntN(20_000)) * time.Millisecond)
	switch r.dice.IntN(17) {
	case 0, 1, 2:
		r.request()
	case 3, 4:
		if len(r.keys) > 0 {
			i := r.dice.IntN(len(r.keys))
			r.release(r.keys[i])
			r.keys = append(r.keys[:i], r.keys[i+1:]...)
		}
	case 5, 6, 7:
		r.answer()
	case 8, 9:
		if m := r.any(); m != nil && m.id != "" && !r.deleting[m.request] {
			m.ready = true
			r.fleet.Ready(r.now, m.request)
		}
	case 10:
		r.list()
	case 11:
		r.fleet.ListFailed(r.now, errors.New("503"))
	case 12:
		r.trouble()
	case 13:
		if r.dice.IntN(10) == 0 {
			r.restart()
		}
	case 14, 15:
		r.answerDisk()
	case 16:
		r.listDisks()
	}
}

func (r *random) request() {
	r.next++
	key := fmt.Sprint("job-", r.next)
	n := scale.Needs{Shape: scale.Shape{CPUs: []float64{0, 1, 4, 8}[r.dice.IntN(4)]}, Tenant: fmt.Sprint("project-", r.dice.IntN(3)), Volume: r.dice.IntN(4) > 0}
	r.needs[key], r.tenants[key] = n, n.Tenant
	if r.dice.IntN(3) == 0 && r.fleet.Reserve(r.now, key, n) == nil && r.dice.IntN(2) == 0 {
		r.fleet.Release(r.now, key)
		return
	}
	if r.fleet.Ask(r.now, key, n) == nil {
		r.keys = append(r.keys, key)
	}
	if r.dice.IntN(4) == 0 {
		_ = r.fleet.Ask(r.now, key, n) // again
	}
}

// any is one of the machines that were asked for.
func (r *random) any() *machine {
	if all := r.requests(); len(all) > 0 {
		return r.machines[all[r.dice.IntN(len(all))]]
	}
	return nil
}

// answer carries out what was asked for, or does not.
func (r *random) answer() {
	if len(r.asked) == 0 {
		return
	}
	i := r.dice.IntN(len(r.asked))
	a := r.asked[i]
	r.asked = append(r.asked[:i], r.asked[i+1:]...)
	if r.dice.IntN(3) > 0 {
		r.carryOut(a)
		if r.dice.IntN(5) == 0 {
			r.carryOut(a) // again
		}
		return
	}
	e := scale.Failure{Kind: scale.FailureKind(r.dice.IntN(4)), After: time.Duration(r.dice.IntN(30)) * time.Second}
	m := r.machines[a.Request]
	switch {
	case a.Kind == scale.Delete:
		r.fleet.DeleteFailed(r.now, a.Request, e)
	case m == nil || m.id != "": // it was made by an earlier call
	case e.Kind == scale.Unknown && r.dice.IntN(2) == 0: // made, and nobody heard of it
		r.made++
		m.id = fmt.Sprint("i-", r.made)
		r.fleet.CreateFailed(r.now, a.Request, e)
	default:
		if e.Kind != scale.Unknown {
			r.refused(a.Request)
		}
		r.fleet.CreateFailed(r.now, a.Request, e)
	}
}

// refused forgets a machine that was never made, if the fleet will as well.
func (r *random) refused(request string) {
	for _, one := range r.fleet.Record().Instances {
		if one.Request == request && one.State == scale.Requested {
			delete(r.machines, request)
		}
	}
}

// trouble befalls a machine.
func (r *random) trouble() {
	m := r.any()
	if m == nil || m.id == "" {
		return
	}
	switch r.dice.IntN(4) {
	case 0:
		r.fleet.Observed(r.now, scale.Seen{Instance: m.id, Request: m.request, Pool: m.pool, State: scale.GroupDeleting})
	case 1:
		r.fleet.Failed(r.now, m.request, "it does not answer")
	case 2:
		r.fleet.Interrupted(r.now, m.request, r.now.Add(2*time.Minute))
	case 3:
		r.fleet.Observed(r.now, scale.Seen{Instance: m.id, Request: m.request, Pool: m.pool, State: scale.GroupFailed, Reason: "no such image"})
	}
}

// restart goes on from the record. What waited asks again, as its manager does.
func (r *random) restart() {
	record := r.fleet.Record()
	fresh, err := scale.New(r.config, r.policy)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := fresh.Restore(r.now, record); err != nil {
		r.t.Fatal(err)
	}
	r.fleet = fresh
	for _, key := range r.keys {
		_ = r.fleet.Ask(r.now, key, r.needs[key])
	}
}

// known fails the test if a machine that costs money is not in the record.
func (r *random) known() {
	r.t.Helper()
	in := map[string]bool{}
	for _, one := range r.fleet.Record().Instances {
		in[one.Request] = true
	}
	for request, m := range r.machines {
		if m.id != "" && !in[request] {
			r.t.Fatalf("%s (%s) exists, and the fleet has forgotten it", m.id, request)
		}
	}
}

// settle lets everything succeed until nothing is asked for any more.
func (r *random) settle() {
	r.t.Helper()
	r.hold = false
	for _, a := range r.asked {
		r.carryOut(a)
	}
	for _, call := range r.calls {
		r.disks.apply(r.cloud, call)
	}
	r.calls = nil
	lost := map[string]bool{}
	for range 300 {
		r.pass(30 * time.Second)
		r.boot()
		r.list()
		r.decide()
		for _, key := range r.ended {
			lost[key] = true
		}
	}
	for _, key := range r.keys {
		if !lost[key] && r.jobs[key] == nil && len(r.jobs) == 0 {
			r.t.Fatalf("%s starves: %s", key, r.fleet.ExplainJob(r.now, key))
		}
	}
	for rounds := 0; len(r.keys) > 0 && rounds < 1000; rounds++ {
		for _, key := range r.keys {
			if lost[key] && r.jobs[key] == nil { // it has asked again after a restart; before others are released, one of which could give it a place
				r.release(key)
			}
		}
		rest := r.keys[:0]
		for _, key := range r.keys {
			if r.jobs[key] != nil {
				r.release(key)
			} else if !lost[key] {
				rest = append(rest, key)
			}
		}
		r.keys = rest
		r.pass(30 * time.Second)
		r.boot()
		r.list()
		r.decide()
		for _, key := range r.ended {
			lost[key] = true
		}
	}
	if len(r.keys) > 0 {
		r.t.Fatalf("%d jobs starve, the first: %s", len(r.keys), r.fleet.ExplainJob(r.now, r.keys[0]))
	}
	for i := range 33 {
		if i == 30 {
			for _, v := range r.fleet.VolumeRecords() { // by a create whose answer was lost
				if v.State != scale.VolumeUnknown || v.Found.IsZero() {
					r.t.Fatalf("nobody has used volumes for long, and there is still %+v", v)
				}
			}
			r.fleet.EndVolumes()
		}
		r.pass(10 * time.Minute)
		r.list()
		r.listDisks()
		r.decide()
	}
	if volumes := r.fleet.Record().Volumes; len(volumes) > 0 || len(r.all) > 0 {
		r.t.Fatalf("nobody has used volumes for long, and there are still %v, %+v", r.all, volumes)
	}
	if left := r.fleet.Record().Instances; len(left) > 0 || len(r.machines) > 0 {
		r.t.Fatalf("nobody asks for anything, and there are still %d machines of %d in the record: %+v\n%+v", len(r.machines), len(left), left, r.fleet.Explain(r.now))
	}
}
