package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/sdk/instancegroup"
)

// shapes makes machines of the shapes that the options list. AWS knows whose they are, and what they were asked for, by their tags.
type shapes struct {
	*Group
	market    *market
	zones     map[string]string // of the subnets
	tokenTime time.Duration

	mu     sync.Mutex
	asked  map[string]*asked
	order  []string             // of asked
	fresh  map[string]newcomer  // made here, and not listed yet
	ending map[string]time.Time // deleted here, and when
}

// newcomer is a machine that AWS has made and does not list yet.
type newcomer struct {
	instancegroup.Instance
	since time.Time
}

// lag is how long AWS may take to list a machine that it has made, or to show that it is deleted.
const lag = 5 * time.Minute

func newShapes(g *Group) *shapes {
	return &shapes{Group: g, tokenTime: tokenTime, asked: map[string]*asked{}, fresh: map[string]newcomer{}, ending: map[string]time.Time{}}
}

func (s *shapes) can() group.Abilities {
	// EC2 stops no spot machine that was asked for once.
	return group.Abilities{Requests: true, Offers: true, Suspend: slices.ContainsFunc(s.Shapes, Shape.onDemand)}
}

func (s *shapes) increase(context.Context, int) (int, error) {
	return 0, &instancegroup.Error{Kind: instancegroup.ErrUnsupported, Message: "machines are made for requests"}
}

func (s *shapes) open(ctx context.Context) (info instancegroup.ProviderInfo, err error) {
	if s.settings.Owner == "" {
		return info, errors.New("the group has no owner, by whose name its machines would be found")
	}
	if s.zones, err = s.api.zones(ctx, s.Subnets); err != nil {
		return info, err
	}
	if err = s.checkTemplate(ctx); err != nil {
		return info, err
	}
	if s.market, err = openMarket(ctx, s.Group); err != nil {
		return info, err
	}
	return instancegroup.ProviderInfo{
		ID: path.Join("aws", s.api.region, s.LaunchTemplate), MaxSize: s.MaxInstances, Capabilities: []instancegroup.Capability{instancegroup.CapabilitySuspendResume},
	}, nil
}

// checkTemplate returns an error if there is no launch template with the name and version of the options.
func (s *shapes) checkTemplate(ctx context.Context) error {
	in := &ec2.DescribeLaunchTemplateVersionsInput{Versions: []string{s.LaunchTemplateVersion}}
	in.LaunchTemplateId, in.LaunchTemplateName = s.template()
	out, err := call(ctx, s.api, s.api.ec2.DescribeLaunchTemplateVersions, in)
	switch {
	case errors.Is(err, instancegroup.ErrUnauthorised):
		s.log.Warn("the credentials do not allow to check the launch template", "error", err)
	case err != nil:
		return err
	case len(out.LaunchTemplateVersions) == 0:
		return &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: fmt.Sprintf("the launch template %q has no version %q", s.LaunchTemplate, s.LaunchTemplateVersion)}
	}
	return nil
}

// template is the id or the name of the launch template.
func (s *shapes) template() (id, name *string) {
	if strings.HasPrefix(s.LaunchTemplate, "lt-") {
		return aws.String(s.LaunchTemplate), nil
	}
	return nil, aws.String(s.LaunchTemplate)
}

// zones are those of subnets.
func (a *api) zones(ctx context.Context, subnets []string) (map[string]string, error) {
	out := map[string]string{}
	if len(subnets) == 0 {
		return out, nil
	}
	said, err := call(ctx, a, a.ec2.DescribeSubnets, &ec2.DescribeSubnetsInput{SubnetIds: subnets})
	if err != nil {
		return nil, err
	}
	for _, s := range said.Subnets {
		out[aws.ToString(s.SubnetId)] = aws.ToString(s.AvailabilityZone)
	}
	return out, nil
}

// zone is that of the first subnet.
func (s *shapes) zone(context.Context) (string, error) {
	for _, subnet := range s.Subnets {
		if zone := s.zones[subnet]; zone != "" {
			return zone, nil
		}
	}
	return "", errors.New(`a volume must be in the zone of the machines, and there is neither a machine nor the option "subnets": set that`)
}

// machines are those of the owner.
func (s *shapes) machines(ctx context.Context) ([]machine, error) {
	began := time.Now()
	instances, err := s.api.instances(ctx, instancegroup.OwnerLabel, s.settings.Owner)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []machine
	listed := map[string]bool{}
	for _, i := range instances {
		m := machineOf(i)
		listed[m.ID] = true
		if _, ended := s.ending[m.ID]; ended {
			switch m.State {
			case instancegroup.StateDeleted, instancegroup.StateFailed:
				m.State = instancegroup.StateDeleted
			default:
				m.State = instancegroup.StateDeleting
			}
		}
		if m.State != instancegroup.StateDeleted {
			out = append(out, m)
		}
	}
	for id, n := range s.fresh {
		switch {
		case listed[id] || began.Sub(n.since) > lag:
			delete(s.fresh, id)
		default:
			out = append(out, machine{Instance: n.Instance})
		}
	}
	for id, when := range s.ending {
		if !listed[id] && began.Sub(when) > lag {
			delete(s.ending, id)
		}
	}
	return out, nil
}

