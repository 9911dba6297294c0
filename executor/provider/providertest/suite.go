// Package providertest is the suite that every provider passes, in process and over the wire.
package providertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/provider"
)

// Subject is a provider as the suite tries it.
type Subject struct {
	// Open makes one. Those with the same Setup.State are processes of one owner, one after the other.
	Open func(ctx context.Context, setup provider.Setup) (provider.Provider, error)
	// Room is how many jobs it has room for, 2 at least.
	Room int
	// Ends are ways in which a machine can go that nobody has released; nil are none.
	Ends map[string]func(*testing.T, *provider.Machine)
	// Kill kills the process of a provider that has one of its own, and starts again by itself; may be nil.
	Kill func(*testing.T, provider.Provider)
	// Left names what is left in the folder of a setup and elsewhere when all was released; may be nil.
	Left func(setup provider.Setup) []string
}

const (
	// soon is how long what happens at once may take, patience what takes a machine.
	soon     = time.Minute
	patience = 2 * time.Minute
	// lease is that of tests in which leases end.
	lease = 2 * time.Second
)

// leases are those of cases in which leases end.
var leases = map[string]time.Duration{
	"a reservation that nobody keeps vanishes":          lease,
	"a machine that is kept stays":                      lease,
	"what another process does not recover is released": lease,
}

// Run tries a provider.
func Run(t *testing.T, s Subject) {
	for name, try := range map[string]func(*testing.T, *trial){
		"capacity is told at once, and whenever it changes": capacityIsTold,
		"a reservation without a job is given back":         reservationWithoutAJob,
		"a repeated reservation takes one place":            repeatedReservation,
		"no more is reserved than there is room":            noMoreThanThereIsRoom,
		"needs that no machine has are refused":             impossibleNeeds,
		"what cannot be a key is refused":                   badKeys,
		"a machine can be reached, and has a handle":        acquired,
		"a repeated Acquire gives the same machine":         repeatedAcquire,
		"two jobs have two places":                          twoPlaces,
		"Acquire without a reservation is refused":          acquireWithoutReservation,
		"a cancelled Acquire changes nothing":               cancelledAcquire,
		"a release ends the machine":                        releaseEnds,
		"a release can be repeated":                         releaseTwice,
		"a key that was released is over":                   releasedIsOver,
		"a reservation that nobody keeps vanishes":          vanishes,
		"a machine that is kept stays":                      keptStays,
		"a machine with a fault leaves room in the end":     withAFault,
		"another process recovers the machine":              recovered,
		"what another process does not recover is released": notRecovered,
		"a machine that is gone is not recovered":           goneIsNotRecovered,
		"the stream of capacity ends with its context":      streamEnds,
		"the stream of capacity ends with the provider":     streamEndsWithProvider,
		"a provider can be closed twice":                    closedTwice,
		"many at once get a place each":                     manyAtOnce,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			try(t, begin(t, s, leases[name]))
		})
	}
	if s.Kill != nil {
		t.Run("a machine outlives the process of its provider", func(t *testing.T) {
			t.Parallel()
			outlives(t, begin(t, s, 0))
		})
	}
	for name, end := range s.Ends {
		t.Run("a machine goes: "+name, func(t *testing.T) {
			t.Parallel()
			goes(t, begin(t, s, 0), end)
		})
	}
}

// trial is one provider in one test.
type trial struct {
	t *testing.T
	Subject
	provider.Provider
	setup provider.Setup
}

func begin(t *testing.T, s Subject, lease time.Duration) *trial {
	t.Helper()
	tr := &trial{t: t, Subject: s, setup: provider.Setup{Owner: "suite", State: t.TempDir()}}
	tr.setup.Lease = lease
	tr.reopen()
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error("closing the provider:", err)
		}
		if s.Left != nil {
			if left := s.Left(tr.setup); len(left) > 0 {
				t.Error("left:", left)
			}
		}
	})
	return tr
}

// reopen is another process of the owner.
func (tr *trial) reopen() {
	tr.t.Helper()
	ctx, cancel := context.WithTimeout(tr.t.Context(), patience)
	defer cancel()
	p, err := tr.Open(ctx, tr.setup)
	if err != nil {
		tr.t.Fatal("opening the provider:", err)
	}
	tr.Provider = p
}

