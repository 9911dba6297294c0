package manager

import (
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/internal/cgroup"
	"github.com/rungci/rung/manager/config"
)

// slotName is what jobs of executor instance are told of the control group of their slot on a machine, as GitLab Runner tells them
// (docs/configuration/slot_based_cgroups.md, 18.6); "" is nothing. Whether there is such a group is between the operator and the job.
func slotName(settings *config.Runner, slot int) string {
	if !settings.UseSlotCgroups || settings.Executor != config.InstanceExecutor {
		return ""
	}
	name, err := cgroup.SlotName(settings.SlotCgroupTemplate, slot)
	if err != nil {
		return ""
	}
	return name
}

// slotGroup is the control group of a slot in which the jobs of an entry are on level cgroup; "" is none. A template that names none is
// returned as it is, and the level says so.
func slotGroup(settings *config.Runner, level executor.Level, slot int) string {
	if !settings.UseSlotCgroups || level != executor.CGroup || slot < 0 {
		return ""
	}
	group, err := cgroup.Slot(settings.SlotCgroupTemplate, slot)
	if err != nil {
		return settings.SlotCgroupTemplate
	}
	return group
}
