package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/rungci/rung/sdk/instancegroup"
)

// machine is an EC2 instance.
type machine struct {
	instancegroup.Instance
	internal, external string
	unhealthy          bool // it must get no more work
}

// shapeTag has the name of the shape that a machine was made as.
const shapeTag = "rung-shape"

// perPage is how many instances one call returns at most.
const perPage = 1000

// instances are those that have a tag, however many pages they are.
func (a *api) instances(ctx context.Context, tag, value string) ([]types.Instance, error) {
	return a.describe(ctx, &ec2.DescribeInstancesInput{Filters: []types.Filter{{Name: aws.String("tag:" + tag), Values: []string{value}}}})
}

// describe is DescribeInstances, with all its pages.
func (a *api) describe(ctx context.Context, in *ec2.DescribeInstancesInput) (out []types.Instance, err error) {
	in.MaxResults = aws.Int32(perPage)
	err = pages(ctx, a, a.ec2.DescribeInstances, in,
		func(in *ec2.DescribeInstancesInput, token *string) { in.NextToken = token },
		func(out *ec2.DescribeInstancesOutput) *string { return out.NextToken },
		func(page *ec2.DescribeInstancesOutput) {
			for _, r := range page.Reservations {
				out = append(out, r.Instances...)
			}
		})
	return out, err
}

// machineOf is what an instance is to the contract.
func machineOf(i types.Instance) machine {
	m := machine{Instance: instancegroup.Instance{
		ID: aws.ToString(i.InstanceId), Created: aws.ToTime(i.LaunchTime), Spot: i.InstanceLifecycle == types.InstanceLifecycleTypeSpot, Labels: labelsOf(i.Tags),
	}}
	m.Request = m.Labels[instancegroup.RequestLabel]
	m.Shape = cmp.Or(m.Labels[shapeTag], string(i.InstanceType))
	if i.Placement != nil {
		m.Zone = aws.ToString(i.Placement.AvailabilityZone)
	}
	m.State, m.Reason = stateOf(i)
	addresses := []string{aws.ToString(i.PrivateIpAddress), aws.ToString(i.PublicIpAddress), aws.ToString(i.Ipv6Address)}
	m.internal, m.external = instancegroup.Addresses(false, addresses...)
	// A VPC may have addresses of its own that are not private ones.
	m.internal = cmp.Or(aws.ToString(i.PrivateIpAddress), m.internal)
	if m.external == m.internal {
		m.external = cmp.Or(aws.ToString(i.PublicIpAddress), aws.ToString(i.Ipv6Address))
	}
	return m
}

// labelsOf are the tags that are not AWS's own.
func labelsOf(tags []types.Tag) map[string]string {
	labels := map[string]string{}
	for _, t := range tags {
		if !strings.HasPrefix(aws.ToString(t.Key), "aws:") {
			labels[aws.ToString(t.Key)] = aws.ToString(t.Value)
		}
	}
	return labels
}

// onRequest begins the codes of ends that somebody asked for.
const onRequest = "Client.User"

// stateOf is the state of an instance, and the reason of one that did not end because somebody asked for it.
func stateOf(i types.Instance) (state instancegroup.State, reason string) {
	if i.State == nil {
		return instancegroup.StateCreating, ""
	}
	why := i.StateReason
	if why != nil && aws.ToString(why.Code) != "" {
		reason = aws.ToString(why.Message)
		if !strings.HasPrefix(reason, aws.ToString(why.Code)) {
			reason = fmt.Sprintf("%s: %s", aws.ToString(why.Code), reason)
		}
	}
	switch i.State.Name {
	case types.InstanceStateNamePending:
		return instancegroup.StateCreating, ""
	case types.InstanceStateNameRunning:
		return instancegroup.StateRunning, ""
	case types.InstanceStateNameStopping:
		return instancegroup.StateSuspending, reason
	case types.InstanceStateNameStopped:
		return instancegroup.StateSuspended, reason
	case types.InstanceStateNameShuttingDown:
		return instancegroup.StateDeleting, reason
	case types.InstanceStateNameTerminated:
		if reason != "" && !strings.HasPrefix(aws.ToString(why.Code), onRequest) {
			return instancegroup.StateFailed, reason
		}
		return instancegroup.StateDeleted, reason
	}
	return instancegroup.StateCreating, string(i.State.Name)
}
