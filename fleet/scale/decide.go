package scale

import (
	"cmp"
	"fmt"
	"time"
)

// Decision is what is to be done now, and when to ask again if nothing happens before; a zero Wake is never.
type Decision struct {
	Actions []Action
	Wake    time.Time
}

// Decide is called after something has happened, and at the time that the last decision named.
func (f *Fleet) Decide(now time.Time) Decision {
	f.due(now)
	f.drive(now) // who is let go frees, or needs, slots
	f.route(now)
	makeWay(f, now)
	wake := f.policy.Next(now)
	for _, p := range f.pools {
		if p.bit == 0 {
			continue
		}
		v := p.view(now)
		p.load.observe(now, v.Busy+v.Waiting, p.boots.get())
		plan := f.policy.Plan(now, &v)
		p.last = decided{view: v, plan: plan}
		if n := p.count[Suspended] - p.Suspend; n > 0 {
			for _, m := range f.asleep(p, n) {
				f.remove(now, m, fmt.Sprintf("no more than %s may be suspended", count(p.Suspend, "machine")))
			}
		}
		switch {
		case plan.Change > 0 && f.stopped:
		case plan.Change > 0:
			wake = earlier(wake, f.grow(now, p, plan.Change))
		case plan.Change < 0:
			wake = earlier(wake, f.shrink(now, p, -plan.Change, plan.Surplus))
		}
		wake = earlier(wake, plan.Again)
		if p.backoff.blocked(now) {
			wake = earlier(wake, p.backoff.until) // there is room again
		}
	}
	wake = earlier(wake, f.drive(now)) // machines that are deleted have no volumes any more
	if m := f.timers.first(); m != nil {
		wake = earlier(wake, m.due)
	}
	out := Decision{Actions: f.actions, Wake: wake}
	f.actions = make([]Action, 0, 4)
	return out
}

// earlier is the first of two times; zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// due repeats what has not been answered, and gives up on what takes too long.
func (f *Fleet) due(now time.Time) {
	for m := f.timers.first(); m != nil && !m.due.After(now); m = f.timers.first() {
		f.timers.remove(m)
		late := now.Sub(m.begun) >= m.pool.BootTimeout
		switch {
		case m.state == Deleting:
			f.remove(now, m, m.reason)
		case late && m.state <= Creating:
			why := m.late()
			m.waste(now, "a machine was "+why)
			f.fail(now, m, m.name()+" is "+why)
		case m.state == Requested:
			f.act(Action{Kind: Create, Pool: m.pool.Name, Request: m.request, Why: "the group has not answered: " + m.pool.backoff.why})
			f.wait(m, m.begun.Add(m.pool.BootTimeout))
		}
	}
}

// route gives those who wait to the pools that are to grow for them: the cheapest that is enough, can be grown, and is not on its way already.
func (f *Fleet) route(now time.Time) {
	for _, p := range f.pools {
		p.waiting, p.load.unallocated = 0, p.coming()
		if p.backoff.blocked(now) { // a group that does not answer may never make what it was asked for
			p.load.unallocated = p.count[Creating] * p.Slots
		}
	}
	for _, g := range f.groups {
		left := g.waiting
		for _, p := range g.pools { // slots that come anyway
			take := min(left, p.load.unallocated)
			p.waiting, p.load.unallocated, left = p.waiting+take, p.load.unallocated-take, left-take
		}
		for _, yields := range []bool{false, true} {
			for _, p := range g.pools {
				if left > 0 && !p.backoff.blocked(now) {
					take := min(left, max(0, (p.growth(now, yields)+p.count[Suspended])*p.Slots+p.coming()-p.waiting))
					p.waiting, left = p.waiting+take, left-take
				}
			}
		}
		g.pools[0].waiting += left // who waits for a limit or the end of a pause
	}
}

// view is what a policy is shown.
func (p *pool) view(now time.Time) View {
	waited := time.Duration(0)
	for _, g := range p.groups {
		if g.first != nil {
			waited = max(waited, now.Sub(g.first.since))
		}
	}
	return View{
		Waited: waited,
		Pool:   &p.Pool, Busy: p.busy, Draining: p.drainingBusy, Free: p.free, Waiting: p.waiting,
		Coming: p.coming(), Ready: p.count[Ready], Instances: p.instances(), Idle: p.idle.Len(),
		Boot: p.boots.get(), Run: p.runs.get(), Load: &p.load,
	}
}

// grow resumes machines, and then asks for others, as far as limits let it, and returns when it could ask for more.
func (f *Fleet) grow(now time.Time, p *pool, n int) time.Time {
	if p.count[Suspended] > 0 {
		for _, m := range f.asleep(p, n) {
			f.resume(now, m, f.policy.Sentence(&p.last.view, p.last.plan))
			n--
		}
		if n == 0 {
			return time.Time{}
		}
	}
	allowed := min(n, p.room())
	p.last.limit = p.limit(now, n)
	if q := p.quota; q != nil && !p.backoff.blocked(now) {
		free := min(allowed, max(0, q.left()))
		if allowed = q.allow(now, p, allowed); allowed < free {
			p.last.limit = "jobs wait for machines of other pools of its group, which can have no more than " + count(q.most, "machine")
		}
	}
	allowed, limit := p.able(now, allowed)
	p.last.limit = cmp.Or(limit, p.last.limit)
	p.bucket.take(allowed)
	why := ""
	for range allowed {
		if why == "" {
			why = f.policy.Sentence(&p.last.view, p.last.plan)
		}
		request := fmt.Sprintf("%s-%d", f.config.Name, f.created+1)
		m := f.add(now, p, request, Requested, "")
		f.wait(m, now.Add(p.BootTimeout))
		f.act(Action{Kind: Create, Pool: p.Name, Request: request, Why: why})
	}
	switch {
	case p.backoff.blocked(now):
		return p.backoff.until
	case allowed < n && p.bucket.ready(now) == 0: // also where others make way first: they do so for what can be asked for
		return p.bucket.next()
	}
	return time.Time{}
}

// shrink suspends idle machines, or ends them, and returns when the next can go.
func (f *Fleet) shrink(now time.Time, p *pool, n, surplus int) time.Time {
	why := ""
	for n > 0 {
		m := p.idle.first()
		if m == nil || m.freeSlots() > surplus {
			return time.Time{}
		}
		if order := f.policy.Order(now, &p.Pool, m.created, m.idleSince); order.After(m.order) { // what was paid for has ended, and it stayed
			m.order = order
			p.idle.put(m)
			continue
		}
		until := f.policy.Hold(now, &p.Pool, m.created, m.idleSince)
		if until.After(now) {
			return until
		}
		if why == "" {
			why = f.policy.Sentence(&p.last.view, p.last.plan)
		}
		surplus -= m.freeSlots()
		if p.count[Suspended] < p.Suspend && m.id != "" && !m.spent() {
			f.suspend(now, m, why)
		} else {
			f.remove(now, m, why)
		}
		n--
	}
	return time.Time{}
}
