package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/rungci/rung/fleet/group"
)

func describeAll() *ec2.DescribeInstancesInput { return &ec2.DescribeInstancesInput{} }

func TestAThrottledCallIsMadeAgain(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	for _, operation := range []string{"CreateFleet", "DescribeInstances", "TerminateInstances"} {
		c.fault(operation, 3, refuse(503, "RequestLimitExceeded"))
	}
	id := g.create(t, request(1, 1))[0]
	if one(t, g.list(t)).ID != id {
		t.Errorf("listed: %v", g.list(t))
	}
	if done, err := g.Delete(t.Context(), []string{id}); err != nil || len(done) != 1 {
		t.Errorf("Delete: %v, %v", done, err)
	}
	if left := c.running(t); len(left) > 0 {
		t.Errorf("running: %v", left)
	}
}

func TestACallThatStaysThrottledIsTransientWithADelay(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	c.fault("CreateFleet", 5, refuse(503, "RequestLimitExceeded"))
	_, err := g.Create(t.Context(), request(1, 1))
	if after, later := group.RetryAfter(err); !later || after != throttledAfter {
		t.Errorf("%v: %v, %t", err, after, later)
	}
	if g.create(t, request(1, 1)); len(c.running(t)) != 1 {
		t.Errorf("running: %v", c.running(t))
	}
}

func TestALostAnswerMakesNoSecondMachine(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]func(*cloud, apiCall, func() answer) (answer, bool){"before the effect": drop, "after the effect": lose} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t, motoURL(t))
			g := open(t, c.byShape(t))
			c.fault("CreateFleet", 2, how)
			g.create(t, request(1, 2))
			if got := c.running(t); len(got) != 2 {
				t.Errorf("running: %v", got)
			}
		})
	}
}

// All answers are lost, the process ends, and lists do not have the machine yet: only the token can tell.
func TestAnotherProcessThatRepeatsARequestMakesNoSecondMachine(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	g.list(t) // what a list that lags behind shows
	c.fault("CreateFleet", 5, lose)
	_, err := g.Create(t.Context(), request(1, 1))
	wants(t, "Create", err, group.ErrTransient)
	c.fault("DescribeInstances", 1, stale)
	next := open(t, c.byShape(t))
	id := next.create(t, request(1, 1))[0]
	if got := c.running(t); !slices.Equal(got, []string{id}) {
		t.Errorf("running: %v, want %s", got, id)
	}
}

func TestARequestIsKnownByItsTagWhenItsTokenIsForgotten(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	ids := open(t, c.byShape(t)).create(t, request(1, 2))
	clear(c.tokens)
	again := open(t, c.byShape(t)).create(t, request(1, 2))
	slices.Sort(ids)
	if !slices.Equal(again, ids) || len(c.running(t)) != 2 {
		t.Errorf("first %v, then %v; running: %v", ids, again, c.running(t))
	}
}

func TestWhatIsMissingOfAnOldRequestIsMadeWithANewToken(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	first := open(t, c.byShape(t))
	ids := first.create(t, request(1, 3))
	if _, err := first.Delete(t.Context(), ids[:1]); err != nil {
		t.Fatal(err)
	}
	clear(c.tokens)
	for range 2 { // the second time the answer of the first is lost with its process
		g := open(t, c.byShape(t))
		g.own.source.(*shapes).tokenTime = 0
		if g.create(t, request(1, 3)); len(c.running(t)) != 3 {
			t.Errorf("running: %v", c.running(t))
		}
	}
}

// fleetAnswer is that of CreateFleet with machines and errors.
func fleetAnswer(codes ...string) func(*cloud, apiCall, func() answer) (answer, bool) {
	var errs strings.Builder
	for _, code := range codes {
		fmt.Fprintf(&errs, "<item><errorCode>%s</errorCode><errorMessage>there is none</errorMessage></item>", code)
	}
	return reply("<CreateFleetResponse><fleetId>fleet-1</fleetId><errorSet>" + errs.String() + "</errorSet><fleetInstanceSet/></CreateFleetResponse>")
}

