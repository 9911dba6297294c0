package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/fleet/schedule"
)

// The executors whose machines come from a fleet.
const (
	InstanceExecutor         = "instance"
	DockerAutoscalerExecutor = "docker-autoscaler"
	DockerMachineExecutor    = "docker+machine"
)

// Fleet is what the fleet of an entry is beyond what gitlab-runner has for it.
type Fleet struct {
	Policy   string            `toml:"policy"` // ExistingPolicy or AdaptivePolicy; empty is ExistingPolicy
	Worth    float64           `toml:"worth"`  // this and what follows are parameters of AdaptivePolicy
	Memory   time.Duration     `toml:"memory"`
	Linger   time.Duration     `toml:"linger"`
	Patience float64           `toml:"patience"`
	Hedge    float64           `toml:"hedge"`
	Labels   map[string]string `toml:"labels"`
	Suspend  int               `toml:"suspend"` // idle machines of each pool that are suspended, and not deleted
	// PluginEnvironment are variables of plugins: NAME=VALUE, or NAME for the value of this process.
	PluginEnvironment []string `toml:"plugin_environment"`
	Pools             []Pool   `toml:"pools"`

	Volume         string        `toml:"volume"`           // PerProject or OnRequest; empty: jobs have no volumes
	VolumeSize     int64         `toml:"volume_size"`      // bytes; 0 is DefaultVolumeSize
	VolumeIdleTime time.Duration `toml:"volume_idle_time"` // 0 is a week
	VolumeWait     time.Duration `toml:"volume_wait"`      // how long a job waits for its own; 0 is a minute
	VolumePrice    float64       `toml:"volume_price"`     // of an hour
	MaxVolumes     int           `toml:"max_volumes"`      // 0 is DefaultMaxVolumes
}

// Who has a volume.
const (
	PerProject = "per-project" // each project, in jobs that do not ask for none
	OnRequest  = "on-request"  // projects whose jobs ask for it
	NoVolume   = "none"        // what a job asks for that wants none
)

const (
	// DefaultVolumeSize and DefaultMaxVolumes are of fleets that do not say more.
	DefaultVolumeSize = 20 << 30
	DefaultMaxVolumes = 10
)

// WantsVolume says whether a job gets its project's volume that asks for PerProject, NoVolume, or nothing.
func (f *Fleet) WantsVolume(asked string) bool {
	return f.Volume == PerProject && asked != NoVolume || f.Volume == OnRequest && asked == PerProject
}

// The policies of fleets.
const (
	ExistingPolicy = "existing"
	AdaptivePolicy = "adaptive"
)

// Pool is a kind of machines. Sizes are in bytes, and what is 0 or empty is not known.
type Pool struct {
	Name                string            `toml:"name"`
	Plugin              string            `toml:"plugin"`        // empty: the autoscaler's, with its PluginConfig
	PluginConfig        map[string]any    `toml:"plugin_config"` // nil: the autoscaler's, if Plugin is
	Shape               string            `toml:"shape"`
	Zone                string            `toml:"zone"`
	Spot                bool              `toml:"spot"`
	OS                  string            `toml:"os"`
	Arch                string            `toml:"arch"`
	CPUs                float64           `toml:"cpus"`
	Memory              int64             `toml:"memory"`
	Disk                int64             `toml:"disk"`
	GPUs                int               `toml:"gpus"`
	Price               float64           `toml:"price"` // of an hour
	SuspendedPrice      float64           `toml:"suspended_price"`
	BillingStep         time.Duration     `toml:"billing_step"`
	BillingMinimum      time.Duration     `toml:"billing_minimum"`
	CapacityPerInstance int               `toml:"capacity_per_instance"` // this and what follows: 0 is the autoscaler's
	MaxUseCount         int               `toml:"max_use_count"`
	MaxInstances        int               `toml:"max_instances"`
	BootTimeout         time.Duration     `toml:"boot_timeout"` // 0: the default
	Suspend             *int              `toml:"suspend"`      // nil: the fleet's
	Labels              map[string]string `toml:"labels"`       // beside the fleet's
}

