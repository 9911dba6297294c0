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
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/sdk/instancegroup"
)

// scaling is an Auto Scaling group as the source of machines.
type scaling struct {
	*Group
	hooks map[string][]string // those that the plugin completes, by transition

	// sizing is held by those who set the size, and shared by those who take machines away, which changes it as well.
	sizing sync.RWMutex

	mu       sync.Mutex
	expected int                  // the size after the last change
	changed  time.Time            // when that was
	asked    time.Time            // when AWS was asked last why a machine is missing
	told     string               // its last answer, which was logged
	ending   map[string]time.Time // machines that were terminated here, and when
}

func newScaling(g *Group) *scaling {
	return &scaling{Group: g, hooks: map[string][]string{}, ending: map[string]time.Time{}}
}

func (s *scaling) can() group.Abilities { return group.Abilities{} }

func (s *scaling) request(context.Context, instancegroup.Request) ([]string, error) {
	return nil, &instancegroup.Error{Kind: instancegroup.ErrUnsupported, Message: "an Auto Scaling group knows no requests"}
}

func (s *scaling) open(ctx context.Context) (info instancegroup.ProviderInfo, err error) {
	g, err := s.describe(ctx)
	if err == nil {
		err = countsMachines(g)
	}
	if err == nil {
		err = s.findHooks(ctx)
	}
	if err == nil {
		err = s.prepare(ctx, g)
	}
	if err != nil {
		return info, err
	}
	return instancegroup.ProviderInfo{ID: path.Join("aws", s.api.region, s.Name), MaxSize: int(aws.ToInt32(g.MaxSize))}, nil
}

// describe is the Auto Scaling group as it is now.
func (s *scaling) describe(ctx context.Context) (*types.AutoScalingGroup, error) {
	out, err := call(ctx, s.api, s.api.scaling.DescribeAutoScalingGroups, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{s.Name}})
	if err != nil {
		return nil, err
	}
	if len(out.AutoScalingGroups) == 0 {
		return nil, &instancegroup.Error{Kind: instancegroup.ErrNotFound, Message: fmt.Sprintf("there is no Auto Scaling group %q in %s", s.Name, s.api.region)}
	}
	return &out.AutoScalingGroups[0], nil
}

// zone is the first of the group's.
func (s *scaling) zone(ctx context.Context) (string, error) {
	g, err := s.describe(ctx)
	if err != nil {
		return "", err
	}
	if len(g.AvailabilityZones) == 0 {
		return "", fmt.Errorf("AWS does not say in which zones the Auto Scaling group %q is", s.Name)
	}
	return slices.Min(g.AvailabilityZones), nil
}

// settleTime is how long AWS may take to show a change of the size, and settleTries how often it is asked.
const (
	settleTime  = 30 * time.Second
	settleTries = 6
	settlePause = 100 * time.Millisecond
)

