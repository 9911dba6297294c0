package gitlab

import (
	"slices"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
)

// failureReason is what GitLab calls a failure, for `retry: when`.
func failureReason(err *event.Error) string {
	if err == nil {
		return "unknown_failure"
	}
	switch err.Kind {
	case event.ErrorStep:
		return "script_failure"
	case event.ErrorTimeout:
		return "job_execution_timeout"
	case event.ErrorSystem:
		return "runner_system_failure"
	case event.ErrorNotFound, event.ErrorDefinition, event.ErrorDenied:
		return "runner_configuration_error"
	default:
		return "unknown_failure"
	}
}

// otherNames are those under which `retry: when` asks for a failure, beside the reason itself.
var otherNames = map[string][]string{
	"job_execution_timeout": {"stuck_or_timeout_failure"},
	"runner_system_failure": {"runner_external_dependency_failure", "scheduler_failure"},
}

// retries reports whether a job that has failed the nth time runs once more.
func retries(r keyword.Retry, attempts int, err *event.Error, exitCode *int) bool {
	if attempts > r.Max || err != nil && err.Kind == event.ErrorCancelled {
		return false
	}
	if len(r.When) == 0 && len(r.ExitCodes) == 0 || slices.Contains(r.When, "always") {
		return true
	}
	if exitCode != nil && slices.Contains(r.ExitCodes, *exitCode) {
		return true
	}
	reason := failureReason(err)
	return slices.ContainsFunc(r.When, func(name string) bool {
		return name == reason || slices.Contains(otherNames[reason], name)
	})
}

// allowed reports whether a job may fail with an exit code.
func allowed(a keyword.AllowFailure, exitCode *int) bool {
	return a.Always || exitCode != nil && slices.Contains(a.ExitCodes, *exitCode)
}
