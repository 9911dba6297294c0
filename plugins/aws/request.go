package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/rungci/rung/sdk/instancegroup"
)

// asked is what this process knows of a request.
//
// A request is a series of calls of CreateFleet, each with a token that follows from the request and its number in the series. EC2 answers a token that it knows with what it
// did then. So whoever repeats the request goes through the same series, with the same results, and makes what is missing by the next call.
type asked struct {
	turn  chan struct{} // holds a token while nobody is at it
	calls int           // that were answered
	made  []string
	new   bool // nothing was asked for by this process
}

// EC2 knows tokens for a day at least. A request whose machines are older than tokenTime has a series of its own for what is missing, which begins with the number renewed and that of
// its machines.
const (
	tokenTime = 12 * time.Hour
	renewed   = 1000
)

// maxAsked is how many requests are remembered, the latest ones.
const maxAsked = 1000

func (s *shapes) get(id string) *asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.asked[id]; one != nil {
		return one
	}
	if len(s.order) == maxAsked {
		delete(s.asked, s.order[0])
		s.order = s.order[1:]
	}
	one := &asked{turn: make(chan struct{}, 1), new: true}
	one.turn <- struct{}{}
	s.asked[id] = one
	s.order = append(s.order, id)
	return one
}

// request implements source.
func (s *shapes) request(ctx context.Context, r instancegroup.Request) ([]string, error) {
	shape, spot, err := s.choose(r)
	if err != nil {
		return nil, err
	}
	overrides, err := s.overrides(shape, r.Zone)
	if err != nil {
		return nil, err
	}
	one := s.get(r.ID)
	select {
	case <-one.turn:
		defer func() { one.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if one.new {
		if labelled, err := s.recall(ctx, r, one); err != nil {
			return labelled, err
		}
	}
	for len(one.made) < r.Count {
		made, err := s.fleet(ctx, r, one, shape, spot, overrides)
		// The first call without a machine may be the answer that another process had.
		replayed := one.new && len(made) == 0 && errors.Is(err, instancegroup.ErrQuota)
		one.new = false
		if err != nil && !replayed {
			return slices.Clone(one.made), err
		}
	}
	return slices.Clone(one.made), nil
}

// recall finds what other processes have made for a request. It returns that with an error if there is no room for the rest.
func (s *shapes) recall(ctx context.Context, r instancegroup.Request, one *asked) ([]string, error) {
	all, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	labelled, latest := labelled(all, r.ID)
	switch room := s.MaxInstances - len(all); {
	case len(labelled) >= r.Count:
		one.made, one.new = labelled, false
	case r.Count-len(labelled) > room:
		return labelled, &instancegroup.Error{Kind: instancegroup.ErrQuota, Message: fmt.Sprintf("max_instances is %d, and there are %d machines", s.MaxInstances, len(all))}
	case len(labelled) > 0 && time.Since(latest) > s.tokenTime:
		one.made, one.calls, one.new = labelled, renewed+len(labelled), false
	}
	return nil, nil
}

// labelled are the machines of a request, and when the latest of them was made.
func labelled(all map[string]machine, request string) (out []string, latest time.Time) {
	for id, m := range all {
		if m.Request == request && m.State != instancegroup.StateDeleted {
			out = append(out, id)
			if m.Created.After(latest) {
				latest = m.Created
			}
		}
	}
	slices.Sort(out)
	return out, latest
}

// overrides are the choices that EC2 has for a machine: instance types and subnets.
func (s *shapes) overrides(shape Shape, zone string) (out []types.FleetLaunchTemplateOverridesRequest, err error) {
	for _, kind := range shape.InstanceTypes {
		if len(s.Subnets) == 0 {
			one := types.FleetLaunchTemplateOverridesRequest{InstanceType: types.InstanceType(kind)}
			if zone != "" {
				one.AvailabilityZone = aws.String(zone)
			}
			out = append(out, one)
		}
		for _, subnet := range s.Subnets {
			if zone == "" || s.zones[subnet] == zone {
				out = append(out, types.FleetLaunchTemplateOverridesRequest{InstanceType: types.InstanceType(kind), SubnetId: aws.String(subnet)})
			}
		}
	}
	if len(out) == 0 {
		return nil, &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: fmt.Sprintf("no subnet of the options is in the zone %q", zone)}
	}
	return out, nil
}

// token names the call of a number in the series of a request.
func (s *shapes) token(request string, number int) string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s\x00%s\x00%d", s.settings.Owner, request, number)))
	return hex.EncodeToString(sum[:16])
}

