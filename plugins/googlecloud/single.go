package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/api/compute/v1"

	"github.com/rungci/rung/sdk/instancegroup"
)

// shortTime is for how long a zone that had no capacity is tried after the others.
const shortTime = 5 * time.Minute

// single are single instances, which are made from a template in one of several zones.
type single struct {
	*cloud

	mu    sync.Mutex
	short map[string]time.Time // when zones had no capacity, by zone and machine type
}

func (s *single) open(context.Context) ([]string, string, error) {
	url := s.InstanceTemplate
	if !strings.Contains(url, "/") {
		url = "global/instanceTemplates/" + url
	}
	return s.Zones, url, nil
}

func (s *single) path() string { return "templates/" + short(s.InstanceTemplate) }

func (s *single) list(context.Context, map[string]*instancegroup.Machine) error { return nil }

// create implements source. Zones without capacity are left for the next one. An instance of another process may be in any of them.
func (s *single) create(ctx context.Context, name string, order instancegroup.Order) error {
	zones := s.order(order)
	if len(zones) == 0 {
		return &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: "instances are not made in the zone " + order.Zone}
	}
	if len(zones) > 1 {
		if there, err := s.exists(ctx, name, zones); there || err != nil {
			return err
		}
	}
	var lacking error
	for _, zone := range zones {
		err := s.insert(ctx, zone, name, order)
		if !errors.Is(err, instancegroup.ErrQuota) {
			return err
		}
		s.mu.Lock()
		s.short[zone+order.Shape] = time.Now()
		s.mu.Unlock()
		lacking = errors.Join(lacking, err)
	}
	return lacking
}

// order are the zones in which an order can be made, in the order in which they are tried.
func (s *single) order(order instancegroup.Order) (zones []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var last []string
	for _, zone := range s.Zones {
		switch at, was := s.short[zone+order.Shape]; {
		case order.Zone != "" && order.Zone != zone:
		case was && time.Since(at) < shortTime:
			last = append(last, zone)
		default:
			zones = append(zones, zone)
		}
	}
	return append(zones, last...)
}

// exists reports whether there is an instance in one of some zones.
func (s *single) exists(ctx context.Context, name string, zones []string) (bool, error) {
	found := make([]bool, len(zones))
	errs := make([]error, len(zones))
	var all sync.WaitGroup
	for i, zone := range zones {
		all.Go(func() {
			_, err := do(ctx, s.cloud, "the instance "+name, func(ctx context.Context) (*compute.Instance, error) {
				return s.api.Instances.Get(s.Project, zone, name).Fields("name").Context(ctx).Do()
			})
			if found[i] = err == nil; !errors.Is(err, instancegroup.ErrNotFound) {
				errs[i] = err
			}
		})
	}
	all.Wait()
	return slices.Contains(found, true), errors.Join(errs...)
}

// insert makes an instance of the template. What the body has replaces that of the template (RFC 7396), and lists as a whole.
func (s *single) insert(ctx context.Context, zone, name string, order instancegroup.Order) error {
	items, err := s.metadata(order, s.template.Metadata)
	if err != nil {
		return err
	}
	body := &compute.Instance{Name: name, Metadata: &compute.Metadata{Items: items}, Labels: cloudLabels(s.template.Labels, order.Labels)}
	if order.Shape != "" {
		body.MachineType = "zones/" + zone + "/machineTypes/" + order.Shape
	}
	if order.Spot {
		body.Scheduling = spot()
	}
	_, template, _ := s.open(ctx)
	exists := func() (bool, error) { return s.exists(ctx, name, []string{zone}) }
	return s.once(ctx, name, zone, order, exists, func(ctx context.Context, id string) (*compute.Operation, error) {
		return s.api.Instances.Insert(s.Project, zone, body).SourceInstanceTemplate("projects/" + s.Project + "/" + template).RequestId(id).Context(ctx).Do()
	})
}

// spot is how a spot instance is scheduled. It is stopped and not deleted when it is preempted, so that it is known what became of it.
func spot() *compute.Scheduling {
	never := false
	return &compute.Scheduling{ProvisioningModel: "SPOT", InstanceTerminationAction: "STOP", OnHostMaintenance: "TERMINATE", AutomaticRestart: &never}
}

func (s *single) remove(ctx context.Context, zone, name string) error {
	return s.deleteInstance(ctx, zone, name)
}

// deleteInstance deletes an instance that no group manages.
func (c *cloud) deleteInstance(ctx context.Context, zone, name string) error {
	_, err := do(ctx, c, "deleting "+name, func(ctx context.Context) (*compute.Operation, error) {
		return c.api.Instances.Delete(c.Project, zone, name).Context(ctx).Do()
	})
	return err
}

func (s *single) suspend(ctx context.Context, zone, name string) error {
	_, err := do(ctx, s.cloud, "suspending "+name, func(ctx context.Context) (*compute.Operation, error) {
		return s.api.Instances.Suspend(s.Project, zone, name).Context(ctx).Do()
	})
	return err
}

func (s *single) resume(ctx context.Context, zone, name string) error {
	_, err := do(ctx, s.cloud, "resuming "+name, func(ctx context.Context) (*compute.Operation, error) {
		return s.api.Instances.Resume(s.Project, zone, name).Context(ctx).Do()
	})
	return err
}
