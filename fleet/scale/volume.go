package scale

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Volumes are what a fleet keeps for jobs beside machines: one volume for each tenant (Needs.Tenant) whose jobs want one (Needs.Volume). The zero value keeps
// none.
//
// A volume is attached to one machine at most, and used by jobs of its tenant alone. A job prefers the machine that has its volume; if that is taken, the
// volume is used, or cannot be had within Wait, the job runs without it: none waits for a volume alone.
type Volumes struct {
	// Max is how many there may be; 0 is none. Size is that of each, in bytes.
	Max  int
	Size int64
	// Idle is after which time without a job a volume is deleted; 0 is a week.
	Idle time.Duration
	// Shared lets several jobs of a tenant on one machine have the volume at once; otherwise the second runs without.
	Shared bool
	// Wait is how long a job that has a machine waits for its volume, at most; 0 is a minute.
	Wait time.Duration
	// Price is that of one for an hour.
	Price float64
}

const (
	defaultVolumeIdle = 7 * 24 * time.Hour
	defaultVolumeWait = time.Minute
	// volumeRetry is the pause between two calls about a volume without a definite answer.
	volumeRetry = 5 * time.Second
	// attracts is how long jobs that wait longer let others pass which have their volume on a machine that becomes free.
	attracts = time.Minute
)

// VolumeState is what becomes of a volume.
type VolumeState int

// The states of a volume.
const (
	VolumeCreating  VolumeState = iota // its creation is recorded, and asked for until the answer comes
	VolumeFree                         // no machine has it
	VolumeAttaching                    // it may be on Machine, which no other may be
	VolumeAttached                     // it is on Machine
	VolumeDetaching                    // it may be on Machine, until the group says that it is not
	VolumeDeleting                     // its end is asked for until the group says that it does not exist
	VolumeUnknown                      // it is in a list, and was in no record: it is kept for a while, as it has somebody's data
)

// String is the state in lower case.
func (s VolumeState) String() string {
	return [...]string{"creating", "free", "attaching", "attached", "detaching", "deleting", "unknown"}[s]
}

// VolumeRecord is a volume, as it outlives the process.
type VolumeRecord struct {
	Name    string // of the tenant; that of one that nobody knows begins with "stray/"
	Request string // that it was made for
	ID      string `json:",omitempty"` // what the group calls it, once that is known
	Group   string `json:",omitempty"` // Pool.Group
	Pool    string `json:",omitempty"` // for which it was made
	Zone    string `json:",omitempty"`
	State   VolumeState
	// Epoch grows with each attachment, and is recorded before the group is asked: what it hears of an earlier one later is too late.
	Epoch uint64 `json:",omitempty"`
	// Machine and Instance are the machine's that it is on, or may be.
	Machine  string    `json:",omitempty"`
	Instance string    `json:",omitempty"`
	Folder   string    `json:",omitempty"` // where that has it
	Users    []string  `json:",omitempty"` // keys of the jobs that have it
	Created  time.Time `json:",omitzero"`
	Used     time.Time `json:",omitzero"` // when a job had it last, or it was found
	// Found is when a list had it that no record had; zero: the record always had it.
	Found time.Time `json:",omitzero"`
}

// volume is a volume of a fleet.
type volume struct {
	VolumeRecord
	wanted  *demand // the held job that it is brought to
	due     time.Time
	trouble string // why the last call had no effect
	missing time.Time
	doubted bool // a call that may have made it had no definite answer
	resting bool // it is asked for again once a job wants it, and may exist until a list says otherwise
}

// taken reports whether another job cannot have it.
func (v *volume) taken(shared bool) bool {
	return v.wanted != nil || len(v.Users) > 0 && !shared
}

// volumes are those of a fleet. Events change what is known of them, and drive does what is due.
type volumes struct {
	*machines
	terms   Volumes
	all     map[string]*volume // by name
	changed map[string]bool    // names, since the last VolumeChanges; nil: all
	held    []*demand          // jobs that have a machine and not yet what they are to run with, in the order of their asking
}

func newVolumes(f *machines, terms Volumes) *volumes {
	terms.Idle = cmp.Or(terms.Idle, defaultVolumeIdle)
	terms.Wait = cmp.Or(terms.Wait, defaultVolumeWait)
	return &volumes{machines: f, terms: terms, all: map[string]*volume{}}
}

func (f *volumes) changedVolume(v *volume) {
	if f.changed != nil {
		f.changed[v.Name] = true
	}
}

