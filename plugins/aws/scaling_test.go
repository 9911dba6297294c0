package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/rungci/rung/fleet/group"
)

// described is the Auto Scaling group as it is.
func (c *cloud) described(t testing.TB) types.AutoScalingGroup {
	t.Helper()
	out, err := c.api.scaling.DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{})
	if err != nil || len(out.AutoScalingGroups) != 1 {
		t.Fatal(out, err)
	}
	return out.AutoScalingGroups[0]
}

// size fails the test if the group has not so many machines.
func (c *cloud) size(t testing.TB, want int32) {
	t.Helper()
	if g := c.described(t); aws.ToInt32(g.DesiredCapacity) != want || len(g.Instances) != int(want) {
		t.Errorf("the desired capacity is %d, and there are %d machines; want %d", aws.ToInt32(g.DesiredCapacity), len(g.Instances), want)
	}
}

// grow makes machines in a group, and returns their ids.
func (g opened) grow(t testing.TB, n int) []string {
	t.Helper()
	g.create(t, group.Request{ID: fmt.Sprint("grow-", g.own.api.limiter.Metrics()[0].Value), Count: n})
	var ids []string
	for id := range g.list(t) {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func TestAnAutoScalingGroupCountsMachines(t *testing.T) {
	t.Parallel()
	weighted := func(weight *string) *types.AutoScalingGroup {
		return &types.AutoScalingGroup{AutoScalingGroupName: aws.String("g"), MixedInstancesPolicy: &types.MixedInstancesPolicy{LaunchTemplate: &types.LaunchTemplate{
			Overrides: []types.LaunchTemplateOverrides{{InstanceType: aws.String("m5.large"), WeightedCapacity: weight}},
		}}}
	}
	for _, c := range []struct {
		group *types.AutoScalingGroup
		want  string // empty: it is accepted
	}{
		{&types.AutoScalingGroup{}, ""},
		{&types.AutoScalingGroup{DesiredCapacityType: aws.String("units")}, ""},
		{&types.AutoScalingGroup{DesiredCapacityType: aws.String("vcpu")}, "counts its capacity in vcpu, and not in machines"},
		{weighted(nil), ""},
		{weighted(aws.String("1")), ""},
		{weighted(aws.String("2")), "counts a machine of the type m5.large as 2 of its capacity"},
	} {
		if err := countsMachines(c.group); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func TestIncreaseReadsTheSizeOfTheGroup(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.scaled(t, 10))
	g.create(t, request(1, 1))
	// Somebody else changes the size.
	if _, err := c.api.scaling.SetDesiredCapacity(t.Context(), &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: aws.String("runners"), DesiredCapacity: aws.Int32(4)}); err != nil {
		t.Fatal(err)
	}
	g.create(t, request(2, 2))
	c.size(t, 6)
}

func TestIncreaseWaitsForAGroupThatShowsItsOldSize(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.scaled(t, 10))
	for n := range 3 {
		c.fault("DescribeAutoScalingGroups", 1, stale)
		g.create(t, request(n, 1))
	}
	c.size(t, 3)
	ids := g.grow(t, 1)
	if _, err := g.Delete(t.Context(), ids[:2]); err != nil {
		t.Fatal(err)
	}
	c.fault("DescribeAutoScalingGroups", 2, stale)
	g.create(t, request(10, 1))
	c.size(t, 3)
}

func TestALostAnswerOfAGroupChangesItsSizeOnce(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]func(*cloud, apiCall, func() answer) (answer, bool){"before the effect": drop, "after the effect": lose} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t, motoURL(t))
			g := open(t, c.scaled(t, 10))
			c.fault("SetDesiredCapacity", 2, how)
			ids := g.grow(t, 3)
			c.size(t, 3)
			c.fault("TerminateInstanceInAutoScalingGroup", 2, how)
			if done, err := g.Delete(t.Context(), ids[:2]); err != nil || len(done) != 2 {
				t.Errorf("Delete: %v, %v", done, err)
			}
			c.size(t, 1)
		})
	}
}