// Machine is how many machines of Docker Machine an entry has, and how they are made.
type Machine struct {
	MaxGrowthRate          int             `toml:"MaxGrowthRate"` // on their way at once; 0: no limit
	IdleCount              int             `toml:"IdleCount"`
	IdleScaleFactor        float64         `toml:"IdleScaleFactor"`
	IdleCountMin           int             `toml:"IdleCountMin"`
	IdleTime               time.Duration   `toml:"IdleTime"`
	MaxBuilds              int             `toml:"MaxBuilds"` // 0: no limit
	MachineDriver          string          `toml:"MachineDriver"`
	MachineName            string          `toml:"MachineName"`
	MachineOptions         []string        `toml:"MachineOptions"`
	MachineOptionsWithName []string        `toml:"MachineOptionsWithName"`
	OffPeakPeriods         []string        `toml:"OffPeakPeriods"`
	OffPeakTimezone        string          `toml:"OffPeakTimezone"`
	OffPeakIdleCount       int             `toml:"OffPeakIdleCount"`
	OffPeakIdleTime        time.Duration   `toml:"OffPeakIdleTime"`
	Autoscaling            []MachinePeriod `toml:"autoscaling"`
}

// MachinePeriod is what of a Machine is different in some periods.
type MachinePeriod struct {
	Periods         []string      `toml:"Periods"`
	Timezone        string        `toml:"Timezone"`
	IdleCount       int           `toml:"IdleCount"`
	IdleScaleFactor float64       `toml:"IdleScaleFactor"`
	IdleCountMin    int           `toml:"IdleCountMin"`
	IdleTime        time.Duration `toml:"IdleTime"`
}

// Machines are the settings of Docker Machine for all entries.
type Machines struct {
	ShutdownDrain ShutdownDrain `toml:"shutdown_drain"`
}

// ShutdownDrain is what becomes of the machines of Docker Machine when the manager ends.
type ShutdownDrain struct {
	Enabled      bool          `toml:"enabled"`
	MaxRetries   int           `toml:"max_retries"`
	RetryBackoff time.Duration `toml:"retry_backoff"`
}

// Machinery is all that the fleet of an entry is made of. One of Autoscaler and Machine is there.
type Machinery struct {
	Executor   string
	Autoscaler *Autoscaler
	Machine    *Machine
	Drain      ShutdownDrain // of Machine
	Limit      int           // of the entry, which is that of the machines of Machine, too
	Fleet      Fleet
	// Apart says that jobs are in containers that give them nothing of their machine: what one does there reaches no other.
	Apart bool
	// Installed says which installed plugins the names of Plugins mean.
	Installed map[string]Installed
}

// Schedule is how many machines there are to be, and when.
func (m *Machinery) Schedule() (schedule.Policies, error) {
	if m.Autoscaler != nil {
		return m.Autoscaler.Schedule()
	}
	return m.Machine.Schedule()
}

// Plugins are the names of who makes the machines of Autoscaler and of Fleet.
func (m *Machinery) Plugins() (names []string) {
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if m.Autoscaler != nil {
		add(m.Autoscaler.Plugin)
	}
	for _, p := range m.Fleet.Pools {
		add(p.Plugin)
	}
	return names
}

// Fresh reports whether each machine is made for one job, or a virtual machine within it.
func (m *Machinery) Fresh() bool {
	if m.Machine != nil {
		return m.Machine.MaxBuilds == 1
	}
	if m.Autoscaler.VMIsolation.Enabled {
		return true
	}
	return !slices.ContainsFunc(m.pools(), func(p Pool) bool { return m.Uses(p) != 1 })
}

// pools are those of the entry, or one of which nothing is said.
func (m *Machinery) pools() []Pool {
	if len(m.Fleet.Pools) > 0 {
		return m.Fleet.Pools
	}
	return []Pool{{}}
}

