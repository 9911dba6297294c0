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
	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/schedule"
	"github.com/rungci/rung/fleet/store"
)

// Situations of shared/reference: what the existing stack is known for.

func TestAMachineIsMadeForAJobAndEndsWhenNobodyNeedsIt(t *testing.T) {
	inWorld(t, fake.Options{Boot: time.Minute, Deleting: 30 * time.Second}, nil, func(w *world) {
		began := time.Now()
		slot := w.acquire("job")
		if waited := time.Since(began); waited < time.Minute || waited > 70*time.Second || slot.Waited.Round(time.Second) != waited.Round(time.Second) {
			t.Errorf("it took %s, and says %s", waited, slot.Waited)
		}
		if s := w.fleet.Status(); len(s.Jobs) != 1 || s.Jobs[0].State != control.Running || len(s.Machines) != 1 || s.Machines[0].State != scale.Ready {
			t.Errorf("%+v", s)
		}
		info, err := slot.ConnectInfo(w.t.Context())
		if err != nil || info.ID != slot.Instance {
			t.Error(info, err)
		}
		w.fleet.Release("job", "")
		w.ends(3 * time.Minute)
		if slot.Reason() == "" || w.made() != 1 {
			t.Errorf("%q, %d machines were made", slot.Reason(), w.made())
		}
		var kinds []string
		for _, e := range w.history(store.Create, store.Ready, store.Place, store.Over, store.Delete, store.Gone) {
			kinds = append(kinds, string(e.Kind))
			if e.Kind == store.Create && e.Why == "" || e.Kind == store.Gone && (e.Began.IsZero() || e.Price != 0.1 || e.Uses != 1) {
				t.Errorf("%+v", e)
			}
		}
		if got := strings.Join(kinds, " "); got != "create ready place over delete gone" {
			t.Error(got)
		}
	})
}

// taskscaler#29, gitlab-runner #37526: machines that are being deleted were replaced by new ones, and those by others.
func TestChurnMachinesThatGoAreNotReplaced(t *testing.T) {
	inWorld(t, fake.Options{Boot: time.Minute, Deleting: 20 * time.Minute}, nil, func(w *world) {
		for i := range 5 {
			w.wants(fmt.Sprint("job-", i))
		}
		w.until(2*time.Minute, "five jobs", func() bool { return w.running() == 5 })
		for i := range 5 {
			w.fleet.Release(fmt.Sprint("job-", i), "")
		}
		time.Sleep(time.Hour)
		w.ends(time.Minute)
		if w.made() != 5 {
			t.Errorf("%d machines were made for 5 jobs", w.made())
		}
	})
}

func (w *world) running() (n int) {
	for _, j := range w.fleet.Status().Jobs {
		if j.State == control.Running {
			n++
		}
	}
	return n
}

// gitlab-runner #37673: more and more machines for the same jobs.
func TestRunawayAGroupThatTakesLongAndFailsMakesNoMoreThanIsNeeded(t *testing.T) {
	o := fake.Options{Boot: 5 * time.Minute, Lag: 45 * time.Second}
	o.Before = fake.All(fake.On("IncreaseShape", fake.First(3, fake.Fail(errors.New("502 bad gateway")))), fake.On("List", fake.First(10, fake.Fail(group.ErrTransient))))
	o.After = fake.On("IncreaseShape", func(_ context.Context, c fake.Call) error {
		if c.N < 8 {
			return errors.New("the answer was lost")
		}
		return nil
	})
	inWorld(t, o, nil, func(w *world) {
		for i := range 3 {
			w.wants(fmt.Sprint("job-", i))
		}
		w.until(30*time.Minute, "three jobs", func() bool { return w.running() == 3 })
		if w.made() != 3 {
			t.Errorf("%d machines were made for 3 jobs", w.made())
		}
	})
}

