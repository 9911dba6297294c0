package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/api/compute/v1"

	"github.com/rungci/rung/sdk/instancegroup"
)

// managed is a managed instance group, of a zone or of a region. It makes instances that are asked for by name, and only this plugin sizes it.
type managed struct {
	*cloud
	ids remembered[uint64] // of the incarnations of instances

	mu      sync.Mutex
	members map[string]bool
}

func (m *managed) path() string {
	if m.Region != "" {
		return m.Region + "/" + m.Name
	}
	return m.Zone + "/" + m.Name
}

// open implements source. A group that would remove or replace instances by itself is refused: it knows nothing of jobs.
func (m *managed) open(ctx context.Context) (zones []string, template string, err error) {
	what := fmt.Sprintf("the managed instance group %q of %s", m.Name, cmp.Or(m.Region, m.Zone))
	group, err := do(ctx, m.cloud, what, func(ctx context.Context) (*compute.InstanceGroupManager, error) {
		if m.Region != "" {
			return m.api.RegionInstanceGroupManagers.Get(m.Project, m.Region, m.Name).Context(ctx).Do()
		}
		return m.api.InstanceGroupManagers.Get(m.Project, m.Zone, m.Name).Context(ctx).Do()
	})
	if err != nil {
		return nil, "", err
	}
	policy := cmp.Or(group.UpdatePolicy, &compute.InstanceGroupManagerUpdatePolicy{})
	switch {
	case group.Status != nil && group.Status.Autoscaler != "":
		return nil, "", fmt.Errorf("%s has the autoscaler %s, which removes busy instances: delete it", what, short(group.Status.Autoscaler))
	case m.Region != "" && policy.InstanceRedistributionType != "NONE":
		return nil, "", fmt.Errorf("%s redistributes its instances, and removes busy ones: set its instance redistribution type to NONE", what)
	case policy.Type == "PROACTIVE":
		return nil, "", fmt.Errorf("%s replaces busy instances when its template changes: set the type of its update policy to OPPORTUNISTIC", what)
	}
	if m.Region == "" {
		return []string{m.Zone}, group.InstanceTemplate, nil
	}
	if group.DistributionPolicy != nil {
		for _, zone := range group.DistributionPolicy.Zones {
			zones = append(zones, short(zone.Zone))
		}
	}
	if len(zones) == 0 {
		return nil, "", fmt.Errorf("%s does not say in which zones its instances are", what)
	}
	return zones, group.InstanceTemplate, nil
}

// managedInstances are the members of the group, with those that are being made and have no instance yet.
func (m *managed) managedInstances(ctx context.Context) (out []*compute.ManagedInstance, err error) {
	what := "the instances of the group " + m.Name
	err = pages(func(token string) (next string, err error) {
		if m.Region != "" {
			list, err := do(ctx, m.cloud, what, func(ctx context.Context) (*compute.RegionInstanceGroupManagersListInstancesResponse, error) {
				return m.api.RegionInstanceGroupManagers.ListManagedInstances(m.Project, m.Region, m.Name).PageToken(token).Context(ctx).Do()
			})
			if err != nil {
				return "", err
			}
			out = append(out, list.ManagedInstances...)
			return list.NextPageToken, nil
		}
		list, err := do(ctx, m.cloud, what, func(ctx context.Context) (*compute.InstanceGroupManagersListManagedInstancesResponse, error) {
			return m.api.InstanceGroupManagers.ListManagedInstances(m.Project, m.Zone, m.Name).PageToken(token).Context(ctx).Do()
		})
		if err != nil {
			return "", err
		}
		out = append(out, list.ManagedInstances...)
		return list.NextPageToken, nil
	})
	return out, err
}