// Uses is how many jobs a machine of a pool of Autoscaler has, in all; 0: as many as there are.
func (m *Machinery) Uses(p Pool) int { return max(0, cmp.Or(p.MaxUseCount, m.Autoscaler.MaxUseCount)) }

// Slots is how many jobs it has at once: never more than in all, so that a machine for one job is that job's own.
func (m *Machinery) Slots(p Pool) int {
	slots := max(1, cmp.Or(p.CapacityPerInstance, m.Autoscaler.CapacityPerInstance))
	if uses := m.Uses(p); uses > 0 {
		return min(slots, uses)
	}
	return slots
}

// slots are those of a machine, of the pool that has the most.
func (m *Machinery) slots() int {
	if m.Autoscaler == nil {
		return 1
	}
	most := 1
	for _, p := range m.pools() {
		most = max(most, m.Slots(p))
	}
	return most
}

// provided reports whether the entry's machines come from a list or a provider plugin.
func (r *Runner) provided() bool {
	p := r.Provider
	return p != nil && (p.Name != "" || p.File != "" || len(p.Hosts) > 0)
}

// machinery is what the entry's fleet is made of; nil if its machines come from elsewhere.
func (r *Runner) machinery() *Machinery {
	if r.provided() {
		return nil
	}
	m := &Machinery{Executor: r.Executor, Limit: r.Limit, Fleet: r.Fleet, Apart: r.apart()}
	switch {
	case r.Executor == DockerMachineExecutor && r.Machine != nil:
		m.Machine = r.Machine
	case (r.Executor == InstanceExecutor || r.Executor == DockerAutoscalerExecutor) && r.Autoscaler != nil:
		m.Autoscaler = r.Autoscaler
	default:
		return nil
	}
	return m
}

// OnThisMachine is the entry with its jobs on this machine, whatever machines it has otherwise.
func (r *Runner) OnThisMachine() *Runner {
	out := *r
	out.Provider = nil
	switch r.Executor {
	case DockerMachineExecutor, DockerAutoscalerExecutor:
		out.Executor = "docker"
	case InstanceExecutor:
		out.Executor = "shell"
	}
	return &out
}

// completeFleet lets the entry's machines come from its fleet, if it has one.
func (r *Runner) completeFleet(all Machines) {
	m := r.machinery()
	if m == nil {
		return
	}
	p := Provider{}
	if r.Provider != nil {
		p = *r.Provider
	}
	p.Machinery = m
	switch a := m.Autoscaler; {
	case a != nil:
		atLeast(&a.InstanceAcquireTimeout, DefaultAcquireTimeout)
		p.AcquireTimeout = a.InstanceAcquireTimeout
	default:
		m.Drain = all.ShutdownDrain
		atLeast(&p.AcquireTimeout, DefaultAcquireTimeout)
	}
	r.Provider = &p
}

// Schedule is the numbers of Docker Machine as the fleet has them. The error is about a period or a time zone.
func (m *Machine) Schedule() (schedule.Policies, error) {
	periods := []MachinePeriod{{IdleCount: m.IdleCount, IdleScaleFactor: m.IdleScaleFactor, IdleCountMin: m.IdleCountMin, IdleTime: m.IdleTime}}
	if len(m.OffPeakPeriods) > 0 {
		periods = append(periods, MachinePeriod{Periods: m.OffPeakPeriods, Timezone: m.OffPeakTimezone, IdleCount: m.OffPeakIdleCount, IdleTime: m.OffPeakIdleTime})
	}
	var all schedule.Policies
	for i, p := range append(periods, m.Autoscaling...) {
		if i > 0 && len(p.Periods) == 0 {
			continue // never
		}
		in, err := always(p.Timezone, p.Periods)
		if err != nil {
			return nil, err
		}
		one := schedule.Policy{Periods: in, IdleCount: max(0, p.IdleCount), IdleTime: max(0, p.IdleTime), Preemptive: p.IdleCount > 0}
		if p.IdleScaleFactor > 0 { // IdleCount is the most then
			one.IdleCount, one.ScaleFactor, one.ScaleFactorLimit = max(1, p.IdleCountMin), p.IdleScaleFactor, max(1, p.IdleCount)
		}
		all = append(all, one)
	}
	return all, nil
}

