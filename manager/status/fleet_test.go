package status_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/rungci/rung/internal/exposition"
	"github.com/rungci/rung/manager"
	"github.com/rungci/rung/manager/fleet"
	"github.com/rungci/rung/manager/status"
	"github.com/rungci/rung/manager/supply"
)

// Source: the metrics of fleeting and taskscaler, without missed_updates_total and internal_operations_total, which count what this loop does not do.
var autoscalers = []string{
	"fleeting_provisioner_instance_creation_time_seconds", "fleeting_provisioner_instance_deletion_time_seconds", "fleeting_provisioner_instance_is_running_time_seconds",
	"fleeting_provisioner_instance_life_duration_seconds", "fleeting_provisioner_instance_operations_total", "fleeting_provisioner_instances", "fleeting_provisioner_max_instances",
	"fleeting_taskscaler_desired_instances", "fleeting_taskscaler_max_tasks_per_instance", "fleeting_taskscaler_max_use_count_per_instance", "fleeting_taskscaler_scale_operations_total",
	"fleeting_taskscaler_task_instance_readiness_time_seconds", "fleeting_taskscaler_task_operations_total", "fleeting_taskscaler_tasks",
}

func TestMetricsOfFleetsHaveTheNamesOfTheExistingAutoscaler(t *testing.T) {
	t.Parallel()
	b := status.New(status.Options{Version: "1"})
	one := func() *exposition.Histogram { return exposition.NewHistogram([]float64{1}) }
	some, often := map[string]int{"running": 2, "creating": 1, "deleting": 4}, map[string]int64{"create": 3}
	b.Show(&fixed{Entries: []manager.EntryStatus{{Entry: entry, Machines: &supply.Status{Fleet: &fleet.Status{Metrics: fleet.Metrics{
		Instances: some, Tasks: map[string]int{"idle": 1}, MaxInstances: 9, MaxTasks: 2, Operations: often, TaskOperations: often, Scaled: often,
		Creation: one(), Running: one(), Deletion: one(), Readiness: one(), Life: one(),
	}}}}}})
	_, text := get(t, b.Public(), "/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	got := slices.DeleteFunc(slices.Sorted(maps.Keys(families)), func(name string) bool { return !strings.HasPrefix(name, "fleeting_") })
	if diff := cmp.Diff(autoscalers, got); diff != "" {
		t.Error(diff)
	}
	for _, line := range []string{
		`fleeting_provisioner_instances{state="running",runner="abcdefgh",runner_name="a \"quoted\" name",system_id="s_0123456789ab"} 2`,
		`fleeting_taskscaler_desired_instances{runner="abcdefgh",runner_name="a \"quoted\" name",system_id="s_0123456789ab"} 3`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("there is no %s in\n%s", line, text)
		}
	}
}