func TestAnIncreaseWithoutAnyAnswerIsLookedAt(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.scaled(t, 10))
	c.fault("SetDesiredCapacity", 5, lose)
	g.create(t, request(1, 2)) // the group says that it has happened
	c.size(t, 2)
	c.fault("SetDesiredCapacity", 5, drop)
	r := request(2, 1)
	_, err := g.Create(t.Context(), r)
	wants(t, "Create", err, group.ErrUncertain)
	if _, err = g.Create(t.Context(), r); !errors.Is(err, group.ErrUncertain) {
		t.Errorf("the request again: %v", err)
	}
	c.size(t, 2)
}

func TestDeletesGoOnAfterAnError(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.scaled(t, 10))
	ids := g.grow(t, 4)
	c.fault("TerminateInstanceInAutoScalingGroup", 1, refuse(400, "ScalingActivityInProgressByTest"))
	done, err := g.Delete(t.Context(), ids)
	if err == nil || len(done) != 3 {
		t.Errorf("Delete: %v, %v", done, err)
	}
	c.size(t, 1)
	if done, err = g.Delete(t.Context(), ids); err != nil || len(done) != 4 {
		t.Errorf("Delete again: %v, %v", done, err)
	}
	c.size(t, 0)
}

func TestIncreasesAndDeletesAtOnceLeaveTheRightSize(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.scaled(t, 50))
	ids := g.grow(t, 5)
	var all sync.WaitGroup
	for n := range 5 {
		all.Go(func() {
			if _, err := g.Create(t.Context(), request(n, 2)); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			if _, err := g.Delete(t.Context(), ids[n:n+1]); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	c.size(t, 10)
}

func TestTheMaximumOfAGroupIsAQuota(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.scaled(t, 3))
	g.create(t, request(1, 2))
	created, err := g.Create(t.Context(), request(2, 2))
	wants(t, "Create", err, group.ErrQuota)
	if created.Count != 1 || g.Info().MaxSize != 3 || g.Info().ID != "aws/eu-west-1/runners" {
		t.Errorf("%+v, %v; %+v", created, err, g.Info())
	}
	created, err = g.Create(t.Context(), request(3, 1))
	wants(t, "Create", err, group.ErrQuota)
	if created.Count != 0 {
		t.Errorf("%+v, %v", created, err)
	}
}

func TestTheGroupIsPreparedForJobs(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	o := c.scaled(t, 10)
	settings := group.Settings{Labels: map[string]string{"cost-centre": "42"}}
	for range 2 { // the second time there is nothing left to do
		if _, err := tryOpen(t, o, settings); err != nil {
			t.Fatal(err)
		}
	}
	g := c.described(t)
	if !aws.ToBool(g.NewInstancesProtectedFromScaleIn) || len(g.SuspendedProcesses) != 1 || aws.ToString(g.SuspendedProcesses[0].ProcessName) != rebalancing {
		t.Errorf("protected: %t, suspended: %v", aws.ToBool(g.NewInstancesProtectedFromScaleIn), g.SuspendedProcesses)
	}
	for _, operation := range []string{"UpdateAutoScalingGroup", "SuspendProcesses", "CreateOrUpdateTags"} {
		if c.count(operation) != 1 {
			t.Errorf("%s was called %d times", operation, c.count(operation))
		}
	}
	us, err := tryOpen(t, o, settings)
	if err != nil {
		t.Fatal(err)
	}
	us.create(t, request(1, 1))
	if got := one(t, us.list(t)); got.Labels["cost-centre"] != "42" || got.Labels[group.OwnerLabel] != "us" || got.Shape != "t3.micro" || got.Zone == "" {
		t.Errorf("%+v", got)
	}
	if g := c.described(t); !aws.ToBool(g.Instances[0].ProtectedFromScaleIn) {
		t.Error("the machine is not protected")
	}
}

func TestAGroupThatMustNotBeChangedIsUsedWithAWarning(t *testing.T) {
	t.Parallel()
	no := false
	for name, prepare := range map[string]func(*cloud, *Options){
		"by the options": func(_ *cloud, o *Options) { o.AdjustGroup = &no },
		"by the credentials": func(c *cloud, _ *Options) {
			for _, operation := range []string{"UpdateAutoScalingGroup", "SuspendProcesses", "CreateOrUpdateTags"} {
				c.fault(operation, 1, refuse(403, "AccessDenied"))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t, motoURL(t))
			o := c.scaled(t, 10)
			prepare(c, &o)
			g := open(t, o)
			g.create(t, request(1, 1))
			for _, want := range []string{"suspend its process AZRebalance", "protect new machines from scale-in", "tag it with its owner"} {
				if !strings.Contains(g.log.String(), want) {
					t.Errorf("the log does not say %q:\n%s", want, g.log)
				}
			}
			if g := c.described(t); aws.ToBool(g.NewInstancesProtectedFromScaleIn) || len(g.SuspendedProcesses) != 0 || len(g.Tags) != 0 {
				t.Errorf("it was changed: %+v", g)
			}
		})
	}
}