// gitlab-runner #37237; sardinasystems#21: machines in error that occupied the fleet for ever.
func TestNeverToZeroFailedAndStuckMachinesAreEnded(t *testing.T) {
	fates := []fake.Fate{{Stuck: true}, {Fails: 10 * time.Second, Reason: "no such image"}, {Vanishes: 20 * time.Second}, {}}
	o := fake.Options{Boot: time.Minute, Machine: func(n int) fake.Fate { return fates[n%len(fates)] }}
	inWorld(t, o, func(o *control.Options) { o.Scale.Pools[0].BootTimeout = 3 * time.Minute }, func(w *world) {
		for i := range 4 {
			w.wants(fmt.Sprint("job-", i))
		}
		w.until(time.Hour, "four jobs", func() bool { return w.running() == 4 })
		for i := range 4 {
			w.fleet.Release(fmt.Sprint("job-", i), "")
		}
		w.ends(30 * time.Minute)
		why := ""
		for _, e := range w.history(store.Delete, store.Gone) {
			why += e.Why + "\n"
		}
		for _, want := range []string{"is not ready after 3m0s", "no such image", "was removed by somebody else"} {
			if !strings.Contains(why, want) {
				t.Errorf("nothing ended because it %q: %s", want, why)
			}
		}
	})
}

// Machines that boot, and never answer.
func TestNeverToZeroMachinesThatNeverAnswerAreEnded(t *testing.T) {
	var mu sync.Mutex
	tried := map[string]int{}
	set := func(o *control.Options) {
		o.Scale.Pools[0].BootTimeout = 4 * time.Minute
		o.Prepare = func(ctx context.Context, m *control.Machine) error {
			mu.Lock()
			tried[m.Instance]++
			mu.Unlock()
			if m.Instance == "fake-0" {
				return errors.New("connection refused")
			}
			if m.Instance == "fake-1" {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		}
	}
	inWorld(t, fake.Options{Boot: time.Minute}, set, func(w *world) {
		began := time.Now()
		slot := w.acquire("job")
		if slot.Instance != "fake-2" || time.Since(began) > 20*time.Minute {
			t.Errorf("%s after %s", slot.Instance, time.Since(began))
		}
		mu.Lock()
		if tried["fake-0"] < 5 || tried["fake-2"] != 1 {
			t.Errorf("%v", tried)
		}
		mu.Unlock()
		w.fleet.Release("job", "")
		w.ends(10 * time.Minute)
	})
}

func TestAReadyCommandThatSaysThatAMachineIsUselessEndsItAtOnce(t *testing.T) {
	set := func(o *control.Options) {
		o.Prepare = func(_ context.Context, m *control.Machine) error {
			if m.Instance == "fake-0" {
				return fmt.Errorf("the ready command ended with 3: %w", control.ErrUseless)
			}
			return nil
		}
	}
	inWorld(t, fake.Options{Boot: time.Minute}, set, func(w *world) {
		if slot := w.acquire("job"); slot.Instance != "fake-1" {
			t.Error(slot.Instance)
		}
		w.until(time.Minute, "one machine", func() bool { return len(w.exist()) == 1 })
	})
}

// #38326, #38294: jobs that wait while there is room.
func TestStarvationJobsGetSlotsWhileOneMachineIsSlowToGo(t *testing.T) {
	o := fake.Options{Boot: time.Minute, Machine: func(n int) fake.Fate { return fake.Fate{Deleting: 2 * time.Hour} }}
	o.Before = fake.On("Decrease", fake.Hang) // and the call that deletes does not return
	inWorld(t, o, func(o *control.Options) { o.Scale.Pools[0].MaxUses = 1 }, func(w *world) {
		for i := range 6 {
			key := fmt.Sprint("job-", i)
			began := time.Now()
			w.acquire(key)
			if waited := time.Since(began); waited > 2*time.Minute {
				t.Errorf("%s has waited %s", key, waited)
			}
			w.fleet.Release(key, "")
		}
	})
}

func TestStarvationAFailingListDoesNotStopGrowth(t *testing.T) {
	fail := true
	var mu sync.Mutex
	o := fake.Options{Boot: time.Minute, Before: fake.On("List", func(context.Context, fake.Call) error {
		mu.Lock()
		defer mu.Unlock()
		if fail {
			return group.Transient(0, errors.New("503"))
		}
		return nil
	})}
	inWorld(t, o, nil, func(w *world) {
		for i := range 3 {
			w.wants(fmt.Sprint("job-", i))
		}
		w.until(10*time.Second, "three machines", func() bool { return w.made() == 3 })
		if s := w.fleet.Status(); !strings.Contains(s.Pools[0].ListError, "503") {
			t.Errorf("%+v", s.Pools)
		}
		mu.Lock()
		fail = false
		mu.Unlock()
		w.until(3*time.Minute, "three jobs", func() bool { return w.running() == 3 })
	})
}

// aws#71: a restart of the manager ended all machines, and the jobs on them.
func TestRestartKeepsMachinesAndJobs(t *testing.T) {
	inWorld(t, fake.Options{Boot: time.Minute}, nil, func(w *world) {
		w.acquire("job-1")
		w.acquire("job-2")
		w.restart()
		slot, err := w.fleet.Recover(w.t.Context(), "job-1")
		if err != nil || slot.Instance != "fake-0" || slot.Key != "job-1" {
			t.Fatal(slot, err)
		}
		if info, err := slot.ConnectInfo(w.t.Context()); err != nil || info.ID != "fake-0" {
			t.Error(info, err)
		}
		if s := w.fleet.Status(); len(s.Jobs) != 2 || s.Jobs[0].ID != "job-1" || s.Jobs[0].Project != "p" {
			t.Errorf("%+v", s.Jobs)
		}
		time.Sleep(9 * time.Minute)
		if got := w.exist(); len(got) != 2 {
			t.Fatalf("left: %v", got)
		}
		w.until(5*time.Minute, "one machine", func() bool { return len(w.exist()) == 1 }) // nobody has recovered job-2
		if _, err := w.fleet.Recover(w.t.Context(), "job-2"); !errors.Is(err, control.ErrGone) {
			t.Error(err)
		}
		if slot.Reason() != "" || w.made() != 2 {
			t.Errorf("%q, %d machines were made", slot.Reason(), w.made())
		}
		w.fleet.Release("job-1", "")
		w.ends(5 * time.Minute)
	})
}

// A create is recorded before it is asked for, and asked for again under the same id.
func TestRestartWhileAMachineIsAskedForMakesNoSecond(t *testing.T) {
	for name, does := range map[string]fate{"before the record": diesBefore, "after the record": diesAfter} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, fake.Options{Boot: time.Minute, Before: fake.On("IncreaseShape", fake.First(1, fake.Hang))}, nil, func(w *world) {
				w.until(time.Second, "recorded", func() bool { return w.process.commits > 0 })
				w.process.fate = func(int) fate { return does }
				w.wants("job")
				w.until(time.Minute, "dead", w.process.isDead)
				w.restart()
				w.acquire("job")
				time.Sleep(5 * time.Minute)
				if w.made() != 1 {
					t.Errorf("%d machines were made", w.made())
				}
			})
		})
	}
}

