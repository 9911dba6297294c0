package supply_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/executor/provider/fake"
	"github.com/rungci/rung/manager/fleet"
	"github.com/rungci/rung/manager/supply"
	"github.com/rungci/rung/steps/event"
)

// watched is a provider whose calls are seen.
type watched struct {
	provider.Provider
	kept    chan []string
	ready   chan struct{}                                      // the machines are; nil is at once
	release func(ctx context.Context, key, fault string) error // instead of the provider's; nil is that
}

func (w *watched) Keep(ctx context.Context, keys []string) ([]string, error) {
	select {
	case w.kept <- keys:
	default:
	}
	return w.Provider.Keep(ctx, keys)
}

func (w *watched) Acquire(ctx context.Context, key string, job provider.Job, report executor.Reporter) (*provider.Machine, error) {
	if w.ready != nil {
		<-w.ready
	}
	return w.Provider.Acquire(ctx, key, job, report)
}

func (w *watched) Release(ctx context.Context, key, fault string) error {
	if w.release != nil {
		return w.release(ctx, key, fault)
	}
	return w.Provider.Release(ctx, key, fault)
}

// open makes a supply of a provider with room for some jobs.
func open(t *testing.T, w *watched) *supply.Supply {
	t.Helper()
	w.Provider, w.kept = fake.New(fake.Options{Room: 5}, provider.Setup{}), make(chan []string, 1)
	s := supply.New(supply.Options{
		Open:  func(context.Context, bool) (provider.Provider, error) { return w, nil },
		Lease: 200 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() { _ = s.Close(false) })
	return s
}

func silent(event.Preparing) {}

func TestAReservationOfTheProcessBeforeIsKeptWhileItsMachineIsMade(t *testing.T) {
	t.Parallel()
	w := &watched{ready: make(chan struct{})}
	s := open(t, w)
	const key = "of-the-process-before"
	if err := w.Provider.Reserve(t.Context(), key, provider.Needs{}); err != nil {
		t.Fatal(err)
	}
	r := &supply.Reservation{Key: key}
	acquired := make(chan error, 1)
	go func() {
		acquired <- s.Acquire(t.Context(), r, provider.Job{ID: "1"}, silent, func(*provider.Machine) error { return nil })
	}()
	defer func() {
		close(w.ready)
		if err := <-acquired; err != nil {
			t.Error(err)
		}
	}()
	select {
	case keys := <-w.kept:
		if !slices.Contains(keys, key) {
			t.Errorf("the provider is told of %q", keys)
		}
	case <-time.After(time.Minute):
		t.Error("the provider is not told that the reservation is in use")
	}
}

func TestEveryUnusableMachineIsGivenBackWithItsFault(t *testing.T) {
	t.Parallel()
	faults := make(chan string, 10)
	w := &watched{release: func(_ context.Context, _, fault string) error { faults <- fault; return nil }}
	s := open(t, w)
	r := &supply.Reservation{}
	if err := s.Acquire(t.Context(), r, provider.Job{ID: "1"}, silent, func(*provider.Machine) error { return errors.New("it is broken") }); err == nil {
		t.Fatal("no error")
	}
	if err := s.Close(false); err != nil {
		t.Error(err)
	}
	close(faults)
	n := 0
	for fault := range faults {
		if n++; fault != "it is broken" {
			t.Errorf("the fault is %q", fault)
		}
	}
	if n != 3 || r.Key != "" {
		t.Errorf("%d machines were given back; %q is left", n, r.Key)
	}
}

func TestClosingDoesNotWaitForAProviderThatHangs(t *testing.T) {
	t.Parallel()
	w := &watched{release: func(ctx context.Context, _, _ string) error { <-ctx.Done(); return ctx.Err() }}
	s := open(t, w)
	key, ok := s.Reserve(t.Context())
	if !ok {
		t.Fatal("there is no room")
	}
	s.Release(key, "")
	began := time.Now()
	if err := s.Close(false); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestAFleetThatCannotBeOpenedHasItsMachinesAndSaysWhy(t *testing.T) {
	t.Parallel()
	s := supply.New(supply.Options{
		Open: func(context.Context, bool) (provider.Provider, error) {
			return nil, errors.New("its plugin is not installed")
		},
		Closed: func() *fleet.Status {
			return &fleet.Status{Closed: true, Machines: []fleet.MachineStatus{{Request: "one"}}}
		},
		Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() { _ = s.Close(false) })
	const want = "opening the provider of machines: its plugin is not installed"
	for until := time.Now().Add(time.Minute); s.Status().Reason != want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%+v", s.Status())
		}
	}
	if f := s.Status().Fleet; f == nil || f.Trouble != want || len(f.Machines) != 1 {
		t.Errorf("the fleet is %+v", f)
	}
}
