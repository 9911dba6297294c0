package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/rungci/rung/sdk/instancegroup"
)

// Transitions of lifecycle hooks.
const (
	launching   = "autoscaling:EC2_INSTANCE_LAUNCHING"
	terminating = "autoscaling:EC2_INSTANCE_TERMINATING"
)

// rebalancing is the process of an Auto Scaling group that terminates machines to have as many in each zone.
const rebalancing = "AZRebalance"

// findHooks finds the hooks that the options name.
func (s *scaling) findHooks(ctx context.Context) error {
	if len(s.LifecycleHooks) == 0 {
		return nil
	}
	out, err := call(ctx, s.api, s.api.scaling.DescribeLifecycleHooks, &autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: aws.String(s.Name), LifecycleHookNames: s.LifecycleHooks})
	if err != nil {
		return err
	}
	found := map[string]bool{}
	for _, h := range out.LifecycleHooks {
		name, transition := aws.ToString(h.LifecycleHookName), aws.ToString(h.LifecycleTransition)
		if slices.Contains(s.LifecycleHooks, name) {
			found[name] = true
			s.hooks[transition] = append(s.hooks[transition], name)
		}
	}
	for _, name := range s.LifecycleHooks {
		if !found[name] {
			return &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: fmt.Sprintf("the Auto Scaling group %q has no lifecycle hook %q", s.Name, name)}
		}
	}
	return nil
}

// countsMachines refuses a group whose capacity is not a number of machines: one more would be another number of them.
func countsMachines(g *types.AutoScalingGroup) error {
	name, unit := aws.ToString(g.AutoScalingGroupName), aws.ToString(g.DesiredCapacityType)
	if unit != "" && unit != "units" {
		return fmt.Errorf("the Auto Scaling group %q counts its capacity in %s, and not in machines: set its DesiredCapacityType to units", name, unit)
	}
	if p := g.MixedInstancesPolicy; p != nil && p.LaunchTemplate != nil {
		for _, o := range p.LaunchTemplate.Overrides {
			if weight := aws.ToString(o.WeightedCapacity); weight != "" && weight != "1" {
				return fmt.Errorf("the Auto Scaling group %q counts a machine of the type %s as %s of its capacity: remove WeightedCapacity from the overrides of its mixed instances policy",
					name, aws.ToString(o.InstanceType), weight)
			}
		}
	}
	return nil
}

// prepare sees to it that the group is nobody else's, and takes no machine away by itself while a job runs there.
func (s *scaling) prepare(ctx context.Context, g *types.AutoScalingGroup) error {
	tags := map[string]string{}
	for _, t := range g.Tags {
		tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	owner := tags[instancegroup.OwnerLabel]
	if owner != "" && owner != s.settings.Owner && (aws.ToInt32(g.DesiredCapacity) > 0 || len(g.Instances) > 0) {
		return fmt.Errorf("the Auto Scaling group %q has machines of %q: a group belongs to one runner. If that runner is gone, remove the tag %s from the group", s.Name, owner, instancegroup.OwnerLabel)
	}
	wanted := maps.Clone(s.settings.Labels)
	if wanted == nil {
		wanted = map[string]string{}
	}
	wanted[instancegroup.OwnerLabel] = s.settings.Owner
	var add []types.Tag
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if tags[key] != wanted[key] {
			add = append(add, types.Tag{
				Key: aws.String(key), Value: aws.String(wanted[key]), PropagateAtLaunch: aws.Bool(true), ResourceId: aws.String(s.Name), ResourceType: aws.String("auto-scaling-group"),
			})
		}
	}
	err := s.adjust(len(add) > 0, "tag it with its owner", func() error {
		_, err := call(ctx, s.api, s.api.scaling.CreateOrUpdateTags, &autoscaling.CreateOrUpdateTagsInput{Tags: add})
		return err
	})
	if err == nil {
		err = s.adjust(!aws.ToBool(g.NewInstancesProtectedFromScaleIn), "protect new machines from scale-in", func() error {
			_, err := call(ctx, s.api, s.api.scaling.UpdateAutoScalingGroup, &autoscaling.UpdateAutoScalingGroupInput{
				AutoScalingGroupName: aws.String(s.Name), NewInstancesProtectedFromScaleIn: aws.Bool(true),
			})
			return err
		})
	}
	if err == nil {
		rebalances := len(g.AvailabilityZones) > 1 && !slices.ContainsFunc(g.SuspendedProcesses, func(p types.SuspendedProcess) bool { return aws.ToString(p.ProcessName) == rebalancing })
		err = s.adjust(rebalances, "suspend its process "+rebalancing, func() error {
			_, err := call(ctx, s.api, s.api.scaling.SuspendProcesses, &autoscaling.SuspendProcessesInput{AutoScalingGroupName: aws.String(s.Name), ScalingProcesses: []string{rebalancing}})
			return err
		})
	}
	if aws.ToInt32(g.MinSize) > 0 {
		s.log.Warn("the Auto Scaling group has a MinSize: it never has fewer machines, and refuses to delete the last ones; set it to 0", "group", s.Name)
	}
	if aws.ToBool(g.CapacityRebalance) {
		s.log.Warn("the Auto Scaling group has CapacityRebalance and terminates machines with jobs; turn it off", "group", s.Name)
	}
	if aws.ToInt32(g.MaxInstanceLifetime) > 0 {
		s.log.Warn("the Auto Scaling group has a MaxInstanceLifetime and terminates machines with jobs; turn it off", "group", s.Name)
	}
	return err
}

