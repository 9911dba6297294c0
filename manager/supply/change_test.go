package supply_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/executor/provider/fake"
	"github.com/rungci/rung/manager/supply"
)

const patience = 20 * time.Second

// changing is a supply whose providers, one after the other, have one world.
func changing(t *testing.T) (s *supply.Supply, world *fake.World) {
	t.Helper()
	world = &fake.World{}
	s = supply.New(supply.Options{Log: slog.New(slog.DiscardHandler), Open: func(context.Context, bool) (provider.Provider, error) {
		return fake.New(fake.Options{World: world, Room: 2}, provider.Setup{}), nil
	}})
	t.Cleanup(func() {
		if err := s.Close(false); err != nil {
			t.Error(err)
		}
	})
	return s, world
}

// acquire gets a machine.
func acquire(t *testing.T, s *supply.Supply) (r supply.Reservation, m *provider.Machine) {
	t.Helper()
	err := s.Acquire(t.Context(), &r, provider.Job{ID: "1"}, nil, func(got *provider.Machine) error { m = got; return nil })
	if err != nil {
		t.Fatal(err)
	}
	return r, m
}

// await waits until there is so much room.
func await(t *testing.T, s *supply.Supply, free, used int) {
	t.Helper()
	for until := time.Now().Add(patience); s.Status().Free != free || s.Status().Used != used; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("the supply is %+v, want %d free and %d used", s.Status(), free, used)
		}
	}
}

func TestAMachineOutlivesAChangeOfItsProvider(t *testing.T) {
	t.Parallel()
	s, world := changing(t)
	r, m := acquire(t, s)
	s.Change(supply.Terms{})
	await(t, s, 1, 1) // the next provider knows that it is taken
	if m.Err() != nil {
		t.Error("the machine has ended:", m.Err())
	}
	s.Release(r.Key, "")
	await(t, s, 2, 0)
	if now, ever := world.Machines(); now != 0 || ever != 1 {
		t.Errorf("there are %d machines, and were %d", now, ever)
	}
}

func TestAMachineThatGoesAfterAChangeIsGone(t *testing.T) {
	t.Parallel()
	s, world := changing(t)
	r, m := acquire(t, s)
	s.Change(supply.Terms{})
	await(t, s, 1, 1)
	world.Kill(1)
	select {
	case <-m.Done():
	case <-time.After(patience):
		t.Fatal("the job does not hear of it")
	}
	if !errors.Is(m.Err(), executor.ErrGone) {
		t.Error(m.Err())
	}
	s.Release(r.Key, "")
}

func TestAPlaceWithoutAMachineIsGivenBackByAChange(t *testing.T) {
	t.Parallel()
	s, _ := changing(t)
	key, ok := s.Reserve(t.Context())
	if !ok {
		t.Fatal("there is no place")
	}
	s.Change(supply.Terms{})
	await(t, s, 2, 0)
	r := supply.Reservation{Key: key}
	if err := s.Acquire(t.Context(), &r, provider.Job{}, nil, func(*provider.Machine) error { return nil }); err != nil || r.Key == key {
		t.Errorf("the job gets no other place: %+v, %v", r, err)
	}
	s.Release(r.Key, "")
}
