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