// within is a context for one call.
func (tr *trial) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeoutCause(tr.t.Context(), d, fmt.Errorf("there was no answer for %s", d))
	tr.t.Cleanup(cancel)
	return ctx
}

func (tr *trial) reserve(key string) {
	tr.t.Helper()
	if err := tr.Reserve(tr.within(soon), key, provider.Needs{}); err != nil {
		tr.t.Fatalf("reserving %s: %v", key, err)
	}
}

func (tr *trial) acquire(key string) *provider.Machine {
	tr.t.Helper()
	m, err := tr.Acquire(tr.within(patience), key, provider.Job{ID: "1", Project: "a/b"}, nil)
	if err != nil {
		tr.t.Fatalf("acquiring the machine of %s: %v", key, err)
	}
	return m
}

// tries is how often something is tried that must be done within a lease, on a machine that is busy with other things.
const tries = 5

// inTime reserves and acquires a machine before the lease of its reservation ends, under the key that it returns.
func (tr *trial) inTime(key string) (string, *provider.Machine) {
	tr.t.Helper()
	for n := range tries {
		key := fmt.Sprint(key, "-", n)
		began := time.Now()
		tr.reserve(key)
		m, err := tr.Acquire(tr.within(patience), key, provider.Job{ID: "1", Project: "a/b"}, nil)
		if err == nil {
			return key, m
		}
		if time.Since(began) < lease {
			tr.t.Fatalf("acquiring the machine of %s: %v", key, err)
		}
		tr.release(key)
	}
	tr.busy()
	return "", nil
}

func (tr *trial) busy() {
	tr.t.Helper()
	tr.t.Fatalf("more than %s passes between two calls: this machine is too busy to tell", lease)
}

func (tr *trial) release(key string) {
	tr.t.Helper()
	if err := tr.Release(tr.within(patience), key, ""); err != nil {
		tr.t.Errorf("releasing %s: %v", key, err)
	}
}

// awaitFree waits until there is room for so many.
func (tr *trial) awaitFree(want int) {
	tr.t.Helper()
	ctx, cancel := context.WithTimeout(tr.t.Context(), soon)
	defer cancel()
	var last atomic.Int64
	last.Store(-1)
	err := tr.Capacity(ctx, provider.Needs{}, func(c provider.Capacity) {
		last.Store(int64(c.Free))
		if c.Free == want {
			cancel()
		}
	})
	if int(last.Load()) != want {
		tr.t.Fatalf("there is room for %d, want %d (%v)", last.Load(), want, err)
	}
}

func capacityIsTold(t *testing.T, tr *trial) {
	tr.awaitFree(tr.Room)
	told := make(chan int, 16)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = tr.Capacity(ctx, provider.Needs{}, func(c provider.Capacity) { told <- c.Free }) }()
	await := func(want int) {
		t.Helper()
		for {
			select {
			case got := <-told:
				if got == want {
					return
				}
			case <-time.After(soon):
				t.Fatalf("nobody is told that there is room for %d", want)
			}
		}
	}
	await(tr.Room)
	tr.reserve("one")
	await(tr.Room - 1)
	tr.release("one")
	await(tr.Room)
}

func reservationWithoutAJob(_ *testing.T, tr *trial) {
	tr.reserve("one")
	tr.awaitFree(tr.Room - 1)
	tr.release("one")
	tr.awaitFree(tr.Room)
}

func repeatedReservation(_ *testing.T, tr *trial) {
	for range 3 {
		tr.reserve("one")
	}
	tr.awaitFree(tr.Room - 1)
	tr.release("one")
	tr.awaitFree(tr.Room)
}

func noMoreThanThereIsRoom(t *testing.T, tr *trial) {
	for i := range tr.Room {
		tr.reserve(fmt.Sprint("key-", i))
	}
	tr.awaitFree(0)
	var none *provider.NoCapacity
	if err := tr.Reserve(tr.within(soon), "late", provider.Needs{}); !errors.As(err, &none) {
		t.Errorf("reserving more than there is room for: %v, want a NoCapacity", err)
	} else if none.Reason == "" {
		t.Error("it does not say why there is no room")
	}
	tr.release("key-0")
	tr.reserve("later")
	for i := range tr.Room {
		tr.release(fmt.Sprint("key-", i))
	}
	tr.release("later")
}

