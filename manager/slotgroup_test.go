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
