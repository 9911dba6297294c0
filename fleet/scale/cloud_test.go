package scale_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rungci/rung/fleet/scale"
)

// cloud is a group of machines that does what it is told, at once or when the test lets it. It checks what must always hold.
type cloud struct {
	t        *testing.T
	fleet    *scale.Fleet
	now      time.Time
	pools    map[string]scale.Pool
	machines map[string]*machine // by request
	deleting map[string]bool     // requests whose end was asked for and not carried out
	jobs     map[string]*machine // by key
	wake     time.Time
	made     int
	actions  []scale.Action // of the last decision
	history  []scale.Action
	ended    []string // jobs that lost their machines
	hold     bool     // nothing is carried out: asked collects it
	asked    []scale.Action
	disks
}

type machine struct {
	request, id, pool string
	jobs              map[string]bool
	uses              int
	ready             bool
}

var start = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

func newCloud(t *testing.T, policy scale.Policy, pools ...scale.Pool) *cloud {
	t.Helper()
	c := &cloud{t: t, now: start, pools: map[string]scale.Pool{}, machines: map[string]*machine{}, deleting: map[string]bool{}, jobs: map[string]*machine{}}
	for _, p := range pools {
		p.Slots = max(1, p.Slots)
		c.pools[p.Name] = p
	}
	c.disks = newDisks()
	var err error
	if c.fleet, err = scale.New(scale.Config{Name: "f", Pools: pools}, policy); err != nil {
		t.Fatal(err)
	}
	return c
}

// small is a pool of machines for one job each.
func small() scale.Pool {
	return scale.Pool{Name: "small", Shape: scale.Shape{CPUs: 2, Memory: 4 << 30, Arch: "amd64", OS: "linux"}, Price: 0.1, BootTime: time.Minute}
}

// adaptive keeps nothing that is not needed, so that tests see what was asked for.
func adaptive() scale.Policy { return &scale.Adaptive{Worth: 1} }

// decide asks for a decision and carries it out, unless the cloud holds.
func (c *cloud) decide() []scale.Action {
	c.t.Helper()
	d := c.fleet.Decide(c.now)
	c.wake, c.actions = d.Wake, slices.Clone(d.Actions)
	c.history = append(c.history, d.Actions...)
	c.check()
	answered := false
	for _, a := range d.Actions {
		if c.hold && (a.Kind == scale.Create || a.Kind == scale.Delete) {
			c.asked = append(c.asked, a)
			continue
		}
		if a.Kind >= scale.CreateVolume {
			c.disk(a)
			answered = answered || !c.hold
			continue
		}
		c.carryOut(a)
	}
	if answered { // there is more to decide
		c.actions = append(slices.Clone(d.Actions), c.decide()...)
	}
	return c.actions
}

// check follows where jobs are, and fails the test if a busy machine is deleted or a limit does not hold.
func (c *cloud) check() {
	c.t.Helper()
	for _, a := range c.actions {
		m := c.machines[a.Request]
		switch a.Kind {
		case scale.Create:
			if m == nil {
				c.machines[a.Request] = &machine{request: a.Request, pool: a.Pool, jobs: map[string]bool{}}
			}
		case scale.Place:
			if m == nil || !m.ready || c.deleting[a.Request] {
				c.t.Fatalf("%s is placed on %s, which takes no jobs", a.Key, a.Request)
			}
			m.jobs[a.Key], c.jobs[a.Key] = true, m
			c.begins(a)
			m.uses++
			if p := c.pools[m.pool]; len(m.jobs) > p.Slots || p.MaxUses > 0 && m.uses > p.MaxUses {
				c.t.Fatalf("%s has %d jobs, and has had %d", a.Request, len(m.jobs), m.uses)
			}
		case scale.End:
			delete(m.jobs, a.Key)
			delete(c.jobs, a.Key)
			delete(c.using, a.Key)
			c.ended = append(c.ended, a.Key)
		case scale.Delete:
			if m != nil && len(m.jobs) > 0 {
				c.t.Fatalf("%s is deleted with %d jobs: %s", a.Request, len(m.jobs), a.Why)
			}
			c.deleting[a.Request] = true
			if a.Why == "" {
				c.t.Fatal("a delete without a reason")
			}
		}
	}
	count := map[string]int{}
	for _, one := range c.fleet.Record().Instances {
		count[one.Pool]++
	}
	for name, p := range c.pools {
		if p.MaxInstances > 0 && count[name] > p.MaxInstances && !c.lying() {
			c.t.Fatalf("pool %s has %d machines, and may have %d", name, count[name], p.MaxInstances)
		}
	}
}

