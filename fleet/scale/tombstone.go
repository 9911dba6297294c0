package scale

import "time"

// tombstones are ids of machines that are gone, as a list may still have them.
type tombstones struct {
	ids   map[named]*tombstone
	queue []named
}

// tombstone is what lists have said of an id since its machine was gone.
type tombstone struct {
	at     time.Time
	list   uint64    // that had it last
	lacked bool      // a list did not have it
	since  time.Time // since when all lists have it again, after that; zero: they do not
}

// remembered is how long a list may be behind.
const remembered = 10 * time.Minute

func (t *tombstones) add(now time.Time, m *instance) {
	if t.ids == nil {
		t.ids = map[named]*tombstone{}
	}
	for len(t.queue) > 0 {
		if one := t.ids[t.queue[0]]; one != nil && now.Sub(one.at) <= remembered {
			break
		}
		delete(t.ids, t.queue[0])
		t.queue = t.queue[1:]
	}
	id := m.pool.named(m.id)
	t.ids[id] = &tombstone{at: now, list: m.seen}
	t.queue = append(t.queue, id)
}

// hides reports whether a machine in a list is only the one that is gone. Some groups use ids again, the lowest that is free: one that a list did not have, and that all have
// had for some time since, is a new machine's.
func (t *tombstones) hides(now time.Time, id named, list uint64, after time.Duration) bool {
	one := t.ids[id]
	if one == nil || now.Sub(one.at) > remembered {
		return false
	}
	one.list = list
	if one.lacked && one.since.IsZero() {
		one.since = now
	}
	if one.since.IsZero() || now.Sub(one.since) < after {
		return true
	}
	delete(t.ids, id)
	return false
}

// listed notes which ids a list of some groups did not have.
func (t *tombstones) listed(list uint64, groups map[string]bool) {
	for id, one := range t.ids {
		if groups[id.group] && one.list != list {
			one.lacked, one.since = true, time.Time{}
		}
	}
}
