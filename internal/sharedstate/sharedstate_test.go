package sharedstate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rungci/rung/internal/sharedstate"
	"github.com/rungci/rung/internal/sharedstate/objectstest"
)

const term = 20 * time.Second

var key = []byte("a key of sixteen bytes, and more")

func options(o sharedstate.Objects, holder string) sharedstate.Options {
	return sharedstate.Options{Objects: o, Key: key, Holder: holder, Name: "host " + holder, Lease: term}
}

func acquire(t *testing.T, o sharedstate.Options) *sharedstate.State {
	t.Helper()
	s, err := sharedstate.Acquire(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Abandon)
	return s
}

func commit(t *testing.T, s *sharedstate.State, pairs ...string) {
	t.Helper()
	changes := map[string][]byte{}
	for i := 0; i < len(pairs); i += 2 {
		changes[pairs[i]] = []byte(pairs[i+1])
		if pairs[i+1] == "-" {
			changes[pairs[i]] = nil
		}
	}
	if err := s.Commit(changes); err != nil {
		t.Fatal(err)
	}
}

// has fails the test if there are other values than these.
func has(t *testing.T, s *sharedstate.State, pairs ...string) {
	t.Helper()
	var got []string
	for _, name := range s.Names("") {
		value, _ := s.Get(name)
		got = append(got, name, string(value))
	}
	if fmt.Sprint(got) != fmt.Sprint(pairs) {
		t.Errorf("the state is %q, and should be %q", got, pairs)
	}
}

func TestWhatWasCommittedIsThereForTheNextHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &objectstest.Memory{}
		first := acquire(t, options(store, "a"))
		commit(t, first, "jobs/1", "one", "jobs/2", "two")
		commit(t, first, "jobs/1", "-", "other", "")
		has(t, first, "jobs/2", "two", "other", "")
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		if err := first.Commit(map[string][]byte{"late": nil}); err == nil {
			t.Error("a state that is closed takes a change")
		}
		began := time.Now()
		second := acquire(t, options(store, "b"))
		if waited := time.Since(began); waited > 0 {
			t.Errorf("a lease that was given back is waited for: %s", waited)
		}
		has(t, second, "jobs/2", "two", "other", "")
		if names := second.Names("jobs/"); fmt.Sprint(names) != "[jobs/2]" {
			t.Error(names)
		}
	})
}

func TestASecondOneWaitsUntilTheHolderIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &objectstest.Memory{}
		first := acquire(t, options(store, "a"))
		got := make(chan *sharedstate.State)
		var waits atomic.Pointer[sharedstate.Waiting]
		o := options(store, "b")
		o.OnWait = func(w sharedstate.Waiting) { waits.Store(&w) }
		go func() { got <- acquire(t, o) }()
		select {
		case <-got:
			t.Fatal("two have the state")
		case <-time.After(10 * time.Hour):
		}
		waiting := waits.Load()
		if left := time.Until(waiting.Until); waiting.Name != "host a" || waiting.Err != nil || left < term || left > term*5/4 {
			t.Errorf("it waits for %+v", *waiting)
		}
		commit(t, first, "a", "1")
		first.Abandon()
		began := time.Now()
		has(t, <-got, "a", "1")
		if waited := time.Since(began); waited < term*3/4 || waited > 2*term {
			t.Errorf("it was taken over after %s", waited)
		}
	})
}

func TestTheSuccessorInTheSamePlaceWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &objectstest.Memory{}
		first := acquire(t, options(store, "a"))
		commit(t, first, "a", "1")
		first.Abandon()
		began := time.Now()
		has(t, acquire(t, options(store, "a")), "a", "1")
		if waited := time.Since(began); waited > 0 {
			t.Errorf("it waited for %s", waited)
		}
	})
}

// A holder that cannot reach the store has given up when another one takes over: whatever the time is on their clocks.
func TestAHolderThatIsCutOffGivesUpBeforeAnotherTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &objectstest.Memory{}
		var mu sync.Mutex
		cut := objectstest.None
		faulty := &objectstest.Faulty{Objects: store, Fault: func(string, string) objectstest.Fault {
			mu.Lock()
			defer mu.Unlock()
			return cut
		}}
		first := acquire(t, options(faulty, "a"))
		second := make(chan *sharedstate.State)
		go func() { second <- acquire(t, options(store, "b")) }()
		time.Sleep(7 * term)
		mu.Lock()
		cut = objectstest.Silent
		mu.Unlock()
		committed := make(chan error)
		go func() { committed <- first.Commit(map[string][]byte{"a": []byte("1")}) }()
		select {
		case <-first.Lost():
		case <-second:
			t.Fatal("there are two holders")
		}
		if err := <-committed; !errors.Is(err, sharedstate.ErrFenced) {
			t.Errorf("a change that could not be written: %v", err)
		}
		if err := first.Err(); !errors.Is(err, sharedstate.ErrFenced) || !strings.Contains(err.Error(), "within 20s") {
			t.Error(err)
		}
		has(t, <-second)
	})
}

