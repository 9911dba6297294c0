// Package growth times what a fleet does by itself: decisions, simulations, and how long it takes until 1,000 machines are ready, beside what their cloud takes without it.
package growth

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
	"github.com/rungci/rung/fleet/store"
)

// Bare is the time of the calls alone.
func Bare() (time.Duration, error) { return timed(growBare) }

// Fleet is the time until 1,000 jobs have a slot.
func Fleet() (time.Duration, error) { return timed(growFleet) }

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

// timed times something with a new cloud.
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
