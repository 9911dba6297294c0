package control

import (
	"context"
	"slices"
	"time"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/scale"
)

// expectFor is how long a machine may take to change before its group is listed less often.
const expectFor = 10 * time.Minute

// soon lets the group be listed when it is due, which may be earlier than it was. It never blocks.
func (c *cloud) soon() {
	select {
	case c.listSoon <- struct{}{}:
	default:
	}
}

// lists lists the group, again and again.
func (c *cloud) lists() {
	for c.f.life.Err() == nil {
		c.list()
		for {
			c.f.mu.Lock()
			left := c.interval().Nanoseconds() - c.f.clock.Now().Sub(c.listed).Nanoseconds()
			c.f.mu.Unlock()
			if left <= 0 {
				break
			}
			select {
			case <-c.f.clock.After(time.Duration(left)):
			case <-c.listSoon: // the interval may be another one
			case <-c.f.life.Done():
				return
			}
		}
	}
}

// interval is how long after a list the next is due. The caller holds the lock.
func (c *cloud) interval() time.Duration {
	o, now := &c.f.o, c.f.clock.Now()
	busy, expecting, late := false, c.missing, false
	for _, m := range c.f.machines {
		if m.cloud != c {
			continue
		}
		busy = busy || m.jobs() > 0
		if m.rec.State != scale.Ready && m.rec.State != scale.Draining && m.rec.State != scale.Suspended {
			expecting = expecting || now.Sub(m.since) < expectFor
			late = true
		}
	}
	pause := o.UpdateInterval
	if busy || late {
		pause = min(pause, ListWhileBusy)
	}
	if expecting {
		pause = min(pause, o.UpdateIntervalWhenExpecting)
	}
	if c.failures > 0 {
		after, _ := group.RetryAfter(c.listErr)
		pause = max(after, min(listBackoff, pause<<min(c.failures-1, 5)))
	}
	return max(pause, time.Millisecond)
}

// jobs is how many the machine has.
func (m *machine) jobs() int {
	n := 0
	for _, key := range m.rec.Jobs {
		if key != "" {
			n++
		}
	}
	return n
}

// list lists the group once.
func (c *cloud) list() {
	found, err := call(c.f.life, c, c.f.o.CallTimeout, c.group.List)
	if c.f.life.Err() != nil {
		return
	}
	c.f.tell(func(now time.Time) {
		c.listed = now
		if err != nil {
			if c.failures++; c.failures == 1 {
				c.note(now, scale.InstanceRecord{Pool: c.pools[0]}, "the machines could not be listed", err)
			}
			c.listErr = err
			c.f.scale.ListFailed(now, err, c.names()...)
			return
		}
		c.failures, c.listErr = 0, nil
		seen := make([]scale.Seen, 0, len(found))
		for _, i := range found {
			seen = append(seen, c.seen(i))
		}
		c.f.scale.Listed(now, seen, c.names()...)
		c.f.follow(now)
		c.looking(now, found)
	})
}

// names are the pools whose machines the group has: those of the configuration, and those of machines that it was found to have.
func (c *cloud) names() []string {
	names := slices.Clone(c.pools)
	for _, m := range c.f.machines {
		if m.cloud == c && !slices.Contains(names, m.rec.Pool) {
			names = append(names, m.rec.Pool)
		}
	}
	return names
}

// machineOf is the machine of an instance of the group; nil: it is not known. The caller holds the lock.
func (c *cloud) machineOf(id string) *machine {
	if m := c.f.ids[named{c, id}]; m != nil {
		return m
	}
	return c.f.ids[named{nil, id}]
}

// states are those of groups for the decision.
var states = map[group.State]scale.GroupState{
	group.StateCreating: scale.GroupCreating, group.StateRunning: scale.GroupRunning, group.StateFailed: scale.GroupFailed, group.StateTimeout: scale.GroupFailed,
	group.StateSuspending: scale.GroupSuspended, group.StateSuspended: scale.GroupSuspended, group.StateDeleting: scale.GroupDeleting, group.StateDeleted: scale.GroupDeleted,
}

