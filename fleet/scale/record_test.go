package scale_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/fleet/scale"
)

// Somebody has lowered max_use_count: machines that have had more jobs would take none, and keep others from being made.
func TestAMachineThatHasHadMoreJobsThanAreAllowedNowIsReplaced(t *testing.T) {
	for name, state := range map[string]scale.State{"idle": scale.Ready, "suspended": scale.Suspended, "resumed": scale.Creating} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, policy scale.Policy) {
				p := small()
				p.MaxUses, p.MaxInstances, p.Suspend = 3, 1, 1
				c := newCloud(t, policy, p)
				if err := c.fleet.Restore(c.now, scale.Record{Name: "f", Created: 1, Instances: []scale.InstanceRecord{
					{Request: "f-1", Instance: "i-0", Pool: "small", State: state, Created: c.now.Add(-time.Hour), Uses: 5, Jobs: []string{""}},
				}}); err != nil {
					t.Fatal(err)
				}
				c.ask("job")
				c.decide()
				if last := c.history[0]; last.Kind != scale.Delete || last.Why != "i-0 has run 5 jobs, and its limit is 3" {
					t.Errorf("%+v", last)
				}
				c.decide()
				c.boot()
				c.decide()
				if c.jobs["job"] == nil {
					t.Error(c.fleet.ExplainJob(c.now, "job"))
				}
			})
		})
	}
}

func TestABusyMachineThatHasHadMoreJobsThanAreAllowedNowFinishesThem(t *testing.T) {
	t.Parallel()
	c := newCloud(t, adaptive(), small())
	c.ask("job")
	c.decide()
	c.boot()
	c.decide()
	p := small()
	p.MaxUses = 1
	record := c.fleet.Record()
	var err error
	if c.fleet, err = scale.New(scale.Config{Name: "f", Pools: []scale.Pool{p}}, adaptive()); err != nil {
		t.Fatal(err)
	}
	if err := c.fleet.Restore(c.now, record); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Hour)
	c.want(1, 0)
	c.release("job")
	c.decide()
	c.want(1, 1)
	if last := c.history[len(c.history)-1]; !strings.Contains(last.Why, "has run 1 job, and its limit is 1") {
		t.Errorf("%+v", last)
	}
}
