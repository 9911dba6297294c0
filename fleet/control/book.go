package control

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/store"
)

// book is what is known of machines and jobs, and what of it is to be recorded.
type book struct {
	log    *slog.Logger
	clock  *steady
	clouds []*cloud
	pools  map[string]scale.Pool

	volumePrice float64 // of an hour

	mu       sync.Mutex
	scale    *scale.Fleet
	machines map[string]*machine           // by request: what scale has
	ids      map[named]*machine            // once the id of the instance is known
	underway int                           // creates and deletes
	volumes  map[string]scale.VolumeRecord // by name: what scale has
	calling  map[calling]bool              // that are under way
	told     map[string]calling            // in the history, by name
	jobs     map[string]*job
	changed  chan struct{} // closed at the next change
	pending  pending       // what is not committed
	entries  []store.Entry
	actions  []scale.Action // decided, and not recorded
	storeErr error
	closing  bool
	settled  chan struct{} // closed when the loop has ended

	wake chan struct{}
}

// kick lets the loop decide. The caller holds the lock.
func (f *book) kick() {
	close(f.changed)
	f.changed = make(chan struct{})
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// limits says why there is no room. The caller holds the lock.
func (f *book) limits() string {
	var all []string
	for _, e := range f.scale.Explain(f.clock.Now()) {
		if e.Limit != "" {
			all = append(all, e.Pool+": "+e.Limit)
		}
	}
	if len(all) == 0 {
		return scale.ErrNoCapacity.Error()
	}
	return "all slots are taken; " + strings.Join(all, "; ")
}

// losses are the jobs that have lost their machines, of what was decided: that is so, whether it is recorded or not.
func (f *book) losses() (ends []scale.Action) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.actions = slices.DeleteFunc(f.actions, func(a scale.Action) bool {
		if a.Kind == scale.End {
			ends = append(ends, a)
		}
		return a.Kind == scale.End
	})
	return ends
}

// named is an instance by its id in a cloud; nil is a cloud that is not known.
type named struct {
	cloud *cloud
	id    string
}

// machine is a machine as scale has it, and what this process knows of it.
type machine struct {
	request string
	rec     scale.InstanceRecord
	cloud   *cloud // nil: its pool is not in the configuration, and no list had it
	since   time.Time
	seen    group.Instance
	access  *access

	asked    bool      // a create may have been called, by this process or by another one
	creating bool      // a call is under way
	deleting bool      // a call is under way
	powering bool      // a call that suspends or resumes it is under way
	told     bool      // that it is deleted, in the history
	unnamed  time.Time // since when lists are looked at for it, while nobody knows its id
	looks    int       // lists since then

	deleteErr   error // of the last attempt to delete it
	deleteTries int   // with that error, in a row

	preparing  context.CancelFunc // nil: nobody does
	prepareErr error
	health     health
	stuck      stuck // what was tried on it
}

// follow brings machines to what scale has. The caller holds the lock.
func (f *book) follow(now time.Time) {
	created, changed, gone := f.scale.Changes()
	for _, rec := range changed {
		f.followOne(now, rec)
	}
	for _, rec := range gone {
		if m := f.machines[rec.Request]; m != nil {
			m.halt()
			delete(f.machines, rec.Request)
			delete(f.ids, named{m.cloud, rec.Instance})
			e := f.entry(now, store.Gone, rec)
			e.Began, e.Uses, e.Why = rec.Created, rec.Uses, rec.Reason
			f.entries = append(f.entries, e)
		}
		f.pending.lose(rec.Request)
	}
	if len(changed)+len(gone) > 0 {
		f.pending.created = created
	}
	f.followVolumes(now, created)
}