// The answer of a create comes after the process has died.
func TestRestartAfterAMachineWasMadeThatNobodyHeardOfMakesNoSecond(t *testing.T) {
	for _, counts := range []bool{false, true} {
		t.Run(fmt.Sprint("a group that only counts: ", counts), func(t *testing.T) {
			lost := fake.First(1, fake.Hang)
			o := fake.Options{Boot: time.Minute, Lag: 10 * time.Second, After: fake.All(fake.On("IncreaseShape", lost), fake.On("Increase", lost))}
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, o)
				w.counts = counts
				w.open()
				defer func() { w.process.kill() }()
				w.wants("job")
				w.until(time.Minute, "a machine", func() bool { return w.made() == 1 })
				w.restart()
				w.acquire("job")
				time.Sleep(5 * time.Minute)
				if w.made() != 1 {
					t.Errorf("%d machines were made", w.made())
				}
				w.fleet.Release("job", "")
				w.ends(5 * time.Minute)
			})
		})
	}
}

// A group that only counts, and whose call has made nothing: only lists can say that.
func TestAMachineOfAGroupThatCountsWhichNeverCameIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fake.Options{Boot: time.Minute, Before: fake.On("Increase", fake.First(1, fake.Fail(group.ErrUncertain)))})
		w.counts = true
		w.open()
		defer func() { w.process.kill() }()
		began := time.Now()
		w.acquire("job")
		if waited := time.Since(began); waited > 5*time.Minute || w.made() != 1 {
			t.Errorf("%s, %d machines", waited, w.made())
		}
	})
}

