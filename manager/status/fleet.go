package status

import (
	"maps"
	"slices"

	"github.com/rungci/rung/internal/exposition"
	"github.com/rungci/rung/manager"
	"github.com/rungci/rung/manager/fleet"
)

// The prefixes of the metrics of gitlab-runner's autoscaler.
const (
	provisioner = "fleeting_provisioner_"
	taskscaler  = "fleeting_taskscaler_"
	autoscaling = "gitlab_runner_autoscaling_" // of machineExecutor
)

// machineExecutor is the executor whose machines have metrics of their own.
const machineExecutor = "docker+machine"

// fleetOf is the fleet of an entry, and its labels.
type fleetOf struct {
	*fleet.Status
	entry manager.Entry
}

func (f fleetOf) labels(more ...string) string { return labelsOf(f.entry, more...) }

// writeFleets writes what is known of the fleets of entries.
func writeFleets(w *exposition.Writer, s manager.State) {
	var all []fleetOf
	for _, e := range s.Entries {
		if e.Machines != nil && e.Machines.Fleet != nil && !e.Machines.Fleet.Closed {
			all = append(all, fleetOf{e.Machines.Fleet, e.Entry})
		}
	}
	if len(all) == 0 {
		return
	}
	m := families{w, all}
	m.each(provisioner+"instances", exposition.Gauge, "Machines, by state.", "state", func(m *fleet.Metrics) map[string]float64 { return floats(m.Instances) })
	m.one(provisioner+"max_instances", "How many machines there may be; 0 is any number.", func(m *fleet.Metrics) int { return m.MaxInstances })
	m.each(provisioner+"instance_operations_total", exposition.Counter, "What happened to machines, by kind.", "operation", func(m *fleet.Metrics) map[string]float64 { return floats(m.Operations) })
	m.spread(provisioner+"instance_creation_time_seconds", "How long machines took to be made.", func(m *fleet.Metrics) *exposition.Histogram { return m.Creation })
	m.spread(provisioner+"instance_is_running_time_seconds", "How long they took to run.", func(m *fleet.Metrics) *exposition.Histogram { return m.Running })
	m.spread(provisioner+"instance_deletion_time_seconds", "How long they took to be gone.", func(m *fleet.Metrics) *exposition.Histogram { return m.Deletion })
	m.spread(provisioner+"instance_life_duration_seconds", "How long they existed.", func(m *fleet.Metrics) *exposition.Histogram { return m.Life })
	m.each(taskscaler+"tasks", exposition.Gauge, "Slots, and jobs without one, by what they do.", "state", func(m *fleet.Metrics) map[string]float64 { return floats(m.Tasks) })
	m.one(taskscaler+"max_tasks_per_instance", "How many jobs a machine runs at once.", func(m *fleet.Metrics) int { return m.MaxTasks })
	m.one(taskscaler+"max_use_count_per_instance", "After how many jobs a machine is replaced; 0 is never.", func(m *fleet.Metrics) int { return m.MaxUses })
	m.each(taskscaler+"task_operations_total", exposition.Counter, "What happened to jobs, by kind.", "operation", func(m *fleet.Metrics) map[string]float64 { return floats(m.TaskOperations) })
	m.each(taskscaler+"scale_operations_total", exposition.Counter, "How often a machine was asked for, and how often one was ended.", "operation", func(m *fleet.Metrics) map[string]float64 { return floats(m.Scaled) })
	m.one(taskscaler+"desired_instances", "Machines that exist and stay, or are on their way.", func(m *fleet.Metrics) int {
		return m.Instances["requested"] + m.Instances["creating"] + m.Instances["running"]
	})
	m.spread(taskscaler+"task_instance_readiness_time_seconds", "How long machines took to accept jobs.", func(m *fleet.Metrics) *exposition.Histogram { return m.Readiness })
	writeMachines(m)
}

// writeMachines writes what gitlab-runner's docker+machine has of its machines, for entries of that executor. One machine has one job at a time.
func writeMachines(m families) {
	m.all = slices.DeleteFunc(slices.Clone(m.all), func(f fleetOf) bool { return f.entry.Executor != machineExecutor })
	if len(m.all) == 0 {
		return
	}
	m.each(autoscaling+"machine_states", exposition.Gauge, "Machines, by state.", "state", func(m *fleet.Metrics) map[string]float64 {
		return floats(map[string]int{
			"creating": m.Instances["requested"] + m.Instances["creating"], "idle": m.Tasks["idle"], "used": m.Tasks["acquired"], "removing": m.Instances["deleting"],
		})
	})
	m.each(autoscaling+"actions_total", exposition.Counter, "What was done with machines, by kind.", "action", func(m *fleet.Metrics) map[string]float64 {
		return floats(map[string]int64{"created": m.Scaled["up"], "used": m.TaskOperations["acquire"], "removed": m.Scaled["down"]})
	})
	m.spread(autoscaling+"machine_creation_duration_seconds", "How long machines took to be made.", func(m *fleet.Metrics) *exposition.Histogram { return m.Creation })
	m.spread(autoscaling+"machine_removal_duration_seconds", "How long they took to be gone.", func(m *fleet.Metrics) *exposition.Histogram { return m.Deletion })
}

// families are metrics of several fleets.
type families struct {
	*exposition.Writer
	all []fleetOf
}

// each writes numbers that a fleet has by some key.
func (m families) each(name string, kind exposition.Kind, help, label string, values func(*fleet.Metrics) map[string]float64) {
	m.Family(name, kind, help)
	for _, f := range m.all {
		of := values(&f.Metrics)
		for _, key := range slices.Sorted(maps.Keys(of)) {
			m.Sample(name, f.labels(label, key), of[key])
		}
	}
}

// one writes a number of each fleet.
func (m families) one(name, help string, value func(*fleet.Metrics) int) {
	m.Family(name, exposition.Gauge, help)
	for _, f := range m.all {
		m.Sample(name, f.labels(), float64(value(&f.Metrics)))
	}
}

// spread writes how long something took.
func (m families) spread(name, help string, of func(*fleet.Metrics) *exposition.Histogram) {
	m.Family(name, exposition.Durations, help)
	for _, f := range m.all {
		m.Histogram(name, f.labels(), of(&f.Metrics))
	}
}

// floats are the values of a map as samples have them.
func floats[N int | int64](of map[string]N) map[string]float64 {
	out := make(map[string]float64, len(of))
	for key, n := range of {
		out[key] = float64(n)
	}
	return out
}