func impossibleNeeds(t *testing.T, tr *trial) {
	needs := provider.Needs{Labels: map[string]string{"made-up-label": "that nothing has"}}
	var none *provider.NoCapacity
	if err := tr.Reserve(tr.within(soon), "one", needs); !errors.As(err, &none) {
		t.Errorf("reserving what there is not: %v, want a NoCapacity", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	var got provider.Capacity
	_ = tr.Capacity(ctx, needs, func(c provider.Capacity) { got = c; cancel() })
	if got.Free != 0 || got.Reason == "" {
		t.Errorf("the capacity is %+v, want none and a reason", got)
	}
}

func badKeys(t *testing.T, tr *trial) {
	for _, key := range []string{"", "a/b", "a b", "../x", strings.Repeat("a", 65)} {
		if err := tr.Reserve(tr.within(soon), key, provider.Needs{}); err == nil {
			t.Errorf("%q is accepted as a key", key)
		}
	}
	tr.awaitFree(tr.Room)
}

func acquired(t *testing.T, tr *trial) {
	tr.reserve("one")
	m := tr.acquire("one")
	if err := m.Access.Validate(); err != nil {
		t.Error("the machine cannot be reached:", err)
	}
	if m.Name == "" {
		t.Error("the machine has no name")
	}
	if !json.Valid(m.Handle) {
		t.Errorf("the handle %q is not JSON", m.Handle)
	}
	if len(m.Access.Key) > 0 && strings.Contains(string(m.Handle), string(m.Access.Key)) {
		t.Error("the handle holds the private key")
	}
	select {
	case <-m.Done():
		t.Error("the machine is gone already:", m.Err())
	default:
	}
	tr.release("one")
	tr.awaitFree(tr.Room)
}

func repeatedAcquire(t *testing.T, tr *trial) {
	tr.reserve("one")
	handles := make([]string, 4)
	var all sync.WaitGroup
	for i := range handles {
		all.Go(func() {
			m, err := tr.Acquire(tr.within(patience), "one", provider.Job{ID: "1"}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			handles[i] = string(m.Handle)
		})
	}
	all.Wait()
	for _, h := range append(handles, string(tr.acquire("one").Handle)) {
		if h != handles[0] {
			t.Errorf("one key has the machines %s and %s", handles[0], h)
		}
	}
	tr.awaitFree(tr.Room - 1)
	tr.release("one")
	tr.awaitFree(tr.Room)
}

func twoPlaces(t *testing.T, tr *trial) {
	tr.reserve("one")
	tr.reserve("two")
	a, b := tr.acquire("one"), tr.acquire("two")
	if string(a.Handle) == string(b.Handle) {
		t.Errorf("two jobs have one place: %s", a.Handle)
	}
	if a.Name == b.Name && (a.Slot == b.Slot || a.Slot < 0 || b.Slot < 0) {
		t.Errorf("two jobs have slot %d of %s", a.Slot, a.Name)
	}
	tr.release("one")
	select {
	case <-b.Done():
		t.Error("the release of one job's machine has ended another's:", b.Err())
	case <-time.After(50 * time.Millisecond):
	}
	tr.release("two")
}

func acquireWithoutReservation(t *testing.T, tr *trial) {
	if m, err := tr.Acquire(tr.within(soon), "unknown", provider.Job{}, nil); !errors.Is(err, provider.ErrNotReserved) {
		t.Errorf("the result is %v, %v", m, err)
	}
	tr.awaitFree(tr.Room)
}

func cancelledAcquire(t *testing.T, tr *trial) {
	tr.reserve("one")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tr.Acquire(ctx, "one", provider.Job{}, nil); err != nil && !errors.Is(err, context.Canceled) {
		t.Error("the error of a cancelled call is", err)
	}
	tr.awaitFree(tr.Room - 1)
	tr.acquire("one")
	tr.release("one")
	tr.reserve("two")
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	_, _ = tr.Acquire(ctx, "two", provider.Job{}, nil)
	tr.release("two")
	tr.awaitFree(tr.Room)
}

func releaseEnds(t *testing.T, tr *trial) {
	tr.reserve("one")
	m := tr.acquire("one")
	tr.release("one")
	tr.awaitGone(m)
	if !errors.Is(m.Err(), executor.ErrClosed) {
		t.Errorf("the reason is %v, want that it was given back", m.Err())
	}
}

// awaitGone waits until a machine has ended.
func (tr *trial) awaitGone(m *provider.Machine) {
	tr.t.Helper()
	select {
	case <-m.Done():
	case <-time.After(patience):
		tr.t.Fatalf("the machine has not ended after %s", patience)
	}
	if !errors.Is(m.Err(), executor.ErrGone) {
		tr.t.Errorf("the end of the machine is %v, want one that wraps executor.ErrGone", m.Err())
	}
}

func releaseTwice(_ *testing.T, tr *trial) {
	tr.release("unknown")
	tr.reserve("one")
	tr.acquire("one")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { tr.release("one") })
	}
	all.Wait()
	tr.release("one")
	tr.awaitFree(tr.Room)
}

func releasedIsOver(t *testing.T, tr *trial) {
	tr.release("early") // before a call that comes late
	tr.reserve("one")
	tr.release("one")
	for _, key := range []string{"early", "one"} {
		if err := tr.Reserve(tr.within(soon), key, provider.Needs{}); !errors.Is(err, provider.ErrReleased) {
			t.Errorf("reserving %s again: %v", key, err)
		}
		if _, err := tr.Acquire(tr.within(soon), key, provider.Job{}, nil); !errors.Is(err, provider.ErrNotReserved) {
			t.Errorf("acquiring %s: %v", key, err)
		}
	}
	tr.awaitFree(tr.Room)
}

func vanishes(t *testing.T, tr *trial) {
	tr.reserve("one")
	acquired, m := tr.inTime("two")
	tr.awaitFree(tr.Room) // the lease is shorter than what this waits
	tr.awaitGone(m)
	if _, err := tr.Acquire(tr.within(soon), "one", provider.Job{}, nil); !errors.Is(err, provider.ErrNotReserved) {
		t.Errorf("acquiring what has vanished: %v", err)
	}
	lost, err := tr.Keep(tr.within(soon), []string{"one", acquired})
	if err != nil || len(lost) != 2 {
		t.Errorf("lost are %v, %v, want both", lost, err)
	}
	tr.reserve("three")
	tr.release("three")
}

func keptStays(t *testing.T, tr *trial) {
	for n := range tries {
		if tr.keeps(fmt.Sprint("one-", n), fmt.Sprint("two-", n)) {
			return
		}
	}
	tr.busy()
}

// keeps keeps a reservation and a machine for longer than a lease. It reports false if it was late itself, so that they may have ended.
func (tr *trial) keeps(reserved, acquired string) (inTime bool) {
	last := time.Now()
	tr.reserve(reserved)
	acquired, m := tr.inTime(acquired)
	for until := last.Add(2 * lease); time.Now().Before(until); time.Sleep(lease / 8) {
		now := time.Now()
		lost, err := tr.Keep(tr.within(soon), []string{reserved, acquired})
		ended := m.Err()
		inTime = time.Since(last) < lease
		last = now
		if !inTime {
			break
		}
		if err != nil || len(lost) > 0 || ended != nil {
			tr.t.Fatalf("lost are %v, %v; the machine has ended: %v", lost, err, ended)
		}
	}
	tr.release(reserved)
	tr.release(acquired)
	return inTime
}

func withAFault(t *testing.T, tr *trial) {
	tr.reserve("one")
	tr.acquire("one")
	if err := tr.Release(tr.within(patience), "one", "it cannot be reached"); err != nil {
		t.Error(err)
	}
	tr.reserve("two") // the room of another machine, or the same
	tr.release("two")
}

func recovered(t *testing.T, tr *trial) {
	tr.reserve("one")
	before := tr.acquire("one")
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	tr.reopen()
	for range 2 {
		m, err := tr.Recover(tr.within(patience), "one", before.Handle)
		if err != nil {
			t.Fatal(err)
		}
		if m.Name != before.Name || m.Slot != before.Slot || m.Access.String() != before.Access.String() || string(m.Handle) != string(before.Handle) {
			t.Errorf("it was %s (%d, %s), and is %s (%d, %s)", before.Name, before.Slot, before.Handle, m.Name, m.Slot, m.Handle)
		}
	}
	tr.awaitFree(tr.Room - 1)
	if string(tr.acquire("one").Handle) != string(before.Handle) {
		t.Error("Acquire gives another machine than Recover")
	}
	if lost, err := tr.Keep(tr.within(soon), []string{"one"}); err != nil || len(lost) > 0 {
		t.Errorf("lost are %v, %v", lost, err)
	}
	tr.release("one")
	tr.awaitFree(tr.Room)
}

func notRecovered(t *testing.T, tr *trial) {
	tr.inTime("one")
	tr.reserve("two")
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	tr.reopen()
	tr.awaitFree(tr.Room)
}

func goneIsNotRecovered(t *testing.T, tr *trial) {
	for _, handle := range []string{`{}`, `"no such machine"`, `null`, `{"a":[1,2,{"b":null}]}`} {
		m, err := tr.Recover(tr.within(patience), "key-"+fmt.Sprint(len(handle)), json.RawMessage(handle))
		if !errors.Is(err, executor.ErrGone) {
			t.Errorf("recovering %s: %v, %v", handle, m, err)
		}
	}
	tr.reserve("one")
	m := tr.acquire("one")
	tr.release("one")
	if _, err := tr.Recover(tr.within(patience), "one", m.Handle); !errors.Is(err, executor.ErrGone) {
		t.Error("recovering what was released:", err)
	}
	tr.awaitFree(tr.Room)
}

func streamEnds(t *testing.T, tr *trial) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	told := make(chan bool, 16)
	go func() { ended <- tr.Capacity(ctx, provider.Needs{}, func(provider.Capacity) { told <- true }) }()
	<-told
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Error("it ends with", err)
		}
	case <-time.After(soon):
		t.Error("it does not end")
	}
	tr.awaitFree(tr.Room)
}

