package control_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/fake"
	"github.com/rungci/rung/fleet/schedule"
	"github.com/rungci/rung/fleet/store"
)

// A machine that is removed from outside ends its jobs within 30 s, and gets no other.
func TestAMachineThatIsGoneEndsItsJobsWithinThirtySeconds(t *testing.T) {
	gone := map[string]func(w *world, id string){
		"it vanishes":     func(w *world, id string) { w.cloud.Vanish(id) },
		"it is deleted":   func(w *world, id string) { w.cloud.Set(id, group.StateDeleting, "") },
		"it fails":        func(w *world, id string) { w.cloud.Set(id, group.StateFailed, "its host has failed") },
		"it is taken":     func(w *world, id string) { w.cloud.Interrupt(id, time.Second, "spot") },
		"it is suspended": func(w *world, id string) { w.cloud.Set(id, group.StateSuspended, "") },
	}
	for name, befall := range gone {
		for _, counts := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", a group that only counts: ", counts), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, fake.Options{Boot: time.Minute})
					w.counts = counts
					w.options.Scale.Pools[0].Slots = 2
					w.open()
					defer func() { w.process.kill() }()
					slot := w.acquire("job")
					w.until(2*time.Minute, "quiet", func() bool { return w.running() == 1 })
					time.Sleep(90 * time.Second)
					befall(w, slot.Instance)
					began := time.Now()
					<-slot.Done()
					if took := time.Since(began); took > 30*time.Second || slot.Reason() == "" {
						t.Errorf("%s: %q", took, slot.Reason())
					}
					if next := w.acquire("next"); next.Instance == slot.Instance {
						t.Error("a machine that is gone got a job")
					}
					if got := w.history(store.Ended); len(got) != 1 || got[0].JobID != "job" || got[0].Why == "" {
						t.Errorf("%+v", got)
					}
				})
			})
		}
	}
}

func TestASpotNoticeDrains(t *testing.T) {
	inWorld(t, fake.Options{Boot: time.Minute}, func(o *control.Options) { o.Scale.Pools[0].Slots = 2 }, func(w *world) {
		slot := w.acquire("job")
		w.cloud.Interrupt(slot.Instance, 2*time.Minute, "spot")
		time.Sleep(20 * time.Second)
		if next := w.acquire("next"); next.Instance == slot.Instance {
			t.Error("a machine that will be taken got a job")
		}
		if slot.Reason() != "" {
			t.Error(slot.Reason())
		}
		w.fleet.Release("job", "")
		w.until(time.Minute, "one machine", func() bool { return len(w.exist()) == 1 })
	})
}

// A machine that does not answer is found before it gets a job (gitlab-runner #39145), and one with a job ends it.
func TestAMachineThatDoesNotAnswerGetsNoJob(t *testing.T) {
	var mu sync.Mutex
	dead := map[string]bool{}
	set := func(o *control.Options) {
		o.Policy = classic(schedule.Policy{IdleTime: time.Hour, IdleCount: 2})
		o.CheckInterval = time.Minute
		o.Check = func(_ context.Context, m *control.Machine) error {
			mu.Lock()
			defer mu.Unlock()
			if dead[m.Instance] {
				return errors.New("no route to host")
			}
			return nil
		}
	}
	inWorld(t, fake.Options{Boot: time.Minute}, set, func(w *world) {
		w.until(5*time.Minute, "two machines", func() bool { return strings.Contains(w.states(), "ready ready") })
		time.Sleep(7*time.Minute + 30*time.Second)
		mu.Lock()
		for _, id := range w.exist()[1:] {
			dead[id] = true
		}
		mu.Unlock()
		for i := range 3 {
			slot := w.acquire(fmt.Sprint("job-", i))
			mu.Lock()
			if dead[slot.Instance] {
				t.Errorf("job-%d got %s, which does not answer", i, slot.Instance)
			}
			mu.Unlock()
		}
		slot := w.acquire("last")
		mu.Lock()
		dead[slot.Instance] = true
		mu.Unlock()
		<-slot.Done()
		if !strings.Contains(slot.Reason(), "no route to host") {
			t.Error(slot.Reason())
		}
	})
}

