package simulate

import (
	"slices"
	"time"
)

// Result is what a load has cost, and how long jobs have waited.
type Result struct {
	Jobs    int           `json:"jobs"`
	Cost    float64       `json:"cost"` // in the unit of the prices
	Wait    Wait          `json:"wait"`
	Machine time.Duration `json:"-"` // time that machines were paid for, of all together
	// Utilization is the share of paid slots in which a job ran.
	Utilization float64 `json:"utilization"`
	Creates     int     `json:"creates"`                   // machines that were asked for
	Peak        int     `json:"peak"`                      // most machines at once
	Lost        int     `json:"lost"`                      // times that a job lost its machine, and began again
	Refused     int     `json:"refused"`                   // jobs that no machine is enough for
	Unfinished  int     `json:"unfinished"`                // jobs that had not ended when the simulation did
	Stalled     float64 `json:"stalled_seconds,omitempty"` // for how long none had, then
	Pools       []Cost  `json:"pools"`
	Series      []Point `json:"series"`

	waits []time.Duration
}

// Meets reports whether all jobs have ended, and 95 % of them waited no longer than a limit.
func (r *Result) Meets(limit time.Duration) bool {
	return r.Unfinished == 0 && r.Wait.P95 <= limit.Seconds()
}

// Wait is how long jobs waited for a slot, in seconds: of each job all its waits together, and of one that has not ended those until then.
type Wait struct {
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

// Cost is what the machines of a pool have cost.
type Cost struct {
	Pool  string  `json:"pool"`
	Hours float64 `json:"hours"`
	Cost  float64 `json:"cost"`
}

// Point is how things were at a time.
type Point struct {
	Seconds  float64 `json:"seconds"` // after the start
	Machines int     `json:"machines"`
	Busy     int     `json:"busy"` // slots
	Waiting  int     `json:"waiting"`
}

// maxPoints is about how many points a series has.
const maxPoints = 600

// recorder takes a point at each interval, and adds up what lies between.
type recorder struct {
	interval, next, last time.Duration
	busy                 float64 // slot seconds
	points               []Point
}

// until notes how things are until a time.
func (c *recorder) until(at time.Duration, r *run) {
	machines := 0
	if at != c.last {
		for _, p := range r.setup.Pools {
			machines += r.pools[p.Name].alive
		}
		r.result.Peak = max(r.result.Peak, machines)
	}
	c.busy += float64(r.busy) * (at - c.last).Seconds()
	c.last = at
	for ; c.next <= at; c.next += c.interval {
		if len(c.points) >= 4*maxPoints { // the load takes longer than was said
			c.interval *= 2
			c.thin()
		}
		c.points = append(c.points, Point{Seconds: c.next.Seconds(), Machines: machines, Busy: r.busy, Waiting: r.queued})
	}
}

func (c *recorder) thin() {
	kept := c.points[:0]
	for i := 0; i < len(c.points); i += 2 {
		kept = append(kept, c.points[i])
	}
	c.points = kept
}

// finish adds up what was seen.
func (r *run) finish() *Result {
	end := max(r.setup.Length, r.now)
	r.advance(end)
	for _, m := range r.all {
		if !m.ended {
			r.bill(m)
		}
	}
	r.leave(end)
	out, slots := &r.result, 0.0
	for _, p := range r.setup.Pools {
		s := r.pools[p.Name]
		out.Machine += s.paid
		slots += s.paid.Seconds() * float64(s.Slots)
		cost := s.paid.Hours()*s.Price + s.slept.Hours()*s.SuspendedPrice
		out.Pools = append(out.Pools, Cost{Pool: p.Name, Hours: s.paid.Hours(), Cost: cost})
		out.Cost += cost
	}
	if slots > 0 {
		out.Utilization = r.recorder.busy / slots
	}
	out.Wait = waitOf(out.waits)
	out.Series = r.recorder.points
	return out
}

// leave counts the jobs that have not ended, with their waits so far.
func (r *run) leave(end time.Duration) {
	for i := range r.jobs {
		job := &r.jobs[i]
		if job.done {
			continue
		}
		if !job.running {
			job.waited += max(0, end-max(job.since, r.load[i].At))
		}
		r.result.waits = append(r.result.waits, job.waited)
		r.result.Unfinished++
		r.result.Stalled = (end - r.last).Seconds()
	}
}

// waitOf sorts waits, and reads them.
func waitOf(waits []time.Duration) (w Wait) {
	if len(waits) == 0 {
		return w
	}
	slices.Sort(waits)
	at := func(share float64) float64 { return waits[min(len(waits)-1, int(share*float64(len(waits))))].Seconds() }
	sum := 0.0
	for _, one := range waits {
		sum += one.Seconds()
	}
	return Wait{P50: at(0.50), P95: at(0.95), P99: at(0.99), Max: waits[len(waits)-1].Seconds(), Mean: sum / float64(len(waits))}
}
