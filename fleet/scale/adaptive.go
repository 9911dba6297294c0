package scale

import (
	"fmt"
	"math"
	"time"

	"github.com/rungci/rung/fleet/schedule"
)

// Adaptive is our policy. It knows how long machines take to be ready, how jobs came lately, how long they take, and how machines are paid for. A slot is
// kept free if it is likely enough to be needed before a new machine would be ready; an idle machine that is paid for anyway stays.
type Adaptive struct {
	// Worth is the likelihood from which a slot is kept free that may be needed within the time of a boot. 0 is DefaultWorth; 1 or more keeps none.
	Worth float64
	// Memory is after how long what was counts half; 0 is DefaultMemory.
	Memory time.Duration
	// Linger is how long an idle machine is kept, though it is not needed.
	Linger time.Duration
	// Patience is the share of jobs expected to end within a boot time whose slots are counted on by those who wait, instead of new machines. Nobody
	// who has waited for a whole boot time is asked for more patience.
	Patience float64
	// Hedge is the share of waiting jobs for which one machine more is asked for, as some boot slower than others: jobs have those that are ready first, and the others
	// go at once. Pools whose machines are paid for long have none.
	Hedge float64
	// Policies say how many slots are kept free at least (IdleCount), whatever is likely. Nothing else of them is used; none keeps none.
	Policies schedule.Policies

	floor inForce
}

// DefaultWorth keeps a slot free that one in fifty boot times needs.
const DefaultWorth = 0.02

// longBilling is the granularity from which a machine is kept until the end of what is paid for; before is how long before that it goes.
const (
	longBilling = 5 * time.Minute
	before      = time.Minute
)

// Plan compares the slots that exist, or come, with those in demand and to spare. A slot that is reserved is not in demand: nobody knows yet whether a job comes.
func (a *Adaptive) Plan(now time.Time, v *View) Plan {
	v.Load.memory = a.Memory
	p := Plan{Spare: max(v.Load.spare(now, a.worth(), ending(v), v.Run), a.floor.at(now, a.Policies).IdleCount)}
	if v.Free > 0 || v.Coming > 0 || v.Waiting > 0 || p.Spare > 0 {
		p.Again = v.Load.end
	}
	lack := v.Waiting - a.patient(v) + a.hedged(v) + p.Spare - v.Free - v.Coming
	if lack > 0 {
		p.Change = (lack + v.Pool.Slots - 1) / v.Pool.Slots
		return p
	}
	if p.Surplus = v.Free - v.Waiting - p.Spare; p.Surplus > 0 {
		p.Change = -v.Idle
	}
	return p
}

func (a *Adaptive) worth() float64 {
	if a.Worth == 0 {
		return DefaultWorth
	}
	return a.Worth
}

// ending is how many jobs are expected to end within a boot time.
func ending(v *View) float64 {
	if v.Run == 0 {
		return 0
	}
	return float64(v.Busy-v.Draining) * -math.Expm1(-float64(v.Boot)/float64(v.Run))
}

// patient is how many of those who wait will have the slot of a job that ends soon.
func (a *Adaptive) patient(v *View) int {
	if v.Waited >= v.Boot {
		return 0
	}
	return min(v.Waiting, int(a.Patience*ending(v)))
}

// hedged is how many slots are asked for beyond those that jobs wait for, so that the slowest machines to boot are nobody's.
func (a *Adaptive) hedged(v *View) int {
	if v.Pool.Billing.Granularity >= longBilling || v.Pool.Billing.Minimum >= longBilling {
		return 0
	}
	return int(math.Ceil(a.Hedge * float64(max(0, v.Waiting-a.patient(v)-v.Free))))
}

// Sentence says what is needed and what there is.
func (a *Adaptive) Sentence(v *View, p Plan) string {
	text := fmt.Sprintf("pool %s has %s for %s and %s", v.Pool.Name, count(v.Busy-v.Draining+v.Free+v.Coming, "slot"), count(v.Busy-v.Draining, "running job"), count(v.Waiting, "waiting job"))
	if n := a.patient(v); n > 0 {
		text += fmt.Sprintf(", of which %d can expect a slot that becomes free sooner than a machine boots (%s)", n, v.Boot.Round(time.Second))
	}
	if n := a.hedged(v); n > 0 {
		text += fmt.Sprintf(", for which %d more may be made than are needed, as some boot slower than others", n)
	}
	if p.Spare > 0 && p.Spare == a.floor.current.IdleCount {
		return text + fmt.Sprintf(", and keeps %d free, as its policy says", p.Spare)
	}
	if p.Spare > 0 {
		return text + fmt.Sprintf(", and keeps %d free: as jobs came lately, so many are needed within a boot (%s) with a likelihood of %.3g%% or more", p.Spare, v.Load.window, 100*a.worth())
	}
	return text + fmt.Sprintf(", and keeps none free: as jobs came lately, the likelihood that one is needed within a boot (%s) is below %.3g%%", v.Load.window, 100*a.worth())
}

// Order is the end of what is paid for, where that is long; else the machine that was used longest ago goes first.
func (a *Adaptive) Order(now time.Time, p *Pool, created, idleSince time.Time) time.Time {
	if paid, long := paidUntil(now, p, created); long {
		return paid
	}
	return idleSince
}

// Hold keeps a machine that is paid for.
func (a *Adaptive) Hold(now time.Time, p *Pool, created, idleSince time.Time) time.Time {
	until := idleSince.Add(a.Linger)
	if paid, long := paidUntil(now, p, created); long && paid.Add(-before).After(until) {
		until = paid.Add(-before)
	}
	return until
}

// paidUntil is until when a machine is paid for if it is deleted now, and whether that is long.
func paidUntil(now time.Time, p *Pool, created time.Time) (time.Time, bool) {
	paid := created.Add(p.Billing.Paid(now.Sub(created)))
	return paid, p.Billing.Granularity >= longBilling || paid.Sub(now) >= longBilling
}

// Preemptive is false: a job is never left in a queue while a machine could be made for it.
func (a *Adaptive) Preemptive(time.Time) bool { return false }

// Next is the next minute, if there are policies. What else changes by itself is in the plan.
func (a *Adaptive) Next(now time.Time) time.Time { return nextMinute(now, a.Policies) }

// count is a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
