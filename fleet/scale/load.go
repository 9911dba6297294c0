package scale

import (
	"math"
	"time"
)

// Load remembers how jobs came lately, to say how many slots may be needed before a new machine is ready.
//
// Jobs come in bursts, as pipelines have several. How large bursts are is remembered for long, and how often they come for Adaptive.Memory only, as that
// changes with the hour; of both together follows how likely a number of slots is needed within a boot time. Where jobs are too many to be
// told apart, the rises of demand within past boot times are counted instead.
type Load struct {
	memory time.Duration // after which what was counts half

	window     time.Duration // as long as a boot
	end        time.Time
	level      int // of demand
	base, peak int // of the level, in this window
	rises      histogram

	burst      int // jobs of the burst that has begun
	burstBegan time.Time
	sizes      histogram // of bursts
	arrived    float64   // bursts that came, each counting less by and by
	since      time.Time // when arrived was right
	day        profile

	known       int     // of likely, until a window closes; -1 is none
	replaced    float64 // of likely
	unallocated int     // slots on their way that no group counts on yet: see route
}

// DefaultMemory is after how long what was counts half.
const DefaultMemory = 40 * time.Minute

// Limits of what is remembered.
const (
	minWindow   = 10 * time.Second
	maxSize     = 1 << 12 // slots; more count as this
	burstTime   = time.Second
	burstMemory = 300 // bursts, after which one counts half
	manyJobs    = 100 // in a window: bursts are not told apart
)

// histogram is weights of numbers.
type histogram struct {
	weights []float64
	total   float64
}

func (h *histogram) fade(by float64) {
	for i := range h.weights {
		h.weights[i] *= by
	}
	h.total *= by
}

func (h *histogram) add(n int, weight float64) {
	n = max(0, min(n, maxSize))
	for len(h.weights) <= n {
		h.weights = append(h.weights, 0)
	}
	h.weights[n] += weight
	h.total += weight
}

// half is what is left of something after a time, of which half is left after another.
func half(after, of time.Duration) float64 { return math.Exp2(-float64(after) / float64(of)) }

func (l *Load) remembers() time.Duration {
	if l.memory <= 0 {
		return DefaultMemory
	}
	return l.memory
}

// arrive notes that a job came.
func (l *Load) arrive(now time.Time) {
	if l.burst > 0 && now.Sub(l.burstBegan) <= burstTime {
		l.burst++
		return
	}
	l.closeBurst()
	l.burst, l.burstBegan = 1, now
	l.arrived = l.arrived*half(max(0, now.Sub(l.since)), l.remembers()) + 1
	l.since = now
	l.day.arrive(now)
}

func (l *Load) closeBurst() {
	if l.burst > 0 {
		l.sizes.fade(math.Exp2(-1.0 / burstMemory))
		l.sizes.add(l.burst, 1)
		l.burst = 0
	}
}

// observe notes how many slots are in demand from now on.
func (l *Load) observe(now time.Time, demand int, boot time.Duration) {
	if l.end.IsZero() {
		l.begin(now, boot)
	}
	if !now.Before(l.end) {
		l.close(1, l.peak-l.base)
		if quiet := int(now.Sub(l.end) / l.window); quiet > 0 {
			l.close(quiet, 0)
			l.end = l.end.Add(time.Duration(quiet) * l.window)
		}
		l.begin(l.end, boot)
	}
	l.level, l.peak = demand, max(l.peak, demand)
}

func (l *Load) begin(at time.Time, boot time.Duration) {
	l.window = max(boot, minWindow).Round(time.Second)
	l.end = at.Add(l.window)
	l.base, l.peak = l.level, l.level
}

// close counts windows with a rise.
func (l *Load) close(n, rise int) {
	kept := half(l.window, l.remembers())
	faded := math.Pow(kept, float64(n))
	l.rises.fade(faded)
	l.rises.add(rise, (1-faded)/(1-kept))
	l.known = -1
}

// spare is how many slots are needed within a boot time with at least some likelihood, beyond those in demand. ending is how many jobs are expected to
// end within it, and run how long jobs take; 0 is unknown.
func (l *Load) spare(now time.Time, likelihood, ending float64, run time.Duration) int {
	if l.known < 0 {
		l.known, l.replaced = l.likely(now, likelihood, run)
	}
	return max(0, l.known-int(l.replaced*ending))
}

// likely is how many slots are needed, and what share of the jobs that end meanwhile leaves slots for them.
func (l *Load) likely(now time.Time, likelihood float64, run time.Duration) (slots int, replaced float64) {
	if now.Sub(l.burstBegan) > burstTime {
		l.closeBurst()
	}
	if likelihood >= 1 || l.sizes.total == 0 {
		return 0, 0
	}
	// Half of what was since the memory began counts: its mean is of that many seconds.
	lately := l.arrived * half(max(0, now.Sub(l.since)), l.remembers())
	bursts, mean := l.day.rate(now.Add(l.window/2), lately, l.remembers().Seconds()/math.Ln2)*l.lasting(run).Seconds(), 0.0
	for n, weight := range l.sizes.weights {
		mean += float64(n) * weight / l.sizes.total
	}
	if bursts*mean > manyJobs {
		return l.risen(likelihood), 0 // a rise is what has come, less what has ended
	}
	return l.needed(bursts, likelihood), 0.5 // half of the jobs end before the average job comes
}

// lasting is the part of a window whose jobs are still there at its end, where jobs take some time on average: short ones use a slot after the other.
func (l *Load) lasting(run time.Duration) time.Duration {
	if run <= 0 {
		return l.window
	}
	return time.Duration(float64(run) * -math.Expm1(-float64(l.window)/float64(run)))
}

// risen is by how many slots demand rose in at least a share of windows.
func (l *Load) risen(share float64) int {
	n, sum := len(l.rises.weights)-1, 0.0
	for ; n > 0; n-- {
		if sum += l.rises.weights[n]; sum >= share*l.rises.total {
			break
		}
	}
	return max(0, n)
}

// needed is the largest number of jobs that comes with at least some likelihood, if so many bursts are expected: a compound Poisson distribution, by
// Panjer's recursion.
func (l *Load) needed(bursts, likelihood float64) int {
	none := math.Exp(-bursts)
	chances, more := []float64{none}, 1-none
	for n := 1; n < maxSize && more >= likelihood; n++ {
		chance := 0.0
		for size := 1; size <= n && size < len(l.sizes.weights); size++ {
			chance += float64(size) * l.sizes.weights[size] * chances[n-size]
		}
		chance *= bursts / float64(n) / l.sizes.total
		chances = append(chances, chance)
		more -= chance
	}
	return len(chances) - 1
}
