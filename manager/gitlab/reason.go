package gitlab

import "slices"

// The failure reasons that every GitLab understands.
const (
	ReasonScript  = "script_failure"
	ReasonSystem  = "runner_system_failure"
	ReasonTimeout = "job_execution_timeout"
	ReasonUnknown = "unknown_failure"
)

// olderReasons says which older reason stands for one that a GitLab does not know.
var olderReasons = map[string]string{
	"image_pull_failure":                 ReasonSystem,
	"runner_configuration_error":         ReasonScript,
	"runner_external_dependency_failure": ReasonSystem,
}

// FailureReason is the reason to report to a GitLab that supports some beyond the three that all do (JobFeatures.FailureReasons).
//
// Source: common/trace.go in gitlab-runner.
func FailureReason(reason string, supported []string) string {
	return knownReason(reason, supported, olderReasons)
}

// knownReason follows older until a reason is known. What leads nowhere, or in a circle, is unknown.
func knownReason(reason string, supported []string, older map[string]string) string {
	for range len(older) + 1 {
		if slices.Contains([]string{ReasonScript, ReasonSystem, ReasonTimeout}, reason) || slices.Contains(supported, reason) {
			return reason
		}
		next, ok := older[reason]
		if !ok {
			break
		}
		reason = next
	}
	return ReasonUnknown
}
