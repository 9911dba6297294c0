package scale_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/schedule"
)

// classic is the existing policy with one schedule for all time.
func classic(t *testing.T, p schedule.Policy) *scale.Classic {
	t.Helper()
	var err error
	if p.Periods, err = schedule.Parse("UTC", "* * * * *"); err != nil {
		t.Fatal(err)
	}
	return &scale.Classic{Policies: schedule.Policies{p}}
}

// Each policy is held to the same situations.
func policies(t *testing.T) map[string]func() scale.Policy {
	return map[string]func() scale.Policy{
		"adaptive": adaptive,
		"existing": func() scale.Policy { return classic(t, schedule.Policy{IdleTime: time.Second}) },
	}
}

// each runs a test with each policy.
func each(t *testing.T, test func(t *testing.T, policy scale.Policy)) {
	t.Parallel()
	for name, policy := range policies(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, policy())
		})
	}
}

// taskscaler#29, gitlab-runner 16.11.1 to 17.0: machines that are being deleted counted twice, and each was replaced.
func TestChurnMachinesThatGoAreNotReplaced(t *testing.T) {
	each(t, func(t *testing.T, policy scale.Policy) {
		c := newCloud(t, policy, small())
		for i := range 5 {
			c.ask(fmt.Sprint("job-", i))
		}
		c.decide()
		c.boot()
		c.decide()
		c.hold = true // deletes are accepted, and take their time
		for i := range 5 {
			c.release(fmt.Sprint("job-", i))
		}
		c.pass(10 * time.Minute)
		if got := c.count(scale.Create); got != 5 {
			t.Errorf("%d machines were made for 5 jobs", got)
		}
	})
}

// gitlab-runner #37526, #37673: a fleet that grows although its machines come.
func TestRunawayOneJobMakesOneMachineHoweverOftenItIsSaid(t *testing.T) {
	each(t, func(t *testing.T, policy scale.Policy) {
		c := newCloud(t, policy, small())
		for range 50 {
			c.ask("job")
			c.decide()
			c.list()
			c.pass(time.Second)
		}
		c.want(1, 0)
		c.boot()
		for range 50 {
			c.list()
			c.pass(time.Second)
		}
		c.want(1, 0)
	})
}

// Machines that are made cost money, whether they are of use or not.
func TestRunawayMachinesThatAreNeverReadyAreMadeLessAndLessOften(t *testing.T) {
	t.Parallel()
	ends := map[string]func(c *cloud, m *machine){
		"their ready command fails": func(c *cloud, m *machine) { c.fleet.Failed(c.now, m.request, "the ready command exited with 7") },
		"their group says so": func(c *cloud, m *machine) {
			c.fleet.Observed(c.now, scale.Seen{Instance: m.id, Request: m.request, Pool: m.pool, State: scale.GroupFailed, Reason: "no boot disk"})
		},
		"their group removes them": func(c *cloud, m *machine) {
			c.fleet.Observed(c.now, scale.Seen{Instance: m.id, Request: m.request, Pool: m.pool, State: scale.GroupDeleting})
		},
		"they do not answer in time": nil,
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := small()
			p.BootTimeout = 10 * time.Second
			c := newCloud(t, adaptive(), p)
			for i := range 10 {
				c.ask(fmt.Sprint("job-", i))
			}
			c.decide()
			for c.now.Before(start.Add(time.Hour)) {
				for _, request := range c.requests() {
					if m := c.machines[request]; end != nil && m.id != "" && !c.deleting[request] {
						end(c, m)
					}
				}
				c.pass(time.Second)
			}
			if got := c.count(scale.Create); got < 35 || got > 50 { // ten three times, and then one after 20, 40, 80, 160 and each 300 seconds
				t.Errorf("%d machines were made in an hour", got)
			}
			if why := c.fleet.ExplainJob(c.now, "job-9"); !strings.Contains(why, "no machines are asked for until") && !strings.Contains(why, "one machine at a time is tried") {
				t.Error(why)
			}
			for len(c.machines) == 0 { // until the next pause is over
				c.pass(time.Second)
			}
			c.boot()
			c.decide()
			if c.jobs["job-0"] == nil {
				t.Error("a machine that is ready gets no job")
			}
			if len(c.machines) != 10 {
				t.Errorf("there are %d machines for 10 jobs once one was ready", len(c.machines))
			}
		})
	}
}

