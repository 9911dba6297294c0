package growth

import (
	"context"
	"fmt"
	"time"

	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/simulate"
)

// Decision is how long a fleet of 10,000 machines with 50,000 slots takes about a job that ends and another that comes.
func Decision() (time.Duration, error) {
	const machines, slots, rounds = 10_000, 5, 1000
	pool := scale.Pool{Name: "p", Slots: slots, Throttle: scale.Throttle{Limit: -1}}
	fleet, err := scale.New(scale.Config{Name: "f", Pools: []scale.Pool{pool}}, &scale.Adaptive{})
	if err != nil {
		return 0, err
	}
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	ask := func(i int) error { return fleet.Ask(now, fmt.Sprint(i), scale.Needs{}) }
	for i := range machines * slots {
		if err := ask(i); err != nil {
			return 0, err
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
			return 0, err
		}
		fleet.Decide(now)
	}
	return time.Since(began) / rounds, nil
}

// Day is how long the simulation of a day takes with 1,000,000 jobs of two sizes.
func Day() (time.Duration, error) {
	small := scale.Pool{Name: "small", Shape: scale.Shape{CPUs: 4}, Price: 0.2, BootTime: time.Minute, Throttle: scale.Throttle{Limit: -1}}
	large := small
	large.Name, large.Price, large.Shape.CPUs = "large", 0.8, 16
	setup := simulate.Setup{Start: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), Length: 24 * time.Hour, Pools: []simulate.Pool{{Pool: small}, {Pool: large}}}
	load := simulate.Describe(setup.Start, setup.Length, 1,
		simulate.Source{Rate: 10_000, Burst: 4, Median: time.Minute, P95: 8 * time.Minute, Needs: scale.Needs{Shape: scale.Shape{CPUs: 2}}},
		simulate.Source{Rate: 1_700, Median: 5 * time.Minute, P95: 20 * time.Minute, Needs: scale.Needs{Shape: scale.Shape{CPUs: 12}}})
	began := time.Now()
	_, err := simulate.Run(context.Background(), setup, load, &scale.Adaptive{})
	return time.Since(began), err
}
