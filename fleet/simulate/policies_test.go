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

// BenchmarkPolicies tunes the existing policy and ours on each load of examples/fleet with the same search: the existing one to the cheapest that meets
// the target, ours to the cheapest with the wait that resulted, and with four fifths of it. It reports cost and 95th percentile of waits as shares of the
// existing policy's: on the load that was searched with, and on average over five seeds that were not.
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
const simulations = 200

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
	wait := func(share float64) time.Duration {
		return time.Duration(share * old.Result.Wait.P95 * float64(time.Second))
	}
	choices := []*simulate.Choice{old, search(simulate.Adaptive(), wait(1)), search(simulate.Adaptive(), wait(0.8))}
	costs, waits := make([]float64, len(choices)), make([]float64, len(choices))
	for seed := uint64(101); seed <= 105; seed++ {
		setup := in.Setup
		setup.Seed = seed
		for i, c := range choices {
			got, err := simulate.Run(b.Context(), setup, describe(seed), c.Policy())
			if err != nil {
				b.Fatal(err)
			}
			costs[i] += got.Cost / 5
			waits[i] += got.Wait.P95 / 5
		}
	}
	for i, c := range choices {
		b.Logf("cost %.2f, p95 %.1f s; unseen: cost %.2f, p95 %.1f s: %s %v", c.Result.Cost, c.Result.Wait.P95, costs[i], waits[i], c.Space.Name, c)
	}
	for i, name := range []string{"", "same", "less"} {
		if i > 0 {
			b.ReportMetric(choices[i].Result.Cost/old.Result.Cost, "cost-"+name)
			b.ReportMetric(choices[i].Result.Wait.P95/old.Result.Wait.P95, "wait-"+name)
		}
	}
}