// list implements source.
func (m *managed) list(ctx context.Context, found map[string]*instancegroup.Machine) error {
	all, err := m.managedInstances(ctx)
	if err != nil {
		return err
	}
	members := map[string]bool{}
	for _, i := range all {
		name := cmp.Or(i.Name, short(i.Instance))
		one := found[name]
		if one == nil {
			if one = m.member(name, i); one == nil {
				continue // it is somebody else's
			}
			found[name] = one
		}
		members[name] = true
		m.correct(one, i)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members = members
	return nil
}

// member is a member of the group that has no instance yet; nil: it is not ours.
func (m *managed) member(name string, i *compute.ManagedInstance) *instancegroup.Machine {
	if i.PreservedStateFromConfig == nil {
		return nil
	}
	text := i.PreservedStateFromConfig.Metadata[labelsItem]
	labels := labelsOf([]*compute.MetadataItems{{Key: labelsItem, Value: &text}})
	if labels[instancegroup.OwnerLabel] != m.settings.Owner {
		return nil
	}
	return &instancegroup.Machine{Instance: instancegroup.Instance{
		ID: name, State: instancegroup.StateCreating, Labels: labels, Zone: zoneOf(i.Instance), Shape: short(m.template.MachineType), Spot: m.spot(),
	}}
}

// spot reports whether the template is of spot instances.
func (m *managed) spot() bool {
	return m.template.Scheduling != nil && m.template.Scheduling.ProvisioningModel == "SPOT"
}

// correct says of an instance what its group is about to do with it. One that the group makes again is another machine.
func (m *managed) correct(one *instancegroup.Machine, i *compute.ManagedInstance) {
	fail := func(reason string) {
		one.State, one.Reason, one.Interruption = instancegroup.StateFailed, reason, nil
	}
	before, known := m.ids.get(one.ID)
	switch {
	case one.State == instancegroup.StateDeleting:
	case i.CurrentAction == "DELETING":
		one.State = instancegroup.StateDeleting
	case m.isEnding(one.ID):
		one.State = instancegroup.StateDeleting
	case i.CurrentAction == "RECREATING" || i.CurrentAction == "RESTARTING":
		fail(cmp.Or(attempt(i), one.Reason, "its group is "+strings.ToLower(i.CurrentAction)+" the instance"))
	case known && i.Id != 0 && before != i.Id:
		fail("its group has made the instance again")
	case i.CurrentAction == "CREATING" && attempt(i) != "":
		fail(attempt(i))
	case i.CurrentAction == "RESUMING" && one.State == instancegroup.StateSuspended:
		one.State = instancegroup.StateCreating
	}
	if !known && i.Id != 0 {
		m.ids.put(one.ID, i.Id)
	}
}

// attempt is what failed when the group tried to make an instance; empty: nothing.
func attempt(i *compute.ManagedInstance) string {
	if i.LastAttempt == nil || i.LastAttempt.Errors == nil {
		return ""
	}
	var all []string
	for _, e := range i.LastAttempt.Errors.Errors {
		all = append(all, e.Message+" ("+e.Code+")")
	}
	return strings.Join(all, "; ")
}

// zoneOf is the zone in the URL of an instance; empty: it has none.
func zoneOf(url string) string {
	_, after, _ := strings.Cut(url, "/zones/")
	zone, _, _ := strings.Cut(after, "/")
	return zone
}

// create implements source.
func (m *managed) create(ctx context.Context, name string, order instancegroup.Order) error {
	if order.Shape != "" && order.Shape != short(m.template.MachineType) || order.Spot && !m.spot() || order.Zone != "" && order.Zone != m.Zone {
		return &instancegroup.Error{Kind: instancegroup.ErrUnsupported, Message: "a managed instance group makes machines of its template, in the zones that it chooses"}
	}
	items, err := m.metadata(order, m.template.Metadata)
	if err != nil {
		return err
	}
	own := map[string]string{}
	for _, i := range items {
		if i.Value != nil && *i.Value != item(itemsOf(m.template.Metadata), i.Key) {
			own[i.Key] = *i.Value
		}
	}
	config := []*compute.PerInstanceConfig{{Name: name, PreservedState: &compute.PreservedState{Metadata: own}}}
	exists := func() (bool, error) {
		all, err := m.managedInstances(ctx)
		for _, i := range all {
			if cmp.Or(i.Name, short(i.Instance)) == name {
				return true, err
			}
		}
		return false, err
	}
	return m.once(ctx, name, m.Zone, order, exists, func(ctx context.Context, id string) (*compute.Operation, error) {
		if m.Region != "" {
			body := &compute.RegionInstanceGroupManagersCreateInstancesRequest{Instances: config}
			return m.api.RegionInstanceGroupManagers.CreateInstances(m.Project, m.Region, m.Name, body).RequestId(id).Context(ctx).Do()
		}
		body := &compute.InstanceGroupManagersCreateInstancesRequest{Instances: config}
		return m.api.InstanceGroupManagers.CreateInstances(m.Project, m.Zone, m.Name, body).RequestId(id).Context(ctx).Do()
	})
}

// url is that of an instance, for the group.
func (m *managed) url(zone, name string) ([]string, error) {
	if zone == "" {
		return nil, instancegroup.Transient(0, fmt.Errorf("the group %s has not chosen a zone for %s yet", m.Name, name))
	}
	return []string{"zones/" + zone + "/instances/" + name}, nil
}

// remove implements source. An instance that was abandoned by the group is deleted by itself.
func (m *managed) remove(ctx context.Context, zone, name string) error {
	m.mu.Lock()
	member := m.members[name]
	m.mu.Unlock()
	if !member {
		return m.deleteInstance(ctx, zone, name)
	}
	urls, err := m.url(zone, name)
	if err != nil {
		return err
	}
	_, err = do(ctx, m.cloud, "deleting "+name, func(ctx context.Context) (*compute.Operation, error) {
		if m.Region != "" {
			body := &compute.RegionInstanceGroupManagersDeleteInstancesRequest{Instances: urls, SkipInstancesOnValidationError: true}
			return m.api.RegionInstanceGroupManagers.DeleteInstances(m.Project, m.Region, m.Name, body).Context(ctx).Do()
		}
		body := &compute.InstanceGroupManagersDeleteInstancesRequest{Instances: urls, SkipInstancesOnValidationError: true}
		return m.api.InstanceGroupManagers.DeleteInstances(m.Project, m.Zone, m.Name, body).Context(ctx).Do()
	})
	return err
}

func (m *managed) suspend(ctx context.Context, zone, name string) error {
	urls, err := m.url(zone, name)
	if err != nil {
		return err
	}
	return m.accepted(ctx, "suspending "+name, func(ctx context.Context) (*compute.Operation, error) {
		if m.Region != "" {
			return m.api.RegionInstanceGroupManagers.SuspendInstances(m.Project, m.Region, m.Name, &compute.RegionInstanceGroupManagersSuspendInstancesRequest{Instances: urls}).Context(ctx).Do()
		}
		return m.api.InstanceGroupManagers.SuspendInstances(m.Project, m.Zone, m.Name, &compute.InstanceGroupManagersSuspendInstancesRequest{Instances: urls}).Context(ctx).Do()
	})
}

func (m *managed) resume(ctx context.Context, zone, name string) error {
	urls, err := m.url(zone, name)
	if err != nil {
		return err
	}
	return m.accepted(ctx, "resuming "+name, func(ctx context.Context) (*compute.Operation, error) {
		if m.Region != "" {
			return m.api.RegionInstanceGroupManagers.ResumeInstances(m.Project, m.Region, m.Name, &compute.RegionInstanceGroupManagersResumeInstancesRequest{Instances: urls}).Context(ctx).Do()
		}
		return m.api.InstanceGroupManagers.ResumeInstances(m.Project, m.Zone, m.Name, &compute.InstanceGroupManagersResumeInstancesRequest{Instances: urls}).Context(ctx).Do()
	})
}

// accepted makes a call, and returns why its operation failed, if it did at once.
func (m *managed) accepted(ctx context.Context, what string, call func(ctx context.Context) (*compute.Operation, error)) error {
	op, err := do(ctx, m.cloud, what, call)
	if err == nil && op.Status == "DONE" {
		err = failed(what, op)
	}
	return err
}