// Two managers: the second is refused, and the first does not notice.
func TestTwoManagersTheSecondIsRefused(t *testing.T) {
	folder := t.TempDir()
	first, err := store.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(folder); !errors.Is(err, store.ErrInUse) {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := store.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
}

// Two managers with other folders and one group leave each other's machines alone.
func TestTwoManagersMachinesOfAnotherOwnerAreNotTakenForOurs(t *testing.T) {
	inWorld(t, fake.Options{Boot: time.Minute}, nil, func(w *world) {
		theirs := w.cloud.Add(map[string]string{group.OwnerLabel: "them"})
		ours := w.cloud.Add(map[string]string{group.OwnerLabel: "us"})
		w.until(5*time.Minute, "theirs alone", func() bool { return slices.Equal(w.exist(), []string{theirs}) })
		for _, e := range w.history(store.Delete) {
			if e.Instance != ours || !strings.Contains(e.Why, "not in the record") {
				t.Errorf("%+v", e)
			}
		}
		w.acquire("job")
		time.Sleep(time.Hour)
		if got := w.exist(); len(got) != 2 {
			t.Error(got)
		}
	})
}

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

func TestDeletesThatFailForAnHourAreRepeatedUntilTheyDoNot(t *testing.T) {
	began := time.Time{}
	o := fake.Options{Boot: time.Minute, Before: fake.On("Decrease", func(context.Context, fake.Call) error {
		if time.Since(began) < time.Hour {
			return errors.New("internal error of the cloud")
		}
		return nil
	})}
	inWorld(t, o, nil, func(w *world) {
		began = time.Now()
		w.acquire("job")
		w.fleet.Release("job", "")
		time.Sleep(50 * time.Minute)
		if calls := w.cloud.Calls("Decrease"); len(w.exist()) != 1 || calls < 10 || calls > 100 {
			t.Errorf("%v, %d calls", w.exist(), calls)
		}
		if lists := w.cloud.Calls("List"); lists > 800 {
			t.Errorf("the group was listed %d times in 50 minutes", lists)
		}
		w.ends(20 * time.Minute)
		if n := len(w.history(store.Delete)); n != 1 {
			t.Errorf("the history has the delete %d times", n)
		}
	})
}

func TestQuotaThatIsExhaustedLeavesJobsToOthersAndEnds(t *testing.T) {
	inWorld(t, fake.Options{Boot: time.Minute, Size: 10, Quota: 1}, nil, func(w *world) {
		w.acquire("job-0")
		w.wants("job-1")
		w.until(time.Minute, "refused", func() bool { return errors.Is(w.fleet.Reserve("question", scale.Needs{}), scale.ErrNoCapacity) })
		if n, why := w.fleet.Free(scale.Needs{}); n != 0 || why == "" {
			t.Errorf("%d, %q", n, why)
		}
		if why := w.fleet.Explain("job-1"); !strings.Contains(why, "there are 1 machines of at most 1") {
			t.Error(why)
		}
		time.Sleep(30 * time.Minute)
		w.fleet.Release("job-0", "")
		w.until(time.Minute, "the next job", func() bool { return w.running() == 1 })
	})
}

// A group that hangs in each of its calls holds up nothing else.
func TestCallsThatHangAreGivenUp(t *testing.T) {
	release := make(chan struct{})
	stick := func(context.Context, fake.Call) error { <-release; return errors.New("late") }
	for _, name := range []string{"IncreaseShape", "List", "Decrease", "ConnectInfo", "Heartbeat", "Watch"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release = make(chan struct{})
				w := newWorld(t, fake.Options{Boot: time.Minute, Before: fake.On(name, fake.First(3, stick))})
				w.options.CallTimeout = 20 * time.Second
				w.options.Prepare = func(ctx context.Context, m *control.Machine) error {
					_, err := m.ConnectInfo(ctx)
					return err
				}
				w.open()
				defer func() { close(release); w.process.kill() }()
				w.acquire("job")
				time.Sleep(10 * time.Minute)
				if got := w.exist(); len(got) != 1 || w.running() != 1 {
					t.Errorf("%v, %d", got, w.running())
				}
				w.fleet.Release("job", "")
				w.ends(20 * time.Minute)
			})
		})
	}
}

func TestCallsThatPanicAreErrors(t *testing.T) {
	act := fake.First(2, fake.Panic)
	o := fake.Options{Boot: time.Minute, Before: fake.All(fake.On("IncreaseShape", act), fake.On("List", act), fake.On("Decrease", act), fake.On("Heartbeat", act))}
	inWorld(t, o, nil, func(w *world) {
		w.acquire("job")
		time.Sleep(5 * time.Minute)
		w.fleet.Release("job", "")
		w.ends(20 * time.Minute)
		if w.made() != 1 {
			t.Error(w.made())
		}
	})
}

