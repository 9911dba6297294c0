package scale_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rungci/rung/fleet/scale"
)

func TestIdleMachinesAreSuspendedAndResumedBeforeOthersAreMade(t *testing.T) {
	t.Parallel()
	p := small()
	p.Suspend, p.MaxInstances = 2, 3
	c := newCloud(t, adaptive(), p)
	for i := range 3 {
		c.ask(fmt.Sprint("job-", i))
	}
	c.decide()
	c.boot()
	c.decide()
	for i := range 3 {
		c.release(fmt.Sprint("job-", i))
	}
	c.decide()
	if got := c.count(scale.Suspend); got != 2 {
		t.Fatalf("%d machines are suspended", got)
	}
	c.want(3, 1)
	c.pass(24 * time.Hour)
	c.ask("next-0")
	c.decide()
	if got := c.count(scale.Resume); got != 1 {
		t.Fatalf("%d machines are resumed", got)
	}
	c.want(3, 1)
	for i := range 3 {
		key := fmt.Sprint("next-", i)
		if err := c.fleet.Reserve(c.now, key, scale.Needs{}); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		c.ask(key)
	}
	c.decide()
	c.want(4, 1)
	if got := c.count(scale.Resume); got != 2 {
		t.Errorf("%d machines are resumed", got)
	}
}

func TestAResumedMachineThatDoesNotComeIsReplaced(t *testing.T) {
	t.Parallel()
	p := small()
	p.Suspend, p.BootTimeout = 1, 5*time.Minute
	c := newCloud(t, adaptive(), p)
	c.ask("job")
	c.decide()
	c.boot()
	c.decide()
	c.release("job")
	c.decide()
	c.pass(24 * time.Hour)
	c.ask("next")
	c.decide()
	c.pass(4 * time.Minute)
	c.want(1, 0)
	c.pass(2 * time.Minute)
	c.want(2, 1)
}

func TestMoreThanAPoolMaySuspendAreDeleted(t *testing.T) {
	t.Parallel()
	p := small()
	p.Suspend = 1
	c := newCloud(t, adaptive(), p)
	c.ask("job")
	c.decide()
	c.boot()
	c.decide()
	c.release("job")
	c.decide()
	if got := c.count(scale.Suspend); got != 1 {
		t.Fatalf("%d machines are suspended", got)
	}
	record := c.fleet.Record()
	p.Suspend = 0
	fresh, err := scale.New(scale.Config{Name: "f", Pools: []scale.Pool{p}}, adaptive())
	if err != nil {
		t.Fatal(err)
	}
	if err := fresh.Restore(c.now, record); err != nil {
		t.Fatal(err)
	}
	c.fleet = fresh
	c.decide()
	c.want(1, 1)
}
