package store

import (
	"cmp"
	"slices"
	"time"
)

// Bill shares out what machines cost by the time that their slots had jobs, and adds what the volumes of projects cost. The zero value has seen nothing; Add is for ReadHistory, over all of the history:
// machines of a time may have been made long before.
type Bill struct {
	machines map[string]*billed
	jobs     map[string]*billedJob
	volumes  []*billedVolume
}

type billedVolume struct {
	name, project string // the project is known once one of its jobs has had it
	began, ended  time.Time
	price         float64
}

// volume is the one of a name that exists, or that was the last.
func (b *Bill) volume(name string) *billedVolume {
	for _, v := range slices.Backward(b.volumes) {
		if v.name == name {
			return v
		}
	}
	return &billedVolume{}
}

type billed struct {
	began, ended time.Time // ended is zero while it exists
	of           Entry
	jobs         []*billedJob
	slept        []span
}

// span is a time; a zero end is none.
type span struct{ began, ended time.Time }

// asleep is how much of the life of a machine that ends at some time is suspended, within [from, to).
func (m *billed) asleep(end, from, to time.Time) (d time.Duration) {
	for _, s := range m.slept {
		if s.ended.IsZero() || s.ended.After(end) {
			s.ended = end
		}
		d += within(s.began, s.ended, from, to)
	}
	return d
}

type billedJob struct {
	project      string
	began, ended time.Time
}

// Cost is what a project has cost.
type Cost struct {
	// Project is empty for what machines cost while their slots had no job.
	Project string
	Jobs    int
	Busy    time.Duration // of slots
	Cost    float64       // in the currency of the prices
}

// Add takes one entry into account. It returns true.
func (b *Bill) Add(e Entry) bool {
	if b.machines == nil {
		b.machines, b.jobs = map[string]*billed{}, map[string]*billedJob{}
	}
	m := b.machines[e.Request]
	switch e.Kind {
	case Create:
		if m == nil {
			b.machines[e.Request] = &billed{began: e.At, of: e}
		}
	case Gone:
		if m == nil {
			m = &billed{began: e.Began}
			b.machines[e.Request] = m
		}
		m.ended, m.of = e.At, e
	case Suspend:
		if m != nil {
			m.slept = append(m.slept, span{began: e.At})
		}
	case Resume:
		if m != nil && len(m.slept) > 0 && m.slept[len(m.slept)-1].ended.IsZero() {
			m.slept[len(m.slept)-1].ended = e.At
		}
	case CreateVolume:
		if v := b.volume(e.Volume); v.name != "" && v.ended.IsZero() { // another process has asked again
			return true
		}
		b.volumes = append(b.volumes, &billedVolume{name: e.Volume, began: e.Began, price: e.Price})
	case DeleteVolume:
		b.volume(e.Volume).ended = e.At
	case Place:
		if e.Volume != "" {
			b.volume(e.Volume).project = e.Project
		}
		if m != nil {
			job := &billedJob{project: e.Project, began: e.At}
			m.jobs, b.jobs[e.Key] = append(m.jobs, job), job
		}
	case Over, Ended:
		if job := b.jobs[e.Key]; job != nil {
			job.ended = e.At
			delete(b.jobs, e.Key)
		}
	}
	return true
}

// Costs are those of the time in [from, to), which may be now at the latest: those of projects, the largest first, and last what was idle. A zero from is no bound.
func (b *Bill) Costs(from, to time.Time) []Cost {
	projects, idle := map[string]*Cost{}, Cost{}
	for _, m := range b.machines {
		end := m.ended
		if end.IsZero() {
			end = to
		}
		if !end.After(m.began) {
			continue
		}
		// What is paid for a machine is spread over the time that it runs.
		rate := 0.0
		if ran := end.Sub(m.began) - m.asleep(end, m.began, end); ran > 0 {
			rate = m.of.Price * m.of.Billing.Paid(ran).Hours() / ran.Hours()
		}
		slept := m.asleep(end, from, to)
		lived := within(m.began, end, from, to) - slept
		rest := rate*lived.Hours() + m.of.SuspendedPrice*slept.Hours()
		slots := max(1, m.of.Slots)
		idle.Busy += time.Duration(slots) * lived
		for _, job := range m.jobs {
			until := job.ended
			if until.IsZero() {
				until = end
			}
			busy := within(job.began, until, from, to)
			if busy <= 0 {
				continue
			}
			c := projects[job.project]
			if c == nil {
				c = &Cost{Project: job.project}
				projects[job.project] = c
			}
			share := rate * busy.Hours() / float64(slots)
			c.Jobs, c.Busy, c.Cost = c.Jobs+1, c.Busy+busy, c.Cost+share
			rest, idle.Busy = rest-share, idle.Busy-busy
		}
		idle.Cost += max(0, rest)
	}
	for _, v := range b.volumes {
		until := v.ended
		if until.IsZero() {
			until = to
		}
		cost := v.price * within(v.began, until, from, to).Hours()
		switch c := projects[v.project]; {
		case v.project == "":
			idle.Cost += cost
		case c == nil && cost > 0:
			projects[v.project] = &Cost{Project: v.project, Cost: cost}
		case c != nil:
			c.Cost += cost
		}
	}
	var all []Cost
	for _, c := range projects {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b Cost) int { return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(a.Project, b.Project)) })
	return append(all, idle)
}

// within is how much of a time is in [from, to).
func within(began, ended, from, to time.Time) time.Duration {
	if began.Before(from) {
		began = from
	}
	if ended.After(to) {
		ended = to
	}
	return max(0, ended.Sub(began))
}