// A process that stood still for hours, and believes that it has the state, records nothing.
func TestTheLogFencesWhoDoesNotKnowYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &objectstest.Memory{}
		o := options(store, "a")
		var first *sharedstate.State
		told := make(chan error, 1)
		o.OnLost = func(why error) {
			if first.Err() != nil {
				t.Error("others know of the loss before")
			}
			told <- why
		}
		first = acquire(t, o)
		commit(t, first, "a", "1")
		second := acquire(t, options(store, "a")) // a copy of the first one's place
		err := first.Commit(map[string][]byte{"a": []byte("of the first")})
		if !errors.Is(err, sharedstate.ErrFenced) || !strings.Contains(err.Error(), "another manager has taken it over") {
			t.Error(err)
		}
		<-first.Lost()
		if why := <-told; !errors.Is(why, sharedstate.ErrFenced) {
			t.Error(why)
		}
		has(t, second, "a", "1")
		commit(t, second, "a", "2")
		has(t, second, "a", "2")
	})
}

func TestValuesAreSealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &objectstest.Memory{}
		s := acquire(t, options(store, "a"))
		commit(t, s, "tokens/of-a-runner", "glrt-secret-secret-secret")
		commit(t, s, "long", strings.Repeat("glrt-", 4000))
		for _, secret := range []string{"glrt", "of-a-runner"} {
			if bytes.Contains(store.Content(), []byte(secret)) {
				t.Errorf("%s is in the store", secret)
			}
		}
		o := options(store, "b")
		o.Key = []byte("another key, which is long enough")
		if _, err := sharedstate.Acquire(t.Context(), o); !errors.Is(err, sharedstate.ErrKey) {
			t.Errorf("another key: %v", err)
		}
		o.Key = []byte("short")
		if _, err := sharedstate.Acquire(t.Context(), o); err == nil || !strings.Contains(err.Error(), "openssl rand") {
			t.Errorf("a short key: %v", err)
		}
		if s.Err() != nil {
			t.Error("who has another key has fenced the holder")
		}
	})
}

func TestTheLogIsCutOffAndNothingIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &objectstest.Memory{}
		s := acquire(t, options(store, "a"))
		dice := rand.New(rand.NewPCG(1, 1))
		noise := make([]byte, 20<<10) // which does not compress
		for i := range 300 {
			for j := range noise {
				noise[j] = byte(dice.Uint32())
			}
			if err := s.Commit(map[string][]byte{fmt.Sprint("n", i%7): noise, "last": fmt.Append(nil, i)}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if names, _ := store.List(t.Context(), ""); len(names) > 250 {
			t.Errorf("%d objects are left of 300", len(names))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		next := acquire(t, options(store, "b"))
		if last, _ := next.Get("last"); string(last) != "299" || len(next.Names("n")) != 7 {
			t.Errorf("the last is %s, of %v", last, next.Names("n"))
		}
	})
}

// However small entries are, who takes over does not read thousands, and the store does not keep them.
func TestEntriesAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &objectstest.Memory{}
		s := acquire(t, options(store, "a"))
		most := 0
		for i := range 3000 {
			commit(t, s, "last", fmt.Sprint(i))
			time.Sleep(time.Second)
			names, _ := store.List(t.Context(), "")
			most = max(most, len(names))
		}
		if most > 1100 {
			t.Errorf("there were %d objects", most)
		}
		has(t, acquire(t, options(store, "a")), "last", "2999")
	})
}

func TestAStoreThatKeepsLessIsNotGivenMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(&objectstest.Memory{}, "a")
		o.MaxState = 100
		s := acquire(t, o)
		commit(t, s, "a", strings.Repeat("x", 60))
		if err := s.Commit(map[string][]byte{"b": make([]byte, 41)}); err == nil || !strings.Contains(err.Error(), "more than 100 bytes") {
			t.Error(err)
		}
		commit(t, s, "a", "-", "b", strings.Repeat("x", 40))
		has(t, s, "b", strings.Repeat("x", 40))
	})
}

func TestAnObjectThatIsLostIsNamedByEveryStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &objectstest.Memory{}
		s := acquire(t, options(store, "a"))
		for n := range 5 {
			commit(t, s, "n", fmt.Sprint(n))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		names, err := store.List(t.Context(), "log/")
		if err != nil {
			t.Fatal(err)
		}
		lost := names[2]
		content, _, err := store.Get(t.Context(), lost)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Delete(t.Context(), lost); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, err := sharedstate.Acquire(t.Context(), options(store, "b"))
			if err == nil || !strings.Contains(err.Error(), lost+" is missing, and "+names[3]) {
				t.Errorf("%v", err)
			}
		}
		if _, err := store.Put(t.Context(), lost, content, sharedstate.Condition{}); err != nil {
			t.Fatal(err)
		}
		has(t, acquire(t, options(store, "b")), "n", "4")
	})
}

func TestALeaseThatIsNotOneIsWhatIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &objectstest.Memory{}
		if _, err := store.Put(t.Context(), sharedstate.LeaseName, nil, sharedstate.Condition{}); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		o := options(store, "a")
		o.Log = slog.New(slog.NewTextHandler(&said, nil))
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		if _, err := sharedstate.Acquire(ctx, o); err == nil {
			t.Error("it was taken")
		}
		if text := said.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "the lease of the shared state cannot be read") || strings.Contains(text, "connection") {
			t.Errorf("the log is %s", text)
		}
	})
}

func TestOneThatWaitsCanBeStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &objectstest.Memory{}
		acquire(t, options(store, "a"))
		ctx, stop := context.WithTimeoutCause(t.Context(), time.Hour, errors.New("stopped"))
		defer stop()
		if _, err := sharedstate.Acquire(ctx, options(store, "b")); err == nil {
			t.Error("two have the state")
		}
	})
}

// TestWhateverFails lets several processes take the state from each other while every call may fail, be lost, come late or twice. At most one believes to have it,
// and whoever has it finds each change whose commit was answered, in order, and no change twice.
func TestWhateverFails(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { newTrial(t, seed).run() })
		})
	}
}

type trial struct {
	t     *testing.T
	store *objectstest.Memory
	over  time.Time

	mu      sync.Mutex
	dice    *rand.Rand
	holder  string
	last    int // the number whose commit was answered last
	commits int
}

func newTrial(t *testing.T, seed uint64) *trial {
	return &trial{t: t, store: &objectstest.Memory{}, dice: rand.New(rand.NewPCG(seed, 2)), over: time.Now().Add(20 * time.Minute)}
}

func (r *trial) n(below int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dice.IntN(below)
}

// process has the state whenever it can, writes numbers, and dies now and then.
func (r *trial) process(name string) {
	var cut time.Time
	faulty := &objectstest.Faulty{Objects: r.store, Later: func() time.Duration { return time.Duration(r.n(120)) * time.Second }, Fault: func(string, string) objectstest.Fault {
		r.mu.Lock()
		defer r.mu.Unlock()
		if time.Now().Before(cut) {
			return objectstest.Silent
		}
		if r.dice.IntN(400) == 0 {
			cut = time.Now().Add(time.Duration(r.dice.IntN(60)) * time.Second)
		}
		if r.dice.IntN(6) > 0 {
			return objectstest.None
		}
		return objectstest.Fault(r.dice.IntN(int(objectstest.Silent) + 1))
	}}
	for time.Now().Before(r.over) {
		ctx, stop := context.WithDeadline(r.t.Context(), r.over)
		s, err := sharedstate.Acquire(ctx, options(faulty, name))
		stop()
		if err == nil {
			r.hold(s, name)
		}
		time.Sleep(time.Duration(r.n(30)) * time.Second)
	}
}

func (r *trial) hold(s *sharedstate.State, name string) {
	r.mu.Lock()
	if r.holder != "" && s.Err() == nil {
		r.t.Errorf("%s and %s have the state", r.holder, name)
	}
	r.holder = name
	seen, last := -1, r.last
	value, _ := s.Get("n")
	_, _ = fmt.Sscan(string(value), &seen)
	if max(seen, 0) < last {
		r.t.Errorf("%s finds %d, and %d was committed", name, seen, last)
	}
	r.last = max(seen, last)
	r.mu.Unlock()
	for time.Now().Before(r.over) && s.Err() == nil {
		next := max(seen, 0) + 1
		seen = next
		err := s.Commit(map[string][]byte{"n": fmt.Append(nil, next), fmt.Sprint("k", next%50): make([]byte, 1000), fmt.Sprint("k", (next+25)%50): nil})
		r.mu.Lock()
		if err == nil {
			r.last, r.commits = next, r.commits+1
		}
		r.mu.Unlock()
		if r.n(300) == 0 {
			break
		}
		select {
		case <-time.After(time.Duration(r.n(5000)) * time.Millisecond):
		case <-s.Lost():
		}
	}
	r.mu.Lock()
	r.holder = ""
	r.mu.Unlock()
	if r.n(2) == 0 {
		_ = s.Close()
	}
	s.Abandon()
}

func (r *trial) run() {
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c"} {
		all.Go(func() { r.process(name) })
	}
	all.Wait()
	time.Sleep(time.Hour) // what is late
	s := acquire(r.t, options(r.store, "d"))
	last := 0
	value, _ := s.Get("n")
	_, _ = fmt.Sscan(string(value), &last)
	if last < r.last || r.commits < 20 {
		r.t.Errorf("the last number is %d, %d was committed, and there were %d commits", last, r.last, r.commits)
	}
	r.t.Logf("%d commits", r.commits)
}