func TestRunawayARepeatedAnswerMakesNoSecondMachine(t *testing.T) {
	t.Parallel()
	c := newCloud(t, adaptive(), small())
	c.ask("job")
	c.decide()
	for range 3 {
		c.fleet.Created(c.now, "f-1", "i-1")
		c.decide()
	}
	c.want(1, 0)
	c.fleet.Created(c.now, "f-1", "i-2") // a group that made two: the second is ended
	c.decide()
	c.want(1, 1)
	if last := c.history[len(c.history)-1]; last.Instance != "i-2" || !strings.Contains(last.Why, "i-1 was made for the same request") {
		t.Errorf("%+v", last)
	}
}

// gitlab-runner #37237: a fleet with nothing to do that keeps a machine.
func TestNeverToZeroNothingIsLeftWhenNobodyAsks(t *testing.T) {
	each(t, func(t *testing.T, policy scale.Policy) {
		p := small()
		p.Slots, p.MaxUses = 3, 4
		c := newCloud(t, policy, p)
		for i := range 20 {
			c.ask(fmt.Sprint("job-", i))
		}
		for range 20 {
			c.pass(time.Minute)
			c.boot()
			c.decide()
			for key := range c.jobs {
				c.release(key)
				break
			}
		}
		for len(c.jobs) > 0 {
			for _, key := range keys(c.jobs) {
				c.release(key)
			}
			c.pass(time.Minute)
			c.boot()
			c.decide()
		}
		c.pass(2 * time.Hour)
		if left := c.fleet.Record().Instances; len(left) > 0 {
			t.Errorf("left: %+v", left)
		}
	})
}

func keys(m map[string]*machine) (all []string) {
	for key := range m {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}

// gitlab-runner #38326, #38355: preemptive mode keeps jobs in the queue while machines could be made.
func TestStarvationAJobThatFitsIsNeverLeftWhileMachinesCanBeMade(t *testing.T) {
	t.Parallel()
	c := newCloud(t, adaptive(), small())
	for i := range 10 {
		key := fmt.Sprint("job-", i)
		if err := c.fleet.Reserve(c.now, key, scale.Needs{}); err != nil {
			t.Fatalf("%s is refused: %v", key, err)
		}
		c.ask(key)
	}
	c.decide()
	c.want(10, 0)
}

// The same with the existing policy, whose preemptive mode takes jobs only while a slot is free: what it keeps idle must bring the fleet on.
func TestStarvationPreemptiveModeTakesAJobForEverySlotThatIsReady(t *testing.T) {
	t.Parallel()
	c := newCloud(t, classic(t, schedule.Policy{IdleCount: 2, IdleTime: time.Minute, Preemptive: true}), small())
	if err := c.fleet.Reserve(c.now, "early", scale.Needs{}); !errors.Is(err, scale.ErrNoCapacity) {
		t.Fatalf("nothing is ready, and Reserve says %v", err)
	}
	for i := range 6 {
		c.decide()
		c.boot()
		key := fmt.Sprint("job-", i)
		if err := c.fleet.Reserve(c.now, key, scale.Needs{}); err != nil {
			t.Fatalf("%s is refused, though 2 slots are kept idle: %v", key, err)
		}
		c.ask(key)
	}
}

func TestStarvationALargeJobIsNotOvertakenForEver(t *testing.T) {
	t.Parallel()
	big := scale.Pool{Name: "big", Shape: scale.Shape{CPUs: 8, Memory: 32 << 30}, Price: 0.4, MaxInstances: 1}
	c := newCloud(t, adaptive(), big)
	c.ask("first")
	c.decide()
	c.boot()
	c.decide()
	c.ask("large", scale.Needs{Shape: scale.Shape{CPUs: 8}})
	for i := range 10 { // small ones keep coming, and fit the same machine
		c.ask(fmt.Sprint("small-", i), scale.Needs{Shape: scale.Shape{CPUs: 1}})
	}
	c.decide()
	c.release("first")
	c.decide()
	if c.jobs["large"] == nil {
		t.Error("the slot went to a job that asked later: " + c.fleet.ExplainJob(c.now, "large"))
	}
}

// aws#71: a restart that kills the fleet, and the jobs that run on it.
func TestRestartKeepsMachinesAndJobsAndAsksAgainForWhatWasNotAnswered(t *testing.T) {
	t.Parallel()
	c := newCloud(t, adaptive(), small())
	c.ask("runs")
	c.decide()
	c.boot()
	c.decide()
	c.hold = true
	c.ask("waits")
	c.decide()
	record := c.fleet.Record()

	fresh, err := scale.New(scale.Config{Name: "f", Pools: []scale.Pool{small()}}, adaptive())
	if err != nil {
		t.Fatal(err)
	}
	if err := fresh.Restore(c.now, record); err != nil {
		t.Fatal(err)
	}
	c.fleet = fresh
	c.ask("runs")
	c.ask("waits")
	c.decide()
	creates := c.asked
	if len(creates) != 2 || creates[0].Request != creates[1].Request {
		t.Errorf("the create that nobody answered is not asked for again under its id: %+v", creates)
	}
	if c.count(scale.End)+c.count(scale.Delete) > 0 || !strings.Contains(c.fleet.ExplainJob(c.now, "runs"), "runs on i-1") {
		t.Errorf("the job that ran is gone: %s", c.fleet.ExplainJob(c.now, "runs"))
	}
	if err := c.fleet.Restore(c.now, record); err == nil {
		t.Error("a record is restored twice")
	}
}

func TestRestartEndsMachinesOfPoolsThatAreNoLongerThereAfterTheirJobs(t *testing.T) {
	t.Parallel()
	old := small()
	old.Name = "old"
	c := newCloud(t, adaptive(), old)
	c.ask("job")
	c.decide()
	c.boot()
	c.decide()
	record := c.fleet.Record()
	var err error
	if c.fleet, err = scale.New(scale.Config{Name: "f", Pools: []scale.Pool{small()}}, adaptive()); err != nil {
		t.Fatal(err)
	}
	if err := c.fleet.Restore(c.now, record); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Hour)
	c.want(1, 0)
	c.release("job")
	c.pass(time.Second)
	c.want(1, 1)
}