func streamEndsWithProvider(t *testing.T, tr *trial) {
	ended := make(chan error, 1)
	told := make(chan bool, 16)
	go func() { ended <- tr.Capacity(t.Context(), provider.Needs{}, func(provider.Capacity) { told <- true }) }()
	<-told
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it ends without an error")
		}
	case <-time.After(soon):
		t.Error("it does not end")
	}
}

func closedTwice(t *testing.T, tr *trial) {
	for range 2 {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := tr.Reserve(tr.within(soon), "one", provider.Needs{}); err == nil {
		t.Error("a closed provider reserves")
	}
}

func manyAtOnce(t *testing.T, tr *trial) {
	const callers, rounds = 16, 4
	var now, most atomic.Int64
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for r := range rounds {
				key := fmt.Sprintf("key-%d-%d", c, r)
				for {
					err := tr.Reserve(tr.within(soon), key, provider.Needs{})
					var none *provider.NoCapacity
					if errors.As(err, &none) {
						time.Sleep(time.Duration(1+rand.IntN(10)) * time.Millisecond) //nolint:gosec // of a test
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					break
				}
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				if r%2 == 0 {
					if _, err := tr.Acquire(tr.within(patience), key, provider.Job{}, nil); err != nil {
						t.Error(err)
					}
				}
				now.Add(-1)
				tr.release(key)
			}
		})
	}
	all.Wait()
	if int(most.Load()) > tr.Room {
		t.Errorf("%d had a place at once, and there is room for %d", most.Load(), tr.Room)
	}
	tr.awaitFree(tr.Room)
}

