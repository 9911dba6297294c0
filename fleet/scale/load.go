package scale

import (
	"math"
	"time"
)

// Load remembers by how many slots demand rose within the time that a machine takes to be ready: so many must have been free for nobody to wait. Time is
// cut into windows as long as a boot, and each counts less by and by.
type Load struct {
	memory time.Duration // after which a window counts half
	rises  []float64     // the weight of windows, by their rise
	known  int           // the answer of spare, until a window closes; -1 is none

	window      time.Duration
	end         time.Time
	level       int // of demand
	base, peak  int // of the level, in this window
	unallocated int // slots on their way that no group counts on yet: see route
}

// Limits of what is remembered.
const (
	defaultMemory = 30 * time.Minute
	minWindow     = 10 * time.Second
	maxRise       = 1 << 14 // slots; a larger rise counts as this
)

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

// kept is what is left of a window's weight after the next.
func (l *Load) kept() float64 {
	memory := l.memory
	if memory == 0 {
		memory = defaultMemory
	}
	return math.Exp2(-float64(l.window) / float64(memory))
}

// close counts windows with a rise.
func (l *Load) close(n, rise int) {
	faded := math.Pow(l.kept(), float64(n))
	for i := range l.rises {
		l.rises[i] *= faded
	}
	rise = min(rise, maxRise)
	for len(l.rises) <= rise {
		l.rises = append(l.rises, 0)
	}
	l.rises[rise] += (1 - faded) / (1 - l.kept())
	l.known = -1
}

// spare is the largest number of slots that at least a share of windows needed. Windows before the first count as quiet.
func (l *Load) spare(share float64) int {
	if l.known >= 0 || len(l.rises) == 0 {
		return max(0, l.known)
	}
	enough, needed := share/(1-l.kept()), 0.0
	for l.known = len(l.rises) - 1; l.known > 0; l.known-- {
		if needed += l.rises[l.known]; needed >= enough {
			break
		}
	}
	return l.known
}