// A plugin that lies: more machines than it was asked for.
func TestMachinesThatNobodyAskedForAreEnded(t *testing.T) {
	for _, counts := range []bool{false, true} {
		t.Run(fmt.Sprint("a group that only counts: ", counts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, fake.Options{Boot: time.Minute, Surplus: 2})
				w.counts = counts
				w.open()
				defer func() { w.process.kill() }()
				slot := w.acquire("job")
				w.until(5*time.Minute, "one machine", func() bool { return slices.Equal(w.exist(), []string{slot.Instance}) })
				if w.made() != 3 {
					t.Error(w.made())
				}
				w.fleet.Release("job", "")
				w.ends(10 * time.Minute)
			})
		})
	}
}

// Clocks that are set, forth and back.
func TestClockJumpsEndNoJobAndStallNothing(t *testing.T) {
	clock := &jumping{}
	inWorld(t, fake.Options{Boot: time.Minute}, func(o *control.Options) { o.Clock = clock }, func(w *world) {
		slot := w.acquire("job-1")
		clock.jump(-6 * time.Hour)
		began := time.Now()
		w.acquire("job-2")
		if waited := time.Since(began); waited > 2*time.Minute {
			t.Errorf("after the clock was put back a job waits %s", waited)
		}
		clock.jump(24 * time.Hour)
		time.Sleep(5 * time.Minute)
		w.acquire("job-3")
		if slot.Reason() != "" {
			t.Error(slot.Reason())
		}
		w.restart()
		clock.jump(-72 * time.Hour)
		for i := range 3 {
			w.fleet.Release(fmt.Sprint("job-", i+1), "")
		}
		w.ends(5 * time.Minute)
	})
}

// jumping is a clock without a monotonic part.
type jumping struct {
	mu sync.Mutex
	by time.Duration
}

func (j *jumping) jump(d time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.by += d
}

func (j *jumping) Now() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return time.Now().Round(0).Add(j.by)
}

func (j *jumping) After(d time.Duration) <-chan time.Time { return time.After(d) }

