package main

import (
	"cmp"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6"

	"github.com/rungci/rung/sdk/instancegroup"
)

// noticeTime is how long before the maintenance of its host a machine counts as one that is about to be interrupted.
const noticeTime = 15 * time.Minute

const evicted = "the machine was evicted: spot capacity is needed"

// view is what Azure says of a machine, whatever kind it is of.
type view struct {
	provisioning string // Creating, Updating, Succeeded, Failed, Deleting
	statuses     []*armcompute.InstanceViewStatus
	maintenance  *armcompute.MaintenanceRedeployStatus
	spot         bool
	ending       bool // it was asked to end a short while ago
}

// set sets what a machine is doing, and why.
func (v view) set(i *instancegroup.Instance) {
	power, failed := "", ""
	for _, s := range v.statuses {
		code := value(s.Code)
		if state, ok := strings.CutPrefix(code, "PowerState/"); ok {
			power = state
		}
		if reason, ok := strings.CutPrefix(code, "ProvisioningState/failed"); ok {
			failed = strings.TrimSpace(cmp.Or(value(s.Message), value(s.DisplayStatus)) + " (" + strings.TrimPrefix(reason, "/") + ")")
		}
	}
	i.Spot = v.spot
	fail := func(reason string) { i.State, i.Reason = instancegroup.StateFailed, reason }
	switch {
	case v.ending || v.provisioning == "Deleting":
		i.State = instancegroup.StateDeleting
	case v.provisioning == "Failed":
		fail(cmp.Or(failed, "Azure has not made the machine, and does not say why"))
	case power == "deallocated" || power == "stopped":
		fail(map[bool]string{true: evicted, false: "the machine is " + power + ", and was not asked to"}[v.spot])
	case power == "deallocating" || power == "stopping":
		if i.State = instancegroup.StateRunning; !v.spot {
			fail("the machine is " + power + ", and was not asked to")
			break
		}
		i.Interruption = &instancegroup.Interruption{Reason: evicted}
	case power == "running" && v.provisioning != "Creating":
		i.State = instancegroup.StateRunning
		i.Interruption = v.soon()
	default:
		i.State = instancegroup.StateCreating
	}
}

// soon is the maintenance of the host, once it is near; nil: there is none.
func (v view) soon() *instancegroup.Interruption {
	if v.maintenance == nil || v.maintenance.MaintenanceWindowStartTime == nil || time.Until(*v.maintenance.MaintenanceWindowStartTime) > noticeTime {
		return nil
	}
	return &instancegroup.Interruption{At: *v.maintenance.MaintenanceWindowStartTime, Reason: "host maintenance"}
}

// texts are the tags of a resource.
func texts(tags map[string]*string) map[string]string {
	out := map[string]string{}
	for key, text := range tags {
		out[key] = value(text)
	}
	return out
}
