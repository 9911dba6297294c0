package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/api/compute/v1"

	"github.com/rungci/rung/sdk/instancegroup"
)

const (
	// preemptionTime is how long an instance has from the notice that it is preempted until it is stopped.
	preemptionTime = 30 * time.Second
	// noticeTime is how long before its end an instance counts as one that is about to be interrupted, where the end is known long before.
	noticeTime = 15 * time.Minute
)

// machine is what is reported of an instance; ours is false for one that this group has not made.
func (c *cloud) machine(ctx context.Context, i *compute.Instance) (m *instancegroup.Machine, ours bool, err error) {
	var labels map[string]string
	if i.Metadata != nil {
		labels = labelsOf(i.Metadata.Items)
	}
	if labels[instancegroup.OwnerLabel] != c.settings.Owner {
		return nil, false, nil
	}
	m = &instancegroup.Machine{Addresses: addresses(i), Instance: instancegroup.Instance{
		ID: i.Name, Shape: short(i.MachineType), Zone: short(i.Zone), Labels: labels,
		Spot: i.Scheduling != nil && (i.Scheduling.ProvisioningModel == "SPOT" || i.Scheduling.Preemptible),
	}}
	m.Created, _ = time.Parse(time.RFC3339, i.CreationTimestamp)
	return m, true, c.setState(ctx, m, i)
}

// setState sets what an instance is doing, and why.
func (c *cloud) setState(ctx context.Context, m *instancegroup.Machine, i *compute.Instance) (err error) {
	ending := c.isEnding(i.Name)
	switch i.Status {
	case "PENDING", "PROVISIONING", "STAGING":
		m.State = instancegroup.StateCreating
	case "RUNNING":
		m.State = instancegroup.StateRunning
		m.Interruption = endKnown(i)
	case "SUSPENDING":
		m.State = instancegroup.StateSuspending
	case "SUSPENDED":
		m.State = instancegroup.StateSuspended
	case "DEPROVISIONING":
		m.State = instancegroup.StateDeleting
	default: // PENDING_STOP, STOPPING, STOPPED, TERMINATED, REPAIRING, and what is added to these
		m.State = instancegroup.StateFailed
		if ending {
			break
		}
		var why event
		if why, err = c.why(ctx, i); err != nil {
			return err
		}
		m.Reason = cmp.Or(why.reason, i.StatusMessage, "the instance is "+strings.ToLower(i.Status)+", and was not asked to")
		if why.preempted && (i.Status == "STOPPING" || i.Status == "PENDING_STOP") {
			m.State = instancegroup.StateRunning
			m.Interruption = &instancegroup.Interruption{At: why.at.Add(preemptionTime), Reason: m.Reason}
		}
	}
	if ending {
		m.State, m.Reason, m.Interruption = instancegroup.StateDeleting, "", nil
	}
	return nil
}

// endKnown is the interruption of an instance whose end the cloud has set, once that is near; nil: it has none.
func endKnown(i *compute.Instance) *instancegroup.Interruption {
	if i.ResourceStatus == nil {
		return nil
	}
	near := func(text, reason string) *instancegroup.Interruption {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil || time.Until(at) > noticeTime {
			return nil
		}
		return &instancegroup.Interruption{At: at, Reason: reason}
	}
	if s := i.ResourceStatus.Scheduling; s != nil {
		if end := near(s.TerminationTimestamp, "the time that the instance may run ends"); end != nil {
			return end
		}
	}
	if m := i.ResourceStatus.UpcomingMaintenance; m != nil && i.Scheduling != nil && i.Scheduling.OnHostMaintenance == "TERMINATE" {
		return near(m.WindowStartTime, "host maintenance")
	}
	return nil
}

// event is why an instance stopped.
type event struct {
	reason    string
	preempted bool
	at        time.Time
}

// events are the operations by which Compute Engine stops an instance itself, and what they mean to people.
var events = map[string]string{
	"compute.instances.preempted":                  "the instance was preempted: spot capacity is needed",
	"compute.instances.hostError":                  "the host has failed",
	"compute.instances.terminateOnHostMaintenance": "the instance was stopped for host maintenance",
	"compute.instances.guestTerminate":             "the instance was shut down from inside",
	"stop":                                         "the instance was stopped",
}

// why looks for the operation that stopped an instance. Where operations may not be read, or none of them says, the reason is empty.
func (c *cloud) why(ctx context.Context, i *compute.Instance) (event, error) {
	key := fmt.Sprint(i.Id)
	if known, ok := c.reasons.get(key); ok {
		return known, nil
	}
	var newest event
	err := pages(func(token string) (string, error) {
		list, err := do(ctx, c, "the operations of "+i.Name, func(ctx context.Context) (*compute.OperationList, error) {
			return c.api.ZoneOperations.List(c.Project, short(i.Zone)).Filter("targetId = " + key).PageToken(token).Context(ctx).Do()
		})
		if err != nil {
			return "", err
		}
		for _, op := range list.Items {
			reason, stops := events[op.OperationType]
			at, _ := time.Parse(time.RFC3339, op.InsertTime)
			if !stops || at.Before(newest.at) {
				continue
			}
			if op.StatusMessage != "" {
				reason += " (" + op.StatusMessage + ")"
			}
			if op.User != "" && op.OperationType == "stop" {
				reason += " by " + op.User
			}
			newest = event{reason: reason, preempted: op.OperationType == "compute.instances.preempted", at: at}
		}
		return list.NextPageToken, nil
	})
	switch {
	case ctx.Err() != nil:
		return event{}, err
	case err != nil:
		c.log.Warn("cannot read why an instance stopped", "instance", i.Name, "error", err)
	case newest.reason != "":
		c.reasons.put(key, newest)
	}
	return newest, nil
}

// addresses are all that an instance has.
func addresses(i *compute.Instance) (all []string) {
	add := func(address string) {
		if address != "" {
			all = append(all, address)
		}
	}
	for _, n := range i.NetworkInterfaces {
		add(n.NetworkIP)
		for _, a := range n.AccessConfigs {
			add(a.NatIP)
		}
		add(n.Ipv6Address)
		for _, a := range n.Ipv6AccessConfigs {
			add(a.ExternalIpv6)
		}
	}
	return all
}