func TestNothingIsDoneThatCannotBeRecorded(t *testing.T) {
	inWorld(t, fake.Options{Boot: time.Minute}, nil, func(w *world) {
		slot := w.acquire("job-1")
		w.process.mu.Lock()
		w.process.refuse = errors.New("no space left on device")
		w.process.mu.Unlock()
		w.wants("job-2")
		w.until(time.Minute, "reported", func() bool { return w.fleet.Status().StoreError != "" })
		time.Sleep(10 * time.Minute)
		if w.made() != 1 {
			t.Errorf("%d machines were made", w.made())
		}
		if n, why := w.fleet.Free(scale.Needs{}); n != 0 || !strings.Contains(why, "no space left") {
			t.Errorf("%d, %q", n, why)
		}
		w.cloud.Vanish(slot.Instance)
		<-slot.Done() // that is so, recorded or not
		w.process.mu.Lock()
		w.process.refuse = nil
		w.process.mu.Unlock()
		w.until(2*time.Minute, "the next job", func() bool { return w.running() == 1 })
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

func TestAReservationMakesNoMachine(t *testing.T) {
	inWorld(t, fake.Options{Boot: time.Minute}, func(o *control.Options) { o.Scale.Pools[0].MaxInstances = 2 }, func(w *world) {
		for i := range 30 {
			key := fmt.Sprint("r-", i)
			if err := w.fleet.Reserve(key, scale.Needs{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			w.fleet.Release(key, "")
		}
		for i := range 2 {
			if err := w.fleet.Reserve(fmt.Sprint("q-", i), scale.Needs{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.fleet.Reserve("q-2", scale.Needs{}); !errors.Is(err, scale.ErrNoCapacity) {
			t.Error(err)
		}
		if err := w.fleet.Reserve("large", scale.Needs{Shape: scale.Shape{CPUs: 64}}); !errors.Is(err, scale.ErrUnfit) {
			t.Error(err)
		}
		if w.made() != 0 {
			t.Errorf("%d machines were made for questions", w.made())
		}
		w.acquire("q-0")
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

func TestACallThatIsCancelledChangesNothing(t *testing.T) {
	inWorld(t, fake.Options{Boot: time.Minute}, nil, func(w *world) {
		ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
		defer cancel()
		if _, err := w.fleet.Acquire(ctx, "job", control.Job{}, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		var heard []string
		slot, err := w.fleet.Acquire(w.t.Context(), "job", control.Job{}, func(s string) { heard = append(heard, s) })
		if err != nil || w.made() != 1 || len(heard) == 0 || !strings.Contains(heard[0], "1 machine on the way") {
			t.Errorf("%v, %v, %d machines, %q", slot, err, w.made(), heard)
		}
		go func() {
			time.Sleep(time.Second)
			w.fleet.Release("late", "")
		}()
		if _, err := w.fleet.Acquire(w.t.Context(), "late", control.Job{}, nil); !errors.Is(err, control.ErrReleased) {
			t.Error(err)
		}
	})
}

func TestCloseLeavesMachinesAndJobsToTheNextProcess(t *testing.T) {
	inWorld(t, fake.Options{Boot: time.Minute}, nil, func(w *world) {
		w.acquire("job")
		if err := w.fleet.Close(w.t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := w.fleet.Reserve("r", scale.Needs{}); !errors.Is(err, control.ErrClosed) {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		w.open()
		if slot, err := w.fleet.Recover(w.t.Context(), "job"); err != nil || slot.Instance != "fake-0" {
			t.Error(slot, err)
		}
	})
}

// A call that is under way when the fleet closes has its answer recorded.
func TestCloseWaitsForAnswers(t *testing.T) {
	o := fake.Options{Boot: time.Minute}
	o.After = fake.On("IncreaseShape", func(ctx context.Context, _ fake.Call) error {
		select {
		case <-time.After(20 * time.Second):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	inWorld(t, o, nil, func(w *world) {
		w.wants("job")
		w.until(time.Minute, "a machine", func() bool { return w.made() == 1 })
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		if err := w.fleet.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if s := w.memory.load(); len(s.Fleet.Instances) != 1 || s.Fleet.Instances[0].Instance != "fake-0" {
			t.Errorf("%+v", s.Fleet)
		}
	})
}

func TestCloseDeletesWhatHasNoJobIfItIsToldTo(t *testing.T) {
	set := func(o *control.Options) {
		o.DeleteOnShutdown = true
		o.Policy = classic(schedule.Policy{IdleCount: 3, IdleTime: time.Hour})
	}
	inWorld(t, fake.Options{Boot: time.Minute, Before: fake.On("Decrease", fake.First(1, fake.Fail(group.ErrTransient)))}, set, func(w *world) {
		slot := w.acquire("job")
		w.until(5*time.Minute, "four machines", func() bool { return w.states() == "ready ready ready ready" })
		if err := w.fleet.Close(w.t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.exist(); !slices.Equal(got, []string{slot.Instance}) {
			t.Error(got)
		}
	})
}

func TestAStateOfAnotherFleetIsRefused(t *testing.T) {
	inWorld(t, fake.Options{}, nil, func(w *world) {
		w.until(time.Minute, "recorded", func() bool { return w.memory.load().Fleet.Name == "f" })
		o := w.options
		o.Scale.Name, o.Store = "g", w.process
		o.Pools = map[string]control.Pool{"small": {Group: group.Adapt(w.cloud)}}
		if _, err := control.Open(w.t.Context(), o); err == nil || !strings.Contains(err.Error(), `the fleet "f"`) {
			t.Error(err)
		}
	})
}

func TestMachinesOfAPoolThatIsNoLongerConfiguredEndAfterTheirJobs(t *testing.T) {
	inWorld(t, fake.Options{Boot: time.Minute}, nil, func(w *world) {
		w.acquire("job")
		w.options.Scale.Pools = []scale.Pool{{Name: "other", Shape: scale.Shape{CPUs: 4}}}
		w.restart()
		slot, err := w.fleet.Recover(w.t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Minute)
		if next := w.acquire("next"); next.Pool != "other" || slot.Reason() != "" {
			t.Errorf("%s, %q", next.Pool, slot.Reason())
		}
		w.fleet.Release("job", "")
		w.until(2*time.Minute, "one machine", func() bool { return len(w.exist()) == 1 })
	})
}