// move gives a volume another state, which is acted upon with this decision.
func (f *volumes) move(v *volume, s VolumeState) {
	v.State, v.due, v.missing, v.resting = s, time.Time{}, time.Time{}, false
	f.changedVolume(v)
}

// holds reports whether the machine may have a volume of somebody else than a tenant.
func (m *instance) holds(tenant string) bool { return m.volume != nil && m.volume.Name != tenant }

// served notes who has run on a machine: in a pool whose jobs are not kept apart what one has left there could reach the volume of another.
func (m *instance) served(d *demand) {
	switch {
	case m.uses == 0:
		m.tenant = d.needs.Tenant
	case m.tenant != d.needs.Tenant:
		m.mixed = true
	}
}

// accepts reports whether a volume could be brought to a machine, for a job that is on it.
func (f *volumes) accepts(m *instance, tenant, group, zone string) bool {
	return m.pool.Volumes && m.pool.Group == group && (zone == "" || m.zone == zone) && m.id != "" &&
		(m.pool.Apart || m.tenant == tenant && !m.mixed && tenant != "")
}

// hold lets a job that has got a machine wait for its volume, or for the end of what is there of others. It is false for one that can run at once.
func (f *volumes) hold(now time.Time, d *demand, m *instance) bool {
	if f.terms.Max == 0 && len(f.all) == 0 {
		return false
	}
	d.volume, d.note = f.choose(now, d, m)
	if d.volume != nil {
		d.volume.wanted = d
	}
	if d.volume == nil && (m.volume == nil || m.pool.Apart || !m.holds(d.needs.Tenant)) {
		return false
	}
	d.held = now
	f.held = append(f.held, d)
	return true
}

// choose finds the volume of a job on its machine, or makes one. Without one it says why.
func (f *volumes) choose(now time.Time, d *demand, m *instance) (*volume, string) {
	name, terms := d.needs.Tenant, f.terms
	if !d.needs.Volume || name == "" || terms.Max == 0 {
		return nil, ""
	}
	v := f.all[name]
	switch {
	case v == nil && len(f.all) >= terms.Max:
		return nil, fmt.Sprintf("without a volume: there are %d, and no more are allowed", len(f.all))
	case v == nil && !f.accepts(m, name, m.pool.Group, ""):
		return nil, "without a volume: " + m.name() + " cannot have it, as its pool has none or other jobs have run there"
	case v == nil:
		f.created++
		v = &volume{VolumeRecord: VolumeRecord{
			Name: name, Request: fmt.Sprintf("%s-v%d", f.config.Name, f.created), Group: m.pool.Group, Pool: m.pool.Name, Zone: m.zone, Created: now, Used: now,
		}}
		f.all[name] = v
		f.move(v, VolumeCreating)
		return v, ""
	case v.taken(terms.Shared && v.Machine == m.request):
		return nil, "without its volume: another job has it"
	case v.State == VolumeDeleting:
		return nil, "without its volume: it is being deleted"
	case !f.accepts(m, name, v.Group, v.Zone):
		return nil, "without its volume: " + m.name() + " cannot have it, being elsewhere, or as other jobs have run there"
	case m.holds(name) && (len(m.volume.Users) > 0 || m.volume.wanted != nil):
		return nil, "without its volume: " + m.name() + " has another one, which is used"
	}
	return v, ""
}

// attracting is the machine that has the volume of a job, if the job can have both.
func (f *volumes) attracting(d *demand) *instance {
	v := f.all[d.needs.Tenant]
	if v == nil || !d.needs.Volume || v.State != VolumeAttached || v.taken(f.terms.Shared) {
		return nil
	}
	m := f.requests[v.Machine]
	if m == nil || !m.takes() || !slices.Contains(d.group.pools, m.pool) || !m.pool.Apart && m.mixed {
		return nil
	}
	return m
}

// attracted is a job among those that wait whose volume a machine has, unless somebody else has waited for too long.
func (f *volumes) attracted(now time.Time, m *instance, next *demand) *demand {
	const look = 100
	if m.volume == nil || m.volume.State != VolumeAttached || now.Sub(next.since) > attracts {
		return next
	}
	for _, g := range m.pool.groups {
		d := g.first
		for i := 0; d != nil && i < look; i, d = i+1, d.after {
			if d.needs.Volume && d.needs.Tenant == m.volume.Name && f.attracting(d) == m {
				return d
			}
		}
	}
	return next
}

