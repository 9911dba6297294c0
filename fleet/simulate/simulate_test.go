package simulate_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/schedule"
	"github.com/rungci/rung/fleet/simulate"
)

var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// pool is machines that boot in a minute, exactly.
func pool(name string, cpus, price float64) simulate.Pool {
	return simulate.Pool{Pool: scale.Pool{Name: name, Shape: scale.Shape{CPUs: cpus, Memory: 16 << 30}, Price: price, BootTime: time.Minute, Throttle: scale.Throttle{Limit: -1}}}
}

// nothing keeps no machine that is not needed.
func nothing() scale.Policy { return &scale.Adaptive{Worth: 1} }

func run(t *testing.T, setup simulate.Setup, load []simulate.Job, policy scale.Policy) *simulate.Result {
	t.Helper()
	got, err := simulate.Run(context.Background(), setup, load, policy)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6*max(1, math.Abs(b)) }

func TestTheCostIsThatOfTheTimeThatMachinesExist(t *testing.T) {
	t.Parallel()
	job := []simulate.Job{{At: time.Hour, Run: 10 * time.Minute}}
	always, err := schedule.Parse("UTC", "* * * * *")
	if err != nil {
		t.Fatal(err)
	}
	keep := func(idle int) scale.Policy {
		return &scale.Classic{Policies: schedule.Policies{{Periods: always, IdleCount: idle, IdleTime: time.Second}}}
	}
	for name, c := range map[string]struct {
		change func(*simulate.Setup)
		policy scale.Policy
		cost   float64 // in seconds of a machine
		wait   float64
	}{
		// Accepted after 1 s, ready after a minute more, and seen with the next poll, 62 s after the job came; it goes with its job.
		"one job, one machine":      {func(*simulate.Setup) {}, nothing(), 61 + 600, 62},
		"polled less often":         {func(s *simulate.Setup) { s.Poll = time.Minute }, nothing(), 119 + 600, 120},
		"paid for by the hour":      {func(s *simulate.Setup) { s.Pools[0].Billing.Granularity = time.Hour }, nothing(), 3600, 62},
		"paid for two hours":        {func(s *simulate.Setup) { s.Pools[0].Billing.Minimum = 2 * time.Hour }, nothing(), 7200, 62},
		"one is kept idle, all day": {func(*simulate.Setup) {}, keep(1), 86399 + 599, 0},
	} {
		setup := simulate.Setup{Start: monday, Length: 24 * time.Hour, Pools: []simulate.Pool{pool("p", 2, 3600)}}
		c.change(&setup)
		got := run(t, setup, job, c.policy)
		if !near(got.Cost, c.cost) || !near(got.Wait.P50, c.wait) {
			t.Errorf("%s: cost %g, want %g; wait %g, want %g", name, got.Cost, c.cost, got.Wait.P50, c.wait)
		}
	}
}

func TestASuspendedMachineCostsLessAndIsReadySooner(t *testing.T) {
	t.Parallel()
	p := pool("p", 2, 3600)
	p.Suspend, p.SuspendedPrice, p.ResumeTime = 1, 360, 9*time.Second
	setup := simulate.Setup{Start: monday, Length: 24 * time.Hour, Pools: []simulate.Pool{p}}
	got := run(t, setup, []simulate.Job{{At: time.Hour, Run: 10 * time.Minute}, {At: 2 * time.Hour, Run: 10 * time.Minute}}, nothing())
	// It runs from the second after the first job until that has ended, then from the second job, for which it resumes in 10 s, until that has; and sleeps otherwise.
	runs, sleeps := 61.0+600+10+600, 7200.0-(3600+62+600)+86400-(7200+10+600)
	if want := runs + sleeps/10; !near(got.Cost, want) || !near(got.Wait.Max, 62) || !near(got.Wait.Mean, (62+10)/2) || got.Creates != 1 {
		t.Errorf("cost %g, want %g; wait %+v; %d were created", got.Cost, want, got.Wait, got.Creates)
	}
}