// Reservations go from 0 to 1 and back with every request for jobs: documented as a cause of flapping.
func TestReservationsThatComeAndGoMakeAndEndNoMachines(t *testing.T) {
	t.Parallel()
	c := newCloud(t, &scale.Adaptive{Worth: 1, Linger: time.Minute}, small())
	c.ask("job")
	c.decide()
	c.boot()
	c.decide()
	c.release("job")
	for i := range 100 {
		key := fmt.Sprint("r-", i)
		if err := c.fleet.Reserve(c.now, key, scale.Needs{}); err != nil {
			t.Fatal(err)
		}
		c.decide()
		c.pass(200 * time.Millisecond)
		c.fleet.Release(c.now, key)
		c.decide()
		c.pass(200 * time.Millisecond)
	}
	c.want(1, 0)
}

// A manager asks GitLab for jobs all the time, and has a slot reserved while it does.
func TestNoMachineIsMadeForAQuestion(t *testing.T) {
	each(t, func(t *testing.T, policy scale.Policy) {
		c := newCloud(t, policy, small())
		for i := range 50 {
			key := fmt.Sprint("r-", i)
			if err := c.fleet.Reserve(c.now, key, scale.Needs{}); err != nil {
				t.Fatalf("the fleet could grow, and Reserve says %v", err)
			}
			c.pass(30 * time.Second)
			c.fleet.Release(c.now, key)
		}
		c.want(0, 0)
		if err := c.fleet.Reserve(c.now, "found", scale.Needs{}); err != nil {
			t.Fatal(err)
		}
		c.ask("found") // GitLab had one
		c.decide()
		c.want(1, 0)
	})
}

func TestNoMachineIsKeptForQuestions(t *testing.T) {
	each(t, func(t *testing.T, policy scale.Policy) {
		c := newCloud(t, policy, small())
		c.ask("job")
		c.decide()
		c.boot()
		c.decide()
		c.release("job")
		for i := range 200 { // one question after the other, for hours
			key := fmt.Sprint("r-", i)
			if err := c.fleet.Reserve(c.now, key, scale.Needs{}); err != nil {
				t.Fatal(err)
			}
			c.pass(50 * time.Second)
			c.fleet.Release(c.now, key)
		}
		c.want(1, 1)
	})
}

// A group that only counts may list a machine before it answers the call that made it.
func TestAMachineThatIsListedBeforeTheAnswerIsTheOneThatWasAskedFor(t *testing.T) {
	t.Parallel()
	c := newCloud(t, adaptive(), small())
	c.hold = true
	c.ask("job")
	c.decide()
	c.fleet.Listed(c.now, []scale.Seen{{Instance: "i-7", Pool: "small", State: scale.GroupCreating}})
	c.fleet.Created(c.now, "f-1", "")
	c.decide()
	c.want(1, 0)
	if got := c.fleet.Record().Instances; len(got) != 1 || got[0].Instance != "i-7" || got[0].State != scale.Creating {
		t.Errorf("%+v", got)
	}
}

func TestAListThatIsOlderThanAMachineDoesNotEndItsDelete(t *testing.T) {
	t.Parallel()
	c := newCloud(t, adaptive(), small())
	c.hold = true
	c.fleet.Observed(c.now, scale.Seen{Instance: "i-1", Pool: "small", State: scale.GroupCreating}) // nobody asked for it
	c.fleet.Listed(c.now, nil)                                                                      // as it was before
	c.decide()
	c.want(0, 1)
	c.fleet.Listed(c.now, nil)
	if n := len(c.fleet.Record().Instances); n != 1 {
		t.Fatalf("%d machines are known", n)
	}
	c.fleet.Deleted(c.now, "stray/i-1", false)
	c.fleet.Listed(c.now, nil)
	if n := len(c.fleet.Record().Instances); n != 0 {
		t.Fatalf("%d machines are known", n)
	}
}