// suiting is a machine of a pool that takes a job and could have its volume, which is to be made if there is none; nil: whichever comes first.
func (f *volumes) suiting(p *pool, d *demand) (found *instance) {
	if !d.needs.Volume || !p.Volumes || d.needs.Tenant == "" {
		return nil
	}
	zone, v := "", f.all[d.needs.Tenant]
	switch {
	case v == nil && len(f.all) >= f.terms.Max, v != nil && (v.Group != p.Group || v.taken(false)):
		return nil
	case v != nil:
		zone = v.Zone
	}
	for used := p.Slots - 1; used >= 0 && found == nil; used-- {
		for _, m := range p.open[used].items {
			fits := m.volume == nil && (zone == "" || m.zone == zone) && (p.Apart || m.uses == 0 || m.tenant == d.needs.Tenant && !m.mixed)
			if fits && (found == nil || p.open[used].less(m, found)) {
				found = m
			}
		}
	}
	return found
}

// leave ends what a job has of a volume.
func (f *volumes) leave(now time.Time, d *demand) {
	if i := slices.Index(f.held, d); i >= 0 {
		f.held = slices.Delete(f.held, i, i+1)
	}
	d.held = time.Time{}
	v := d.volume
	if v == nil {
		return
	}
	d.volume = nil
	if v.wanted == d {
		v.wanted = nil
	}
	if i := slices.Index(v.Users, d.key); i >= 0 {
		v.Users = slices.Delete(slices.Clone(v.Users), i, i+1)
		v.Used = now
	}
	f.changedVolume(v)
}

// unmount takes the volume from a machine that is of no more use to it. No job has it.
func (f *volumes) unmount(m *instance) {
	if v := m.volume; v != nil && len(v.Users) == 0 && v.State != VolumeDetaching {
		f.move(v, VolumeDetaching)
	}
}

// put notes which volume a machine has.
func (f *volumes) put(m *instance, v *volume) {
	f.change(m, func() { m.volume = v })
}

// drive lets held jobs go on, and does what is due for volumes. It returns when something is due next.
func (f *volumes) drive(now time.Time) (wake time.Time) {
	if len(f.all) == 0 && len(f.held) == 0 {
		return time.Time{}
	}
	for _, d := range slices.Clone(f.held) {
		if !d.held.IsZero() {
			f.settle(now, d)
		}
	}
	for _, d := range f.held {
		wake = earlier(wake, d.held.Add(f.terms.Wait))
	}
	for _, name := range slices.Sorted(maps.Keys(f.all)) {
		wake = earlier(wake, f.tend(now, f.all[name]))
	}
	return wake
}

// settle brings a held job a step closer to what it waits for, or lets it run.
func (f *volumes) settle(now time.Time, d *demand) {
	m, v := d.on, d.volume
	late := now.Sub(d.held) >= f.terms.Wait
	foreign := m.holds(d.needs.Tenant)
	switch {
	case foreign && !m.pool.Apart && late:
		f.fail(now, m, fmt.Sprintf("the volume %s of another project could not be detached from %s: %s", m.volume.Name, m.name(), orText(m.volume.trouble == "", "there was no answer", m.volume.trouble)))
	case foreign && (!m.pool.Apart || v != nil && !late):
		if !m.pool.Apart || m.volume.wanted == nil {
			f.unmount(m)
		}
	case v == nil:
		f.begin(now, d)
	case v.State == VolumeAttached && v.Machine == m.request:
		v.wanted = nil
		v.Users = append(slices.Clone(v.Users), d.key)
		v.Used = now
		f.changedVolume(v)
		d.note = "with volume " + v.Name
		f.begin(now, d)
	case late, v.State == VolumeDeleting:
		f.without(now, d, orText(v.trouble == "", "it was not attached in time", v.trouble))
	case v.State == VolumeFree && m.volume == nil:
		v.Epoch++
		v.Machine, v.Instance = m.request, m.id
		f.put(m, v)
		f.move(v, VolumeAttaching)
	case v.State == VolumeAttached: // on another machine, where nobody uses it
		f.move(v, VolumeDetaching)
	}
}

// without lets a held job run without its volume.
func (f *volumes) without(now time.Time, d *demand, why string) {
	v := d.volume
	v.wanted = nil
	d.volume, d.note = nil, "without its volume: "+why
	if v.State == VolumeAttaching {
		f.move(v, VolumeDetaching)
	}
	f.changedVolume(v)
	f.begin(now, d)
}

