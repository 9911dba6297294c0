package scale

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// State is what a machine is doing.
type State int

// The states of a machine. It is in the fleet in each of them but the last.
const (
	Requested State = iota // its creation is recorded, and asked for until the answer comes
	Creating               // the group has accepted
	Ready                  // it takes jobs
	Draining               // it finishes its jobs, and takes no more
	Suspended              // it has no jobs, and is kept for others
	Failed                 // it is of no use, and is deleted with this decision
	Deleting               // its end is asked for until it is seen gone
	Gone
	states
)

// String is the state in lower case.
func (s State) String() string {
	return [states]string{"requested", "creating", "ready", "draining", "suspended", "failed", "deleting", "gone"}[s]
}

// instance is a machine.
type instance struct {
	pool    *pool
	number  uint64 // in the order of their making
	request string
	id      string // what the group calls it, once that is known
	state   State
	reason  string
	unready string // why it could not be made or reached the last time that it was tried

	created, since, idleSince time.Time
	begun                     time.Time // when it was asked to run: created, or resumed
	uses, used                int
	slots                     []*demand

	seen         uint64    // the list that had it last
	missingSince time.Time // of lists in a row
	accepted     bool      // its group has accepted to delete it
	resumed      bool      // it was suspended before

	due   time.Time // when it is looked at again: timers
	order time.Time // when it goes, if nobody needs it: idle

	zone   string
	tenant string // whose jobs have run here, if mixed does not say that there were several
	mixed  bool
	volume *volume // that it has, or may have

	listAt, timerAt, openAt, idleAt int // its places, from 1
}

// takes reports whether another job may run here.
func (m *instance) takes() bool {
	return m.state == Ready && m.used < m.pool.Slots && !m.spent()
}

// spent reports whether it has had as many jobs as it may.
func (m *instance) spent() bool { return m.pool.MaxUses > 0 && m.uses >= m.pool.MaxUses }

func (m *instance) whySpent() string {
	return fmt.Sprintf("%s has run %s, and its limit is %d", m.name(), count(m.uses, "job"), m.pool.MaxUses)
}

// freeSlots is how many more jobs it takes now.
func (m *instance) freeSlots() int {
	if !m.takes() {
		return 0
	}
	free := m.pool.Slots - m.used
	if m.pool.MaxUses > 0 {
		free = min(free, m.pool.MaxUses-m.uses)
	}
	return free
}

// name is what a person knows it by.
func (m *instance) name() string {
	if m.id != "" {
		return m.id
	}
	return m.request
}

// change does something to a machine, and keeps what is counted and ordered of it true.
func (f *machines) change(m *instance, do func()) {
	p := m.pool
	if m.openAt > 0 {
		p.open[m.used].remove(m)
	}
	p.count[m.state]--
	p.busy -= m.used
	p.free -= m.freeSlots()
	if m.state == Draining {
		p.drainingBusy -= m.used
	}
	do()
	p.count[m.state]++
	p.busy += m.used
	p.free += m.freeSlots()
	if m.state == Draining {
		p.drainingBusy += m.used
	}
	if m.takes() {
		p.open[m.used].put(m)
	}
	if m.takes() && m.used == 0 {
		m.order = f.policy.Order(m.idleSince, &p.Pool, m.created, m.idleSince)
		p.idle.put(m)
	} else {
		p.idle.remove(m)
	}
	f.changes.of(m)
}

// become moves a machine to another state.
func (f *machines) become(now time.Time, m *instance, s State, reason string) {
	f.change(m, func() { m.state, m.reason, m.since, m.unready = s, reason, now, "" })
	f.timers.remove(m)
}

// late says why a machine was not ready in time.
func (m *instance) late() string {
	why := fmt.Sprintf("not ready after %s", m.pool.BootTimeout)
	switch {
	case m.unready != "":
		why += ": " + m.unready
	case m.state == Creating && m.id == "":
		why += ": no list of its group has it"
	}
	return why
}