func TestNoCapacityIsAQuota(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	c.fault("CreateFleet", 2, fleetAnswer("InvalidFleetConfiguration", "InsufficientInstanceCapacity"))
	created, err := g.Create(t.Context(), request(1, 1))
	wants(t, "Create", err, group.ErrQuota)
	if created.Count != 0 || !strings.Contains(err.Error(), "InsufficientInstanceCapacity: there is none") {
		t.Errorf("%+v, %v", created, err)
	}
	if calls := c.of("CreateFleet"); len(calls) != 2 || calls[0].form.Get("ClientToken") == calls[1].form.Get("ClientToken") {
		t.Errorf("there were %d calls, the second with the token of the first", len(calls))
	}
	g.create(t, request(1, 1))
}

func TestTheRestOfARequestIsMadeByTheNextCall(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	c.fault("CreateFleet", 1, func(c *cloud, call apiCall, forward func() answer) (answer, bool) {
		// EC2 has one machine where three are asked for.
		call.form.Set("TargetCapacitySpecification.TotalTargetCapacity", "1")
		return c.forwardForm(t, call), true
	})
	r := request(1, 3)
	created, err := g.Create(t.Context(), r)
	wants(t, "Create", err, group.ErrQuota)
	if created.Count != 1 {
		t.Errorf("%+v, %v", created, err)
	}
	if created, err = g.Create(t.Context(), r); err != nil || created.Count != 3 || len(c.running(t)) != 3 {
		t.Errorf("%+v, %v; running: %v", created, err, c.running(t))
	}
	if got := c.of("CreateFleet")[1].form.Get("TargetCapacitySpecification.TotalTargetCapacity"); got != "2" {
		t.Errorf("the second call asks for %s machines", got)
	}
}

func TestRequestsAtOnceMakeWhatTheyAskFor(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	c.fault("CreateFleet", 4, lose) // one more, and a request could lose all its tries
	var all sync.WaitGroup
	for n := range 10 {
		all.Go(func() {
			if created, err := g.Create(t.Context(), request(n, 2)); err != nil || created.Count != 2 {
				t.Errorf("request %d: %+v, %v", n, created, err)
			}
		})
	}
	all.Wait()
	if got := c.running(t); len(got) != 20 {
		t.Errorf("%d machines are running", len(got))
	}
}

func TestAMachineThatIsNotListedYetIsBeingCreated(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	g.list(t)
	id := g.create(t, request(1, 1))[0]
	c.fault("DescribeInstances", 1, reply("<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>"))
	got := one(t, g.list(t))
	if got.ID != id || got.State != group.StateCreating || got.Request != "request-1" || got.Labels[group.OwnerLabel] != "us" || got.Shape != "medium" {
		t.Errorf("a list that lags behind: %+v", got)
	}
	if got = one(t, g.list(t)); got.State != group.StateRunning {
		t.Errorf("the next list: %+v", got)
	}
}

