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
		if n, why := w.fleet.Free(scale.Needs{}); n != 0 || !strings.Contains(why, "small: no machines are asked for until") || !strings.Contains(why, "there are 1 machines of at most 1") {
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

func TestAGroupThatDoesNotAnswerIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := newWorld(t, fake.Options{Before: fake.On("ConnectInfo", func(context.Context, fake.Call) error { <-release; return nil })})
		w.options.Prepare = func(ctx context.Context, m *control.Machine) error {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			_, err := m.ConnectInfo(ctx)
			return err
		}
		w.open()
		defer func() { close(release); w.process.kill() }()
		w.wants("job")
		const want = "the instance group fake: it has not answered in time: 2s"
		w.until(time.Minute, want, func() bool {
			all := w.fleet.Status().Machines
			return len(all) == 1 && all[0].PreparingError == want
		})
	})
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

// The same with a group for each pool: the list of one of them has the machine.
func TestMachinesOfAPoolThatIsNoLongerConfiguredAreFoundInTheListOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fake.Options{Boot: time.Minute})
		w.others = map[string]*fake.Group{"far": fake.New(fake.Options{Boot: time.Minute, Lag: 5 * time.Second})}
		w.options.Scale.Pools = []scale.Pool{{Name: "small", Price: 1, Shape: scale.Shape{CPUs: 2}}, {Name: "far", Price: 2, Shape: scale.Shape{CPUs: 8}}}
		w.open()
		defer func() { w.process.kill() }()
		w.acquire("job")
		w.options.Scale.Pools[0].Name = "renamed"
		w.restart()
		slot, err := w.fleet.Recover(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if info, err := slot.ConnectInfo(t.Context()); err != nil || info.ID != slot.Instance {
			t.Error(info, err)
		}
		w.fleet.Release("job", "")
		w.ends(2 * time.Minute)
	})
}

// Two kinds of machines, of which the cheaper has no quota.
func TestAPoolWithoutQuotaIsReplacedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fake.Options{Boot: time.Minute, Before: fake.On("IncreaseShape", fake.Fail(group.ErrQuota))})
		w.others = map[string]*fake.Group{"far": fake.New(fake.Options{Boot: time.Minute})}
		w.options.Scale.Pools = []scale.Pool{{Name: "small", Price: 1}, {Name: "far", Price: 2}}
		w.open()
		defer func() { w.process.kill() }()
		began := time.Now()
		if slot := w.acquire("job"); slot.Pool != "far" || time.Since(began) > 2*time.Minute {
			t.Errorf("%s after %s", slot.Pool, time.Since(began))
		}
	})
}

// Hosts of two lists may have the same names.
func TestInstancesOfTwoGroupsMayHaveTheSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fake.Options{Boot: time.Minute})
		far := fake.New(fake.Options{Boot: time.Minute})
		w.others = map[string]*fake.Group{"far": far}
		w.options.Scale.Pools = []scale.Pool{{Name: "small", Price: 1, Shape: scale.Shape{CPUs: 2}}, {Name: "far", Price: 2, Shape: scale.Shape{CPUs: 8}}}
		w.open()
		defer func() { w.process.kill() }()
		one := w.acquire("one")
		two, err := w.fleet.Acquire(t.Context(), "two", control.Job{Needs: scale.Needs{Shape: scale.Shape{CPUs: 4}}}, nil)
		if err != nil || one.Instance != two.Instance || one.Request == two.Request {
			t.Fatal(one, two, err)
		}
		w.cloud.Vanish(one.Instance)
		<-one.Done()
		w.restart()
		if two, err = w.fleet.Recover(t.Context(), "two"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if why := two.Reason(); why != "" {
			t.Error(why)
		}
		w.fleet.Release("two", "")
		w.ends(5 * time.Minute)
		if left := far.Machines(); left[0].Exists {
			t.Error("the other one is left")
		}
	})
}

// The real files: a fleet goes on from its folder, and what it cost is read beside it.
func TestAFleetGoesOnFromItsFolder(t *testing.T) {
	folder := t.TempDir()
	open := func(t *testing.T) store.Store {
		t.Helper()
		s, err := store.Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fake.Options{Boot: time.Minute})
		w.options.Store = open(t)
		w.open()
		w.acquire("job")
		began := time.Now()
		w.process.kill()
		synctest.Wait()
		_ = w.options.Store.Close()
		w.options.Store = open(t)
		w.open()
		defer func() { w.process.kill(); _ = w.options.Store.Close() }()
		slot, err := w.fleet.Recover(t.Context(), "job")
		if err != nil || slot.Instance != "fake-0" {
			t.Fatal(slot, err)
		}
		time.Sleep(time.Hour)
		w.fleet.Release("job", "")
		w.ends(5 * time.Minute)
		var bill store.Bill
		if err := store.ReadHistory(folder, time.Time{}, time.Time{}, bill.Add); err != nil {
			t.Fatal(err)
		}
		costs := bill.Costs(began, time.Now())
		if len(costs) != 2 || costs[0].Project != "p" || costs[0].Busy.Round(time.Minute) != time.Hour || costs[0].Cost < 0.099 || costs[0].Cost > 0.101 {
			t.Errorf("%+v", costs)
		}
	})
}
