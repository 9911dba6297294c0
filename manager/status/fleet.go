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
)

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
		if e.Machines != nil && e.Machines.Fleet != nil {
			all = append(all, fleetOf{e.Machines.Fleet, e.Entry})
		}
	}
	if len(all) == 0 {
		return
	}
	each := func(name string, kind exposition.Kind, help, label string, values func(*fleet.Metrics) map[string]float64) {
		w.Family(name, kind, help)
		for _, f := range all {
			of := values(&f.Metrics)
			for _, key := range slices.Sorted(maps.Keys(of)) {
				w.Sample(name, f.labels(label, key), of[key])
			}
		}
	}
	one := func(name, help string, value func(*fleet.Metrics) int) {
		w.Family(name, exposition.Gauge, help)
		for _, f := range all {
			w.Sample(name, f.labels(), float64(value(&f.Metrics)))
		}
	}
	spread := func(name, help string, of func(*fleet.Metrics) *exposition.Histogram) {
		w.Family(name, exposition.Durations, help)
		for _, f := range all {
			w.Histogram(name, f.labels(), of(&f.Metrics))
		}
	}
	each(provisioner+"instances", exposition.Gauge, "Machines, by state.", "state", func(m *fleet.Metrics) map[string]float64 { return floats(m.Instances) })
	one(provisioner+"max_instances", "How many machines there may be; 0 is any number.", func(m *fleet.Metrics) int { return m.MaxInstances })
	each(provisioner+"instance_operations_total", exposition.Counter, "What happened to machines, by kind.", "operation", func(m *fleet.Metrics) map[string]float64 { return floats(m.Operations) })
	spread(provisioner+"instance_creation_time_seconds", "How long machines took to be made.", func(m *fleet.Metrics) *exposition.Histogram { return m.Creation })
	spread(provisioner+"instance_is_running_time_seconds", "How long they took to run.", func(m *fleet.Metrics) *exposition.Histogram { return m.Running })
	spread(provisioner+"instance_deletion_time_seconds", "How long they took to be gone.", func(m *fleet.Metrics) *exposition.Histogram { return m.Deletion })
	spread(provisioner+"instance_life_duration_seconds", "How long they existed.", func(m *fleet.Metrics) *exposition.Histogram { return m.Life })
	each(taskscaler+"tasks", exposition.Gauge, "Slots, and jobs without one, by what they do.", "state", func(m *fleet.Metrics) map[string]float64 { return floats(m.Tasks) })
	one(taskscaler+"max_tasks_per_instance", "How many jobs a machine runs at once.", func(m *fleet.Metrics) int { return m.MaxTasks })
	one(taskscaler+"max_use_count_per_instance", "After how many jobs a machine is replaced; 0 is never.", func(m *fleet.Metrics) int { return m.MaxUses })
	each(taskscaler+"task_operations_total", exposition.Counter, "What happened to jobs, by kind.", "operation", func(m *fleet.Metrics) map[string]float64 { return floats(m.TaskOperations) })
	each(taskscaler+"scale_operations_total", exposition.Counter, "How often a machine was asked for, and how often one was ended.", "operation", func(m *fleet.Metrics) map[string]float64 { return floats(m.Scaled) })
	one(taskscaler+"desired_instances", "Machines that exist and stay, or are on their way.", func(m *fleet.Metrics) int {
		return m.Instances["requested"] + m.Instances["creating"] + m.Instances["running"]
	})
	spread(taskscaler+"task_instance_readiness_time_seconds", "How long machines took to accept jobs.", func(m *fleet.Metrics) *exposition.Histogram { return m.Readiness })
}

// floats are the values of a map as samples have them.
func floats[N int | int64](of map[string]N) map[string]float64 {
	out := make(map[string]float64, len(of))
	for key, n := range of {
		out[key] = float64(n)
	}
	return out
}