func TestAListOfOnePoolSaysNothingOfAnother(t *testing.T) {
	t.Parallel()
	other := small()
	other.Name, other.Price = "other", 1
	c := newCloud(t, adaptive(), small(), other)
	c.ask("job")
	c.decide()
	c.boot()
	c.decide()
	for range 10 {
		c.fleet.ListFailed(c.now, errors.New("503"), "small")
		c.fleet.Listed(c.now, nil, "other")
		c.pass(time.Minute)
	}
	c.want(1, 0)
	for _, e := range c.fleet.Explain(c.now) {
		if failed := strings.Contains(e.Why, "503"); failed != (e.Pool == "small") {
			t.Errorf("%s: %s", e.Pool, e.Why)
		}
	}
}

// What changes is what differs between two records.
func TestChangesLeadFromOneRecordToTheNext(t *testing.T) {
	t.Parallel()
	r := newRandom(t, 7)
	kept := map[string]scale.InstanceRecord{}
	for range events {
		r.event()
		r.decide()
		_, machines, gone := r.fleet.Changes() // all, after a restart
		for _, m := range machines {
			kept[m.Request] = m
		}
		for _, m := range gone {
			delete(kept, m.Request)
		}
		want := map[string]scale.InstanceRecord{}
		for _, m := range r.fleet.Record().Instances {
			want[m.Request] = m
		}
		if diff := cmp.Diff(want, kept); diff != "" {
			t.Fatal(diff)
		}
	}
}

// gitlab#552226: the end of a policy's period removed machines with jobs.
func TestTheEndOfAPeriodEndsNoJob(t *testing.T) {
	t.Parallel()
	morning, err := schedule.Parse("UTC", "0-30 8 * * *")
	if err != nil {
		t.Fatal(err)
	}
	c := newCloud(t, &scale.Classic{Policies: schedule.Policies{{Periods: morning, IdleCount: 3, IdleTime: time.Minute}}}, small())
	c.decide()
	c.boot()
	c.decide()
	c.ask("job")
	c.decide()
	c.boot()
	c.pass(2 * time.Hour)
	if len(c.ended) > 0 || c.jobs["job"] == nil {
		t.Error("the job has lost its machine")
	}
	if n := len(c.fleet.Record().Instances); n != 1 {
		t.Errorf("%d machines are left, and one has a job", n)
	}
}

// #30953: an idle timer that ran while a job did.
func TestTheIdleTimeBeginsWhenTheJobHasEnded(t *testing.T) {
	t.Parallel()
	c := newCloud(t, classic(t, schedule.Policy{IdleTime: 10 * time.Minute}), small())
	c.ask("long")
	c.decide()
	c.boot()
	c.pass(5 * time.Hour)
	c.release("long")
	c.pass(9 * time.Minute)
	c.want(1, 0)
	c.pass(2 * time.Minute)
	c.want(1, 1)
}

// A list that fails once froze the existing loop.
func TestAFailingListDoesNotStopGrowth(t *testing.T) {
	t.Parallel()
	c := newCloud(t, adaptive(), small())
	c.ask("first")
	c.decide()
	c.boot()
	c.decide()
	for i := range 10 {
		c.fleet.ListFailed(c.now, errors.New("503 service unavailable"))
		c.ask(fmt.Sprint("job-", i))
		c.pass(time.Minute)
	}
	c.want(11, 0)
	if len(c.ended) > 0 {
		t.Error("jobs ended, though nobody knows that their machines are gone")
	}
	if why := c.fleet.Explain(c.now)[0].Why; !strings.Contains(why, "cannot be listed: 503") {
		t.Error(why)
	}
}

func TestSlowDeletesDoNotStallCreation(t *testing.T) {
	t.Parallel()
	c := newCloud(t, adaptive(), small())
	c.ask("a")
	c.decide()
	c.boot()
	c.decide()
	c.hold = true
	c.release("a")
	c.pass(time.Minute)
	for range 60 { // deletes fail for an hour
		c.fleet.DeleteFailed(c.now, "f-1", scale.Failure{Kind: scale.Transient})
		c.pass(time.Minute)
	}
	deletes := c.count(scale.Delete)
	c.ask("b")
	c.decide()
	if c.want(2, deletes); deletes < 50 {
		t.Errorf("the delete was asked for %d times in an hour", deletes)
	}
	c.fleet.DeleteFailed(c.now, "f-1", scale.Failure{Kind: scale.NotFound})
	if n := len(c.fleet.Record().Instances); n != 1 {
		t.Errorf("%d machines are known after the first was not found", n)
	}
}