func outlives(t *testing.T, tr *trial) {
	tr.reserve("one")
	m := tr.acquire("one")
	tr.Kill(t, tr.Provider)
	again, err := tr.Recover(tr.within(patience), "one", m.Handle)
	for until := time.Now().Add(patience); err != nil && !errors.Is(err, executor.ErrGone) && time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		again, err = tr.Recover(tr.within(patience), "one", m.Handle) // until it is seen that the process has ended
	}
	if err != nil {
		t.Fatal("the next process does not recover the machine:", err)
	}
	if again.Name != m.Name || string(again.Handle) != string(m.Handle) {
		t.Errorf("it was %s (%s), and is %s (%s)", m.Name, m.Handle, again.Name, again.Handle)
	}
	if m.Err() != nil {
		t.Error("the machine has ended with the process:", m.Err())
	}
	tr.release("one")
	tr.awaitFree(tr.Room)
}

func goes(t *testing.T, tr *trial, end func(*testing.T, *provider.Machine)) {
	tr.reserve("one")
	m := tr.acquire("one")
	end(t, m)
	tr.awaitGone(m)
	if errors.Is(m.Err(), executor.ErrClosed) {
		t.Errorf("the reason is %v, and nobody gave it back", m.Err())
	}
	tr.release("one")
	tr.awaitFree(tr.Room)
}
