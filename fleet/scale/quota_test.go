package scale_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/schedule"
)

// shared are two pools of a group that can have two machines.
func shared() (a, b scale.Pool) {
	a = scale.Pool{Name: "a", Group: "g", MaxInstances: 2, GroupInstances: 2, Price: 1, Shape: scale.Shape{CPUs: 2}}
	b = scale.Pool{Name: "b", Group: "g", MaxInstances: 2, GroupInstances: 2, Price: 4, Shape: scale.Shape{CPUs: 8}}
	return a, b
}

var big = scale.Needs{Shape: scale.Shape{CPUs: 8}}

// busy lets small jobs have both machines of the group, and ends them one after the other.
func busy(c *cloud) {
	for i := range 2 {
		c.ask(fmt.Sprint("small-", i))
	}
	for range 2 {
		c.decide()
		c.boot()
	}
	for i := range 2 {
		c.release(fmt.Sprint("small-", i))
		c.pass(5 * time.Second)
	}
}

func TestIdleMachinesMakeWayForAJobThatNeedsAnotherPool(t *testing.T) {
	t.Parallel()
	suspending, _ := shared()
	suspending.Suspend = 2
	plain, other := shared()
	for name, test := range map[string]struct {
		policy scale.Policy
		pool   scale.Pool
	}{
		"that a policy keeps idle":     {classic(t, schedule.Policy{IdleCount: 2, IdleTime: time.Minute}), plain},
		"that are idle for long":       {classic(t, schedule.Policy{IdleTime: time.Hour}), plain},
		"that are suspended":           {adaptive(), suspending},
		"that are likely to be needed": {&scale.Adaptive{Linger: time.Hour}, plain},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t, test.policy, test.pool, other)
			busy(c)
			creates := c.count(scale.Create)
			c.ask("big", big)
			c.decide()
			c.decide()
			c.boot()
			c.decide()
			if c.jobs["big"] == nil {
				t.Fatal(c.fleet.ExplainJob(c.now, "big"))
			}
			c.want(creates+1, 1)
			for _, a := range c.history {
				if a.Kind == scale.Delete && (a.Request != "f-1" || a.Why != "i-1 has no job, jobs wait for a machine of another pool, and their group can have no more than 2 machines") {
					t.Errorf("%+v", a)
				}
			}
			c.pass(10 * time.Minute)
			if got := len(c.fleet.Record().Instances); got > 2 {
				t.Errorf("the group can have 2 machines, and is to have %d", got)
			}
		})
	}
}

// The machine that makes way takes a while to be gone. Its place is not that of one to be idle.
func TestThePlaceOfAMachineThatMakesWayIsForTheJob(t *testing.T) {
	t.Parallel()
	a, b := shared()
	c := newCloud(t, classic(t, schedule.Policy{IdleCount: 2, IdleTime: time.Minute}), a, b)
	busy(c)
	c.hold = true
	c.ask("big", big)
	c.decide()
	c.pass(5 * time.Minute)
	for _, one := range c.asked {
		if one.Kind == scale.Create || one.Request != "f-1" {
			t.Fatalf("%+v", one)
		}
	}
	c.hold = false
	c.carryOut(c.asked[0])
	c.decide()
	if last := c.history[len(c.history)-1]; last.Kind != scale.Create || last.Pool != "b" {
		t.Errorf("%+v", last)
	}
	for _, e := range c.fleet.Explain(c.now) {
		if !strings.Contains(e.Limit, "its group has its 2 machines") {
			t.Errorf("pool %s: %q", e.Pool, e.Limit)
		}
	}
}

func TestNoMachineMakesWayWhereAnotherGroupHasRoom(t *testing.T) {
	t.Parallel()
	a, b := shared()
	elsewhere := b
	elsewhere.Name, elsewhere.Group, elsewhere.Price, elsewhere.GroupInstances = "elsewhere", "h", 10, 5
	c := newCloud(t, classic(t, schedule.Policy{IdleTime: time.Hour}), a, b, elsewhere)
	busy(c)
	c.ask("big", big)
	c.decide()
	c.want(3, 0)
	if last := c.history[len(c.history)-1]; last.Pool != "elsewhere" {
		t.Errorf("%+v", last)
	}
}

// onlyIn is a policy that keeps machines idle in one pool, and in others none.
type onlyIn struct {
	scale.Policy
	pool   string
	others scale.Policy
}

func (o onlyIn) Plan(now time.Time, v *scale.View) scale.Plan {
	if v.Pool.Name == o.pool {
		return o.Policy.Plan(now, v)
	}
	return o.others.Plan(now, v)
}

// crowded is a group whose six machines are idle ones of pool a, where five jobs wait for pool b.
func crowded(t *testing.T, change func(b *scale.Pool)) *cloud {
	a, b := shared()
	for _, p := range []*scale.Pool{&a, &b} {
		p.MaxInstances, p.GroupInstances = 0, 6
	}
	change(&b)
	c := newCloud(t, onlyIn{classic(t, schedule.Policy{IdleCount: 6, IdleTime: time.Minute}), "a", classic(t, schedule.Policy{})}, a, b)
	c.decide()
	c.boot()
	c.decide()
	c.want(6, 0)
	c.history = nil
	for i := range 5 {
		c.ask(fmt.Sprint("big-", i), big)
	}
	return c
}