// The existing loop drops a machine that five lists did not have, and never ends it.
func TestAMachineThatIsMissingEndsItsJobsAndIsStillDeleted(t *testing.T) {
	t.Parallel()
	c := newCloud(t, adaptive(), small())
	c.ask("job")
	c.decide()
	c.boot()
	c.list()
	c.decide()
	began := c.now
	for len(c.ended) == 0 && c.now.Sub(began) < time.Minute {
		c.pass(2 * time.Second)
		c.fleet.Listed(c.now, nil)
		c.hold = true
		c.decide()
	}
	if took := c.now.Sub(began); took > 30*time.Second || !slices.Equal(c.ended, []string{"job"}) {
		t.Errorf("ended after %s: %q", took, c.ended)
	}
	last := c.history[len(c.history)-1]
	if last.Kind != scale.Delete || !strings.Contains(last.Why, "i-1 is missing from the group's list") {
		t.Errorf("%+v", last)
	}
}

func TestOneListThatIsBehindChangesNothing(t *testing.T) {
	t.Parallel()
	c := newCloud(t, adaptive(), small())
	c.ask("job")
	c.decide()
	c.fleet.Listed(c.now, nil) // it does not have the new one yet
	c.boot()
	c.list()
	c.fleet.Listed(c.now, nil)
	c.pass(time.Minute)
	c.list()
	c.pass(time.Minute)
	c.fleet.Listed(c.now, nil)
	c.decide()
	c.want(1, 0)
}

func TestAMachineThatSomebodyElseRemovesEndsItsJobsAtOnce(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]scale.GroupState{"while it goes": scale.GroupDeleting, "when it is gone": scale.GroupDeleted} {
		c := newCloud(t, adaptive(), small())
		c.ask("job")
		c.decide()
		c.boot()
		c.decide()
		c.fleet.Observed(c.now, scale.Seen{Instance: "i-1", Pool: "small", State: state})
		c.ask("next")
		c.decide()
		if !slices.Equal(c.ended, []string{"job"}) || c.jobs["next"] != nil {
			t.Errorf("%s: ended %q, and the next job is on %v", name, c.ended, c.jobs["next"])
		}
	}
}

func TestAnInterruptedMachineFinishesItsJobsAndGetsNoOther(t *testing.T) {
	t.Parallel()
	p := small()
	p.Slots, p.Spot = 2, true
	c := newCloud(t, adaptive(), p)
	c.ask("job")
	c.decide()
	c.boot()
	c.decide()
	c.fleet.Interrupted(c.now, "f-1", c.now.Add(2*time.Minute))
	c.ask("next")
	c.decide()
	c.want(2, 0)
	if c.jobs["next"] != nil || c.count(scale.Drain) != 1 {
		t.Error("the machine is not drained")
	}
	c.release("job")
	c.decide()
	c.want(2, 1)
}

func TestAMachineThatNeverAnswersIsEndedAndReplacedLater(t *testing.T) {
	t.Parallel()
	p := small()
	p.BootTimeout = 5 * time.Minute
	c := newCloud(t, adaptive(), p)
	c.ask("job")
	c.decide()
	c.pass(4 * time.Minute)
	c.want(1, 0)
	c.pass(2 * time.Minute)
	c.want(2, 1)
	if i := slices.IndexFunc(c.history, func(a scale.Action) bool { return a.Kind == scale.Delete }); !strings.Contains(c.history[i].Why, "i-1 is not ready after 5m0s") {
		t.Error(c.history[i].Why)
	}
}

func TestACreateThatIsNotAnsweredIsRepeatedUnderItsID(t *testing.T) {
	t.Parallel()
	c := newCloud(t, adaptive(), small())
	c.hold = true
	c.ask("job")
	c.decide()
	c.fleet.CreateFailed(c.now, "f-1", errors.New("the connection was closed"))
	next := "the connection was closed; the next attempt is at " + c.now.Add(5*time.Second).UTC().Format(time.TimeOnly)
	for _, got := range []string{c.fleet.Explain(c.now)[0].Why, c.fleet.ExplainJob(c.now, "job"), c.fleet.Shortage("job"), scale.Unmade(c.fleet, "f-1")} {
		if !strings.HasSuffix(got, next) {
			t.Errorf("%q does not say %q", got, next)
		}
	}
	c.pass(time.Minute)
	if len(c.asked) != 2 || c.asked[0].Request != c.asked[1].Request {
		t.Errorf("%+v", c.asked)
	}
}

