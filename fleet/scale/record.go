package scale

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Record is what must outlive the process: written after each decision and before its actions are carried out, a fleet that is restored from it knows
// every machine that was ever asked for and has not been seen gone.
type Record struct {
	Name      string // of the fleet
	Created   uint64 // requests so far
	Instances []InstanceRecord
	Volumes   []VolumeRecord
	// Began is when jobs got their machines, by key, if that is known: Restore alone reads it.
	Began map[string]time.Time `json:"-"`
}

// InstanceRecord is a machine.
type InstanceRecord struct {
	Request, Instance, Pool string
	State                   State
	Reason                  string
	Created                 time.Time
	Uses                    int
	Jobs                    []string // the key in each slot; empty is free, or the job waits for its volume
	// Tenant is whose jobs have run there; Mixed: those of several have. Zone is where it is.
	Tenant string `json:",omitempty"`
	Mixed  bool   `json:",omitempty"`
	Zone   string `json:",omitempty"`
}

// Record copies what the fleet knows of its machines.
func (f *machines) Record() Record {
	r := Record{Name: f.config.Name, Created: f.created}
	for _, m := range f.all {
		r.Instances = append(r.Instances, m.record())
	}
	r.Volumes = f.VolumeRecords()
	return r
}

func (m *instance) record() InstanceRecord {
	one := InstanceRecord{
		Request: m.request, Instance: m.id, Pool: m.pool.Name, State: m.state, Reason: m.reason, Created: m.created, Uses: m.uses,
		Jobs: make([]string, m.pool.Slots), Tenant: m.tenant, Mixed: m.mixed, Zone: m.zone,
	}
	for i, d := range m.slots {
		if d != nil && d.held.IsZero() {
			one.Jobs[i] = d.key
		}
	}
	return one
}

// Restore takes over the machines of a record, with the jobs on them, into a fleet that has none. A create or delete that may not have been carried out
// is asked for again. Machines of pools that no longer exist finish their jobs, and go.
func (f *Fleet) Restore(now time.Time, r Record) error {
	if len(f.all) > 0 || f.created > 0 {
		return fmt.Errorf("the fleet has machines already")
	}
	for _, one := range r.Instances {
		if f.requests[one.Request] != nil || one.State >= Gone || one.State < Requested {
			return fmt.Errorf("the record of machine %q is wrong: it is there twice, or its state is %d", one.Request, one.State)
		}
		f.restore(now, one, r.Began)
	}
	f.created = max(f.created, r.Created)
	return f.restoreVolumes(now, r.Volumes)
}

// changes are the machines that are no longer as they were recorded. The zero value follows none.
type changes struct {
	machines map[*instance]bool
	gone     map[string]InstanceRecord
}

func newChanges() changes {
	return changes{machines: map[*instance]bool{}, gone: map[string]InstanceRecord{}}
}

func (c changes) of(m *instance) {
	if c.machines != nil {
		c.machines[m] = true
	}
}

func (c changes) forget(m *instance) {
	if c.machines == nil {
		return
	}
	delete(c.machines, m)
	c.gone[m.request] = m.record()
}

// Changes is what has changed in the record since the last call: machines that are new or different, in the order of their making, and those that
// are in it no longer, as they were last. The first call returns all machines. Created is that of Record.
func (f *machines) Changes() (created uint64, machines, gone []InstanceRecord) {
	changed := f.changes
	f.changes = newChanges()
	if changed.machines == nil {
		for _, m := range f.all {
			f.changes.of(m)
		}
		changed, f.changes = f.changes, newChanges()
	}
	for _, m := range slices.SortedFunc(maps.Keys(changed.machines), func(a, b *instance) int { return cmp.Compare(a.number, b.number) }) {
		machines = append(machines, m.record())
	}
	for _, request := range slices.Sorted(maps.Keys(changed.gone)) {
		gone = append(gone, changed.gone[request])
	}
	return f.created, machines, gone
}

func (f *Fleet) restore(now time.Time, one InstanceRecord, began map[string]time.Time) {
	p := f.byName[one.Pool]
	retired := p == nil || p.Retired || len(one.Jobs) != p.Slots
	if retired {
		p = retiredPool(f, one)
	}
	m := f.add(now, p, one.Request, one.State, one.Reason)
	m.created = one.Created
	if m.created.After(now) { // the clock was put back
		m.created = now
	}
	m.begun = m.created
	if least := now.Add(-p.BootTimeout * 2 / 3); m.begun.Before(least) { // nobody has looked at it for a while
		m.begun = least
	}
	f.identify(m, one.Instance)
	f.change(m, func() {
		m.uses, m.idleSince = one.Uses, now
		m.tenant, m.mixed, m.zone = one.Tenant, one.Mixed, one.Zone
		for i, key := range one.Jobs {
			if key == "" {
				continue
			}
			f.asked++
			m.slots[i] = &demand{key: key, group: &group{}, number: f.asked, since: now, on: m, slot: i}
			if at := began[key]; !at.IsZero() && at.Before(now) {
				m.slots[i].since = at
			}
			f.demands[key] = m.slots[i]
			m.used++
		}
	})
	why := ""
	switch {
	case retired:
		why = fmt.Sprintf("%s is of a pool that has changed", m.name())
	case m.spent(): // it was allowed more before, and would wait for jobs that it does not take
		why = m.whySpent()
	}
	if why != "" && one.State <= Creating { // nobody needs it, and it may exist
		f.remove(now, m, why)
		return
	}
	switch one.State {
	case Requested, Deleting:
		f.wait(m, now)
	case Creating:
		f.wait(m, m.begun.Add(p.BootTimeout))
	case Suspended:
		if why != "" {
			f.remove(now, m, why)
		}
	case Failed:
		f.remove(now, m, m.reason)
	case Ready:
		if why != "" {
			f.drain(now, m, why)
		}
	case Draining:
		f.freed(now, m)
	}
}

// retiredPool is the pool of machines that are no longer as the configuration has them. It is enough for nobody.
func retiredPool(f *Fleet, one InstanceRecord) *pool {
	for _, p := range f.pools {
		if p.bit == 0 && p.Name == one.Pool && p.Slots == len(one.Jobs) {
			return p
		}
	}
	of := Pool{Name: one.Pool, Slots: len(one.Jobs), Retired: true}
	if p := f.byName[one.Pool]; p != nil { // whose group has it
		of.Group, of.Price, of.SuspendedPrice, of.Billing = p.Group, p.Price, p.SuspendedPrice, p.Billing
	}
	p := newPool(of)
	f.pools = append(f.pools, p)
	p.join(f.pools)
	return p
}
