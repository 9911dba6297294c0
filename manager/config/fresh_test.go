package config

import (
	"testing"

	"github.com/rungci/rung/executor"
)

func TestAMachineForOneJobInAllIsThatJobsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		slots, uses int // of the entry
		pools       []Pool
		fresh       bool
		most        int // slots of a machine
	}{
		"nothing said":                     {most: 1},
		"one job":                          {slots: 1, uses: 1, fresh: true, most: 1},
		"one job, in one of several slots": {slots: 4, uses: 1, fresh: true, most: 1},
		"two jobs, in several slots":       {slots: 4, uses: 2, most: 2},
		"a pool for more":                  {slots: 1, uses: 1, pools: []Pool{{}, {MaxUseCount: 2}}, most: 1},
		"pools for one":                    {slots: 2, pools: []Pool{{MaxUseCount: 1}, {MaxUseCount: 1, CapacityPerInstance: 3}}, fresh: true, most: 1},
		"a pool with slots":                {slots: 2, pools: []Pool{{}, {CapacityPerInstance: 3}}, most: 3},
	} {
		m := &Machinery{Executor: InstanceExecutor, Autoscaler: &Autoscaler{CapacityPerInstance: c.slots, MaxUseCount: c.uses}, Fleet: Fleet{Pools: c.pools}}
		want := executor.None
		if c.fresh {
			want = executor.Instance
		}
		if m.Fresh() != c.fresh || m.level() != want || m.slots() != c.most {
			t.Errorf("%s: fresh %t, level %s, %d slots", name, m.Fresh(), m.level(), m.slots())
		}
	}
}
