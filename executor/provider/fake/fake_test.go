package fake_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/executor/provider/fake"
	"github.com/rungci/rung/executor/provider/providertest"
)

func TestConformance(t *testing.T) {
	worlds := func(setup provider.Setup) *fake.World { return world(setup.State) }
	providertest.Run(t, providertest.Subject{
		Open: func(_ context.Context, setup provider.Setup) (provider.Provider, error) {
			return fake.New(fake.Options{World: worlds(setup), Room: 3}, setup), nil
		},
		Room: 3,
		Ends: map[string]func(*testing.T, *provider.Machine){
			"it is removed from outside": func(t *testing.T, m *provider.Machine) {
				var number int
				if _, err := fmt.Sscanf(m.Name, "machine-%d", &number); err != nil {
					t.Fatal(err)
				}
				m.Finish(&executor.Gone{Reason: "it was removed from outside"})
			},
		},
	})
}

func TestAFailedAcquireCanBeTriedAgain(t *testing.T) {
	var calls atomic.Int64
	w := &fake.World{}
	p := fake.New(fake.Options{World: w, Room: 1, Before: func(_ context.Context, c fake.Call) error {
		if c.Name == "Make" && calls.Add(1) == 1 {
			return errors.New("out of quota")
		}
		return nil
	}}, provider.Setup{})
	defer p.Close()
	if err := p.Reserve(t.Context(), "one", provider.Needs{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Acquire(t.Context(), "one", provider.Job{}, nil); err == nil || err.Error() != "out of quota" {
		t.Error(err)
	}
	if _, err := p.Acquire(t.Context(), "one", provider.Job{}, nil); err != nil {
		t.Error(err)
	}
	if err := p.Release(t.Context(), "one", ""); err != nil {
		t.Error(err)
	}
	if now, ever := w.Machines(); now != 0 || ever != 1 {
		t.Errorf("there are %d machines, and were %d", now, ever)
	}
}

func TestAReleaseStopsAMachineOnItsWay(t *testing.T) {
	begun := make(chan bool)
	p := fake.New(fake.Options{Room: 1, Before: func(ctx context.Context, c fake.Call) error {
		if c.Name != "Make" {
			return nil
		}
		close(begun)
		<-ctx.Done()
		return context.Cause(ctx)
	}}, provider.Setup{})
	defer p.Close()
	if err := p.Reserve(t.Context(), "one", provider.Needs{}); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := p.Acquire(t.Context(), "one", provider.Job{}, nil)
		failed <- err
	}()
	<-begun
	if err := p.Release(t.Context(), "one", ""); err != nil {
		t.Error(err)
	}
	if err := <-failed; !errors.Is(err, provider.ErrNotReserved) {
		t.Error(err)
	}
}

func TestAMachineThatCannotBeEndedKeepsItsPlace(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	p := fake.New(fake.Options{Room: 1, Before: func(_ context.Context, c fake.Call) error {
		if c.Name == "End" && broken.Load() {
			return errors.New("the cloud does not answer")
		}
		return nil
	}}, provider.Setup{Lease: 2 * time.Second})
	defer p.Close()
	if err := p.Reserve(t.Context(), "one", provider.Needs{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Acquire(t.Context(), "one", provider.Job{}, nil); err != nil {
		t.Fatal(err)
	}
	if err := p.Release(t.Context(), "one", ""); err == nil {
		t.Error("it was released")
	}
	var none *provider.NoCapacity
	if err := p.Reserve(t.Context(), "two", provider.Needs{}); !errors.As(err, &none) {
		t.Error(err)
	}
	broken.Store(false) // it is tried again without being asked
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := p.Capacity(ctx, provider.Needs{}, func(c provider.Capacity) {
		if c.Free == 1 {
			cancel()
		}
	}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// worlds are those of the folders that providers of one owner share.
var worlds sync.Map

func world(state string) *fake.World {
	w, _ := worlds.LoadOrStore(state, &fake.World{})
	return w.(*fake.World)
}
