package simulate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rungci/rung/fleet/scale"
)

// Source is jobs of a kind that a described load has: pipelines come at random, at a rate of the hour, each with some jobs at once.
type Source struct {
	Rate float64 // pipelines an hour
	// Hours are factors of the rate: of the 24 hours of a day, or of the 168 of a week from Monday. None is always the same.
	Hours []float64
	// Burst is how many jobs a pipeline has on average; 0 is one. Each has one at least.
	Burst float64
	// Median and P95 are of the durations of jobs, whose logarithm is normal. A P95 of 0 gives all the same.
	Median, P95 time.Duration
	Needs       scale.Needs
}

// normal95 is how many standard deviations 95 % of a normal distribution are below.
const normal95 = 1.6448536269514722

// maxRun is how long a job takes at most, wherever its distribution ends.
const maxRun = 30 * 24 * time.Hour

// Describe makes the jobs of some sources, in the order of their creation. The start is that of the hours. More than MaxJobs are not made, but one more
// is, so that Run refuses the load.
func Describe(start time.Time, length time.Duration, seed uint64, sources ...Source) []Job {
	var all []Job
	for i, s := range sources {
		all = append(all, s.jobs(start, length, rand.New(rand.NewPCG(seed, uint64(i)+2)))...)
	}
	slices.SortStableFunc(all, func(a, b Job) int { return cmp.Compare(a.At, b.At) })
	return all
}

func (s *Source) jobs(start time.Time, length time.Duration, dice *rand.Rand) (all []Job) {
	most := 1.0
	if len(s.Hours) > 0 {
		most = slices.Max(s.Hours)
	}
	if s.Rate*most <= 0 {
		return nil
	}
	for at := time.Duration(0); len(all) <= MaxJobs; {
		at += time.Duration(dice.ExpFloat64() / (s.Rate * most) * float64(time.Hour))
		if at >= length {
			return all
		}
		if dice.Float64()*most >= s.factor(start.Add(at)) {
			continue
		}
		for range min(s.burst(dice), MaxJobs+1-len(all)) {
			all = append(all, Job{At: at, Run: s.duration(dice), Needs: s.Needs})
		}
	}
	return all
}

// factor is that of the hour.
func (s *Source) factor(t time.Time) float64 {
	switch len(s.Hours) {
	case 0:
		return 1
	case 24:
		return s.Hours[t.Hour()]
	}
	return s.Hours[(((int(t.Weekday())+6)%7)*24+t.Hour())%len(s.Hours)]
}

// burst is how many jobs a pipeline has: one, and then more with the same chance of another each time.
func (s *Source) burst(dice *rand.Rand) int {
	if s.Burst <= 1 {
		return 1
	}
	return 1 + int(min(MaxJobs, math.Log(1-dice.Float64())/math.Log(1-1/s.Burst)))
}

func (s *Source) duration(dice *rand.Rand) time.Duration {
	if s.P95 <= s.Median {
		return s.Median
	}
	sigma := math.Log(float64(s.P95)/float64(s.Median)) / normal95
	return time.Duration(min(float64(maxRun), float64(s.Median)*math.Exp(sigma*dice.NormFloat64()))).Round(time.Millisecond)
}
