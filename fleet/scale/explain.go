package scale

import (
	"fmt"
	"strings"
	"time"
)

// decided is what was decided last for a pool.
type decided struct {
	view  View
	plan  Plan
	limit string // what kept it from being done; empty if nothing did
}

// Explanation says of a pool, in sentences, what the last decision was made of.
type Explanation struct {
	Pool      string
	Instances map[State]int // those that exist
	Why       string        // this many
	Next      string        // which machine goes next
	Limit     string        // what keeps the pool from having one machine more; empty: nothing
}

// Explain says why there are as many machines as there are, and which goes next.
func (f *Fleet) Explain(now time.Time) []Explanation {
	var all []Explanation
	for _, p := range f.pools {
		if p.bit == 0 && p.instances() == 0 {
			continue
		}
		e := Explanation{Pool: p.Name, Instances: map[State]int{}, Next: f.next(now, p), Limit: p.limit(now, 1)}
		for s := Requested; s < Gone; s++ {
			if n := p.count[s]; n > 0 {
				e.Instances[s] = n
			}
		}
		switch {
		case p.bit == 0:
			e.Why = fmt.Sprintf("pool %s has changed, or is not in the configuration any more: its machines finish their jobs, and are ended", p.Name)
		case p.last.view.Pool != nil:
			e.Why = f.policy.Sentence(&p.last.view, p.last.plan)
		}
		if p.last.limit != "" {
			e.Why += "; " + p.last.limit
		}
		if text := p.failing(); text != "" {
			e.Why += ", " + count(p.count[Requested], "machine") + " on the way; " + text
		}
		if p.listErr != "" {
			e.Why += "; its machines cannot be listed: " + p.listErr
		}
		all = append(all, e)
	}
	return all
}

// next says which idle machine goes next.
func (f *machines) next(now time.Time, p *pool) string {
	m := p.idle.first()
	if m == nil {
		return "no machine is idle"
	}
	text := fmt.Sprintf("%s, idle since %s, goes next", m.name(), m.idleSince.UTC().Format(time.TimeOnly))
	if until := f.policy.Hold(now, &p.Pool, m.created, m.idleSince); until.After(now) {
		text += ", not before " + until.UTC().Format(time.TimeOnly)
	}
	if p.last.plan.Change >= 0 {
		text += ", once fewer slots are needed"
	}
	return text
}

// Waits reports whether a job waits: for a machine, or on one for its volume.
func (f *Fleet) Waits(key string) bool {
	d := f.demands[key]
	return d != nil && !d.reserved && (d.on == nil || !d.held.IsZero())
}

// ExplainJob says where a job is, or why it waits.
func (f *Fleet) ExplainJob(now time.Time, key string) string {
	d := f.demands[key]
	switch {
	case d == nil:
		return "there is no job " + key
	case d.reserved:
		return key + " is reserved for, and nobody has asked for its slot"
	case d.on != nil && !d.held.IsZero():
		return fmt.Sprintf("%s has %s (pool %s), and waits there since %s: %s", key, d.on.name(), d.on.pool.Name, d.held.UTC().Format(time.TimeOnly), d.waitsFor())
	case d.on != nil && d.note != "":
		return fmt.Sprintf("%s runs on %s (pool %s), slot %d, %s, since %s", key, d.on.name(), d.on.pool.Name, d.slot, d.note, d.since.UTC().Format(time.TimeOnly))
	case d.on != nil:
		return fmt.Sprintf("%s runs on %s (pool %s), slot %d, since %s", key, d.on.name(), d.on.pool.Name, d.slot, d.since.UTC().Format(time.TimeOnly))
	}
	return fmt.Sprintf("%s waits since %s: %s", key, d.since.UTC().Format(time.TimeOnly), d.group.shortage())
}

// Shortage says why a job that waits for a slot has none; empty if it does not wait for one.
func (f *Fleet) Shortage(key string) string {
	d := f.demands[key]
	if d == nil || d.reserved || d.on != nil {
		return ""
	}
	return d.group.shortage()
}

// shortage says why none of a group's pools has a free slot.
func (g *group) shortage() string {
	var pools []string
	for _, p := range g.pools {
		text := fmt.Sprintf("pool %s has no free slot", p.Name)
		if n := p.arriving(); n > 0 {
			text += ", and " + count(n, "machine") + " on the way"
			if failing := p.failing(); failing != "" {
				text += ", and " + failing
			}
		}
		if p.last.limit != "" {
			text += ", and " + p.last.limit
		}
		pools = append(pools, text)
	}
	return strings.Join(pools, "; ")
}

// waitsFor says what a job on a machine is held for.
func (d *demand) waitsFor() string {
	if v := d.volume; v != nil && !d.on.holds(v.Name) {
		text := fmt.Sprintf("its volume %s is %s", v.Name, v.State)
		if v.trouble != "" {
			text += ": " + v.trouble
		}
		return text
	}
	if d.on.volume == nil {
		return "its volume is to be attached"
	}
	return fmt.Sprintf("the volume %s of another project is detached first", d.on.volume.Name)
}