func TestMachinesThatAreNotProtectedAreProtected(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	o := c.scaled(t, 10)
	if _, err := c.api.scaling.SetDesiredCapacity(t.Context(), &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: aws.String("runners"), DesiredCapacity: aws.Int32(2)}); err != nil {
		t.Fatal(err)
	}
	g := open(t, o)
	for range 2 {
		g.list(t)
	}
	for _, i := range c.described(t).Instances {
		if !aws.ToBool(i.ProtectedFromScaleIn) {
			t.Errorf("%s is not", aws.ToString(i.InstanceId))
		}
	}
	if got := c.count("SetInstanceProtection"); got != 1 {
		t.Errorf("there were %d calls", got)
	}
}

func TestAGroupBelongsToOneRunner(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	o := c.scaled(t, 10)
	theirs, err := tryOpen(t, o, group.Settings{Owner: "them"})
	if err != nil {
		t.Fatal(err)
	}
	ids := theirs.grow(t, 1)
	if _, err = tryOpen(t, o, group.Settings{}); err == nil || !strings.Contains(err.Error(), `has machines of "them": a group belongs to one runner`) {
		t.Errorf("%v", err)
	}
	if _, err := theirs.Delete(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	open(t, o) // an empty group may change hands
}

func TestLifecycleStates(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.scaled(t, 10))
	id := g.grow(t, 1)[0]
	for _, one := range []struct {
		said string
		want group.State
	}{
		{"Pending", "creating"}, {"Pending:Wait", "creating"}, {"Pending:Proceed", "creating"}, {"InService", "running"}, {"EnteringStandby", "suspended"}, {"Standby", "suspended"},
		{"Detaching", "deleting"}, {"Terminating", "deleting"}, {"Terminating:Wait", "deleting"}, {"Terminating:Proceed", "deleting"}, {"Terminated", ""}, {"Warmed:Stopped", ""},
	} {
		c.mu.Lock()
		c.waiting = map[string]string{id: one.said}
		c.mu.Unlock()
		next, err := tryOpen(t, g.own.Options, group.Settings{}) // which has not seen other states
		if err != nil {
			t.Fatal(err)
		}
		if got := next.list(t)[id]; got.State != one.want {
			t.Errorf("%s: %q, want %q", one.said, got.State, one.want)
		}
	}
}

func TestLifecycleHooksAreCompletedThatTheOptionsName(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	o := c.scaled(t, 10)
	for hook, transition := range map[string]string{"ready": launching, "drain": terminating, "theirs": terminating} {
		_, err := c.api.scaling.PutLifecycleHook(t.Context(), &autoscaling.PutLifecycleHookInput{AutoScalingGroupName: aws.String("runners"), LifecycleHookName: aws.String(hook), LifecycleTransition: aws.String(transition)})
		if err != nil {
			t.Fatal(err)
		}
	}
	o.LifecycleHooks = []string{"drain", "ready"}
	g := open(t, o)
	ids := g.grow(t, 2)
	state := func(of ...string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.waiting = map[string]string{}
		for i, s := range of {
			c.waiting[ids[i]] = s
		}
	}
	state("InService", "Pending:Wait")
	g.list(t)
	state("Terminating:Wait", "InService")
	got := g.list(t)[ids[0]]
	if got.State != group.StateRunning || got.Interruption == nil {
		t.Errorf("while its group waits with terminating it: %+v", got)
	}
	if _, err := g.Delete(t.Context(), ids[:1]); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if want := []string{"ready " + ids[1] + " CONTINUE", "drain " + ids[0] + " CONTINUE"}; !slices.Equal(c.completed, want) {
		t.Errorf("completed: %q, want %q", c.completed, want)
	}
}