func TestADeletedMachineThatIsStillListedIsBeingDeleted(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	id := g.create(t, request(1, 1))[0]
	g.list(t)
	if _, err := g.Delete(t.Context(), []string{id}); err != nil {
		t.Fatal(err)
	}
	c.fault("DescribeInstances", 1, stale)
	// The last true answer is that of Delete, which looks at the machines first.
	if got := one(t, g.list(t)); got.State != group.StateDeleting {
		t.Errorf("%+v", got)
	}
	if got := g.list(t); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestAMachineThatIsTooNewToBeDeletedIsNotForgotten(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	id := g.create(t, request(1, 1))[0]
	c.fault("DescribeInstances", 1, reply("<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>"))
	c.fault("TerminateInstances", 1, refuse(400, "InvalidInstanceID.NotFound"))
	done, err := g.Delete(t.Context(), []string{id})
	wants(t, "Delete", err, group.ErrTransient)
	if len(done) != 0 {
		t.Errorf("deleted: %v", done)
	}
	if done, err = g.Delete(t.Context(), []string{id}); err != nil || len(done) != 1 || len(c.running(t)) != 0 {
		t.Errorf("%v, %v; running: %v", done, err, c.running(t))
	}
}

func TestAllPagesAreListed(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	for n := range 5 {
		g.create(t, request(n, 1))
	}
	before := c.count("DescribeInstances")
	c.fault("DescribeInstances", 5, func(c *cloud, call apiCall, _ func() answer) (answer, bool) {
		call.form.Set("MaxResults", "1")
		return c.forwardForm(t, call), true
	})
	if got := g.list(t); len(got) != 5 {
		t.Errorf("listed: %v", got)
	}
	if got := c.count("DescribeInstances") - before; got != 5 {
		t.Errorf("there were %d calls", got)
	}
}

func TestAListThatFailsInTheMiddleIsNone(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	g.create(t, request(1, 1))
	g.create(t, request(2, 1))
	c.fault("DescribeInstances", 1, func(c *cloud, call apiCall, _ func() answer) (answer, bool) {
		call.form.Set("MaxResults", "1")
		return c.forwardForm(t, call), true
	})
	c.fault("DescribeInstances", 1, refuse(403, "UnauthorizedOperation"))
	all, err := g.List(t.Context())
	wants(t, "List", err, group.ErrUnauthorised)
	if len(all) > 0 {
		t.Errorf("listed: %v", all)
	}
}

func TestAPollIsOneCall(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	ids := g.create(t, request(1, 20))
	before := c.count("DescribeInstances")
	g.list(t)
	for _, id := range ids {
		if err := g.Heartbeat(t.Context(), id); err != nil {
			t.Error(err)
		}
		if _, err := g.ConnectInfo(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	if got := c.count("DescribeInstances") - before; got != 1 {
		t.Errorf("a list, and ConnectInfo and Heartbeat of 20 machines, make %d calls", got)
	}
}

func TestManyMachinesAreDeletedByOneCallAndOneThatCannotBeDoesNotKeepTheOthers(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	ids := g.create(t, request(1, 4))
	c.fault("TerminateInstances", 1, refuse(400, "OperationNotPermitted"))
	c.fault("TerminateInstances", 1, refuse(400, "OperationNotPermitted"))
	done, err := g.Delete(t.Context(), ids)
	if err == nil || len(done) != 3 || len(c.running(t)) != 1 {
		t.Errorf("%v, %v; running: %v", done, err, c.running(t))
	}
	if got := len(c.of("TerminateInstances")); got != 5 {
		t.Errorf("there were %d calls", got)
	}
}

func TestMachinesOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	theirs, err := tryOpen(t, c.byShape(t), group.Settings{Owner: "them"})
	if err != nil {
		t.Fatal(err)
	}
	id := theirs.create(t, request(1, 1))[0]
	g := open(t, c.byShape(t))
	if got := g.list(t); len(got) > 0 {
		t.Errorf("listed: %v", got)
	}
	if _, err := g.Delete(t.Context(), []string{id}); err != nil || c.count("TerminateInstances") != 0 {
		t.Errorf("Delete: %v, after %d calls", err, c.count("TerminateInstances"))
	}
	if got := c.running(t); !slices.Equal(got, []string{id}) {
		t.Errorf("running: %v", got)
	}
}

func TestAMachineThatDoesNotStartHasFailedWithEC2sReason(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	id := g.create(t, request(1, 1))[0]
	c.fault("DescribeInstances", 1, reply(`<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>`+id+`</instanceId>
		<instanceState><code>48</code><name>terminated</name></instanceState><stateReason><code>Client.VolumeLimitExceeded</code><message>Volume limit exceeded</message></stateReason>
		</item></instancesSet></item></reservationSet></DescribeInstancesResponse>`))
	if got := one(t, g.list(t)); got.State != group.StateFailed || got.Reason != "Client.VolumeLimitExceeded: Volume limit exceeded" {
		t.Errorf("%+v", got)
	}
}

func TestOffersSayWhatMachinesAreAndCost(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	o := c.byShape(t)
	o.Shapes = append(o.Shapes, Shape{InstanceTypes: []string{"g4dn.xlarge"}})
	g := open(t, o)
	offers, err := g.Offers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range offers {
		got = append(got, fmt.Sprintf("%s %s %g %d %d %d %q spot=%t %g+%g%s %s %s", o.Shape, o.Arch, o.CPUs, o.Memory>>20, o.Disk>>30, o.GPUs, o.GPU, o.Spot, o.Price, o.SuspendedPrice, o.Currency, o.Minimum, o.Step))
	}
	want := []string{
		`medium amd64 2 8192 30 0 "" spot=false 0.1+0.004USD 1m0s 1s`,
		`medium amd64 2 8192 30 0 "" spot=true 1e-05+0USD 1m0s 1s`, // moto's price
		`c7g.xlarge arm64 4 8192 0 0 "" spot=false 0.2+0USD 1m0s 1s`,
		`g4dn.xlarge amd64 4 16384 0 1 "NVIDIA T4" spot=false 0+0 1m0s 1s`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAZoneOfARequestIsThatOfItsSubnet(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	r := request(1, 1)
	r.Zone, r.Spot, r.Shape = "eu-west-1b", true, "medium"
	id := g.create(t, r)[0]
	if got := g.list(t)[id]; got.Zone != "eu-west-1b" || !got.Spot || got.Shape != "medium" {
		t.Errorf("%+v", got)
	}
	for shape, kind := range map[string]error{"medium": group.ErrNotFound, "c7g.xlarge": group.ErrUnsupported} {
		r := request(2, 1)
		r.Shape, r.Zone, r.Spot = shape, "eu-west-1z", true
		_, err := g.Create(t.Context(), r)
		wants(t, shape, err, kind)
	}
}

func TestMaxInstancesIsAQuota(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	o := c.byShape(t)
	o.MaxInstances = 2
	g := open(t, o)
	g.create(t, request(1, 1))
	_, err := g.Create(t.Context(), request(2, 2))
	wants(t, "Create", err, group.ErrQuota)
	g.create(t, request(3, 1))
	if g.Info().MaxSize != 2 || g.Info().ID != "aws/eu-west-1/runner" {
		t.Errorf("%+v", g.Info())
	}
}

func TestSpotMachinesThatEC2TakesBackAreAnnounced(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	r := request(1, 2)
	r.Spot = true
	ids := g.create(t, r)
	c.mu.Lock()
	c.marked = ids[:1]
	c.mu.Unlock()
	all := g.list(t)
	at := time.Date(2026, 3, 2, 9, 16, 3, 0, time.UTC)
	if got := all[ids[0]].Interruption; got == nil || !got.At.Equal(at) || got.Reason == "" {
		t.Errorf("%+v", got)
	}
	if got := all[ids[1]].Interruption; got != nil {
		t.Errorf("the other one: %+v", got)
	}
	g.list(t)
	if got := c.count("DescribeSpotInstanceRequests"); got != 1 {
		t.Errorf("EC2 was asked %d times within seconds", got)
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g := open(t, c.byShape(t))
	c.fault("CreateFleet", 100, refuse(503, "RequestLimitExceeded"))
	g.own.api.limiter.Pause = time.Hour
	ctx, cancel := contextThatEnds(t, func() bool { return c.count("CreateFleet") > 0 })
	defer cancel()
	_, err := g.Create(ctx, request(1, 1))
	if err == nil || ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		t.Errorf("%v", err)
	}
}

func TestMachinesHaveTheLabelsOfTheirGroupAndRequest(t *testing.T) {
	t.Parallel()
	c := newCloud(t, motoURL(t))
	g, err := tryOpen(t, c.byShape(t), group.Settings{Labels: map[string]string{"cost-centre": "42"}})
	if err != nil {
		t.Fatal(err)
	}
	g.create(t, group.Request{ID: "r", Count: 1, Labels: map[string]string{"project": "p"}})
	all, err := c.api.describe(t.Context(), &ec2.DescribeInstancesInput{Filters: []types.Filter{{Name: aws.String("tag:cost-centre"), Values: []string{"42"}}}})
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	labels := labelsOf(all[0].Tags)
	for name, want := range map[string]string{"project": "p", group.RequestLabel: "r", group.OwnerLabel: "us", shapeTag: "medium"} {
		if labels[name] != want {
			t.Errorf("the tag %s is %q, want %q", name, labels[name], want)
		}
	}
}
