package simulate

import (
	"cmp"
	"math"
	"time"

	"github.com/rungci/rung/fleet/scale"
)

// create begins a machine, and plans what becomes of it.
func (r *run) create(a scale.Action) {
	if r.machines[a.Request] != nil {
		return // repeated
	}
	p := r.pools[a.Pool]
	m := &machine{request: a.Request, pool: p, began: r.now + acceptTime}
	r.result.Creates++
	if p.CreateFailures > 0 && r.dice.Float64() < p.CreateFailures {
		r.plan(r.now+acceptTime, event{kind: refused, machine: m})
		return
	}
	r.machines[a.Request] = m
	r.all = append(r.all, m)
	p.alive++
	r.plan(r.now+acceptTime, event{kind: accepted, machine: m})
	boot := time.Duration(float64(p.BootTime) * math.Exp(p.BootSpread*r.dice.NormFloat64()-p.BootSpread*p.BootSpread/2))
	up := (r.now + acceptTime + boot + r.setup.Poll - 1) / r.setup.Poll * r.setup.Poll
	if p.BootFailures > 0 && r.dice.Float64() < p.BootFailures {
		r.plan(up, event{kind: neverReady, machine: m})
		return
	}
	r.plan(up, event{kind: ready, machine: m})
	if p.Interruptions > 0 {
		r.plan(up+time.Duration(r.dice.ExpFloat64()/p.Interruptions*float64(time.Hour)), event{kind: noticed, machine: m})
	}
}

// remove ends a machine, which costs nothing from then on.
func (r *run) remove(a scale.Action) {
	m := r.machines[a.Request]
	if m == nil || m.ended {
		return
	}
	r.bill(m)
	r.plan(r.now+max(m.pool.DeleteTime, acceptTime), event{kind: deleted, machine: m})
}

// suspend lets a machine sleep at once.
func (r *run) suspend(a scale.Action) {
	if m := r.machines[a.Request]; m != nil && !m.ended && !m.asleep {
		m.asleep, m.since = true, r.now
	}
}

// resume wakes a machine, which is ready after a while.
func (r *run) resume(a scale.Action) {
	m := r.machines[a.Request]
	if m == nil || m.ended || !m.asleep {
		return
	}
	m.asleep = false
	m.slept += r.now - m.since
	up := r.now + acceptTime + cmp.Or(m.pool.ResumeTime, m.pool.BootTime)
	r.plan((up+r.setup.Poll-1)/r.setup.Poll*r.setup.Poll, event{kind: ready, machine: m})
}

// bill adds what a machine has cost.
func (r *run) bill(m *machine) {
	m.ended = true
	m.pool.alive--
	if m.asleep {
		m.slept += r.now - m.since
	}
	m.pool.slept += m.slept
	m.pool.paid += m.pool.Billing.Paid(max(0, r.now-m.began-m.slept))
}

// list tells the fleet which machines exist.
func (r *run) list(now time.Time) {
	kept, seen := r.all[:0], make([]scale.Seen, 0, len(r.all))
	for _, m := range r.all {
		if r.machines[m.request] != m {
			continue
		}
		kept = append(kept, m)
		if m.began <= r.now {
			state := scale.GroupRunning
			if m.asleep {
				state = scale.GroupSuspended
			}
			seen = append(seen, scale.Seen{Instance: m.request, Request: m.request, Pool: m.pool.Name, State: state})
		}
	}
	clear(r.all[len(kept):])
	r.all = kept
	r.fleet.Listed(now, seen)
}

func (r *run) happen(e event) {
	now := r.clock()
	switch m := e.machine; e.kind {
	case jobEnds:
		job := &r.jobs[e.job]
		if !job.running || r.machines[m.request] != m || m.ended {
			return // it was lost with its machine, and runs again
		}
		job.running, job.done = false, true
		r.busy--
		r.left--
		r.last = r.now
		r.result.waits = append(r.result.waits, job.waited)
		r.fleet.Release(now, job.key)
	case accepted:
		r.fleet.Created(now, m.request, m.request)
	case refused:
		r.fleet.CreateFailed(now, m.request, scale.Failure{Kind: scale.Quota})
	case ready:
		if !m.ended {
			r.fleet.Ready(now, m.request)
		}
	case neverReady:
		if !m.ended {
			r.fleet.Failed(now, m.request, "it cannot be reached")
		}
	case noticed:
		if !m.ended {
			r.fleet.Interrupted(now, m.request, now.Add(noticeTime))
			r.plan(r.now+noticeTime, event{kind: takenBack, machine: m})
		}
	case takenBack:
		if !m.ended {
			r.bill(m)
			delete(r.machines, m.request)
			r.fleet.Observed(now, scale.Seen{Instance: m.request, Request: m.request, Pool: m.pool.Name, State: scale.GroupDeleted})
		}
	case deleted:
		delete(r.machines, m.request)
		r.fleet.Deleted(now, m.request, true)
	case list:
		r.list(now)
		r.plan(r.now+listInterval, event{kind: list})
	case wake:
		if r.wake == e.at {
			r.wake = never
		}
	}
}