func TestAHookThatDoesNotExistIsAnError(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	o := c.scaled(t, 10)
	o.LifecycleHooks = []string{"drain"}
	_, err := tryOpen(t, o, group.Settings{})
	wants(t, "Init", err, group.ErrNotFound)
}

func TestAMachineThatItsGroupCallsUnhealthyGetsNoMoreJobs(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.scaled(t, 10))
	id := g.grow(t, 1)[0]
	if err := g.Heartbeat(t.Context(), id); err != nil {
		t.Error(err)
	}
	wants(t, "Heartbeat of none", g.Heartbeat(t.Context(), "i-none"), group.ErrNotFound)
	c.fault("DescribeAutoScalingGroups", 1, refuse(400, "InvalidParameterValue"))
	wants(t, "Heartbeat without an answer", g.Heartbeat(t.Context(), "i-none"), group.ErrTransient)
	c.mu.Lock()
	c.health[id] = "Unhealthy"
	c.mu.Unlock()
	if got := g.list(t)[id]; got.State != group.StateRunning || got.Interruption == nil {
		t.Errorf("%+v", got)
	}
	wants(t, "Heartbeat", g.Heartbeat(t.Context(), id), group.ErrInstanceUnhealthy)
}

func TestAPollOfAGroupIsTwoCalls(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.scaled(t, 30))
	ids := g.grow(t, 20)
	c.mu.Lock()
	before := len(c.calls)
	c.mu.Unlock()
	g.list(t)
	for _, id := range ids {
		if err := g.Heartbeat(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var made []string
	for _, one := range c.calls[before:] {
		made = append(made, one.operation)
	}
	if want := []string{"DescribeAutoScalingGroups", "DescribeInstances"}; !slices.Equal(made, want) {
		t.Errorf("%q, want %q", made, want)
	}
}

func TestAReasonWhyNoMachineComesIsLoggedOnce(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.scaled(t, 10))
	c.fault("DescribeAutoScalingGroups", 2, func(c *cloud, call apiCall, forward func() answer) (answer, bool) {
		a := c.forwardForm(t, call)
		a.body = []byte(strings.ReplaceAll(string(a.body), "<DesiredCapacity>0<", "<DesiredCapacity>1<"))
		return a, true
	})
	c.fault("DescribeScalingActivities", 1, reply(`<DescribeScalingActivitiesResponse><DescribeScalingActivitiesResult><Activities><member><ActivityId>a</ActivityId>
		<StatusCode>Failed</StatusCode><StatusMessage>We do not have sufficient capacity</StatusMessage></member></Activities></DescribeScalingActivitiesResult></DescribeScalingActivitiesResponse>`))
	g.list(t)
	g.list(t)
	if got := strings.Count(g.log.String(), "We do not have sufficient capacity"); got != 1 {
		t.Errorf("it was logged %d times:\n%s", got, g.log)
	}
}

func TestAGroupThatDoesNotExistIsAnError(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	o := c.options(t)
	o.Name = "made-up"
	_, err := tryOpen(t, o, group.Settings{})
	wants(t, "Init", err, group.ErrNotFound)
	if err == nil || !strings.Contains(err.Error(), `there is no Auto Scaling group "made-up" in eu-west-1`) {
		t.Error(err)
	}
}

func TestAMachineThatAnotherTakesFromTheGroupCountsAsDeleted(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.scaled(t, 10))
	ids := g.grow(t, 2)
	_, err := c.api.scaling.TerminateInstanceInAutoScalingGroup(context.WithoutCancel(t.Context()), &autoscaling.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: aws.String(ids[0]), ShouldDecrementDesiredCapacity: aws.Bool(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	if done, err := g.Delete(t.Context(), ids); err != nil || len(done) != 2 {
		t.Errorf("Delete: %v, %v", done, err)
	}
	c.size(t, 0)
}
