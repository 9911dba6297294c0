package scale_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/schedule"
)

// several is a pool of machines with several slots, of which each is used so often in all.
func several(slots, uses int) scale.Pool {
	p := small()
	p.Slots, p.MaxUses = slots, uses
	return p
}

// A machine that takes no more jobs has neither slots nor jobs that need another, and one that takes a few has slots for these.
func TestChurnAMachineThatFinishesItsLastJobsIsNotReplaced(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]func() scale.Policy{
		"adaptive": adaptive,
		"existing": func() scale.Policy { return classic(t, schedule.Policy{IdleTime: time.Minute}) },
		"existing, rounded up": func() scale.Policy {
			return &scale.Classic{Policies: classic(t, schedule.Policy{IdleTime: time.Minute}).Policies, RoundUp: true}
		},
	} {
		for _, uses := range []int{4, 5, 6, 7, 8} {
			c := newCloud(t, policy(), several(4, uses))
			for i := range 4 {
				c.ask(fmt.Sprint("job-", i))
			}
			c.decide()
			c.boot()
			c.decide()
			for i := range 3 { // the last one takes long
				c.release(fmt.Sprint("job-", i))
				c.pass(10 * time.Minute)
			}
			c.decide()
			c.release("job-3")
			c.pass(10 * time.Minute)
			c.decide()
			if made, gone := c.count(scale.Create), c.count(scale.Delete); made != 1 || gone == 0 {
				t.Errorf("%s, %d uses: %d machines were made, and %d ends asked for", name, uses, made, gone)
			}
		}
	}
}

// A slot for which a machine has no use left is not there.
func TestSlotsThatAreKeptIdleCanHaveJobs(t *testing.T) {
	t.Parallel()
	c := newCloud(t, classic(t, schedule.Policy{IdleCount: 5, IdleTime: time.Minute}), several(5, 7))
	settle := func() {
		for range 3 {
			c.decide()
			c.boot()
		}
		c.pass(10 * time.Minute)
	}
	settle()
	for i := range 20 {
		key := fmt.Sprint("job-", i)
		c.ask(key)
		settle()
		c.release(key)
		settle()
		if ready, _, err := c.fleet.Room(c.now, scale.Needs{}); err != nil || ready < 5 {
			t.Errorf("after %d jobs %d slots can have one, want 5 (%v)", i+1, ready, err)
		}
	}
	if got := c.count(scale.Create); got > 12 {
		t.Errorf("%d machines were made for 20 jobs", got)
	}
}
