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

// ofMachines are those of gitlab-runner's docker+machine, without machine_stopping_duration_seconds and machine_failed_creation_duration_seconds.
// Source: runner-api.md, section 9.
var ofMachines = []string{
	"gitlab_runner_autoscaling_actions_total", "gitlab_runner_autoscaling_machine_creation_duration_seconds", "gitlab_runner_autoscaling_machine_removal_duration_seconds",
	"gitlab_runner_autoscaling_machine_states",
}

func TestMetricsOfFleetsHaveTheNamesOfTheExistingAutoscaler(t *testing.T) {
	t.Parallel()
	b := status.New(status.Options{Version: "1"})
	one := func() *exposition.Histogram { return exposition.NewHistogram([]float64{1}) }
	some, often := map[string]int{"running": 2, "creating": 1, "deleting": 4}, map[string]int64{"create": 3}
	of := &supply.Status{Fleet: &fleet.Status{Metrics: fleet.Metrics{
		Instances: some, Tasks: map[string]int{"idle": 1}, MaxInstances: 9, MaxTasks: 2, Operations: often, TaskOperations: map[string]int64{"acquire": 7}, Scaled: map[string]int64{"up": 5, "down": 2},
		Creation: one(), Running: one(), Deletion: one(), Readiness: one(), Life: one(),
	}}}
	old := entry
	old.Name, old.Executor = "old", "docker+machine"
	b.Show(&fixed{Entries: []manager.EntryStatus{{Entry: entry, Machines: of}, {Entry: old, Machines: of}}})
	_, text := get(t, b.Public(), "/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	got := slices.DeleteFunc(slices.Sorted(maps.Keys(families)), func(name string) bool {
		return !strings.HasPrefix(name, "fleeting_") && !strings.HasPrefix(name, "gitlab_runner_autoscaling_")
	})
	if diff := cmp.Diff(slices.Concat(autoscalers, ofMachines), got); diff != "" {
		t.Error(diff)
	}
	for _, line := range []string{
		`fleeting_provisioner_instances{state="running",runner="abcdefgh",runner_name="a \"quoted\" name",system_id="s_0123456789ab"} 2`,
		`fleeting_taskscaler_desired_instances{runner="abcdefgh",runner_name="a \"quoted\" name",system_id="s_0123456789ab"} 3`,
		`gitlab_runner_autoscaling_machine_states{state="removing",runner="abcdefgh",runner_name="old",system_id="s_0123456789ab"} 4`,
		`gitlab_runner_autoscaling_actions_total{action="used",runner="abcdefgh",runner_name="old",system_id="s_0123456789ab"} 7`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("there is no %s in\n%s", line, text)
		}
	}
	if n := strings.Count(text, "\ngitlab_runner_autoscaling_machine_states{"); n != 4 {
		t.Errorf("%d states of machines, of docker+machine alone there are 4", n)
	}
}