// fleet checks what the fleet of an entry is made of.
func (r *reader) fleet(e *Runner, path string) {
	m := e.machinery()
	if m == nil {
		return
	}
	switch a := m.Autoscaler; {
	case a == nil:
		if m.Machine.MachineDriver == "" {
			r.found(warning, "config/incomplete", path+".machine", r.doc.keys, "write MachineDriver", "[runners.machine] has no driver: its machines cannot be made")
		}
		if name := m.Machine.MachineName; name != "" && strings.Count(name, "%s") != 1 {
			r.found(problem, "config/value", path+".machine.MachineName", r.doc.vals, "write for example \"ci-%s\"", "MachineName must have one %%s, which is what is different for each machine")
		}
	case a.imageless():
		r.found(warning, "config/incomplete", path+".autoscaler.vm_isolation", r.doc.keys, "write image", "%s", noImage)
	case m.unmade():
		r.found(warning, "config/incomplete", path+".autoscaler", r.doc.keys, "write plugin = \"local\", or the name of a plugin", "%s", noPlugin)
	}
	switch {
	case m.Fleet.Volume == "" || m.Machine != nil:
	case m.Autoscaler.VMIsolation.Enabled:
		r.found(warning, "config/incomplete", path+".fleet.volume", r.doc.vals, "delete it", "jobs in virtual machines within machines get no volumes")
	case m.slots() > 1 && !m.Apart:
		r.found(warning, "config/incomplete", path+".fleet.volume", r.doc.vals, "write capacity_per_instance = 1", "a machine that runs several jobs at once gets no volume, because they are not isolated from each other")
	}
	bounds{r}.fleet(m, path)
	names := map[string]bool{}
	for i, p := range m.Fleet.Pools {
		at := fmt.Sprintf("%s.fleet.pools[%d]", path, i)
		switch {
		case p.Name == "":
			r.found(problem, "config/value", at, r.doc.keys, "write name", "the pool has no name")
		case names[p.Name]:
			r.found(problem, "config/value", at+".name", r.doc.vals, "give each a name of its own", "there are two pools %q", p.Name)
		}
		names[p.Name] = true
		if m.Machine != nil && (p.Plugin != "" || p.PluginConfig != nil) {
			r.found(problem, "config/value", at, r.doc.keys, "use executor docker-autoscaler with [runners.autoscaler]", "the pools of executor docker+machine are made by docker-machine, and have no plugin")
		}
	}
}

const (
	noImage  = "[runners.autoscaler.vm_isolation] has no image, which virtual machines are made of"
	noPlugin = "[runners.autoscaler] has no plugin, which would make the machines"
)

// refusedFleet says why the fleet of an entry is not run; empty if it is.
func refusedFleet(m *Machinery) string {
	switch {
	case m.Autoscaler == nil:
	case m.Autoscaler.imageless():
		return noImage
	case m.unmade():
		return noPlugin
	}
	return ""
}

// imageless reports whether there are virtual machines of nothing.
func (a *Autoscaler) imageless() bool { return a.VMIsolation.Enabled && a.VMIsolation.Image == "" }

// unmade reports whether there are machines that nobody makes.
func (m *Machinery) unmade() bool {
	return m.Autoscaler.Plugin == "" && (len(m.Fleet.Pools) == 0 || slices.ContainsFunc(m.Fleet.Pools, func(p Pool) bool { return p.Plugin == "" }))
}

// level is that of the jobs of a fleet's executor.
func (m *Machinery) level() executor.Level {
	switch {
	case m.Executor != InstanceExecutor:
		return executor.Container
	case m.Fresh():
		return executor.Instance
	}
	return executor.None
}
