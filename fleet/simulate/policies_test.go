package simulate_test

import (
	"fmt"
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
// existing policy's: on the four loads that were searched with, and on average over ten seeds that were not. bound is a cost that no policy goes below at that wait,
// or at four fifths of it.
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
	trials := func(first, last uint64) (all []simulate.Trial) {
		for seed := first; seed <= last; seed++ {
			setup := in.Setup
			setup.Seed = seed
			all = append(all, simulate.Trial{Setup: setup, Load: simulate.Describe(setup.Start, setup.Length, seed, in.Sources...)})
		}
		return all
	}
	search := func(space *simulate.Space, limit time.Duration) *simulate.Choice {
		got, err := simulate.Search(b.Context(), trials(1, 4), space, simulate.Cheapest(limit), simulations)
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
	unseen := trials(101, 110)
	for i, c := range choices {
		for _, t := range unseen {
			got, err := simulate.Run(b.Context(), t.Setup, t.Load, c.Policy())
			if err != nil {
				b.Fatal(err)
			}
			costs[i] += got.Cost / float64(len(unseen))
			waits[i] += got.Wait.P95 / float64(len(unseen))
		}
	}
	for i, c := range choices {
		b.Logf("cost %.2f, p95 %.1f s; unseen: cost %.2f, p95 %.1f s: %s %v", c.Result.Cost, c.Result.Wait.P95, costs[i], waits[i], c.Space.Name, c)
	}
	if len(in.Sources) == 1 && len(in.Setup.Pools) == 1 && in.Setup.Pools[0].Slots <= 1 {
		for _, share := range []float64{1, 0.8} {
			least := bound(in.Setup, in.Sources[0], time.Duration(share*waits[0]*float64(time.Second)))
			b.ReportMetric(least/costs[0], fmt.Sprintf("bound-%g", share))
		}
	}
	for i, name := range []string{"", "same", "less"} {
		if i > 0 {
			b.ReportMetric(choices[i].Result.Cost/old.Result.Cost, "cost-"+name)
			b.ReportMetric(choices[i].Result.Wait.P95/old.Result.Wait.P95, "wait-"+name)
		}
	}
}
