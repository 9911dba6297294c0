package simulate_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/simulate"
)

func TestTry(t *testing.T) {
	if os.Getenv("TRY") == "" {
		t.Skip()
	}
	for name, c := range loads() {
		if os.Getenv("TRY") != "1" && os.Getenv("TRY") != name {
			continue
		}
		jobs := simulate.Describe(c.setup.Start, c.setup.Length, 1, c.sources...)
		begin := time.Now()
		old, err := simulate.Search(context.Background(), c.setup, jobs, simulate.Existing(), simulate.Cheapest(c.target), 150)
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(begin)
		limit := time.Duration(.8 * old.Result.Wait.P95 * float64(time.Second))
		ours, err := simulate.Search(context.Background(), c.setup, jobs, simulate.Adaptive(), simulate.Cheapest(limit), 150)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%s: %d jobs, %v + %v\n", name, len(jobs), took, time.Since(begin)-took)
		for _, c := range []*simulate.Choice{old, ours} {
			r := c.Result
			fmt.Printf("  cost %8.2f  p50 %5.1f p95 %6.1f p99 %6.1f mean %5.1f util %.2f creates %d peak %d  %v\n", r.Cost, r.Wait.P50, r.Wait.P95, r.Wait.P99, r.Wait.Mean, r.Utilization, r.Creates, r.Peak, c)
		}
		fmt.Printf("  ratio cost %.3f p95 %.3f\n", ours.Result.Cost/old.Result.Cost, ours.Result.Wait.P95/old.Result.Wait.P95)
	}
}

type example struct {
	setup   simulate.Setup
	sources []simulate.Source
	target  time.Duration
}

var office = []float64{.02, .02, .02, .02, .05, .1, .3, .7, 1, 1.2, 1.2, 1, .8, 1, 1.2, 1.1, .9, .6, .3, .2, .1, .05, .03, .02}

func week() []float64 {
	var all []float64
	for day := range 7 {
		for _, f := range office {
			if day >= 5 {
				f *= .1
			}
			all = append(all, f)
		}
	}
	return all
}

func loads() map[string]example {
	monday := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	shape := func(cpus float64, gib int64) scale.Shape {
		return scale.Shape{CPUs: cpus, Memory: gib << 30, Arch: "amd64", OS: "linux"}
	}
	needs := func(cpus float64, gib int64) scale.Needs {
		return scale.Needs{Shape: scale.Shape{CPUs: cpus, Memory: gib << 30}}
	}
	linux := simulate.Pool{Pool: scale.Pool{Name: "linux", Shape: shape(4, 16), Price: 0.2, BootTime: 45 * time.Second, Billing: scale.Billing{Granularity: time.Second, Minimum: time.Minute}}, BootSpread: .2, DeleteTime: 20 * time.Second}
	big := linux
	big.Name, big.Shape, big.Price = "big", shape(16, 64), 0.8
	win := linux
	win.Name, win.Price, win.BootTime = "windows", 0.4, 4*time.Minute
	mac := linux
	mac.Name, mac.Price, mac.BootTime, mac.Billing = "mac", 1.2, 3*time.Minute, scale.Billing{Granularity: time.Hour}
	multi := linux
	multi.Name, multi.Shape, multi.Price, multi.Slots = "multi", shape(16, 64), 0.8, 4
	return map[string]example{
		"office": {simulate.Setup{Start: monday, Length: 3 * 24 * time.Hour, Pools: []simulate.Pool{linux}},
			[]simulate.Source{{Rate: 20, Hours: week(), Burst: 5, Median: 2 * time.Minute, P95: 12 * time.Minute}}, 30 * time.Second},
		"sizes": {simulate.Setup{Start: monday, Length: 2 * 24 * time.Hour, Pools: []simulate.Pool{linux, big}},
			[]simulate.Source{{Rate: 20, Hours: week(), Burst: 4, Median: 2 * time.Minute, P95: 10 * time.Minute, Needs: needs(2, 4)}, {Rate: 6, Hours: week(), Burst: 1.5, Median: 8 * time.Minute, P95: 30 * time.Minute, Needs: needs(12, 32)}}, 30 * time.Second},
		"short": {simulate.Setup{Start: monday, Length: 24 * time.Hour, Pools: []simulate.Pool{win}},
			[]simulate.Source{{Rate: 60, Hours: week(), Burst: 6, Median: 40 * time.Second, P95: 3 * time.Minute}}, 90 * time.Second},
		"mac": {simulate.Setup{Start: monday, Length: 3 * 24 * time.Hour, Pools: []simulate.Pool{mac}},
			[]simulate.Source{{Rate: 8, Hours: week(), Burst: 2, Median: 6 * time.Minute, P95: 20 * time.Minute}}, time.Minute},
		"steady": {simulate.Setup{Start: monday, Length: 24 * time.Hour, Pools: []simulate.Pool{linux}},
			[]simulate.Source{{Rate: 300, Median: 2 * time.Minute, P95: 8 * time.Minute}}, 20 * time.Second},
		"multi": {simulate.Setup{Start: monday, Length: 3 * 24 * time.Hour, Pools: []simulate.Pool{multi}},
			[]simulate.Source{{Rate: 30, Hours: week(), Burst: 6, Median: 2 * time.Minute, P95: 12 * time.Minute}}, 30 * time.Second},
		"nightly": {simulate.Setup{Start: monday, Length: 3 * 24 * time.Hour, Pools: []simulate.Pool{linux}},
			[]simulate.Source{{Rate: 1, Hours: office24(2), Burst: 150, Median: 5 * time.Minute, P95: 25 * time.Minute}, {Rate: 3, Median: time.Minute, P95: 3 * time.Minute}}, time.Minute},
	}
}

func office24(hour int) []float64 {
	all := make([]float64, 24)
	all[hour] = 1
	return all
}