// seen is an instance for the decision.
func (c *cloud) seen(i group.Instance) scale.Seen {
	s := scale.Seen{Instance: i.ID, Request: i.Request, Zone: i.Zone, State: states[i.State], Reason: i.Reason, Pool: c.pools[0]}
	if s.Reason == "" {
		s.Reason = "its group says that it is " + string(i.State)
	}
	m := c.machineOf(i.ID)
	if m == nil {
		m = c.f.machines[i.Request]
	}
	if m != nil {
		s.Pool = m.rec.Pool
		return s
	}
	for _, name := range c.pools {
		if p := c.options[name]; p.Shape == i.Shape && p.Spot == i.Spot && (p.Zone == "" || p.Zone == i.Zone) {
			s.Pool = name
			break
		}
	}
	return s
}

// looking goes through a list after the decision knows it: what is running is made ready, notices are told, and what has no name was looked for once more.
func (c *cloud) looking(now time.Time, found []group.Instance) {
	in := make(map[string]bool, len(found))
	for _, i := range found {
		in[i.ID] = true
		if m := c.machineOf(i.ID); m != nil {
			c.saw(now, m, i)
		}
	}
	c.missing = false
	for at, m := range c.f.ids {
		c.missing = c.missing || m.cloud == c && !in[at.id] && m.rec.State < scale.Failed
	}
	for _, request := range c.f.requestsOf(func(m *machine) bool { return m.cloud == c && !m.unnamed.IsZero() }) {
		c.looked(now, c.f.machines[request])
	}
}

// saw is an instance that is one of ours.
func (c *cloud) saw(now time.Time, m *machine, i group.Instance) {
	if m.cloud == nil {
		delete(c.f.ids, named{nil, i.ID})
		c.f.ids[named{c, i.ID}], m.cloud = m, c
		m.access.cloud.Store(c)
	}
	m.seen = i
	if i.Interruption != nil {
		c.f.scale.Interrupted(now, m.request, i.Interruption.At)
		c.f.follow(now)
	}
	switch {
	case i.State == group.StateRunning && m.rec.State == scale.Suspended, i.State == group.StateSuspended && m.rec.State == scale.Creating:
		c.power(m) // the call was not made, or has failed
	case i.State == group.StateRunning:
		c.prepare(m)
	}
}

// look begins to look for a machine in lists, as nothing else can say whether it exists. The caller holds the lock.
func (c *cloud) look(m *machine) {
	if m.unnamed.IsZero() {
		m.unnamed, m.looks = c.f.clock.Now(), 0
	}
}

// looked is a list after look. The machine exists if the list has named it, and does not if none has for long enough; if it comes after all, it is found and ended.
func (c *cloud) looked(now time.Time, m *machine) {
	m.looks++
	switch {
	case m.rec.Instance != "" || m.rec.State != scale.Requested && m.rec.State != scale.Deleting:
		m.unnamed = time.Time{}
	case m.creating || m.looks < minLooks || now.Sub(m.unnamed) < uncertain:
	case m.rec.State == scale.Requested:
		c.f.scale.CreateFailed(now, m.request, scale.Failure{Kind: scale.Transient, Err: errNeverCame})
	default:
		c.f.scale.Deleted(now, m.request, true)
	}
}

// watch hears of changes.
func (c *cloud) watch() {
	pause := time.Second
	for c.f.life.Err() == nil {
		began := c.f.clock.Now()
		_, err := watching(c)
		if c.f.life.Err() != nil {
			return
		}
		if c.f.clock.Now().Sub(began) > expectFor {
			pause = time.Second
		}
		c.f.log.Warn("the group tells no changes any more, and is listed until it does", "error", err)
		select {
		case <-c.f.clock.After(pause):
		case <-c.f.life.Done():
		}
		pause = min(2*pause, expectFor)
	}
}

// watching watches until that ends. It has no limit, but that it is given up when the fleet closes.
func watching(c *cloud) (struct{}, error) {
	const always = 10 * 365 * 24 * time.Hour
	return call(c.f.life, c, always, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, c.group.Watch(ctx, func(i group.Instance) {
			c.f.tell(func(now time.Time) {
				if ctx.Err() != nil {
					return
				}
				c.f.scale.Observed(now, c.seen(i))
				c.f.follow(now)
				if m := c.machineOf(i.ID); m != nil {
					c.saw(now, m, i)
				}
			})
		})
	})
}
