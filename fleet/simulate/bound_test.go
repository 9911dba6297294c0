package simulate_test

import (
	"math"
	"testing"
	"time"

	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/schedule"
	"github.com/rungci/rung/fleet/simulate"
)

// bound is a cost that no policy goes below, on average, which lets 95 % of jobs wait at most wait, and knows all of the load but when jobs come: the rate of each
// hour, how many jobs pipelines have and how long they take. It is of loads with one source, and one pool with a slot for each machine.
//
// A job that comes at T has its slot in time only if that becomes free, or was asked for a boot before T+wait. What comes in the lead of boot-wait before T
// is unknown then, and when pipelines come does not depend on what is ready for them. The expected share of jobs that come too late is a convex function of the slots beyond the jobs
// that are expected, so a policy that lets them vary within an hour gains nothing. What ends is taken for its mean, numbers of slots need not be whole, and machines
// are paid for by the exact time; each of these only lowers the bound. A slot that is free has at most 1/lasts(wait) jobs within the wait. Boot times are taken as all the same.
func bound(setup simulate.Setup, source simulate.Source, wait time.Duration) float64 {
	const late, step = 0.05, 0.05
	pool := setup.Pools[0]
	size := max(1, source.Burst)
	lead := max(0, pool.BootTime-wait).Hours()
	spread := math.Log(float64(source.P95)/float64(source.Median)) / 1.645
	length := source.Median.Hours() * math.Exp(spread*spread/2) // of the average job
	lasts := func(d time.Duration) float64 {                    // the share of jobs that take longer
		return math.Erfc(math.Log(d.Seconds()/source.Median.Seconds())/spread/math.Sqrt2) / 2
	}
	hours := source.Hours
	if len(hours) == 0 {
		hours = []float64{1}
	}
	jobs, rates := 0.0, make([]float64, len(hours))
	lateShare := make([][]float64, len(hours)) // by hour, and by slots in steps
	for h, factor := range hours {
		rates[h] = source.Rate * factor
		jobs += rates[h] * size * length
		lateShare[h] = lateShares(size, rates[h]*lead, func(slots, came float64) float64 {
			left := (came - rates[h]*size*lead) * lasts(pool.BootTime) // of those beyond the expected ones
			return max(0, slots*step+rates[h]*size*wait.Hours()-left) / lasts(wait)
		})
	}
	// With a price for each late pipeline instead of a limit, each hour has a best number of slots, and the total, less the price of what the limit allows, is a lower bound.
	idle := 0.0
	for low, high, n := 0.0, 1e6, 0; n < 60; n++ {
		price := (low + high) / 2
		share, all, dear := 0.0, 0.0, 0.0
		for h, rate := range rates {
			best := 0
			for i, s := range lateShare[h] {
				if float64(i)*step+price*rate*s < float64(best)*step+price*rate*lateShare[h][best] {
					best = i
				}
			}
			dear += float64(best) * step
			share, all = share+rate*lateShare[h][best], all+rate
		}
		idle = max(idle, dear+price*(share-late*all))
		if share > late*all {
			low = price
		} else {
			high = price
		}
	}
	if wait >= pool.BootTime {
		idle = 0 // a machine can be asked for when its job comes
	}
	return (jobs + idle) / float64(len(hours)) * setup.Length.Hours() * pool.Price
}

// lateShares is the expected share of a pipeline's jobs that find no slot, by how many there are, if so many pipelines are expected in the lead. free is for how many jobs slots
// are enough after so many have come.
func lateShares(size, pipelines float64, free func(slots, came float64) float64) (all []float64) {
	const mostJobs, mostSlots = 400, 1200
	came := make([]float64, mostJobs) // how likely a number of jobs is: compound Poisson, by Panjer's recursion, of geometric sizes
	came[0] = math.Exp(-pipelines)
	for n := range came {
		for k := 1; k <= n; k++ {
			came[n] += pipelines / float64(n) * float64(k) * math.Pow(1-1/size, float64(k-1)) / size * came[n-k]
		}
	}
	for slots := range mostSlots {
		sum := 0.0
		for n, chance := range came {
			enough := free(float64(slots), float64(n))
			whole := math.Floor(enough)
			sum += chance * math.Pow(1-1/size, whole) * (size + whole - enough) / size // a pipeline with more jobs has size more on average
		}
		all = append(all, sum)
	}
	return all
}

func TestNoPolicyIsCheaperThanTheBound(t *testing.T) {
	t.Parallel()
	setup := simulate.Setup{Start: monday, Length: 10 * 24 * time.Hour, Pools: []simulate.Pool{{Pool: scale.Pool{Name: "p", Price: 0.2, BootTime: 45 * time.Second, Billing: scale.Billing{Granularity: time.Second}}}}}
	source := simulate.Source{Rate: 20, Burst: 5, Median: 2 * time.Minute, P95: 12 * time.Minute}
	for _, idle := range []int{4, 14, 20} {
		policy := &scale.Classic{Policies: simulate.WorkingHours(schedule.Policy{IdleTime: time.Second}, idle, idle)}
		got, err := simulate.Run(t.Context(), setup, simulate.Describe(monday, setup.Length, 1, source), policy)
		if err != nil {
			t.Fatal(err)
		}
		cost, wait := got.Cost, got.Wait.P95
		least := bound(setup, source, time.Duration(wait*float64(time.Second)))
		t.Logf("%d idle: cost %.1f, wait %.1f s, bound %.1f", idle, cost, wait, least)
		if cost < least {
			t.Errorf("%d idle slots cost %.1f with a wait of %.1f s, and the bound is %.1f", idle, cost, wait, least)
		}
	}
}
