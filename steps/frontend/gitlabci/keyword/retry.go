package keyword

import "slices"

// otherReasons are those under which `retry: when` asks for a failure, beside the reason itself.
var otherReasons = map[string][]string{
	"job_execution_timeout":              {"stuck_or_timeout_failure"},
	"runner_system_failure":              {"runner_external_dependency_failure", "scheduler_failure"},
	"runner_external_dependency_failure": {"runner_system_failure"},
	"image_pull_failure":                 {"runner_system_failure", "runner_external_dependency_failure"},
}

// Again reports whether a job runs once more that has failed the nth time, the last time for one of GitLab's failure reasons. exitCode is
// its script's; nil where that did not end by itself.
func (r Retry) Again(failures int, reason string, exitCode *int) bool {
	if failures > r.Max {
		return false
	}
	if len(r.When) == 0 && len(r.ExitCodes) == 0 || slices.Contains(r.When, "always") {
		return true
	}
	if exitCode != nil && slices.Contains(r.ExitCodes, *exitCode) {
		return true
	}
	return slices.ContainsFunc(r.When, func(name string) bool {
		return name == reason || slices.Contains(otherReasons[reason], name)
	})
}