// acted is how many actions of a kind there were in a pool.
func (c *cloud) acted(k scale.Kind, pool string) (n int) {
	for _, a := range c.history {
		if a.Kind == k && a.Pool == pool {
			n++
		}
	}
	return n
}

func TestNoMoreMachinesMakeWayThanCanBeMadeNow(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(b *scale.Pool){
		"two at once":         func(b *scale.Pool) { b.MaxComing = 2 },
		"two and then slowly": func(b *scale.Pool) { b.Throttle = scale.Throttle{Limit: 1. / 60, Burst: 2} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := crowded(t, change)
			c.decide()
			c.pass(0)
			c.pass(0)
			if made, gone := c.acted(scale.Create, "b"), c.acted(scale.Delete, "a"); made != 2 || gone != 2 {
				t.Errorf("%d machines made way for %d", gone, made)
			}
			for range 5 { // the others follow
				c.pass(2 * time.Minute)
				c.boot()
			}
			c.decide()
			if len(c.jobs) != 5 || c.acted(scale.Delete, "a") != 5 || c.acted(scale.Create, "a") != 0 {
				t.Errorf("%d jobs run; of a, %d machines were ended and %d made", len(c.jobs), c.acted(scale.Delete, "a"), c.acted(scale.Create, "a"))
			}
		})
	}
}

func TestTheThrottleAloneAsksForTheNextMachineToMakeWay(t *testing.T) {
	t.Parallel()
	c := crowded(t, func(b *scale.Pool) { b.Throttle = scale.Throttle{Limit: 1. / 60, Burst: 1} })
	c.decide()
	c.decide()
	c.pass(61 * time.Second) // as far as the fleet asks for decisions
	if gone := c.acted(scale.Delete, "a"); gone != 2 {
		t.Errorf("%d machines made way", gone)
	}
}

// The first try is with all machines that jobs wait for; the others are with one, whose place is kept meanwhile.
func TestMachinesThatAlwaysFailCostOthersNoMoreThanTheirPlaces(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(c *cloud, request string){
		"when they are ready": func(c *cloud, request string) { c.fleet.Failed(c.now, request, "the ready command failed") },
		"when they are asked for": func(c *cloud, request string) {
			c.fleet.CreateFailed(c.now, request, scale.Failure{Kind: scale.Quota})
			delete(c.machines, request)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := crowded(t, func(*scale.Pool) {})
			c.hold = true
			for end := c.now.Add(time.Hour); c.now.Before(end); {
				c.pass(5 * time.Second)
				for _, a := range c.asked {
					if a.Kind == scale.Create && a.Pool == "b" {
						fail(c, a.Request)
						continue
					}
					c.carryOut(a)
				}
				c.asked = nil
				c.boot()
			}
			created, gone := c.acted(scale.Create, "a"), c.acted(scale.Delete, "a")
			if tries := c.acted(scale.Create, "b"); gone > 5 || created > 5 || tries < 8 {
				t.Errorf("of a, %d machines were ended and %d made, for %d tries", gone, created, tries)
			}
		})
	}
}

func TestNoMachineMakesWayOnceNoneIsMade(t *testing.T) {
	t.Parallel()
	c := crowded(t, func(*scale.Pool) {})
	c.fleet.Stop()
	c.pass(time.Hour)
	c.want(0, 0)
}

func TestALimitSaysHowManyMachinesAreLeft(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pool, group int
		want        string
	}{
		"of the pool":          {4, 0, "the pool has room for 4 more of its 4 machines"},
		"of the group":         {0, 4, "its group has room for 4 more of its 4 machines"},
		"of the pool, first":   {4, 4, "the pool has room for 4 more of its 4 machines"},
		"of one machine":       {1, 0, "the pool has room for 1 more of its 1 machine"},
		"of the smaller group": {4, 3, "its group has room for 3 more of its 3 machines"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := small()
			p.Group, p.MaxInstances, p.GroupInstances = "g", test.pool, test.group
			c := newCloud(t, adaptive(), p)
			for i := range 5 {
				c.ask(fmt.Sprint("job-", i))
			}
			c.decide()
			if why := c.fleet.Explain(c.now)[0].Why; !strings.HasSuffix(why, test.want) {
				t.Error(why)
			}
		})
	}
}

func TestALimitSaysThatJobsOfOtherPoolsComeFirst(t *testing.T) {
	t.Parallel()
	a, b := shared()
	for _, p := range []*scale.Pool{&a, &b} {
		p.MaxInstances, p.GroupInstances = 0, 5
	}
	c := newCloud(t, onlyIn{classic(t, schedule.Policy{IdleCount: 6, IdleTime: time.Minute}), "a", classic(t, schedule.Policy{})}, a, b)
	for i := range 3 {
		c.ask(fmt.Sprint("big-", i), big)
	}
	c.decide()
	if why := c.fleet.Explain(c.now)[0].Why; !strings.HasSuffix(why, "jobs wait for machines of other pools of its group, which can have no more than 5 machines") {
		t.Error(why)
	}
}
