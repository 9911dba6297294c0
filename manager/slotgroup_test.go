package manager

import (
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/manager/config"
)

func TestJobsOnLevelCGroupAreInTheGroupOfTheirSlot(t *testing.T) {
	for name, c := range map[string]struct {
		use      bool
		template string
		level    executor.Level
		want     string
	}{
		"by default":        {true, "", executor.CGroup, "gitlab-runner/slot-3"},
		"a template":        {true, "ci/${slot}", executor.CGroup, "ci/3"},
		"a slice":           {true, "ci-$slot.slice", executor.CGroup, "ci.slice/ci-3.slice"},
		"not asked for":     {false, "ci/${slot}", executor.CGroup, ""},
		"another level":     {true, "ci/${slot}", executor.None, ""},
		"an unknown word":   {true, "ci/${user}", executor.CGroup, "ci/${user}"}, // which the level refuses
		"without a number":  {true, "ci", executor.CGroup, "ci"},
		"that leads upward": {true, "../ci", executor.CGroup, "../ci"}, // as above
	} {
		t.Run(name, func(t *testing.T) {
			if got := slotGroup(&config.Runner{UseSlotCgroups: c.use, SlotCgroupTemplate: c.template}, c.level, 3); got != c.want {
				t.Errorf("it is %q, not %q", got, c.want)
			}
		})
	}
}

func TestJobsOfExecutorInstanceAreToldOfTheGroupOfTheirSlot(t *testing.T) {
	for name, c := range map[string]struct {
		settings config.Runner
		slot     int
		want     string
	}{
		"by default":      {config.Runner{Executor: "instance", UseSlotCgroups: true}, 3, "gitlab-runner/slot-3"},
		"a slice":         {config.Runner{Executor: "instance", UseSlotCgroups: true, SlotCgroupTemplate: "runner-slot-${slot}.slice"}, 0, "runner-slot-0.slice"},
		"not asked for":   {config.Runner{Executor: "instance"}, 3, ""},
		"containers":      {config.Runner{Executor: "docker-autoscaler", UseSlotCgroups: true}, 3, ""}, // are in it
		"no slot":         {config.Runner{Executor: "instance", UseSlotCgroups: true}, -1, ""},
		"an unknown word": {config.Runner{Executor: "instance", UseSlotCgroups: true, SlotCgroupTemplate: "ci/${user}"}, 3, ""},
	} {
		if got := slotName(&c.settings, c.slot); got != c.want {
			t.Errorf("%s: it is %q, not %q", name, got, c.want)
		}
	}
}