func (f *book) followOne(now time.Time, rec scale.InstanceRecord) {
	m := f.machines[rec.Request]
	if m == nil {
		m = &machine{request: rec.Request, cloud: f.cloudOf(rec.Pool), since: now}
		m.rec.State = scale.Requested
		f.machines[rec.Request] = m
	}
	was := m.rec
	m.rec = rec
	f.pending.keep(rec)
	if rec.Instance != "" {
		f.ids[named{m.cloud, rec.Instance}] = m
	}
	if rec.Instance != "" && m.access == nil {
		m.access = newAccess(m.cloud, rec.Instance)
	}
	if rec.State == was.State {
		return
	}
	m.since = now
	if rec.State != scale.Creating {
		m.halt()
	}
	if rec.State == scale.Suspended { // it may have another address later
		m.access = newAccess(m.cloud, rec.Instance)
	}
	if rec.State == scale.Ready {
		m.health.checked = now
		e := f.entry(now, store.Ready, rec)
		e.Began = rec.Created
		f.entries = append(f.entries, e)
	}
	if m.cloud != nil {
		m.cloud.soon()
	}
}

// halt ends Prepare.
func (m *machine) halt() {
	if m.preparing != nil {
		m.preparing()
		m.preparing = nil
	}
}

// public is the machine for Prepare, Check, and whoever has a slot.
func (m *machine) public() Machine {
	return Machine{Pool: m.rec.Pool, Request: m.rec.Request, Instance: m.rec.Instance, Group: m.seen, access: m.access}
}

// entry begins an entry about a machine.
func (f *book) entry(now time.Time, kind store.Kind, rec scale.InstanceRecord) store.Entry {
	p := f.pools[rec.Pool]
	return store.Entry{At: now, Kind: kind, Pool: rec.Pool, Request: rec.Request, Instance: rec.Instance, Price: p.Price, SuspendedPrice: p.SuspendedPrice, Billing: p.Billing, Slots: len(rec.Jobs)}
}

// decided notes an action, to be done once it is recorded. The caller holds the lock.
func (f *book) decided(now time.Time, a scale.Action) {
	f.actions = append(f.actions, a)
	if a.Kind >= scale.CreateVolume {
		f.noteVolume(now, a)
		return
	}
	m := f.machines[a.Request]
	e := store.Entry{At: now, Pool: a.Pool, Request: a.Request, Instance: a.Instance, Why: a.Why}
	switch a.Kind {
	case scale.Create:
		if m == nil || m.asked {
			return
		}
		e = f.entry(now, store.Create, m.rec)
		e.Why = a.Why
	case scale.Delete:
		if m == nil || m.told {
			return
		}
		m.told, e.Kind = true, store.Delete
	case scale.Drain:
		e.Kind = store.Drain
	case scale.Suspend:
		e.Kind = store.Suspend
	case scale.Resume:
		e.Kind = store.Resume
	case scale.Place, scale.End:
		j := f.jobs[a.Key]
		if j == nil || a.Kind == scale.End && j.request == "" { // it waited for its volume there
			return
		}
		e.Volume, e.Key, e.Slot = a.Volume, a.Key, a.Slot
		j.note(&e)
		if e.Kind, e.Began = store.Ended, j.placed; a.Kind == scale.Place {
			j.placed, j.request = now, a.Request
			e.Kind, e.Began = store.Place, j.asked
			f.pending.placed(store.Job{Key: a.Key, ID: j.ID, Project: j.Project, Needs: j.Needs, Request: a.Request, Asked: j.asked, Placed: now})
		} else {
			j.request = ""
			f.pending.over(a.Key)
		}
	}
	f.entries = append(f.entries, e)
	f.log.Info(string(e.Kind), "pool", a.Pool, "request", a.Request, "instance", a.Instance, "job", e.JobID, "why", e.Why)
}

// requestsOf are the requests of machines that satisfy something, in order. The caller holds the lock.
func (f *book) requestsOf(is func(*machine) bool) (requests []string) {
	for request, m := range f.machines {
		if is(m) {
			requests = append(requests, request)
		}
	}
	slices.Sort(requests)
	return requests
}
