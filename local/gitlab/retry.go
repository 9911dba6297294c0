package gitlab

import (
	"slices"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
)

// retries reports whether a job that has failed the nth time runs once more.
func retries(r keyword.Retry, attempts int, err *event.Error, exitCode *int) bool {
	if err != nil && err.Kind == event.ErrorCancelled {
		return false
	}
	return r.Again(attempts, string(err.FailureReason()), exitCode)
}

// allowed reports whether a job may fail with an exit code.
func allowed(a keyword.AllowFailure, exitCode *int) bool {
	return a.Always || exitCode != nil && slices.Contains(a.ExitCodes, *exitCode)
}
