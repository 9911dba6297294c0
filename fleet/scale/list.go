package scale

import (
	"fmt"
	"slices"
	"time"
)

// Seen is a machine in a list of a group.
type Seen struct {
	Instance string
	Request  string // that it was made for, if the group knows that
	Pool     string
	State    GroupState
	Reason   string // why it has failed
	Zone     string // where it is; empty: that is not known
}

// GroupState is the state of a machine as its group has it.
type GroupState int

// The states of a group.
const (
	GroupCreating GroupState = iota
	GroupRunning
	GroupSuspended // or on its way to that
	GroupFailed
	GroupDeleting
	GroupDeleted
)

// ListFailed says that a list of pools could not be had; without names of all. Nothing is known of the machines then, so none is missing, and whatever else is
// decided goes on.
func (f *machines) ListFailed(_ time.Time, err error, pools ...string) {
	for _, p := range f.listedOf(pools) {
		p.listErr = err.Error()
	}
}

// listedOf are the pools with some names, those of which the configuration has none any more included; without names all.
func (f *machines) listedOf(names []string) (found []*pool) {
	for _, p := range f.pools {
		if len(names) == 0 || slices.Contains(names, p.Name) {
			found = append(found, p)
		}
	}
	return found
}

// Listed says what machines the groups of pools have: all of them. Without names it is about all pools.
func (f *Fleet) Listed(now time.Time, list []Seen, pools ...string) {
	about, groups := map[*pool]bool{}, map[string]bool{}
	for _, p := range f.listedOf(pools) {
		p.listErr, about[p], groups[p.Group] = "", true, true
	}
	f.listing++
	for _, s := range list {
		if m := f.match(now, s); m != nil {
			m.seen, m.missingSince = f.listing, time.Time{}
			f.saw(now, m, s)
		}
	}
	for i := len(f.all) - 1; i >= 0; i-- { // backwards: forget moves the last one
		if m := f.all[i]; m.seen != f.listing && m.id != "" && about[m.pool] {
			f.missing(now, m)
		}
	}
	f.gone.listed(f.listing, groups)
}

// Observed is Listed for one machine: a group that watches says what changes.
func (f *Fleet) Observed(now time.Time, s Seen) {
	if m := f.match(now, s); m != nil {
		f.saw(now, m, s)
	}
}

// match finds the machine, or takes over one that is not in the record. nil is one that is gone for us, or for its group.
func (f *Fleet) match(now time.Time, s Seen) *instance {
	if m := f.idOf(s); m != nil {
		return m
	}
	if m := f.requests[s.Request]; m != nil && m.id == "" {
		f.identify(m, s.Instance)
		return m
	}
	if s.State == GroupDeleted || s.State == GroupDeleting || f.gone.hides(now, f.poolOf(s.Pool).named(s.Instance), f.listing, f.config.MissingAfter) {
		return nil
	}
	if s.Request == "" {
		if m := f.nameless(s.Pool); m != nil {
			f.identify(m, s.Instance)
			return m
		}
	}
	f.stray(now, "stray/"+s.Instance, s.Instance, s.Pool, "it is not in the record of this fleet")
	return f.idOf(s)
}

// idOf is the machine of an instance. One of a pool that nothing is known of any more may be of any group.
func (f *machines) idOf(s Seen) *instance {
	if m := f.ids[f.poolOf(s.Pool).named(s.Instance)]; m != nil {
		return m
	}
	if m := f.ids[named{id: s.Instance}]; m != nil && m.pool.bit == 0 {
		return m
	}
	return nil
}

// poolOf is the pool of a name, or any.
func (f *machines) poolOf(name string) *pool {
	if p := f.byName[name]; p != nil {
		return p
	}
	return f.pools[0]
}

// nameless is the machine that a group has most likely made, and not named: the oldest that it has accepted to make, or else that it was asked for, or else that is to
// end. Groups that only count machines name them in lists, which may have a machine before the answer to the call that made it.
func (f *machines) nameless(pool string) *instance {
	var likely *instance
	rank := [states]int{Creating: 3, Requested: 2, Deleting: 1}
	for _, m := range f.all {
		if m.id != "" || rank[m.state] == 0 || m.pool.Name != pool {
			continue
		}
		if likely == nil || rank[m.state] > rank[likely.state] || m.state == likely.state && m.number < likely.number {
			likely = m
		}
	}
	return likely
}

// saw follows the state that a group gives. A state that goes backwards says nothing: the machine was reached.
func (f *Fleet) saw(now time.Time, m *instance, s Seen) {
	if s.Zone != "" && s.Zone != m.zone {
		f.change(m, func() { m.zone = s.Zone })
	}
	switch s.State {
	case GroupCreating, GroupRunning:
		if m.state == Requested {
			f.Created(now, m.request, s.Instance)
		}
	case GroupSuspended:
		late := m.resumed && now.Sub(m.begun) < listsBehind // it was so before
		if !late && (m.state == Ready || m.state == Draining) {
			f.fail(now, m, m.name()+" was suspended by somebody else")
		}
	case GroupFailed:
		m.waste(now, s.Reason)
		f.fail(now, m, fmt.Sprintf("%s has failed: %s", m.name(), s.Reason))
	case GroupDeleting:
		if m.state < Deleting {
			m.waste(now, "a machine was removed before it was ready")
			f.endJobs(now, m, m.name()+" was removed by somebody else")
			f.unmount(m)
			f.become(now, m, Deleting, m.name()+" was removed by somebody else")
			f.wait(m, now.Add(f.config.DeleteRetry))
		}
	case GroupDeleted:
		m.waste(now, "a machine was removed before it was ready")
		f.forget(now, m, orText(m.state == Deleting, m.reason, m.name()+" was removed by somebody else"))
	}
}

func orText(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// listsBehind is how old what a list shows may be.
const listsBehind = 2 * time.Minute

// missing is a machine that a list does not have. Lists can be behind, so it must be missing for a while, and its end is asked for all the same: it
// may be running, and cost money. A list can be older than the machine, so one that is to be deleted is not gone before its group has heard of that.
func (f *Fleet) missing(now time.Time, m *instance) {
	switch {
	case m.state == Deleting && (m.accepted || !m.missingSince.IsZero() && now.Sub(m.missingSince) >= f.config.MissingAfter):
		f.forget(now, m, m.reason)
	case m.seen == 0 && (m.state == Creating || now.Sub(m.created) < listsBehind): // it has until it must be ready, or be listed
	case m.missingSince.IsZero():
		m.missingSince = now
	case now.Sub(m.missingSince) >= f.config.MissingAfter:
		m.waste(now, "a machine was missing from the group's list before it was ready")
		f.fail(now, m, fmt.Sprintf("%s is missing from the group's list since %s", m.name(), m.missingSince.UTC().Format(time.TimeOnly)))
	}
}
