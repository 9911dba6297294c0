package fleet

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/rungci/rung/fleet/control"
	"github.com/rungci/rung/fleet/scale"
)

// Status is a fleet at a time, for people.
type Status struct {
	Pools    []PoolStatus    `json:"pools"`
	Machines []MachineStatus `json:"machines"`
	Jobs     []JobStatus     `json:"jobs"`
	Volumes  []VolumeStatus  `json:"volumes,omitempty"`
	// Trouble is why nothing is decided; empty: it is.
	Trouble string `json:"trouble,omitempty"`
	// Closed says that this is what the state has: nobody has asked for machines, or seen whether they are still there. There are no metrics then.
	Closed  bool    `json:"closed,omitempty"`
	Metrics Metrics `json:"-"`
}

// PoolStatus is a kind of machines.
type PoolStatus struct {
	Name      string         `json:"name"`
	Group     string         `json:"group"` // who makes its machines
	Instances map[string]int `json:"instances"`
	Most      int            `json:"max_instances"` // 0: no limit
	Slots     int            `json:"slots"`         // of a machine
	Price     float64        `json:"price"`         // of an hour of a machine
	Why       string         `json:"why"`           // there are this many
	Next      string         `json:"next"`          // which goes
	Trouble   string         `json:"trouble,omitempty"`
}

// MachineStatus is a machine.
type MachineStatus struct {
	Request  string    `json:"request"`
	Instance string    `json:"instance,omitempty"`
	Pool     string    `json:"pool"`
	State    string    `json:"state"`
	Created  time.Time `json:"created"`
	Since    time.Time `json:"since"` // in its state
	Uses     int       `json:"uses"`
	Jobs     []string  `json:"jobs"` // numbers of the jobs in its slots; empty is free
	Why      string    `json:"why,omitempty"`
}

// VolumeStatus is a volume.
type VolumeStatus struct {
	Name    string    `json:"name"` // the number of its project, with "-p" for protected refs
	ID      string    `json:"id,omitempty"`
	State   string    `json:"state"`
	Machine string    `json:"machine,omitempty"` // that has it, or may have
	Zone    string    `json:"zone,omitempty"`
	Created time.Time `json:"created"`
	Used    time.Time `json:"used"`           // by a job, last
	Jobs    []string  `json:"jobs,omitempty"` // numbers of those that have it
	Why     string    `json:"why,omitempty"`  // its state lasts: what went wrong last
}

// Name is what people call it.
func (m MachineStatus) Name() string {
	if m.Instance != "" {
		return m.Instance
	}
	return m.Request
}

// JobStatus is a job.
type JobStatus struct {
	Job     string    `json:"job,omitempty"` // its number in GitLab; empty: none has come yet
	Project string    `json:"project,omitempty"`
	State   string    `json:"state"`
	Request string    `json:"request,omitempty"` // its machine's
	Since   time.Time `json:"since"`
	Why     string    `json:"why"`
}

// Status is the fleet now.
func (p *Provider) Status() *Status {
	s := p.control.Status()
	out := &Status{Trouble: s.StoreError, Metrics: p.meter.now()}
	for _, of := range s.Pools {
		one := PoolStatus{Name: of.Pool, Group: of.Group, Instances: map[string]int{}, Most: of.MaxInstances, Slots: of.Slots, Price: of.Price, Why: of.Why, Next: of.Next, Trouble: of.ListError}
		for state, n := range of.Instances {
			one.Instances[state.String()] = n
		}
		out.Pools = append(out.Pools, one)
	}
	numbers := map[string]string{} // of jobs, by key
	for _, j := range s.Jobs {
		numbers[j.Key] = j.ID
		out.Jobs = append(out.Jobs, JobStatus{Job: j.ID, Project: j.Project, State: string(j.State), Request: j.Request, Since: j.Since, Why: named(j.Why, j.Key, j.ID)})
	}
	for _, m := range s.Machines {
		out.Machines = append(out.Machines, machineOf(m, numbers))
	}
	for _, v := range s.Volumes {
		one := VolumeStatus{Name: v.Name, ID: v.ID, State: v.State.String(), Machine: cmp.Or(v.Instance, v.Machine), Zone: v.Zone, Created: v.Created, Used: v.Used, Why: v.Trouble}
		for _, key := range v.Users {
			one.Jobs = append(one.Jobs, cmp.Or(numbers[key], "?"))
		}
		out.Volumes = append(out.Volumes, one)
	}
	out.Metrics.count(s)
	for _, m := range p.pools {
		out.Metrics.MaxUses = max(out.Metrics.MaxUses, m.scale.MaxUses)
	}
	return out
}

