package control

import (
	"cmp"
	"slices"
	"time"

	"github.com/rungci/rung/fleet/scale"
)

// Status is a fleet at a time, for people and for metrics.
type Status struct {
	At       time.Time
	Pools    []PoolStatus
	Machines []MachineStatus // by pool, and then in the order of their making
	Jobs     []JobStatus     // in the order of their asking
	Volumes  []VolumeStatus  // by name
	// StoreError is why decisions cannot be recorded, and so nothing is done; empty: they can.
	StoreError string
}

// PoolStatus is a pool.
type PoolStatus struct {
	scale.Explanation
	MaxInstances, Slots int
	GroupInstances      int     // machines of all pools of its group; 0: no limit
	Price               float64 // of an hour of a machine
	Group               string  // its ID
	Listed              time.Time
	ListError           string // why the last list failed; empty: it did not
}

// MachineStatus is a machine.
type MachineStatus struct {
	scale.InstanceRecord
	// Since is when it got its state; PreparingError is why it is not ready yet, and CheckError why the last check failed.
	Since                      time.Time
	PreparingError, CheckError string
	// Interrupted is when its cloud takes it back; zero: that is not known.
	Interrupted time.Time
}

// VolumeStatus is a volume.
type VolumeStatus struct {
	scale.VolumeRecord
	Trouble string // why the last call about it had no effect; empty: it had, or there was none
}

// JobStatus is a job.
type JobStatus struct {
	Key, ID, Project string
	State            JobState
	Request          string // the machine's; empty if it has none
	Since            time.Time
	Why              string // one sentence
}

// JobState is what a job does.
type JobState string

// The states.
const (
	Reserved JobState = "reserved"
	Waiting  JobState = "waiting"
	Running  JobState = "running"
)

// Status is the fleet now.
func (f *Fleet) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	s := Status{At: now}
	for _, rec := range f.scale.VolumeRecords() {
		s.Volumes = append(s.Volumes, VolumeStatus{VolumeRecord: rec, Trouble: f.scale.VolumeTrouble(rec.Name)})
	}
	if f.storeErr != nil {
		s.StoreError = f.storeErr.Error()
	}
	for _, e := range f.scale.Explain(now) {
		p := PoolStatus{Explanation: e, MaxInstances: f.pools[e.Pool].MaxInstances, GroupInstances: f.pools[e.Pool].GroupInstances, Slots: f.pools[e.Pool].Slots, Price: f.pools[e.Pool].Price}
		if c := f.cloudOf(e.Pool); c != nil {
			p.Group, p.Listed, p.ListError = c.group.Info().ID, c.listed, textOf(c.listErr)
		}
		s.Pools = append(s.Pools, p)
	}
	for _, m := range f.machines {
		one := MachineStatus{InstanceRecord: m.rec, Since: m.since, CheckError: textOf(m.health.err)}
		switch m.rec.State {
		case scale.Requested:
			one.PreparingError = scale.Unmade(f.scale, m.request)
		case scale.Creating:
			if one.PreparingError = textOf(m.prepareErr); m.rec.Instance == "" {
				one.PreparingError = "its group has accepted to make it, and no list has it yet"
			}
		}
		if i := m.seen.Interruption; i != nil {
			one.Interrupted = i.At
		}
		s.Machines = append(s.Machines, one)
	}
	slices.SortFunc(s.Machines, func(a, b MachineStatus) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), a.Created.Compare(b.Created), cmp.Compare(a.Request, b.Request))
	})
	for _, j := range f.jobs {
		one := JobStatus{Key: j.key, ID: j.ID, Project: j.Project, State: Waiting, Request: j.request, Since: j.asked, Why: f.scale.ExplainJob(now, j.key)}
		switch {
		case j.asked.IsZero():
			one.State, one.Since = Reserved, j.since
		case j.slot != nil:
			one.State, one.Since = Running, j.placed
		}
		s.Jobs = append(s.Jobs, one)
	}
	slices.SortFunc(s.Jobs, func(a, b JobStatus) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Key, b.Key)) })
	return s
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Explain says of a job where it is, or why it waits.
func (f *book) Explain(key string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.scale.ExplainJob(f.clock.Now(), key)
}
