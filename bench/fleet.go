//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/group/fake"
	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/simulate"
	"github.com/rungci/rung/fleet/store"
)

// fleetFigures are those of decisions about machines. They are times of this process alone.
var fleetFigures = []figure{
	{name: "a decision for 10,000 machines and 50,000 slots", unit: "ms", target: 10, measure: deciding},
	{name: "a simulated day of 1,000,000 jobs", unit: "s", target: 60, measure: simulating},
	{name: "1,000 machines to ready, over what their cloud takes", unit: "x", target: 1.5, measure: growing},
}

// deciding times what a fleet does about a job that ends and another that comes.
func deciding(*world) (float64, string, error) {
	const machines, slots, rounds = 10_000, 5, 1000
	pool := scale.Pool{Name: "p", Slots: slots, Throttle: scale.Throttle{Limit: -1}}
	fleet, err := scale.New(scale.Config{Name: "f", Pools: []scale.Pool{pool}}, &scale.Adaptive{})
	if err != nil {
		return 0, "", err
	}
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	ask := func(i int) error { return fleet.Ask(now, fmt.Sprint(i), scale.Needs{}) }
	for i := range machines * slots {
		if err := ask(i); err != nil {
			return 0, "", err
		}
	}
	for _, a := range fleet.Decide(now).Actions {
		fleet.Created(now, a.Request, a.Request)
		fleet.Ready(now, a.Request)
	}
	began := time.Now()
	for i := range rounds {
		now = now.Add(100 * time.Millisecond)
		fleet.Release(now, fmt.Sprint(i))
		if err := ask(machines*slots + i); err != nil {
			return 0, "", err
		}
		fleet.Decide(now)
	}
	return time.Since(began).Seconds() * 1000 / rounds, "", nil
}

// simulating times a day of jobs of two sizes.
func simulating(*world) (float64, string, error) {
	small := scale.Pool{Name: "small", Shape: scale.Shape{CPUs: 4}, Price: 0.2, BootTime: time.Minute, Throttle: scale.Throttle{Limit: -1}}
	large := small
	large.Name, large.Price, large.Shape.CPUs = "large", 0.8, 16
	setup := simulate.Setup{Start: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), Length: 24 * time.Hour, Pools: []simulate.Pool{{Pool: small}, {Pool: large}}}
	load := simulate.Describe(setup.Start, setup.Length, 1,
		simulate.Source{Rate: 10_000, Burst: 4, Median: time.Minute, P95: 8 * time.Minute, Needs: scale.Needs{Shape: scale.Shape{CPUs: 2}}},
		simulate.Source{Rate: 1_700, Median: 5 * time.Minute, P95: 20 * time.Minute, Needs: scale.Needs{Shape: scale.Shape{CPUs: 12}}})
	began := time.Now()
	_, err := simulate.Run(context.Background(), setup, load, &scale.Adaptive{})
	return time.Since(began).Seconds(), "", err
}

// growing compares a fleet that 1,000 jobs are asked of with the bare calls: as many at once, and lists until all machines run.
func growing(*world) (float64, string, error) {
	bare, err := timed(growBare)
	if err != nil {
		return 0, "", err
	}
	fleet, err := timed(growFleet)
	return fleet.Seconds() / bare.Seconds(), fmt.Sprintf("%.1f s of %.1f s", fleet.Seconds(), bare.Seconds()), err
}

// grown is how many machines, and atOnce how many calls a cloud has at once.
const (
	grown  = 1000
	atOnce = 32
)

// slowCloud is a cloud whose calls take 20 ms, and whose machines boot in 10 s.
func slowCloud(ctx context.Context) (*group.Group, error) {
	g := fake.New(fake.Options{Size: grown, Boot: 10 * time.Second, Before: fake.On("IncreaseShape", func(context.Context, fake.Call) error {
		time.Sleep(20 * time.Millisecond)
		return nil
	})})
	adapted := group.Adapt(g)
	_, err := adapted.Init(ctx, hclog.NewNullLogger(), group.Settings{Owner: "bench"})
	return adapted, err
}

func timed(do func(context.Context, *group.Group) error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cloud, err := slowCloud(ctx)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	err = do(ctx, cloud)
	return time.Since(began), err
}

func growBare(ctx context.Context, cloud *group.Group) error {
	err := each(func(i int) error {
		_, err := cloud.Create(ctx, group.Request{ID: fmt.Sprint("r-", i), Count: 1})
		return err
	})
	for running := 0; err == nil && running < grown; {
		var all []group.Instance
		all, err = cloud.List(ctx)
		running = 0
		for _, i := range all {
			if i.State == group.StateRunning {
				running++
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// each does something for all machines, so many at once.
func each(do func(i int) error) error {
	var all sync.WaitGroup
	errs, next := make([]error, atOnce), make(chan int)
	for worker := range atOnce {
		all.Go(func() {
			for i := range next {
				errs[worker] = errors.Join(errs[worker], do(i))
			}
		})
	}
	for i := range grown {
		next <- i
	}
	close(next)
	all.Wait()
	return errors.Join(errs...)
}

func growFleet(ctx context.Context, cloud *group.Group) error {
	folder, err := os.MkdirTemp("", "bench-fleet-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	kept, err := store.Open(folder)
	if err != nil {
		return err
	}
	defer kept.Close()
	fleet, err := control.Open(ctx, control.Options{
		Scale:  scale.Config{Name: "bench", Pools: []scale.Pool{{Name: "p", MaxInstances: grown}}},
		Policy: &scale.Adaptive{Worth: 1}, Pools: map[string]control.Pool{"p": {Group: cloud}}, Store: kept, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	errs := make([]error, grown)
	for i := range grown {
		all.Go(func() { _, errs[i] = fleet.Acquire(ctx, fmt.Sprint("job-", i), control.Job{}, nil) })
	}
	all.Wait()
	return errors.Join(append(errs, fleet.Close(ctx))...)
}