// states are those of all machines, sorted.
func (w *world) states() string {
	var all []string
	for _, m := range w.fleet.Status().Machines {
		all = append(all, m.State.String())
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestAMachineThatItsGroupCallsUnhealthyFinishesItsJobsAndGetsNoMore(t *testing.T) {
	o := fake.Options{Boot: time.Minute, Machine: func(n int) fake.Fate {
		if n == 0 {
			return fake.Fate{Unhealthy: 3 * time.Minute}
		}
		return fake.Fate{}
	}}
	inWorld(t, o, func(o *control.Options) { o.Scale.Pools[0].Slots = 2 }, func(w *world) {
		slot := w.acquire("job")
		time.Sleep(5 * time.Minute)
		if next := w.acquire("next"); next.Instance == slot.Instance || slot.Reason() != "" {
			t.Errorf("%s, %q", next.Instance, slot.Reason())
		}
		w.fleet.Release("job", "")
		w.until(time.Minute, "one machine", func() bool { return len(w.exist()) == 1 })
	})
}

// All at once is rather the network of this side.
func TestChecksThatFailOfAllMachinesAtOnceEndNoJobsForAWhile(t *testing.T) {
	var mu sync.Mutex
	down := false
	set := func(o *control.Options) {
		o.Check = func(context.Context, *control.Machine) error {
			mu.Lock()
			defer mu.Unlock()
			if down {
				return errors.New("network is unreachable")
			}
			return nil
		}
	}
	inWorld(t, fake.Options{Boot: time.Minute}, set, func(w *world) {
		one, two := w.acquire("one"), w.acquire("two")
		for _, is := range []bool{true, false} {
			mu.Lock()
			down = is
			mu.Unlock()
			time.Sleep(4 * time.Minute)
		}
		if one.Reason() != "" || two.Reason() != "" {
			t.Errorf("%q, %q", one.Reason(), two.Reason())
		}
	})
}

func TestAFaultEndsTheMachineAfterItsOtherJobs(t *testing.T) {
	inWorld(t, fake.Options{Boot: time.Minute}, func(o *control.Options) { o.Scale.Pools[0].Slots = 2 }, func(w *world) {
		one, two := w.acquire("one"), w.acquire("two")
		if one.Instance != two.Instance {
			t.Fatal("two jobs have two machines")
		}
		w.fleet.Release("one", "its disk is full")
		next := w.acquire("next")
		if next.Instance == one.Instance || two.Reason() != "" {
			t.Errorf("%s, %q", next.Instance, two.Reason())
		}
		w.fleet.Release("two", "")
		w.until(time.Minute, "one machine", func() bool { return len(w.exist()) == 1 })
		found := false
		for _, e := range w.history(store.Drain) {
			found = found || strings.Contains(e.Why, "its disk is full")
		}
		if !found {
			t.Errorf("%+v", w.history(store.Drain))
		}
	})
}

func TestDynamicCredentialsAreAskedForOnceUntilTheyExpire(t *testing.T) {
	o := fake.Options{Boot: time.Minute, Connect: func(i *group.ConnectInfo) {
		at := time.Now().Add(time.Minute)
		i.Expires = &at
	}}
	inWorld(t, o, nil, func(w *world) {
		slot := w.acquire("job")
		for range 10 {
			if _, err := slot.ConnectInfo(w.t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if got := w.cloud.Calls("ConnectInfo"); got != 1 {
			t.Errorf("%d calls", got)
		}
		time.Sleep(45 * time.Second)
		if info, err := slot.ConnectInfo(w.t.Context()); err != nil || time.Until(*info.Expires) < 30*time.Second || w.cloud.Calls("ConnectInfo") != 2 {
			t.Error(info, err, w.cloud.Calls("ConnectInfo"))
		}
	})
}

// Idle machines sleep, and are woken before others are made; a process that dies in between goes on.
func TestIdleMachinesAreSuspendedAndResumed(t *testing.T) {
	set := func(o *control.Options) { o.Pools = map[string]control.Pool{"small": {Suspend: 1}} }
	lost := fake.First(1, fake.Hang)
	o := fake.Options{Boot: time.Minute, Suspending: 10 * time.Second, Lag: 5 * time.Second, Before: fake.All(fake.On("Suspend", lost), fake.On("Resume", lost))}
	asleep := func(w *world) bool {
		all := w.cloud.Machines()
		return all[0].State == group.StateSuspended && w.states() == "suspended"
	}
	inWorld(t, o, set, func(w *world) {
		slot := w.acquire("job")
		w.fleet.Release("job", "")
		w.until(3*time.Minute, "suspended", func() bool { return w.states() == "suspended" })
		w.restart() // before the call had an effect
		w.until(3*time.Minute, "asleep", func() bool { return asleep(w) })
		time.Sleep(24 * time.Hour)
		w.wants("next")
		w.until(time.Minute, "resumed", func() bool { return w.cloud.Calls("Resume") == 1 })
		w.restart()
		began := time.Now()
		if next := w.acquire("next"); next.Instance != slot.Instance || time.Since(began) > 3*time.Minute || w.made() != 1 {
			t.Errorf("%s after %s, %d machines", next.Instance, time.Since(began), w.made())
		}
		w.fleet.Release("next", "")
		w.until(5*time.Minute, "asleep", func() bool { return asleep(w) })
		w.cloud.Vanish(slot.Instance)
		w.ends(5 * time.Minute)
		w.acquire("last")
	})
}

func TestAJobThatIsAdoptedRunsSinceItGotItsMachine(t *testing.T) {
	inWorld(t, fake.Options{}, nil, func(w *world) {
		w.acquire("job")
		before := w.fleet.Explain("job")
		if want := ", since " + w.fleet.Status().Jobs[0].Since.UTC().Format(time.TimeOnly); !strings.HasSuffix(before, want) {
			t.Fatalf("%q does not say%s", before, want)
		}
		time.Sleep(2 * time.Minute)
		w.restart()
		if _, err := w.fleet.Recover(w.t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		if after := w.fleet.Explain("job"); after != before {
			t.Errorf("%q after a restart, and before %q", after, before)
		}
	})
}
