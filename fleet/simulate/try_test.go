package simulate_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rungci/rung/fleet/simulate"
	"github.com/rungci/rung/fleet/simulate/scenario"
)

func TestTry(t *testing.T) {
	if os.Getenv("TRY") == "" {
		t.Skip()
	}
	files, _ := filepath.Glob("../../examples/fleet/" + os.Getenv("TRY") + ".toml")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		in, err := scenario.Parse(file, text)
		if err != nil {
			t.Fatal(err)
		}
		jobs := simulate.Describe(in.Setup.Start, in.Setup.Length, 1, in.Sources...)
		begin := time.Now()
		old, err := simulate.Search(context.Background(), in.Setup, jobs, simulate.Existing(), simulate.Cheapest(in.Wait), 150)
		if err != nil {
			t.Fatal(err)
		}
		limit := time.Duration(.75 * old.Result.Wait.P95 * float64(time.Second))
		ours, err := simulate.Search(context.Background(), in.Setup, jobs, simulate.Adaptive(), simulate.Cheapest(limit), 150)
		if err != nil {
			t.Fatal(err)
		}
		same, err := simulate.Search(context.Background(), in.Setup, jobs, simulate.Adaptive(), simulate.Cheapest(time.Duration(old.Result.Wait.P95*float64(time.Second))), 150)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%s: %d jobs, %v\n", file, len(jobs), time.Since(begin))
		for _, c := range []*simulate.Choice{old, ours, same} {
			r := c.Result
			fmt.Printf("  cost %8.2f (%.3f) p50 %5.1f p95 %6.1f (%.3f) p99 %6.1f mean %5.1f util %.2f creates %d peak %d  %v\n", r.Cost, r.Cost/old.Result.Cost, r.Wait.P50, r.Wait.P95, r.Wait.P95/old.Result.Wait.P95, r.Wait.P99, r.Wait.Mean, r.Utilization, r.Creates, r.Peak, c)
		}
		for seed := uint64(2); seed <= 5; seed++ {
			setup := in.Setup
			setup.Seed = seed
			jobs := simulate.Describe(in.Setup.Start, in.Setup.Length, seed, in.Sources...)
			a, _ := simulate.Run(context.Background(), setup, jobs, old.Policy())
			b, _ := simulate.Run(context.Background(), setup, jobs, ours.Policy())
			c, _ := simulate.Run(context.Background(), setup, jobs, same.Policy())
			fmt.Printf("   seed %d: cost %.2f; %.3f %.3f;  p95 %.1f; %.3f %.3f\n", seed, a.Cost, b.Cost/a.Cost, c.Cost/a.Cost, a.Wait.P95, b.Wait.P95/a.Wait.P95, c.Wait.P95/a.Wait.P95)
		}
	}
}