// lying reports whether there are machines that nobody asked for.
func (c *cloud) lying() bool {
	for request := range c.deleting {
		if _, asked := c.machines[request]; !asked {
			return true
		}
	}
	return false
}

func (c *cloud) carryOut(a scale.Action) {
	switch a.Kind {
	case scale.Create:
		m := c.machines[a.Request]
		if m == nil {
			return
		}
		if m.id == "" {
			c.made++
			m.id = fmt.Sprintf("i-%d", c.made)
		}
		c.fleet.Created(c.now, a.Request, m.id)
	case scale.Delete:
		delete(c.machines, a.Request)
		delete(c.deleting, a.Request)
		c.gone(a.Request)
		c.fleet.Deleted(c.now, a.Request, true)
	}
}

// ask has a job wait for any machine.
func (c *cloud) ask(key string, n ...scale.Needs) {
	c.t.Helper()
	if err := c.fleet.Ask(c.now, key, append(n, scale.Needs{})[0]); err != nil {
		c.t.Fatal(err)
	}
}

// release ends a job.
func (c *cloud) release(key string) {
	if m := c.jobs[key]; m != nil {
		delete(m.jobs, key)
		delete(c.jobs, key)
	}
	delete(c.using, key)
	c.fleet.Release(c.now, key)
}

// boot makes all machines ready that exist.
func (c *cloud) boot() {
	for _, request := range c.requests() {
		if m := c.machines[request]; m.id != "" && !m.ready && !c.deleting[request] {
			m.ready = true
			c.fleet.Ready(c.now, request)
		}
	}
}

func (c *cloud) requests() []string {
	var all []string
	for request := range c.machines {
		all = append(all, request)
	}
	slices.Sort(all)
	return all
}

// pass lets time go by, with the decisions that the fleet asks for.
func (c *cloud) pass(d time.Duration) {
	c.t.Helper()
	end := c.now.Add(d)
	for !c.wake.IsZero() && !c.wake.After(end) {
		if c.wake.After(c.now) {
			c.now = c.wake
		}
		before := c.wake
		if c.decide(); !c.wake.IsZero() && !c.wake.After(before) {
			c.t.Fatalf("asked for a decision at %v, the fleet asks for another at %v", before, c.wake)
		}
	}
	c.now = end
	c.decide()
}

// list tells the fleet all machines, as they are.
func (c *cloud) list() { c.fleet.Listed(c.now, c.seen()) }

func (c *cloud) seen() []scale.Seen {
	var all []scale.Seen
	for _, request := range c.requests() {
		if m := c.machines[request]; m.id != "" {
			s := scale.Seen{Instance: m.id, Request: request, Pool: m.pool, State: scale.GroupCreating}
			if m.ready {
				s.State = scale.GroupRunning
			}
			all = append(all, s)
		}
	}
	return all
}

// count is how many actions of a kind there were.
func (c *cloud) count(k scale.Kind) int {
	n := 0
	for _, a := range c.history {
		if a.Kind == k {
			n++
		}
	}
	return n
}

// want fails the test if the numbers of actions so far are others.
func (c *cloud) want(creates, deletes int) {
	c.t.Helper()
	if got := c.count(scale.Create); got != creates {
		c.t.Errorf("%d creates, want %d", got, creates)
	}
	if got := c.count(scale.Delete); got != deletes {
		c.t.Errorf("%d deletes, want %d", got, deletes)
	}
}