// remove deletes machines: those of others are not touched, and what AWS does not know is gone.
func (s *shapes) remove(ctx context.Context, ids []string, _ map[string]machine) ([]string, error) {
	known, err := s.known(ctx, ids)
	if err != nil {
		return nil, err
	}
	var ours, done []string
	for _, id := range ids {
		if known[id] {
			ours = append(ours, id)
		} else {
			done = append(done, id)
		}
	}
	errs := []error{}
	for part := range slices.Chunk(ours, perDeletion) {
		deleted, err := s.delete(ctx, part)
		done, errs = append(done, deleted...), append(errs, err)
	}
	return done, errors.Join(errs...)
}

// perDeletion is how many machines one call deletes, and perFilter how many it can look for.
const (
	perDeletion = 100
	perFilter   = 200
)

// known are those of the ids that are machines of the owner, or were made here and are not listed yet.
func (s *shapes) known(ctx context.Context, ids []string) (map[string]bool, error) {
	out := map[string]bool{}
	for part := range slices.Chunk(ids, perFilter) {
		in := &ec2.DescribeInstancesInput{Filters: []types.Filter{{Name: aws.String("instance-id"), Values: part}, {Name: aws.String("tag:" + instancegroup.OwnerLabel), Values: []string{s.settings.Owner}}}}
		said, err := s.api.describe(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, i := range said {
			out[aws.ToString(i.InstanceId)] = i.State == nil || i.State.Name != types.InstanceStateNameTerminated
			if !out[aws.ToString(i.InstanceId)] {
				s.ended(aws.ToString(i.InstanceId))
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if _, ok := s.fresh[id]; ok {
			out[id] = true
		}
	}
	return out, nil
}

// delete deletes machines with one call, and each by itself where that fails.
func (s *shapes) delete(ctx context.Context, ids []string) ([]string, error) {
	_, err := call(ctx, s.api, s.api.ec2.TerminateInstances, &ec2.TerminateInstancesInput{InstanceIds: ids})
	if err == nil {
		s.ended(ids...)
		return ids, nil
	}
	if len(ids) == 1 || ctx.Err() != nil || errors.Is(err, instancegroup.ErrTransient) || errors.Is(err, instancegroup.ErrUnauthorised) {
		if len(ids) == 1 && errors.Is(err, instancegroup.ErrNotFound) {
			s.mu.Lock()
			_, made := s.fresh[ids[0]]
			s.mu.Unlock()
			if made {
				return nil, instancegroup.Transient(throttledAfter, err) // it is so new that not all of AWS knows it
			}
			return ids, nil
		}
		return nil, err
	}
	return each(ids, func(id string) error {
		_, err := s.delete(ctx, []string{id})
		return err
	})
}

// ended remembers that machines are deleted.
func (s *shapes) ended(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		delete(s.fresh, id)
		s.ending[id] = time.Now()
	}
}

// Suspend implements instancegroup.Suspender: machines are stopped, and their disks cost money still.
func (s *shapes) Suspend(ctx context.Context, ids []string) ([]string, error) {
	return each(ids, func(id string) error {
		_, err := call(ctx, s.api, s.api.ec2.StopInstances, &ec2.StopInstancesInput{InstanceIds: []string{id}})
		return err
	})
}

// Resume implements instancegroup.Suspender.
func (s *shapes) Resume(ctx context.Context, ids []string) ([]string, error) {
	return each(ids, func(id string) error {
		_, err := call(ctx, s.api, s.api.ec2.StartInstances, &ec2.StartInstancesInput{InstanceIds: []string{id}})
		return err
	})
}

// Offers implements instancegroup.Offerer.
func (s *shapes) Offers(ctx context.Context) ([]instancegroup.Offer, error) {
	return s.market.offers(ctx), nil
}

// tags are those of a machine.
func tags(r instancegroup.Request, shape string) []types.Tag {
	labels := maps.Clone(r.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[shapeTag] = shape
	var out []types.Tag
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, types.Tag{Key: aws.String(key), Value: aws.String(labels[key])})
	}
	return out
}

// choose is the shape of a request, and whether it is a spot machine.
func (s *shapes) choose(r instancegroup.Request) (shape Shape, spot bool, err error) {
	for _, one := range s.Shapes {
		switch {
		case r.Shape == "" && r.Spot && one.Spot, r.Shape == one.Name && r.Spot && one.Spot:
			return one, true, nil
		case r.Shape == "" && !r.Spot:
			return one, !one.onDemand(), nil
		case r.Shape == one.Name && !r.Spot && one.onDemand():
			return one, false, nil
		case r.Shape == one.Name:
			return one, false, &instancegroup.Error{Kind: instancegroup.ErrUnsupported, Message: fmt.Sprintf("the shape %q is not offered with spot = %t", one.Name, r.Spot)}
		}
	}
	if r.Shape == "" {
		return shape, false, &instancegroup.Error{Kind: instancegroup.ErrUnsupported, Message: "no shape is offered as spot machine"}
	}
	return shape, false, &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: fmt.Sprintf("there is no shape %q", r.Shape)}
}