// settled is the group as it is after the last change from here: what AWS answers may be older.
func (s *scaling) settled(ctx context.Context) (*types.AutoScalingGroup, error) {
	for try, pause := 1, settlePause; ; try, pause = try+1, 2*pause {
		g, err := s.describe(ctx)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		same := s.expected == int(aws.ToInt32(g.DesiredCapacity)) || time.Since(s.changed) > settleTime
		s.mu.Unlock()
		if same || try == settleTries {
			return g, nil // somebody else may have changed it
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *scaling) set(expected int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expected, s.changed = expected, time.Now()
}

// increase raises the desired capacity, from what it is now.
func (s *scaling) increase(ctx context.Context, n int) (int, error) {
	s.sizing.Lock()
	defer s.sizing.Unlock()
	g, err := s.settled(ctx)
	if err != nil {
		return 0, err
	}
	size, limit := int(aws.ToInt32(g.DesiredCapacity)), int(aws.ToInt32(g.MaxSize))
	more := min(n, limit-size)
	full := &instancegroup.Error{Kind: instancegroup.ErrQuota, Message: fmt.Sprintf("the Auto Scaling group %q has room for %d of %d more machines: its maximum size is %d", s.Name, max(more, 0), n, limit)}
	if more <= 0 {
		return 0, full
	}
	if err := s.resize(ctx, size+more); err != nil {
		return 0, err
	}
	s.set(size + more)
	if more < n {
		return more, full
	}
	return more, nil
}

// resize sets the desired capacity. It can be repeated, because it names the result. If no answer came, the group is asked whether it happened.
func (s *scaling) resize(ctx context.Context, size int) error {
	_, err := call(ctx, s.api, s.api.scaling.SetDesiredCapacity, &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: aws.String(s.Name), DesiredCapacity: aws.Int32(int32(size)), HonorCooldown: aws.Bool(false),
	})
	if !errors.Is(err, errLost) {
		return err
	}
	g, unread := s.describe(ctx)
	if unread == nil && int(aws.ToInt32(g.DesiredCapacity)) == size {
		return nil
	}
	return &instancegroup.Error{Kind: instancegroup.ErrUncertain, Message: err.Error(), Err: errors.Join(err, unread)}
}

// machines are those of the group.
func (s *scaling) machines(ctx context.Context) ([]machine, error) {
	g, err := s.describe(ctx)
	if err != nil {
		return nil, err
	}
	instances, err := s.api.instances(ctx, "aws:autoscaling:groupName", s.Name)
	if err != nil {
		return nil, err
	}
	known := map[string]machine{}
	for _, i := range instances {
		m := machineOf(i)
		known[m.ID] = m
	}
	var out []machine
	for _, i := range g.Instances {
		if strings.HasPrefix(string(i.LifecycleState), "Warmed:") {
			continue // one that is kept stopped for the group
		}
		m, ok := known[aws.ToString(i.InstanceId)]
		if !ok {
			m = machine{Instance: instancegroup.Instance{ID: aws.ToString(i.InstanceId), State: instancegroup.StateCreating, Zone: aws.ToString(i.AvailabilityZone), Labels: map[string]string{}}}
		}
		m.Shape = aws.ToString(i.InstanceType)
		m.Labels = maps.Clone(m.Labels)
		m.Labels[instancegroup.OwnerLabel] = s.settings.Owner
		s.apply(&m, i)
		if s.ended(m.ID) && m.State.CanBecome(instancegroup.StateDeleting) {
			m.State = instancegroup.StateDeleting
		}
		out = append(out, m)
	}
	s.attend(ctx, g)
	return out, nil
}

// apply puts together what EC2 and the group say of a machine.
func (s *scaling) apply(m *machine, i types.Instance) {
	switch i.LifecycleState {
	case types.LifecycleStateInService:
		if m.State == instancegroup.StateSuspended || m.State == instancegroup.StateSuspending {
			m.State, m.Reason = instancegroup.StateFailed, "it was stopped"
		}
		if m.State == instancegroup.StateRunning && aws.ToString(i.HealthStatus) == "Unhealthy" {
			m.unhealthy, m.Reason = true, "the Auto Scaling group calls it unhealthy"
			m.Interruption = &instancegroup.Interruption{Reason: m.Reason}
		}
	case types.LifecycleStateStandby, types.LifecycleStateEnteringStandby:
		m.State, m.Reason = instancegroup.StateSuspended, "it is in standby"
	case types.LifecycleStateTerminated, types.LifecycleStateDetached:
		m.State = instancegroup.StateDeleted
	case types.LifecycleStateTerminatingWait:
		if len(s.hooks[terminating]) > 0 && m.State == instancegroup.StateRunning {
			m.Interruption = &instancegroup.Interruption{Reason: "the Auto Scaling group is terminating it, and waits for the lifecycle hook"}
			return
		}
		m.State = instancegroup.StateDeleting
	case types.LifecycleStateTerminating, types.LifecycleStateTerminatingProceed, types.LifecycleStateTerminatingRetained, types.LifecycleStateDetaching:
		m.State = instancegroup.StateDeleting
	default: // it is on its way into service
		if m.State == instancegroup.StateRunning {
			m.State = instancegroup.StateCreating
		}
	}
}

// remove terminates machines, each by itself, so that one that cannot be does not keep the others.
func (s *scaling) remove(ctx context.Context, ids []string, seen map[string]machine) ([]string, error) {
	g, err := s.describe(ctx)
	if err != nil {
		return nil, err
	}
	states := map[string]types.LifecycleState{}
	for _, i := range g.Instances {
		states[aws.ToString(i.InstanceId)] = i.LifecycleState
	}
	return each(ids, func(id string) error {
		state, listed := states[id]
		switch _, before := seen[id]; {
		case !listed && !before, s.ended(id):
			return nil
		case state == types.LifecycleStateTerminatingWait:
			return s.complete(ctx, terminating, id)
		case strings.HasPrefix(string(state), "Terminat"):
			return nil
		}
		err := s.terminate(ctx, id)
		if err != nil && !listed && !isTransient(err) {
			return nil // the group has it no longer
		}
		return err
	})
}

func isTransient(err error) bool {
	return errors.Is(err, instancegroup.ErrTransient) || errors.Is(err, instancegroup.ErrUncertain) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// terminate takes one machine away, and the size down with it. Where no answer came the group is asked first: a second call could take the size down once more.
func (s *scaling) terminate(ctx context.Context, id string) error {
	s.sizing.RLock()
	defer s.sizing.RUnlock()
	for try := 1; ; try++ {
		_, err := once(ctx, s.api, s.api.scaling.TerminateInstanceInAutoScalingGroup, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
			InstanceId: aws.String(id), ShouldDecrementDesiredCapacity: aws.Bool(true),
		})
		if err != nil && (!errors.Is(err, errLost) || try == maxTerminations) {
			return err
		}
		if err != nil {
			g, unread := s.describe(ctx)
			if unread != nil {
				return errors.Join(err, unread)
			}
			if slices.ContainsFunc(g.Instances, func(i types.Instance) bool {
				return aws.ToString(i.InstanceId) == id && !strings.HasPrefix(string(i.LifecycleState), "Terminat")
			}) {
				continue
			}
		}
		now := time.Now()
		s.mu.Lock()
		s.expected, s.changed, s.ending[id] = s.expected-1, now, now
		s.mu.Unlock()
		return nil
	}
}

// ended reports whether a machine was terminated here a short while ago: AWS may not show it yet.
func (s *scaling) ended(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	when, ok := s.ending[id]
	if ok && time.Since(when) > settleTime {
		delete(s.ending, id)
	}
	return ok && time.Since(when) <= settleTime
}

// maxTerminations is how often a machine is terminated whose group does not answer, in one call.
const maxTerminations = 3