// adjust changes the group, or says what to change where it must not.
func (s *scaling) adjust(needed bool, what string, do func() error) error {
	if !needed {
		return nil
	}
	if s.AdjustGroup != nil && !*s.AdjustGroup {
		s.log.Warn("the Auto Scaling group should be changed, and adjust_group forbids it", "group", s.Name, "change", what)
		return nil
	}
	err := do()
	if errors.Is(err, instancegroup.ErrUnauthorised) {
		s.log.Warn("the Auto Scaling group should be changed, and the credentials do not allow it", "group", s.Name, "change", what, "error", err)
		return nil
	}
	if err == nil {
		s.log.Info("changed the Auto Scaling group", "group", s.Name, "change", what)
	}
	return err
}

// maxProtected is how many machines can be protected by one call.
const maxProtected = 50

// attend does what is due for machines of the group: it protects those that are not, and completes hooks of those that are launched. What fails is due again with the next list.
func (s *scaling) attend(ctx context.Context, g *types.AutoScalingGroup) {
	var open, waiting []string
	for _, i := range g.Instances {
		switch {
		case i.LifecycleState == types.LifecycleStateInService && !aws.ToBool(i.ProtectedFromScaleIn):
			open = append(open, aws.ToString(i.InstanceId))
		case i.LifecycleState == types.LifecycleStatePendingWait && len(s.hooks[launching]) > 0:
			waiting = append(waiting, aws.ToString(i.InstanceId))
		}
	}
	if s.AdjustGroup == nil || *s.AdjustGroup {
		for part := range slices.Chunk(open, maxProtected) {
			_, err := call(ctx, s.api, s.api.scaling.SetInstanceProtection, &autoscaling.SetInstanceProtectionInput{
				AutoScalingGroupName: aws.String(s.Name), InstanceIds: part, ProtectedFromScaleIn: aws.Bool(true),
			})
			if err != nil {
				s.log.Warn("machines are not protected from scale-in", "instances", strings.Join(part, " "), "error", err)
			}
		}
	}
	if _, err := each(waiting, func(id string) error { return s.complete(ctx, launching, id) }); err != nil {
		s.log.Warn("a lifecycle hook was not completed", "error", err)
	}
	if int(aws.ToInt32(g.DesiredCapacity)) > len(g.Instances) {
		s.explain(ctx)
	}
}

// explain logs why the last launch failed, once.
func (s *scaling) explain(ctx context.Context) {
	s.mu.Lock()
	early := time.Since(s.asked) < settleTime
	if !early {
		s.asked = time.Now()
	}
	s.mu.Unlock()
	if early {
		return
	}
	out, err := call(ctx, s.api, s.api.scaling.DescribeScalingActivities, &autoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: aws.String(s.Name), MaxRecords: aws.Int32(1)})
	if err != nil || len(out.Activities) == 0 {
		return
	}
	last := out.Activities[0]
	s.mu.Lock()
	known := s.told == aws.ToString(last.ActivityId)
	s.told = aws.ToString(last.ActivityId)
	s.mu.Unlock()
	if last.StatusCode == types.ScalingActivityStatusCodeFailed && !known {
		s.log.Warn("the Auto Scaling group cannot launch a machine", "group", s.Name, "reason", aws.ToString(last.StatusMessage))
	}
}

// complete lets a machine go on that waits for hooks of the plugin.
func (s *scaling) complete(ctx context.Context, transition, id string) error {
	_, err := each(s.hooks[transition], func(hook string) error {
		_, err := call(ctx, s.api, s.api.scaling.CompleteLifecycleAction, &autoscaling.CompleteLifecycleActionInput{
			AutoScalingGroupName: aws.String(s.Name), LifecycleHookName: aws.String(hook), InstanceId: aws.String(id), LifecycleActionResult: aws.String("CONTINUE"),
		})
		return err
	})
	return err
}