// wait sets when a machine is looked at again.
func (f *machines) wait(m *instance, due time.Time) {
	m.due = due
	f.timers.put(m)
}

// add makes a machine that is known from now on.
func (f *machines) add(now time.Time, p *pool, request string, s State, reason string) *instance {
	f.created++
	m := &instance{pool: p, number: f.created, request: request, state: Gone, created: now, begun: now, slots: make([]*demand, p.Slots)}
	p.count[Gone]++
	f.become(now, m, s, reason)
	f.requests[request] = m
	f.all = append(f.all, m)
	m.listAt = len(f.all)
	return m
}

// forget ends a machine that is gone.
func (f *machines) forget(now time.Time, m *instance, reason string) {
	f.endJobs(now, m, reason)
	f.unmount(m)
	f.become(now, m, Gone, reason)
	m.pool.count[Gone]--
	last := len(f.all) - 1
	f.all[m.listAt-1] = f.all[last]
	f.all[m.listAt-1].listAt = m.listAt
	f.all = f.all[:last]
	f.changes.forget(m)
	delete(f.requests, m.request)
	if m.id != "" {
		delete(f.ids, m.pool.named(m.id))
		f.gone.add(now, m)
	}
}

// fail ends the jobs of a machine that is of no use, and then itself.
func (f *machines) fail(now time.Time, m *instance, reason string) {
	if m.state >= Failed {
		return
	}
	f.endJobs(now, m, reason)
	f.become(now, m, Failed, reason)
	f.remove(now, m, reason)
}

// waste is for a machine that is about to fail, or has gone: one that was made and never ready keeps its pool from making the next at once.
func (m *instance) waste(now time.Time, why string) {
	if m.state <= Creating && !m.resumed {
		m.pool.backoff.wasted(now, why)
	}
}

// remove asks for the end of a machine without jobs.
func (f *machines) remove(now time.Time, m *instance, why string) {
	if m.used > 0 {
		return // whatever the reason: the job comes first
	}
	f.unmount(m)
	if m.state != Deleting {
		f.become(now, m, Deleting, why)
	}
	f.wait(m, now.Add(f.config.DeleteRetry))
	f.act(Action{Kind: Delete, Pool: m.pool.Name, Request: m.request, Instance: m.id, Why: why})
}

// suspend lets a machine sleep that has no jobs.
func (f *machines) suspend(now time.Time, m *instance, why string) {
	f.unmount(m)
	f.become(now, m, Suspended, why)
	f.act(Action{Kind: Suspend, Pool: m.pool.Name, Request: m.request, Instance: m.id, Why: why})
}

// resume lets it run again.
func (f *machines) resume(now time.Time, m *instance, why string) {
	m.resumed, m.begun = true, now
	f.become(now, m, Creating, "")
	f.wait(m, now.Add(m.pool.BootTimeout))
	f.act(Action{Kind: Resume, Pool: m.pool.Name, Request: m.request, Instance: m.id, Why: why})
}

// asleep are the machines of a pool that are suspended, the one that was made first first.
func (f *machines) asleep(p *pool, n int) (found []*instance) {
	for _, m := range f.all {
		if p.count[Suspended] > 0 && m.pool == p && m.state == Suspended {
			found = append(found, m)
		}
	}
	slices.SortFunc(found, func(a, b *instance) int { return cmp.Compare(a.number, b.number) })
	return found[:min(n, len(found))]
}

// drain lets a machine finish its jobs, and take no more.
func (f *machines) drain(now time.Time, m *instance, why string) {
	if m.state != Ready {
		return
	}
	f.become(now, m, Draining, why)
	if m.used == 0 {
		f.remove(now, m, why)
		return
	}
	f.act(Action{Kind: Drain, Pool: m.pool.Name, Request: m.request, Instance: m.id, Why: why})
}
