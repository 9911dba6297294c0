package scale

import (
	"fmt"
	"time"
)

// quota is the limit of a group, and its pools.
type quota struct {
	most     int
	pools    []*pool
	promised int // machines, while roomFor counts
}

// join finds out which of all pools share the limit of its group with a pool.
func (p *pool) join(all []*pool) {
	for _, other := range all {
		if other.Group == p.Group && other.quota != nil {
			p.quota = other.quota
		}
	}
	if p.quota == nil && p.GroupInstances > 0 {
		p.quota = &quota{most: p.GroupInstances}
		for _, other := range all {
			if other != p && other.Group == p.Group {
				other.quota = p.quota
				p.quota.pools = append(p.quota.pools, other)
			}
		}
	}
	if p.quota != nil {
		p.quota.pools = append(p.quota.pools, p)
	}
}

// roomFor is how many machines the group may have for jobs of a group beside those that these jobs can have. Those of other pools that have no jobs yield.
func (q *quota) roomFor(g *group) int {
	n := q.left()
	for _, p := range q.pools {
		if p.bit&g.mask == 0 {
			n += p.idle.Len() + p.count[Suspended]
		}
	}
	return max(0, n)
}

// left is how many machines the group can have beside those that exist; below 0 if it has more than it may.
func (q *quota) left() int {
	n := q.most
	for _, p := range q.pools {
		n -= p.instances()
	}
	return n
}

// lack is how many machines are to be made for jobs that wait for the pool.
func (p *pool) lack(now time.Time) int {
	if p.backoff.blocked(now) {
		return 0
	}
	return p.claim()
}

// claim is the same also during a pause: idle machines of other pools that took these places would be ended for the next try. After a failure it is one place until something
// has succeeded, as what others give up for it may be lost.
func (p *pool) claim() int {
	slots := p.waiting - p.coming() - p.count[Suspended]*p.Slots
	n := min(p.room(), max(0, slots+p.Slots-1)/p.Slots)
	if p.backoff.failures > 0 {
		n = min(n, max(0, 1-p.arriving()))
	}
	return n
}

// going is how many machines of the group are about to be gone.
func (q *quota) going() (n int) {
	for _, p := range q.pools {
		n += p.count[Failed] + p.count[Deleting]
	}
	return n
}

// growth is how many machines can be made for jobs that wait for the pool; yields counts those that others will have made way for.
func (p *pool) growth(now time.Time, yields bool) int {
	q := p.quota
	if q == nil {
		return p.room()
	}
	n := q.left()
	if yields {
		n += q.going()
	}
	for _, other := range q.pools {
		if other == p {
			continue
		}
		lack := other.lack(now)
		if n -= lack; yields && lack == 0 {
			n += other.idle.Len() + other.count[Suspended]
		}
	}
	return max(0, min(n, p.room()))
}

// allow is how many of some machines that a policy wants the pool can have: those that jobs wait for come before those that are to be idle.
func (q *quota) allow(now time.Time, p *pool, n int) int {
	left := max(0, q.left())
	rest := left
	for _, other := range q.pools {
		if other != p {
			rest -= other.claim()
		}
	}
	return min(n, left, max(p.lack(now), rest))
}

// makeWay ends machines without jobs where others wait for machines of another pool, and the group can have no more: whatever a policy keeps, jobs come first.
// No more are ended than can be made now: the others follow as limits and pauses let them.
func makeWay(f *Fleet, now time.Time) {
	if f.stopped {
		return
	}
	for _, p := range f.pools {
		q := p.quota
		if q == nil || q.pools[0] != p {
			continue
		}
		able := 0
		for _, p := range q.pools {
			n, _ := p.able(now, p.lack(now))
			able += n
		}
		if able == 0 {
			continue
		}
		for n := able - q.left() - q.going(); n > 0; n-- {
			m := q.leastNeeded(f, now)
			if m == nil {
				break
			}
			f.remove(now, m, fmt.Sprintf("%s has no job, jobs wait for a machine of another pool, and their group can have no more than %s", m.name(), count(q.most, "machine")))
		}
	}
}

// leastNeeded is the machine of a group that makes way: one that is suspended, or else the one that has had no job for the longest time; nil: there is none.
func (q *quota) leastNeeded(f *Fleet, now time.Time) (found *instance) {
	for _, p := range q.pools {
		if p.lack(now) > 0 {
			continue
		}
		if asleep := f.asleep(p, 1); p.waiting == 0 && len(asleep) > 0 {
			return asleep[0]
		}
		for _, m := range p.idle.items {
			if found == nil || m.idleSince.Before(found.idleSince) || m.idleSince.Equal(found.idleSince) && m.number < found.number {
				found = m
			}
		}
	}
	return found
}
