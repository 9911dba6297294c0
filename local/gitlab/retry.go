package gitlab

import (
	"slices"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
)

// otherNames are those under which `retry: when` asks for a failure, beside the reason itself.
var otherNames = map[event.FailureReason][]string{
	event.ReasonTimeout:            {"stuck_or_timeout_failure"},
	event.ReasonSystem:             {"runner_external_dependency_failure", "scheduler_failure"},
	event.ReasonExternalDependency: {"runner_system_failure"},
	event.ReasonImagePull:          {"runner_system_failure", "runner_external_dependency_failure"},
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
	reason := err.FailureReason()
	return slices.ContainsFunc(r.When, func(name string) bool {
		return name == string(reason) || slices.Contains(otherNames[reason], name)
	})
}

// allowed reports whether a job may fail with an exit code.
func allowed(a keyword.AllowFailure, exitCode *int) bool {
	return a.Always || exitCode != nil && slices.Contains(a.ExitCodes, *exitCode)
}