// fleet makes the next call of a request's series, and adds to it what that made. The error says why it made less than was asked for.
func (s *shapes) fleet(ctx context.Context, r instancegroup.Request, one *asked, shape Shape, spot bool, overrides []types.FleetLaunchTemplateOverridesRequest) ([]string, error) {
	template := &types.FleetLaunchTemplateSpecificationRequest{Version: aws.String(s.LaunchTemplateVersion)}
	template.LaunchTemplateId, template.LaunchTemplateName = s.template()
	count := r.Count - len(one.made)
	in := &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant, ClientToken: aws.String(s.token(r.ID, one.calls)),
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{LaunchTemplateSpecification: template, Overrides: overrides}},
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: aws.Int32(int32(count)), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand,
		},
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: tags(r, shape.Name)}},
	}
	if spot {
		in.TargetCapacitySpecification.DefaultTargetCapacityType = types.DefaultTargetCapacityTypeSpot
		in.SpotOptions = &types.SpotOptionsRequest{AllocationStrategy: types.SpotAllocationStrategyPriceCapacityOptimized}
	}
	out, err := call(ctx, s.api, s.api.ec2.CreateFleet, in)
	if err != nil {
		return nil, err
	}
	var made []string
	for _, i := range out.Instances {
		made = append(made, i.InstanceIds...)
	}
	why := out.Errors
	if len(made) == 0 && len(why) == 0 {
		if made, err = s.launched(ctx, aws.ToString(out.FleetId)); err != nil {
			return nil, err
		}
	}
	one.calls++
	one.made = append(one.made, made...)
	s.welcome(r, shape.Name, spot, made)
	if len(made) < count {
		return made, shortage(why, len(made), count)
	}
	return made, nil
}

// launched are the machines of a fleet whose answer does not have them.
func (s *shapes) launched(ctx context.Context, fleet string) (made []string, err error) {
	out, err := call(ctx, s.api, s.api.ec2.DescribeFleets, &ec2.DescribeFleetsInput{FleetIds: []string{fleet}})
	if err != nil {
		return nil, err
	}
	for _, f := range out.Fleets {
		for _, i := range f.Instances {
			made = append(made, i.InstanceIds...)
		}
	}
	return made, nil
}

// welcome remembers machines until AWS lists them.
func (s *shapes) welcome(r instancegroup.Request, shape string, spot bool, ids []string) {
	now := time.Now()
	labels := map[string]string{}
	for _, t := range tags(r, shape) {
		labels[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if _, ended := s.ending[id]; !ended {
			s.fresh[id] = newcomer{since: now, Instance: instancegroup.Instance{
				ID: id, State: instancegroup.StateCreating, Shape: shape, Spot: spot, Labels: labels, Request: r.ID, Created: now,
			}}
		}
	}
}

// shortage is the error for a fleet that has fewer machines than it should, by the first of AWS's reasons that is of the highest rank.
func shortage(why []types.CreateFleetError, made, count int) error {
	var worst error
	for _, e := range why {
		err := refusal("CreateFleet", aws.ToString(e.ErrorCode), aws.ToString(e.ErrorMessage), 0, errFleet)
		// Where some choices have no capacity, the others do not matter: the runner goes elsewhere.
		if worst == nil || errors.Is(err, instancegroup.ErrQuota) && !errors.Is(worst, instancegroup.ErrQuota) {
			worst = err
		}
	}
	if worst == nil {
		worst = &instancegroup.Error{Kind: instancegroup.ErrQuota, Message: fmt.Sprintf("CreateFleet: EC2 made %d of %d machines", made, count)}
	}
	return worst
}

var errFleet = errors.New("in the answer for a fleet")