// named gives a job the name that people know in a sentence of the loop.
func named(sentence, key, id string) string {
	if id == "" {
		return sentence
	}
	return replaceKey(sentence, key, "job "+id)
}

func machineOf(m control.MachineStatus, numbers map[string]string) MachineStatus {
	out := MachineStatus{Request: m.Request, Instance: m.Instance, Pool: m.Pool, State: m.State.String(), Created: m.Created, Since: m.Since, Uses: m.Uses, Why: m.Reason}
	switch {
	case out.Why != "":
	case m.PreparingError != "":
		out.Why = "it is not ready yet: " + m.PreparingError
	case m.CheckError != "":
		out.Why = "it did not answer the last check: " + m.CheckError
	case !m.Interrupted.IsZero():
		out.Why = "its cloud takes it back at " + m.Interrupted.UTC().Format(time.TimeOnly)
	}
	for _, key := range m.Jobs {
		switch {
		case key == "":
			out.Jobs = append(out.Jobs, "")
		case numbers[key] != "":
			out.Jobs = append(out.Jobs, numbers[key])
		default:
			out.Jobs = append(out.Jobs, "?")
		}
	}
	return out
}

// Slots says how many of the slots of a machine have a job.
func (m MachineStatus) Slots() string {
	used := len(m.Jobs) - len(slices.DeleteFunc(slices.Clone(m.Jobs), func(job string) bool { return job != "" }))
	return strconv.Itoa(used) + "/" + strconv.Itoa(len(m.Jobs))
}

// count adds what there is now.
func (m *Metrics) count(s control.Status) {
	m.Instances, m.Tasks = map[string]int{}, map[string]int{}
	for state := scale.Requested; state < scale.Gone; state++ {
		m.Instances[states[state]] += 0
	}
	of := map[string]int{} // by group
	for _, p := range s.Pools {
		before := of[p.Group]
		if of[p.Group] += p.MaxInstances; p.GroupInstances > 0 {
			of[p.Group] = min(of[p.Group], p.GroupInstances)
		}
		m.MaxInstances += of[p.Group] - before
		m.MaxTasks = max(m.MaxTasks, p.Slots)
	}
	for _, name := range []string{"idle", "pending", "acquired", "reserved", "unavailable", "unhealthy"} {
		m.Tasks[name] += 0
	}
	for _, one := range s.Machines {
		m.Instances[states[one.State]]++
		free := 0
		for _, key := range one.Jobs {
			if key == "" {
				free++
			}
		}
		switch {
		case one.State == scale.Ready && one.CheckError != "":
			m.Tasks["unhealthy"] += free
		case one.State == scale.Ready:
			m.Tasks["idle"] += free
		case one.State > scale.Ready:
			m.Tasks["unavailable"] += free
		}
	}
	for _, j := range s.Jobs {
		switch j.State {
		case control.Reserved:
			m.Tasks["reserved"]++
		case control.Waiting:
			m.Tasks["pending"]++
		case control.Running:
			m.Tasks["acquired"]++
		}
	}
}

// states are what fleeting's metrics call the states of machines.
var states = map[scale.State]string{
	scale.Requested: "requested", scale.Creating: "creating", scale.Ready: "running", scale.Draining: "running", scale.Suspended: "suspended", scale.Failed: "deleting", scale.Deleting: "deleting",
}