// begin lets a held job run, with its volume if it has one.
func (f *volumes) begin(now time.Time, d *demand) {
	if i := slices.Index(f.held, d); i >= 0 {
		f.held = slices.Delete(f.held, i, i+1)
	}
	d.held = time.Time{}
	f.begun(now, d)
	f.changes.of(d.on)
}

// tend does what is due for a volume, and returns when it is to be looked at again.
func (f *volumes) tend(now time.Time, v *volume) time.Time {
	m := f.requests[v.Machine]
	expired := len(v.Users) == 0 && v.wanted == nil && now.Sub(v.Used) >= f.terms.Idle
	switch {
	case v.State == VolumeAttached && len(v.Users) == 0 && (m == nil || m.state >= Suspended || expired):
		f.move(v, VolumeDetaching)
	case v.State == VolumeAttaching && v.wanted == nil, v.State == VolumeAttaching && (m == nil || m.state >= Suspended):
		f.move(v, VolumeDetaching)
	case v.State == VolumeFree && expired:
		f.move(v, VolumeDeleting)
	case v.State == VolumeUnknown && now.Sub(v.Used) >= f.terms.unknownTime():
		f.move(v, VolumeDetaching)
	}
	switch v.State {
	case VolumeFree, VolumeAttached:
		if len(v.Users) > 0 || v.wanted != nil {
			return time.Time{}
		}
		return v.Used.Add(f.terms.Idle)
	case VolumeUnknown:
		return v.Used.Add(f.terms.unknownTime())
	case VolumeCreating:
		if v.resting && v.wanted == nil {
			return time.Time{}
		}
		v.resting, v.missing = false, time.Time{}
	}
	if v.due.After(now) {
		return v.due
	}
	v.due = now.Add(volumeRetry)
	f.act(Action{Kind: volumeActions[v.State], Pool: v.Pool, Request: v.Request, Volume: v.Name, Why: v.why()})
	return v.due
}

var volumeActions = map[VolumeState]Kind{
	VolumeCreating: CreateVolume, VolumeAttaching: AttachVolume, VolumeDetaching: DetachVolume, VolumeDeleting: DeleteVolume,
}

// why says in a sentence what a volume is in its state for.
func (v *volume) why() string {
	if v.stray() {
		return "no record has it, and nobody has seen to it since it was found at " + v.Found.UTC().Format(time.DateTime)
	}
	switch v.State {
	case VolumeCreating:
		return "a job of " + v.Name + " wants a volume, and there is none"
	case VolumeAttaching:
		return fmt.Sprintf("a job of %s is to run on %s", v.Name, cmp.Or(v.Instance, v.Machine))
	case VolumeDetaching:
		return fmt.Sprintf("%s no longer needs it, or is gone, or it is needed elsewhere", cmp.Or(v.Instance, v.Machine))
	case VolumeDeleting:
		return "no job has used it since " + v.Used.UTC().Format(time.DateTime)
	}
	return ""
}

// answer finds the volume that an answer is about, if that still matters.
func (f *volumes) answer(of VolumeRecord, s VolumeState) *volume {
	if v := f.all[of.Name]; v != nil && v.Request == of.Request && v.Epoch == of.Epoch && v.State == s && of.State == s {
		return v
	}
	return nil
}

// VolumeCreated says that a group has made the volume of a request.
func (f *volumes) VolumeCreated(_ time.Time, name, request, id, zone string) {
	if v := f.answer(VolumeRecord{Name: name, Request: request, State: VolumeCreating}, VolumeCreating); v != nil && id != "" {
		v.ID, v.Zone, v.trouble = id, cmp.Or(zone, v.Zone), ""
		f.move(v, VolumeFree)
	}
}

// VolumeAttached says that a volume is on the machine for which that was asked, and in which folder. of is what was known when the call was made, as for the
// following: an answer may be about a volume that is gone, and whose name another one has.
func (f *volumes) VolumeAttached(_ time.Time, of VolumeRecord, folder string) {
	if v := f.answer(of, VolumeAttaching); v != nil {
		v.trouble, v.Folder = "", folder
		f.move(v, VolumeAttached)
	}
}

