package store_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rungci/rung/fleet/store"
	"github.com/rungci/rung/fleet/store/storetest"
	"github.com/rungci/rung/internal/sharedstate"
	"github.com/rungci/rung/internal/sharedstate/objectstest"
)

// folder is a store of files.
type folder string

func (f folder) Open(t *testing.T) (store.Store, func()) {
	t.Helper()
	s, err := store.Open(string(f))
	if err != nil {
		t.Fatal(err)
	}
	end := func() { _ = s.Close() } // the end of a process frees its locks
	t.Cleanup(end)
	return s, end
}

func TestFiles(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Place { return folder(t.TempDir()) })
}

// bucket is a store in an object store, on a host.
type bucket struct {
	objects sharedstate.Objects
	folder  string
}

func (b bucket) acquire(t *testing.T) *sharedstate.State {
	t.Helper()
	state, err := sharedstate.Acquire(t.Context(), sharedstate.Options{Objects: b.objects, Key: []byte("a key of sixteen bytes, and more"), Holder: "host", Name: "host"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(state.Abandon)
	return state
}

func (b bucket) Open(t *testing.T) (store.Store, func()) {
	t.Helper()
	state := b.acquire(t)
	s, err := store.Shared(state, "fleets/f/", b.folder, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, state.Abandon
}

func TestShared(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Place { return bucket{&objectstest.Memory{}, t.TempDir()} })
}

// TestSharedWhileCallsFail is the suite while each call may fail, be lost or be repeated.
func TestSharedWhileCallsFail(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Place {
		var mu sync.Mutex
		dice := rand.New(rand.NewPCG(1, 3))
		return bucket{&objectstest.Faulty{Objects: &objectstest.Memory{}, Later: func() time.Duration { return time.Millisecond }, Fault: func(call, _ string) objectstest.Fault {
			mu.Lock()
			defer mu.Unlock()
			if call != "put" || dice.IntN(40) > 0 { // what fails is tried again after half a second
				return objectstest.None
			}
			return objectstest.Fault(dice.IntN(int(objectstest.Silent)))
		}}, t.TempDir()}
	})
}

func TestTwoFleetsShareAStateAndNothingElse(t *testing.T) {
	state := bucket{&objectstest.Memory{}, ""}.acquire(t)
	host := t.TempDir()
	more := map[string][]byte{"files/key": []byte("x")}
	one, err := store.Shared(state, "fleets/one/", host, func() map[string][]byte { return more })
	if err != nil {
		t.Fatal(err)
	}
	two, err := store.Shared(state, "fleets/two/", t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Fill(t, one)
	if got, err := two.Load(); err != nil || len(got.Jobs)+len(got.Fleet.Instances) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if value, _ := state.Get("files/key"); string(value) != "x" {
		t.Errorf("what was to be committed, too, is %q", value)
	}
	commit(t, two, store.Change{Created: 1})
	select {
	case <-one.(store.Fenced).Lost():
		t.Error("it is lost")
	default:
	}
	state.Abandon()
	<-one.(store.Fenced).Lost()
	if err := one.Commit(store.Change{Created: 9}); !errors.Is(err, sharedstate.ErrFenced) || !strings.Contains(err.Error(), "lost") {
		t.Error(err)
	}
}
