package scale

import "time"

// demand is a job: reserved for, waiting, or on a machine.
type demand struct {
	key      string
	group    *group
	needs    Needs
	number   uint64 // in the order of asking
	since    time.Time
	reserved bool      // nobody knows yet whether the job comes
	on       *instance // nil while it waits
	slot     int
	held     time.Time // since when its machine waits for its volume, or for the end of another's; zero: it does not
	volume   *volume   // that it waits for, or has
	note     string    // what there is to say of that
	before   *demand   // among those that wait
	after    *demand
}

// Reserve keeps room for a job before there is one. The error is ErrNoCapacity or ErrUnfit; a key that is known is no error.
func (f *Fleet) Reserve(now time.Time, key string, n Needs) error {
	if f.demands[key] != nil {
		return nil
	}
	g, err := f.groupOf(n)
	if err != nil {
		return err
	}
	ready, possible := f.roomFor(now, g)
	if ready+possible <= 0 || ready <= 0 && f.policy.Preemptive(now) {
		return ErrNoCapacity
	}
	if slots := g.pools[0].Slots; f.config.ThrottleReservations && ready+g.reserved > slots && ready <= slots {
		return ErrNoCapacity
	}
	f.asked++
	f.demands[key] = &demand{key: key, group: g, number: f.asked, since: now, reserved: true}
	g.reserved++
	return nil
}

// Room is how many more jobs with some needs there are free slots for, and for how many there will be or could be made some, within limits. ready is below 0 if more wait
// than are free. The error is ErrUnfit.
func (f *Fleet) Room(now time.Time, n Needs) (ready, possible int, err error) {
	g, err := f.groupOf(n)
	if err != nil {
		return 0, 0, err
	}
	ready, possible = f.roomFor(now, g)
	if f.policy.Preemptive(now) {
		possible = 0
	}
	return ready, possible, nil
}

// roomFor is how many more jobs of a group there are slots for, and how many could be made. A pool that is refused machines makes none.
func (f *Fleet) roomFor(now time.Time, g *group) (ready, possible int) {
	for _, p := range g.pools {
		if p.quota != nil {
			p.quota.promised = 0
		}
	}
	for _, p := range g.pools {
		ready += p.free
		possible += p.coming() + p.count[Suspended]*p.Slots
		if !p.backoff.refused || !p.backoff.blocked(now) {
			room := p.room()
			if q := p.quota; q != nil { // what one pool gets another one does not
				room = min(room, max(0, q.roomFor(g)-q.promised))
				q.promised += room
			}
			possible += room * p.Slots
		}
	}
	return ready - g.reserved - g.waiting, possible
}

// Ask says that a job waits for a slot. A key that was reserved keeps its place; one that waits or runs is no error, so that Ask can be repeated.
func (f *Fleet) Ask(now time.Time, key string, n Needs) error {
	d := f.demands[key]
	switch {
	case d != nil && !d.reserved:
		return nil
	case d != nil:
		d.reserved = false
		d.group.reserved--
	}
	g, err := f.groupOf(n)
	if err != nil {
		delete(f.demands, key)
		return err
	}
	f.asked++
	d = &demand{key: key, group: g, needs: n, number: f.asked, since: now}
	f.demands[key] = d
	g.enqueue(d)
	g.pools[0].load.arrive(now)
	if m := f.openFor(d); m != nil {
		f.place(now, d, m)
	}
	return nil
}

// Release gives back what there is of a key: a reservation, a place in the queue, or a slot. A key that is unknown is no error.
func (f *Fleet) Release(now time.Time, key string) {
	d := f.demands[key]
	if d == nil {
		return
	}
	delete(f.demands, key)
	switch {
	case d.reserved:
		d.group.reserved--
	case d.on == nil:
		d.group.dequeue(d)
	default:
		m := d.on
		if d.held.IsZero() {
			m.pool.runs.add(now.Sub(d.since))
		}
		f.leave(now, d)
		f.change(m, func() {
			m.slots[d.slot] = nil
			m.used--
			m.idleSince = now
		})
		f.freed(now, m)
	}
}

// freed gives the slots of a machine to others, or ends it if it has served.
func (f *machines) freed(now time.Time, m *instance) {
	switch {
	case m.state == Draining && m.used == 0:
		f.remove(now, m, m.reason)
	case m.takes():
		f.fill(now, m)
	}
}

// fill gives the slots of a machine to those who wait, the longest first.
func (f *machines) fill(now time.Time, m *instance) {
	for m.takes() {
		var next *demand
		for _, g := range m.pool.groups {
			if g.first != nil && (next == nil || g.first.number < next.number) {
				next = g.first
			}
		}
		if next == nil {
			return
		}
		f.place(now, f.attracted(now, m, next), m)
	}
}

// place puts a job that waits onto a machine that takes it.
func (f *machines) place(now time.Time, d *demand, m *instance) {
	d.group.dequeue(d)
	for d.slot = 0; m.slots[d.slot] != nil; d.slot++ {
	}
	m.served(d)
	f.change(m, func() {
		m.slots[d.slot] = d
		m.used++
		m.uses++
	})
	d.on = m
	if m.spent() {
		f.become(now, m, Draining, m.whySpent())
	}
	if !f.hold(now, d, m) {
		f.begun(now, d)
	}
}

// begun says that a job runs on its machine from now on.
func (f *machines) begun(now time.Time, d *demand) {
	m, waited := d.on, now.Sub(d.since)
	d.since = now
	a := Action{Kind: Place, Pool: m.pool.Name, Request: m.request, Instance: m.id, Key: d.key, Slot: d.slot, Waited: waited, Why: d.note}
	if d.volume != nil {
		a.Volume = d.volume.Name
	}
	f.act(a)
}

// openFor is the machine that a job gets; nil: there is none. It is the one with its volume, or one that could have it, or the next.
func (f *machines) openFor(d *demand) *instance {
	if m := f.attracting(d); m != nil {
		return m
	}
	for _, p := range d.group.pools {
		if m := f.suiting(p, d); m != nil {
			return m
		}
		if m := p.openInstance(); m != nil {
			return m
		}
	}
	return nil
}

// endJobs ends what runs on a machine that no longer can.
func (f *machines) endJobs(now time.Time, m *instance, why string) {
	for _, d := range m.slots {
		if d == nil {
			continue
		}
		delete(f.demands, d.key)
		f.leave(now, d)
		f.act(Action{Kind: End, Pool: m.pool.Name, Request: m.request, Instance: m.id, Key: d.key, Slot: d.slot, Why: why})
	}
	f.change(m, func() {
		clear(m.slots)
		m.used = 0
	})
}

func (g *group) enqueue(d *demand) {
	if d.before = g.last; d.before == nil {
		g.first = d
	} else {
		d.before.after = d
	}
	g.last = d
	g.waiting++
}

func (g *group) dequeue(d *demand) {
	if d.before == nil {
		g.first = d.after
	} else {
		d.before.after = d.after
	}
	if d.after == nil {
		g.last = d.before
	} else {
		d.after.before = d.before
	}
	d.before, d.after = nil, nil
	g.waiting--
}