// VolumeDetached says that a volume is on no machine, and that what was asked for with this epoch or an earlier one will not bring it to one.
func (f *volumes) VolumeDetached(_ time.Time, of VolumeRecord) {
	v := f.answer(of, VolumeDetaching)
	if v == nil {
		return
	}
	if m := f.requests[v.Machine]; m != nil && m.volume == v {
		f.put(m, nil)
	}
	v.Machine, v.Instance, v.Folder, v.trouble = "", "", "", ""
	f.move(v, VolumeFree)
	if v.stray() {
		f.move(v, VolumeDeleting)
	}
}

// VolumeDeleted says that a volume does not exist any more.
func (f *volumes) VolumeDeleted(_ time.Time, of VolumeRecord) {
	if v := f.answer(of, VolumeDeleting); v != nil {
		f.dropVolume(v)
	}
}

func (f *volumes) dropVolume(v *volume) {
	delete(f.all, v.Name)
	if d := v.wanted; d != nil {
		d.volume, d.note = nil, "without its volume: it no longer exists"
	}
	f.changedVolume(v)
}

// VolumeFailed says that a call about a volume has failed. It is made again, unless what the group says will not
// change: then the job runs without. NotFound of a volume that was to be detached or deleted is what was wanted.
func (f *volumes) VolumeFailed(now time.Time, of VolumeRecord, err error) {
	s := of.State
	v := f.answer(of, s)
	if v == nil {
		return
	}
	e := failureOf(err)
	v.trouble = e.Error()
	v.due = now.Add(max(volumeRetry, e.After))
	final := e.Kind == Quota || e.Kind == Unauthorized || e.Kind == NotFound
	switch {
	case s == VolumeDetaching && e.Kind == NotFound:
		f.VolumeDetached(now, of)
	case s == VolumeDeleting && e.Kind == NotFound:
		f.VolumeDeleted(now, of)
	case s == VolumeCreating && final && !v.doubted: // there is none
		f.dropVolume(v)
		if d := v.wanted; d != nil {
			d.note = "without a volume: " + v.trouble
		}
	case (s == VolumeCreating || s == VolumeAttaching) && final:
		v.resting = s == VolumeCreating // an earlier call may have made it
		if d := v.wanted; d != nil {
			f.without(now, d, v.trouble)
		}
	case s == VolumeCreating:
		v.doubted = true
	}
}

// EndVolumes lets there be no volumes any more: each ends once no job has it, and at once if nobody knows it.
func (f *volumes) EndVolumes() { f.terms.Max, f.terms.Idle = 0, 0 }

// VolumeRecords are all volumes, by name.
func (f *volumes) VolumeRecords() (all []VolumeRecord) {
	for _, name := range slices.Sorted(maps.Keys(f.all)) {
		all = append(all, f.all[name].VolumeRecord)
	}
	return all
}

// VolumeTrouble is why the last call about a volume had no effect; empty: it had, or there was none.
func (f *volumes) VolumeTrouble(name string) string {
	if v := f.all[name]; v != nil {
		return v.trouble
	}
	return ""
}

// VolumeChanges are the volumes that have changed since the last call, and the names of those that are gone; the first call returns all.
func (f *volumes) VolumeChanges() (changed []VolumeRecord, gone []string) {
	names := f.changed
	if names == nil {
		names = map[string]bool{}
		for name := range f.all {
			names[name] = true
		}
	}
	f.changed = map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if v := f.all[name]; v != nil {
			changed = append(changed, v.VolumeRecord)
		} else {
			gone = append(gone, name)
		}
	}
	return changed, gone
}

// restoreVolumes takes over the volumes of a record, after its machines. Jobs that have lost theirs have no volume.
func (f *volumes) restoreVolumes(now time.Time, records []VolumeRecord) error {
	for _, one := range records {
		if one.State < VolumeCreating || one.State > VolumeUnknown || f.all[one.Name] != nil {
			return fmt.Errorf("the record of volume %q is wrong: it is there twice, or its state is %d", one.Name, one.State)
		}
		v := &volume{VolumeRecord: one, doubted: one.State == VolumeCreating}
		if p := f.byName[one.Pool]; p != nil {
			v.Group = p.Group
		}
		if v.Used.After(now) { // the clock was put back
			v.Used = now
		}
		v.Users = nil
		m := f.requests[one.Machine]
		for _, key := range one.Users {
			if d := f.demands[key]; d != nil && m != nil && d.on == m {
				v.Users = append(v.Users, key)
				d.volume, d.note = v, "with volume "+v.Name
			}
		}
		f.all[one.Name] = v
		if m != nil && v.State != VolumeFree {
			f.put(m, v)
		}
		f.changedVolume(v)
	}
	return nil
}
