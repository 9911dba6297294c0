package simulate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/fleet/simulate"
	"github.com/rungci/rung/fleet/simulate/scenario"
)

// BenchmarkPolicies tunes the existing policy and ours on each load of examples/fleet with the same search, ours for four fifths of the wait that the
// existing one came to, and reports cost and 95th percentile of waits as shares of the existing policy's: on the load that was searched with, and
// the averages of five seeds that were not.
func BenchmarkPolicies(b *testing.B) {
	files, err := filepath.Glob("../../examples/fleet/*.toml")
	if err != nil || len(files) == 0 {
		b.Fatal("there are no examples", err)
	}
	for _, file := range files {
		b.Run(strings.TrimSuffix(filepath.Base(file), ".toml"), func(b *testing.B) {
			for b.Loop() {
				compare(b, file)
			}
		})
	}
}

// simulations is how many each search may use.
const simulations = 300

func compare(b *testing.B, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	in, err := scenario.Parse(file, text)
	if err != nil {
		b.Fatal(err)
	}
	describe := func(seed uint64) []simulate.Job {
		return simulate.Describe(in.Setup.Start, in.Setup.Length, seed, in.Sources...)
	}
	search := func(space *simulate.Space, limit time.Duration) *simulate.Choice {
		got, err := simulate.Search(b.Context(), in.Setup, describe(1), space, simulate.Cheapest(limit), simulations)
		if err != nil {
			b.Fatal(err)
		}
		return got
	}
	old := search(simulate.Existing(), in.Wait)
	ours := search(simulate.Adaptive(), time.Duration(0.8*old.Result.Wait.P95*float64(time.Second)))
	b.Logf("existing: cost %.2f, p95 %.1f s, %v", old.Result.Cost, old.Result.Wait.P95, old)
	b.Logf("adaptive: cost %.2f, p95 %.1f s, %v", ours.Result.Cost, ours.Result.Wait.P95, ours)
	b.ReportMetric(ours.Result.Cost/old.Result.Cost, "cost")
	b.ReportMetric(ours.Result.Wait.P95/old.Result.Wait.P95, "p95")
	var costs, waits [2]float64
	for seed := uint64(101); seed <= 105; seed++ {
		setup := in.Setup
		setup.Seed = seed
		for i, c := range []*simulate.Choice{old, ours} {
			got, err := simulate.Run(b.Context(), setup, describe(seed), c.Policy())
			if err != nil {
				b.Fatal(err)
			}
			costs[i] += got.Cost
			waits[i] += got.Wait.P95
		}
	}
	b.ReportMetric(costs[1]/costs[0], "unseen-cost")
	if waits[0] > 0 {
		b.ReportMetric(waits[1]/waits[0], "unseen-p95")
	}
}
