package control_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/group/fake"
	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/store"
	"github.com/rungci/rung/internal/sharedstate"
	"github.com/rungci/rung/internal/sharedstate/objectstest"
)

// sharedSeeds are those of TestWhateverFailsOnTwoHosts.
const sharedSeeds = 60

// TestWhateverFailsOnTwoHosts is TestWhateverFails with an object store of which every call may fail, be lost, come late or twice. Processes are on two hosts in turn:
// some begin while the one before them is alive, and only cut off from the store. That one stops by itself, before its successor begins.
func TestWhateverFailsOnTwoHosts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(sharedSeeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newTrial(t, seed)
				r.share = &share{t: t, store: &objectstest.Memory{}, apart: map[*process]bool{}, folder: t.TempDir()}
				r.share.fault = func() objectstest.Fault {
					if r.isCalm() || !r.one(12) {
						return objectstest.None
					}
					return objectstest.Fault(r.n(int(objectstest.Silent) + 1))
				}
				r.share.later = func() time.Duration { return r.upTo(2 * time.Minute) }
				r.world.shared = r.share.open
				r.run()
			})
		})
	}
}

// share is an object store, and who reaches it.
type share struct {
	t      *testing.T
	store  *objectstest.Memory
	folder string
	fault  func() objectstest.Fault
	later  func() time.Duration

	mu    sync.Mutex
	apart map[*process]bool
	hosts int
}

// cut cuts a process off from the store.
func (s *share) cut(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apart[p] = true
}

// open waits until a process has the state, on the other host.
func (s *share) open(p *process) store.Store {
	s.mu.Lock()
	s.hosts++
	host := fmt.Sprint("host ", s.hosts%2)
	s.mu.Unlock()
	objects := &objectstest.Faulty{Objects: s.store, Later: s.later, Fault: func(string, string) objectstest.Fault {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.apart[p] {
			return objectstest.Silent
		}
		return s.fault()
	}}
	state, err := sharedstate.Acquire(s.t.Context(), sharedstate.Options{Objects: objects, Key: []byte("a key of sixteen bytes, and more"), Holder: host, Name: host, Lease: 20 * time.Second})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(state.Abandon)
	p.state = state
	if p.store, err = store.Shared(state, "fleets/f/", s.folder, nil); err != nil {
		s.t.Fatal(err)
	}
	var when time.Time
	var once sync.Once
	go func() {
		<-state.Lost()
		once.Do(func() { when = time.Now() })
	}()
	p.lost = func() bool { // what begins at the same moment has begun before
		select {
		case <-state.Lost():
			once.Do(func() { when = time.Now() })
			return time.Now().After(when)
		default:
			return false
		}
	}
	return fencedProcess{p, state}
}

// fencedProcess is a process as a store that can be lost.
type fencedProcess struct {
	*process
	state *sharedstate.State
}

func (p fencedProcess) Lost() <-chan struct{} { return p.state.Lost() }

// A manager that cannot reach the store makes no machine, because it cannot record one, and keeps its jobs while it has the lease.
func TestNoMachineWithoutARecordInTheObjectStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fake.Options{})
		s := &share{t: t, store: &objectstest.Memory{}, apart: map[*process]bool{}, folder: t.TempDir()}
		s.fault = func() objectstest.Fault { return objectstest.None }
		s.later = func() time.Duration { return 0 }
		w.shared = s.open
		w.open()
		first := w.process
		slot := w.acquire("one")
		s.cut(first)
		w.wants("two")
		time.Sleep(10 * time.Second)
		if n := w.made(); n != 1 {
			t.Errorf("%d machines were made; the second could not be recorded", n)
		}
		if slot.Reason() != "" {
			t.Errorf("the job has lost its machine: %s", slot.Reason())
		}
		fleet := w.fleet
		w.open() // waits for the lease
		if _, err := fleet.Acquire(t.Context(), "three", control.Job{ID: "three"}, nil); err == nil {
			t.Error("a fenced manager gives slots")
		}
		if err := fleet.Reserve("four", scale.Needs{}); err == nil {
			t.Error("a fenced manager takes reservations")
		}
		again, err := w.fleet.Recover(t.Context(), "one")
		if err != nil || again.Instance != slot.Instance {
			t.Errorf("the job is not on its machine any more: %v, %v", again, err)
		}
		w.fleet.Release("one", "")
		first.kill()
		w.ends(time.Hour)
		w.process.kill()
	})
}
