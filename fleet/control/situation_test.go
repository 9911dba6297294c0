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
	"github.com/rungci/rung/fleet/store"
)

// What the existing stack is known for, by the numbers of its issues.

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

func TestAJobThatEndsWithoutAMachineIsInTheHistory(t *testing.T) {
	inWorld(t, fake.Options{Boot: time.Hour}, nil, func(w *world) {
		w.wants("job")
		time.Sleep(25 * time.Second)
		w.fleet.Release("job", "")
		w.until(time.Minute, "an entry of the job", func() bool { return len(w.history(store.GaveUp)) == 1 })
		e := w.history(store.GaveUp)[0]
		if e.Key != "job" || e.At.Sub(e.Began) != 25*time.Second || !strings.Contains(e.Why, "has no free slot, and 1 machine on the way") {
			t.Errorf("%+v", e)
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

func TestAMachineThatRefusesUsForMinutesIsEnded(t *testing.T) {
	var second sync.Once
	var booted time.Time // the second
	set := func(o *control.Options) {
		o.Prepare = func(_ context.Context, m *control.Machine) error {
			if m.Instance == "fake-1" {
				second.Do(func() { booted = time.Now().Add(2 * time.Minute) })
				if time.Now().After(booted) {
					return nil
				}
			}
			return fmt.Errorf("%w: it shows another host key", control.ErrRefused)
		}
	}
	inWorld(t, fake.Options{Boot: time.Minute}, set, func(w *world) {
		began := time.Now()
		if slot := w.acquire("job"); slot.Instance != "fake-1" || time.Since(began) > 10*time.Minute {
			t.Errorf("%s after %s", slot.Instance, time.Since(began))
		}
		gone := w.history(store.Delete)
		if len(gone) != 1 || !strings.Contains(gone[0].Why, "useless for 3m0s: the machine refuses the login, or is not trusted: it shows another host key") {
			t.Errorf("%+v", gone)
		}
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

func TestAJobThatFindsAnIdleMachineIsNotSaidToWait(t *testing.T) {
	inWorld(t, fake.Options{Boot: time.Minute}, nil, func(w *world) {
		for _, key := range []string{"one", "two"} {
			var said []string
			if _, err := w.fleet.Acquire(w.t.Context(), key, control.Job{ID: key}, func(why string) { said = append(said, why) }); err != nil {
				t.Fatal(err)
			}
			if waits := key == "one"; waits != (len(said) > 0) || slices.ContainsFunc(said, func(why string) bool { return strings.Contains(why, "runs on") }) {
				t.Errorf("job %s waits: %q", key, said)
			}
			w.fleet.Release(key, "")
		}
	})
}