func TestJobsThatNeverEndMeetNoTarget(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change     func(*simulate.Setup)
		unfinished int
	}{
		"machines that are given up before they are ready": {func(s *simulate.Setup) { s.Pools[0].BootTimeout = 30 * time.Second }, 2},
		"a cloud that refuses all":                         {func(s *simulate.Setup) { s.Pools[0].CreateFailures = 1 }, 2},
		"machines that never become ready":                 {func(s *simulate.Setup) { s.Pools[0].BootFailures = 1 }, 2},
		"machines that are seen too late":                  {func(s *simulate.Setup) { s.Poll = 100 * time.Hour }, 2},
		"machines that are all lost":                       {func(s *simulate.Setup) { s.Pools[0].Interruptions = 500 }, 1},
	} {
		setup := simulate.Setup{Start: monday, Length: time.Hour, Pools: []simulate.Pool{pool("p", 2, 1)}}
		c.change(&setup)
		got := run(t, setup, []simulate.Job{{Run: time.Second}, {Run: time.Hour}}, nothing())
		// It ends a day, the longest job and two boots after the last job that ended, or an hour with none.
		stall := 25*time.Hour + 2*time.Minute
		if got.Unfinished != c.unfinished || got.Meets(1000*time.Hour) || math.Abs(got.Stalled-stall.Seconds()) > 60 {
			t.Errorf("%s: %d have not ended, stalled for %g s, meets any target: %v", name, got.Unfinished, got.Stalled, got.Meets(1000*time.Hour))
		}
		if got.Wait.Max < 3600 {
			t.Errorf("%s: the longest wait is %g s", name, got.Wait.Max)
		}
	}
	ended, not := &simulate.Result{Cost: 100}, &simulate.Result{Unfinished: 1}
	if better := simulate.Cheapest(time.Minute); !better(ended, not) || better(not, ended) {
		t.Error("a result in which a job never ended is the better one")
	}
}

func TestAMachineHasNoMoreSlotsThanItRunsJobs(t *testing.T) {
	t.Parallel()
	p := pool("p", 5, 3600)
	p.Slots, p.MaxUses = 5, 1
	setup := simulate.Setup{Start: monday, Length: time.Hour, Pools: []simulate.Pool{p}}
	job := simulate.Job{Run: 5 * time.Minute, Needs: scale.Needs{Shape: scale.Shape{CPUs: 5}}}
	if got := run(t, setup, []simulate.Job{job, job, job, job}, nothing()); got.Creates != 4 || got.Refused != 0 || !near(got.Wait.Max, 62) {
		t.Errorf("%d machines were made for 4 jobs, %d were refused, the longest wait is %g s", got.Creates, got.Refused, got.Wait.Max)
	}
}

func TestAJobWhoseMachineIsLostWaitsAgain(t *testing.T) {
	t.Parallel()
	p := pool("p", 2, 1)
	p.Interruptions = 10
	setup := simulate.Setup{Start: monday, Length: time.Hour, Pools: []simulate.Pool{p}, Seed: 1}
	got := run(t, setup, []simulate.Job{{Run: 15 * time.Minute}}, nothing())
	if got.Lost == 0 || got.Unfinished != 0 || got.Wait.Max < 62*float64(got.Lost) {
		t.Errorf("lost %d times, and waited %g s", got.Lost, got.Wait.Max)
	}
}

func TestASimulationIsRepeatable(t *testing.T) {
	t.Parallel()
	p := pool("p", 4, 0.2)
	p.BootSpread, p.CreateFailures, p.BootFailures, p.Interruptions = 0.3, 0.1, 0.05, 0.2
	setup := simulate.Setup{Start: monday, Length: 12 * time.Hour, Pools: []simulate.Pool{p, pool("q", 8, 0.5)}, Seed: 7}
	load := simulate.Describe(monday, setup.Length, 7, simulate.Source{Rate: 40, Burst: 3, Median: 2 * time.Minute, P95: 10 * time.Minute})
	first, second := run(t, setup, load, &scale.Adaptive{}), run(t, setup, load, &scale.Adaptive{})
	if !reflect.DeepEqual(first, second) {
		t.Errorf("the same setup gives\n%+v and\n%+v", first, second)
	}
	setup.Seed = 8
	if other := run(t, setup, load, &scale.Adaptive{}); other.Cost == first.Cost {
		t.Error("another seed gives the same cost")
	}
}

func TestEveryJobRunsWhateverItsCloudDoes(t *testing.T) {
	t.Parallel()
	p := pool("p", 4, 0.2)
	p.CreateFailures, p.BootFailures, p.Interruptions, p.MaxInstances, p.DeleteTime = 0.3, 0.2, 1, 10, time.Minute
	setup := simulate.Setup{Start: monday, Length: 6 * time.Hour, Pools: []simulate.Pool{p}}
	load := simulate.Describe(monday, setup.Length, 3, simulate.Source{Rate: 30, Burst: 2, Median: 5 * time.Minute, P95: 20 * time.Minute})
	got := run(t, setup, load, &scale.Adaptive{})
	busy := 0.0
	for _, j := range load {
		busy += j.Run.Seconds()
	}
	if ran := got.Utilization * got.Machine.Seconds(); got.Refused != 0 || got.Lost == 0 || got.Peak > 10 || ran < busy {
		t.Errorf("refused %d, lost %d, at most %d machines; jobs of %g s ran for %g s", got.Refused, got.Lost, got.Peak, busy, ran)
	}
}

