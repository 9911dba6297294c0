package fleet_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/fleet"
	"github.com/rungci/rung/manager/supply"
	"github.com/rungci/rung/steps/event"
)

// served opens a supply of a fleet with one machine for one job, which has four processors.
func served(t *testing.T) (*supply.Supply, *fleet.Provider) {
	t.Helper()
	m := autoscaled(1, 1)
	m.Fleet.Pools = []config.Pool{{Name: "only", CPUs: 4}}
	c, state := &clouds{}, t.TempDir()
	var p *fleet.Provider
	s := supply.New(supply.Options{Log: slog.New(slog.DiscardHandler), Open: func(ctx context.Context, _ bool) (provider.Provider, error) {
		var err error
		p, err = c.open(ctx, m, provider.Setup{Owner: "test", State: state})
		return p, err
	}})
	t.Cleanup(func() { _ = s.Close(false) })
	for until := time.Now().Add(time.Minute); s.Provider() == nil || s.Status().Free == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%+v", s.Status())
		}
	}
	return s, p
}

// run lets a job have a machine, for a moment.
func run(t *testing.T, s *supply.Supply, id string, needs provider.Needs, has func()) {
	r := &supply.Reservation{}
	if err := s.Acquire(t.Context(), r, provider.Job{ID: id, Needs: needs}, func(event.Preparing) {}, func(*provider.Machine) error { has(); return nil }); err != nil {
		t.Errorf("job %s: %v", id, err)
	}
	s.Release(r.Key, "")
}

func TestAJobWithNeedsOfItsOwnHasItsTurn(t *testing.T) {
	t.Parallel()
	s, p := served(t)
	var mu sync.Mutex
	var order []string
	end := make(chan struct{})
	var jobs sync.WaitGroup
	begin := func(id string, needs provider.Needs) {
		jobs.Go(func() {
			run(t, s, id, needs, func() {
				mu.Lock()
				order = append(order, id)
				mu.Unlock()
				<-end
			})
		})
		await(t, p, "asking for job "+id, func(st *fleet.Status) bool {
			return slices.ContainsFunc(st.Jobs, func(j fleet.JobStatus) bool { return j.Job == id })
		})
	}
	begin("9", provider.Needs{})
	await(t, p, "running job 9", func(st *fleet.Status) bool { return len(st.Jobs) == 1 && st.Jobs[0].State == "running" })
	begin("10", provider.Needs{CPUs: 4})
	for n := range 3 {
		begin(fmt.Sprint(11+n), provider.Needs{})
	}
	if _, ok := s.Reserve(t.Context()); ok {
		t.Error("a place is reserved while jobs wait")
	}
	for _, j := range p.Status().Jobs {
		if j.Job == "10" && (j.State != "waiting" || !strings.Contains(j.Why, "pool only has no free slot")) {
			t.Errorf("job 10: %+v", j)
		}
	}
	close(end)
	jobs.Wait()
	if got := strings.Join(order, " "); got != "9 10 11 12 13" {
		t.Errorf("jobs have run in the order %s", got)
	}
}

// A job that waits asks again each time the configuration is read again.
func TestAJobWaitsOnHoweverOftenItsProviderChanges(t *testing.T) {
	t.Parallel()
	s, _ := served(t)
	end, began, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go run(t, s, "9", provider.Needs{}, func() { close(began); <-end })
	<-began
	go func() {
		defer close(done)
		run(t, s, "10", provider.Needs{}, func() {})
	}()
	for range 5 {
		for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if p, ok := s.Provider().(*fleet.Provider); ok && slices.ContainsFunc(p.Status().Jobs, func(j fleet.JobStatus) bool { return j.Job == "10" }) {
				break
			}
			if time.Now().After(until) {
				t.Fatalf("job 10 does not wait: %+v", s.Status())
			}
		}
		s.Change(supply.Terms{})
	}
	close(end)
	<-done
}
