package gitlab

import "testing"

// TestFailureReasons is case 77: a reason that GitLab does not know becomes one that it knows.
func TestFailureReasons(t *testing.T) {
	chain := map[string]string{"newest": "newer", "newer": "new", "new": ReasonScript, "loop": "pool", "pool": "loop", "self": "self"}
	for _, c := range []struct {
		reason    string
		supported []string
		older     map[string]string
		want      string
	}{
		{"script_failure", nil, olderReasons, "script_failure"},
		{"runner_system_failure", nil, olderReasons, "runner_system_failure"},
		{"job_execution_timeout", nil, olderReasons, "job_execution_timeout"},
		{"image_pull_failure", nil, olderReasons, "runner_system_failure"},
		{"image_pull_failure", []string{"image_pull_failure"}, olderReasons, "image_pull_failure"},
		{"runner_configuration_error", nil, olderReasons, "script_failure"},
		{"runner_external_dependency_failure", nil, olderReasons, "runner_system_failure"},
		{"runner_interrupted", nil, olderReasons, "unknown_failure"},
		{"job_canceled", []string{"job_canceled"}, olderReasons, "job_canceled"},
		{"", nil, olderReasons, "unknown_failure"},
		{"newest", nil, chain, "script_failure"},
		{"newest", []string{"new"}, chain, "new"},
		{"loop", nil, chain, "unknown_failure"},
		{"self", nil, chain, "unknown_failure"},
	} {
		if got := knownReason(c.reason, c.supported, c.older); got != c.want {
			t.Errorf("%s, where GitLab knows %v, is %s; want %s", c.reason, c.supported, got, c.want)
		}
	}
}