func TestJobsRunOnTheCheapestMachineThatIsEnough(t *testing.T) {
	t.Parallel()
	setup := simulate.Setup{Start: monday, Length: time.Hour, Pools: []simulate.Pool{pool("large", 16, 8), pool("small", 2, 1)}}
	needs := func(cpus float64) scale.Needs { return scale.Needs{Shape: scale.Shape{CPUs: cpus}} }
	load := []simulate.Job{{Run: time.Minute, Needs: needs(1)}, {Run: time.Minute, Needs: needs(8)}, {Run: time.Minute, Needs: needs(32)}}
	got := run(t, setup, load, nothing())
	if got.Refused != 1 || !near(got.Pools[0].Hours, got.Pools[1].Hours) || got.Creates != 2 {
		t.Errorf("refused %d, %d machines, %+v", got.Refused, got.Creates, got.Pools)
	}
}

func TestADescribedLoadIsAsItIsDescribed(t *testing.T) {
	t.Parallel()
	hours := make([]float64, 24)
	hours[9] = 1
	load := simulate.Describe(monday, 200*24*time.Hour, 1, simulate.Source{Rate: 10, Hours: hours, Burst: 3, Median: time.Minute, P95: 10 * time.Minute})
	if got, want := float64(len(load)), 200*10*3.0; math.Abs(got-want) > want/10 {
		t.Errorf("%g jobs, want about %g", got, want)
	}
	below, far := 0, 0
	for i, j := range load {
		if h := monday.Add(j.At).Hour(); h != 9 {
			t.Fatalf("a job at %d h", h)
		}
		if i > 0 && j.At < load[i-1].At {
			t.Fatal("jobs are not in order")
		}
		if j.Run <= time.Minute {
			below++
		}
		if j.Run > 10*time.Minute {
			far++
		}
	}
	if share := float64(below) / float64(len(load)); share < .45 || share > .55 {
		t.Errorf("%g are shorter than the median", share)
	}
	if share := float64(far) / float64(len(load)); share < .03 || share > .07 {
		t.Errorf("%g are longer than the 95th percentile", share)
	}
	week := make([]float64, 168)
	week[6*24] = 1 // Sunday, the first hour
	for _, j := range simulate.Describe(monday, 21*24*time.Hour, 1, simulate.Source{Rate: 100, Hours: week, Median: time.Minute}) {
		if at := monday.Add(j.At); at.Weekday() != time.Sunday || at.Hour() != 0 {
			t.Fatalf("a job on %s", at)
		}
	}
}

func TestASimulationEndsWhenItIsCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	setup := simulate.Setup{Start: monday, Length: time.Hour, Pools: []simulate.Pool{pool("p", 2, 1)}}
	if _, err := simulate.Run(ctx, setup, []simulate.Job{{Run: time.Minute}}, nothing()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestTheSearchFindsTheCheapestThatMeetsTheTarget(t *testing.T) {
	t.Parallel()
	setup := simulate.Setup{Start: monday, Length: 4 * time.Hour, Pools: []simulate.Pool{pool("p", 2, 1)}}
	load := simulate.Describe(monday, setup.Length, 1, simulate.Source{Rate: 30, Burst: 3, Median: 2 * time.Minute, P95: 6 * time.Minute})
	for _, space := range []*simulate.Space{simulate.Existing(), simulate.Adaptive()} {
		search := func(limit time.Duration, simulations int) *simulate.Choice {
			got, err := simulate.Search(context.Background(), []simulate.Trial{{Setup: setup, Load: load}}, space, simulate.Cheapest(limit), simulations)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		strict, loose := search(10*time.Second, 25), search(2*time.Minute, 25)
		if strict.Result.Wait.P95 > 10 || loose.Result.Wait.P95 > 120 || loose.Result.Cost >= strict.Result.Cost {
			t.Errorf("%s: %v has p95 %g and cost %g; %v has %g and %g", space.Name, strict, strict.Result.Wait.P95, strict.Result.Cost, loose, loose.Result.Wait.P95, loose.Result.Cost)
		}
		if again := search(10*time.Second, 25); again.String() != strict.String() {
			t.Errorf("%s: another search finds %v, and not %v", space.Name, again, strict)
		}
		if few := search(10*time.Second, 1); few == nil || few.Result == nil {
			t.Errorf("%s: one simulation finds nothing", space.Name)
		}
	}
}
