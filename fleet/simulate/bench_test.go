package simulate_test

import (
	"testing"
	"time"

	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/simulate"
)

// BenchmarkDayOfMillionJobs simulates a day with a million jobs. The figure that we promise is 60 s.
func BenchmarkDayOfMillionJobs(b *testing.B) {
	pools := []simulate.Pool{pool("small", 4, 0.2), pool("large", 16, 0.8)}
	setup := simulate.Setup{Start: monday, Length: 24 * time.Hour, Pools: pools}
	tests := simulate.Source{Rate: 10_000, Burst: 4, Median: time.Minute, P95: 8 * time.Minute, Needs: scale.Needs{Shape: scale.Shape{CPUs: 2}}}
	builds := simulate.Source{Rate: 1_700, Median: 5 * time.Minute, P95: 20 * time.Minute, Needs: scale.Needs{Shape: scale.Shape{CPUs: 12}}}
	load := simulate.Describe(setup.Start, setup.Length, 1, tests, builds)
	for b.Loop() {
		got, err := simulate.Run(b.Context(), setup, load, &scale.Adaptive{})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(got.Jobs), "jobs")
		b.ReportMetric(float64(got.Peak), "machines")
		b.ReportMetric(got.Wait.P95, "s-p95-wait")
	}
}