func TestAPoolWithoutQuotaIsReplacedByTheNextThatIsEnough(t *testing.T) {
	t.Parallel()
	dear := small()
	dear.Name, dear.Price = "dear", 0.5
	tiny := small()
	tiny.Name, tiny.Price, tiny.Shape = "tiny", 0.01, scale.Shape{CPUs: 1, Memory: 1 << 30}
	c := newCloud(t, adaptive(), dear, tiny, small())
	c.hold = true
	c.ask("job", scale.Needs{Shape: scale.Shape{CPUs: 2, Memory: 4 << 30}})
	c.decide()
	if c.asked[0].Pool != "small" {
		t.Fatalf("%+v", c.asked[0])
	}
	c.fleet.CreateFailed(c.now, c.asked[0].Request, scale.Failure{Kind: scale.Quota, Err: errors.New("no m7i.large in eu-west-1a")})
	c.decide()
	if c.asked[1].Pool != "dear" {
		t.Fatalf("%+v", c.asked[1])
	}
	c.ask("another", scale.Needs{Shape: scale.Shape{CPUs: 1, Memory: 1 << 30}})
	c.decide()
	if c.asked[2].Pool != "tiny" {
		t.Fatalf("%+v", c.asked[2])
	}
}

func TestAPoolThatDoesNotAnswerIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	dear := small()
	dear.Name, dear.Price = "dear", 0.5
	c := newCloud(t, adaptive(), dear, small())
	c.hold = true
	c.ask("job")
	c.decide()
	c.fleet.CreateFailed(c.now, c.asked[0].Request, errors.New("deadline exceeded"))
	c.decide()
	if len(c.asked) != 2 || c.asked[1].Pool != "dear" {
		t.Fatalf("%+v", c.asked)
	}
	if n := len(c.fleet.Record().Instances); n != 2 {
		t.Errorf("%d machines are known: the first may exist", n)
	}
}

func TestAJobThatNoPoolIsEnoughForIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	pool := func(name string, slots int, has scale.Shape) scale.Pool {
		return scale.Pool{Name: name, Slots: slots, Shape: has}
	}
	for name, c := range map[string]struct {
		pools []scale.Pool
		needs scale.Needs
		want  string
	}{
		"several things": {
			[]scale.Pool{pool("a", 1, scale.Shape{CPUs: 64, Memory: 512 << 20, Arch: "amd64"}), {Name: "b", Spot: true, Shape: scale.Shape{Arch: "arm64"}}},
			scale.Needs{Shape: scale.Shape{CPUs: 2.5, Memory: 1 << 30, GPUs: 1, Arch: "arm64"}, Spot: scale.NoSpot},
			"it needs 2.5 CPUs, 1GiB of memory, 1 GPU, arm64, not on spot; pool a has amd64; pool b is on spot",
		},
		"a system":                              {[]scale.Pool{pool("a", 1, scale.Shape{OS: "linux"}), pool("b", 1, scale.Shape{})}, scale.Needs{Shape: scale.Shape{OS: "windows"}}, "it needs windows; pool a has linux; pool b does not say which it has (its key os)"},
		"less than a machine, more than a slot": {[]scale.Pool{pool("a", 2, scale.Shape{CPUs: 2})}, scale.Needs{Shape: scale.Shape{CPUs: 2}}, "it needs 2 CPUs; pool a has 1 CPU for each of its 2 slots"},
		"what is not stated":                    {[]scale.Pool{pool("a", 1, scale.Shape{CPUs: 2})}, scale.Needs{Shape: scale.Shape{CPUs: 1, Memory: 2 << 30}}, "it needs 1 CPU, 2GiB of memory; pool a does not say how much it has (its key memory)"},
		"too little":                            {[]scale.Pool{pool("a", 1, scale.Shape{CPUs: 2, Disk: 10 << 30})}, scale.Needs{Shape: scale.Shape{Disk: 20 << 30}}, "it needs 20GiB of disk; pool a has 10GiB of disk"},
		"what only some have":                   {[]scale.Pool{pool("a", 1, scale.Shape{})}, scale.Needs{Shape: scale.Shape{GPUs: 1}, Spot: scale.OnlySpot}, "it needs 1 GPU, on spot; pool a is not on spot"},
		"graphics":                              {[]scale.Pool{pool("a", 1, scale.Shape{CPUs: 2})}, scale.Needs{Shape: scale.Shape{GPUs: 2}}, "it needs 2 GPUs; pool a has none (its key gpus)"},
		"more than can be multiplied": {
			[]scale.Pool{pool("a", 4, scale.Shape{Memory: 8 << 30, GPUs: 4})}, scale.Needs{Shape: scale.Shape{Memory: 1 << 62, GPUs: 1 << 62}},
			"it needs 4194304TiB of memory, 4.612e+18 GPUs; pool a has 2GiB of memory for each of its 4 slots",
		},
		"many pools": {
			[]scale.Pool{pool("a", 1, scale.Shape{CPUs: 1}), pool("b", 1, scale.Shape{CPUs: 1}), pool("c", 1, scale.Shape{CPUs: 1}), pool("d", 1, scale.Shape{CPUs: 1}), pool("e", 1, scale.Shape{CPUs: 1}), pool("f", 1, scale.Shape{CPUs: 1}), pool("g", 1, scale.Shape{CPUs: 1})},
			scale.Needs{Shape: scale.Shape{CPUs: 8}},
			"it needs 8 CPUs; pool a has 1 CPU; pool b has 1 CPU; pool c has 1 CPU; pool d has 1 CPU; pool e has 1 CPU; and 2 more",
		},
	} {
		w := newCloud(t, adaptive(), c.pools...)
		if err := w.fleet.Ask(w.now, "job", c.needs); !errors.Is(err, scale.ErrUnfit) || err.Error() != "no pool has a machine for this: "+c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNoMoreJobsAreReservedForThanAGroupOfSeveralPoolsHasMachinesFor(t *testing.T) {
	t.Parallel()
	cheap, large, other := small(), small(), small()
	large.Name, large.Price, large.Shape.CPUs = "large", 0.5, 8
	other.Name, other.Price, other.Group, other.MaxInstances = "other", 0.9, "another", 3
	cheap.GroupInstances, cheap.MaxInstances, large.GroupInstances, large.MaxInstances = 4, 4, 4, 4
	big := scale.Needs{Shape: scale.Shape{CPUs: 4}}
	c := newCloud(t, adaptive(), cheap, large, other)
	room := func(when string, n scale.Needs, want int) {
		t.Helper()
		if ready, possible, err := c.fleet.Room(c.now, n); err != nil || ready+possible != want {
			t.Errorf("%s: there is room for %d jobs, and not for %d; %v", when, ready+possible, want, err)
		}
	}
	room("without a machine", scale.Needs{}, 4+3)
	room("without a machine, for large jobs", big, 4)
	for i := range 3 {
		c.ask(fmt.Sprint("job-", i))
	}
	c.decide()
	c.boot()
	c.decide()
	room("with three machines that are busy", scale.Needs{}, 1+3)
	room("with three machines that are busy, for large jobs", big, 1)
	if err := c.fleet.Reserve(c.now, "large", big); err != nil {
		t.Error(err)
	}
	if err := c.fleet.Reserve(c.now, "large too", big); !errors.Is(err, scale.ErrNoCapacity) {
		t.Error("a machine is reserved that the group cannot have:", err)
	}
	c.fleet.Release(c.now, "large")
	c.release("job-0")
	room("with one that is idle", scale.Needs{}, 2+3)
	room("with one that is idle, and is another pool's", big, 2)
}

func TestAMachineThatIsPaidForStaysUntilItsHourIsOver(t *testing.T) {
	t.Parallel()
	p := small()
	p.Billing = scale.Billing{Granularity: time.Hour, Minimum: 2 * time.Hour}
	c := newCloud(t, adaptive(), p)
	c.ask("job")
	c.decide()
	c.boot()
	c.pass(10 * time.Minute)
	c.release("job")
	c.pass(time.Hour)
	c.want(1, 0)
	c.pass(48 * time.Minute)
	c.want(1, 0)
	c.pass(2 * time.Minute)
	c.want(1, 1)
}

func TestAMachineOfMaxUsesIsReplaced(t *testing.T) {
	t.Parallel()
	p := small()
	p.MaxUses = 2
	c := newCloud(t, adaptive(), p)
	for i := range 4 {
		c.ask(fmt.Sprint("job-", i))
		c.decide()
		c.boot()
		c.decide()
		c.release(fmt.Sprint("job-", i))
	}
	c.decide()
	c.want(2, 2)
}

func TestMachinesAreAskedForAtTheRateOfTheThrottle(t *testing.T) {
	t.Parallel()
	p := small()
	p.Throttle = scale.Throttle{Limit: 1, Burst: 3}
	c := newCloud(t, adaptive(), p)
	for i := range 10 {
		c.ask(fmt.Sprint("job-", i))
	}
	c.decide()
	c.want(3, 0)
	c.pass(2 * time.Second)
	c.want(5, 0)
	if why := c.fleet.Explain(c.now)[0].Why; !strings.Contains(why, "no more than 1 machines a second") {
		t.Error(why)
	}
	c.pass(time.Minute)
	c.want(10, 0)
}

func TestWhatAPolicyKeepsIdleIsKeptWhateverIsLikely(t *testing.T) {
	t.Parallel()
	morning, err := schedule.Parse("UTC", "* 8 * * *")
	if err != nil {
		t.Fatal(err)
	}
	c := newCloud(t, &scale.Adaptive{Worth: 1, Policies: schedule.Policies{{Periods: morning, IdleCount: 2}}}, small())
	actions := c.decide()
	if len(actions) != 2 || !strings.HasSuffix(actions[0].Why, "and keeps 2 free, as its policy says") {
		t.Errorf("%+v", actions)
	}
	c.boot()
	c.pass(59 * time.Minute)
	c.want(2, 0)
	c.pass(2 * time.Minute)
	c.want(2, 2)
}

func TestSlotsThatAreFreeSoonAreNotKeptFreeNow(t *testing.T) {
	t.Parallel()
	c := newCloud(t, &scale.Adaptive{Worth: 0.02}, small())
	pipeline := func(n int) (jobs []string) {
		for i := range 8 {
			jobs = append(jobs, fmt.Sprint(n, "/", i))
			c.ask(jobs[i])
		}
		return jobs
	}
	for n := range 20 {
		jobs := pipeline(n)
		for range 2 { // jobs run for two minutes, twice as long as a boot, but those that wait for it
			c.decide()
			c.pass(time.Minute)
			c.boot()
		}
		for _, job := range jobs {
			c.release(job)
		}
		c.pass(time.Minute)
		c.boot()
		c.decide()
	}
	pipeline(20)
	made := 0
	for _, a := range c.decide() {
		if a.Kind == scale.Create {
			made++
		}
	}
	if made != 7 { // three of them are expected to end within a boot, and half of those before the average job of the next pipeline comes
		t.Errorf("%d machines are made for the 8 slots that a pipeline has taken: %v", made, c.fleet.Explain(c.now)[0])
	}
}

func TestTheSlowestMachinesToBootAreNobodys(t *testing.T) {
	t.Parallel()
	c := newCloud(t, &scale.Adaptive{Worth: 1, Hedge: 0.5}, small())
	for i := range 4 {
		c.ask(fmt.Sprint(i))
	}
	actions := c.decide()
	if want := "and 4 waiting jobs, for which 2 more may be made than are needed, as some boot slower than others"; len(actions) != 6 || !strings.Contains(actions[0].Why, want) {
		t.Errorf("%+v", actions)
	}
	for _, a := range actions[2:] { // the first two are the slowest
		c.machines[a.Request].ready = true
		c.fleet.Ready(c.now, a.Request)
	}
	c.decide()
	c.want(6, 0)
	for i := range 4 {
		if got := c.fleet.ExplainJob(c.now, fmt.Sprint(i)); !strings.Contains(got, " runs on ") {
			t.Error(got)
		}
	}
	c.boot()
	c.decide()
	c.want(6, 2)
	for _, a := range c.history {
		if a.Kind == scale.Delete && a.Request != actions[0].Request && a.Request != actions[1].Request {
			t.Errorf("%+v", a)
		}
	}
}

func TestNoMachineThatIsPaidForLongIsMadeInCaseAnotherBootsSlowly(t *testing.T) {
	t.Parallel()
	hourly := small()
	hourly.Billing.Granularity = time.Hour
	c := newCloud(t, &scale.Adaptive{Worth: 1, Hedge: 1}, hourly)
	c.ask("one")
	c.decide()
	c.want(1, 0)
}

func TestEachDecisionIsExplained(t *testing.T) {
	t.Parallel()
	c := newCloud(t, &scale.Adaptive{Worth: 1, Linger: 5 * time.Minute}, small())
	c.ask("one")
	c.ask("two")
	actions := c.decide()
	if want := "pool small has 0 slots for 0 running jobs and 2 waiting jobs"; !strings.HasPrefix(actions[0].Why, want) {
		t.Errorf("%q", actions[0].Why)
	}
	if got, want := c.fleet.ExplainJob(c.now, "one"), "one waits since 08:00:00: pool small has no free slot, and 2 machines on the way"; got != want {
		t.Errorf("%q", got)
	}
	c.pass(time.Minute)
	c.boot()
	c.decide()
	c.release("one")
	c.decide()
	if got, want := c.fleet.Explain(c.now)[0].Next, "i-1, idle since 08:01:00, goes next, not before 08:06:00"; got != want {
		t.Errorf("%q", got)
	}
	if got, want := c.fleet.ExplainJob(c.now, "two"), "two runs on i-2 (pool small), slot 0, since 08:01:00"; got != want {
		t.Errorf("%q", got)
	}
}
