package gitlab

import (
	"testing"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
)

func TestRetrying(t *testing.T) {
	seven := 7
	script := &event.Error{Kind: event.ErrorStep}
	for _, test := range []struct {
		name     string
		retry    keyword.Retry
		attempts int
		err      *event.Error
		exitCode *int
		want     bool
	}{
		{"without retry a job runs once", keyword.Retry{}, 1, script, &seven, false},
		{"max counts the further attempts", keyword.Retry{Max: 2}, 2, script, &seven, true},
		{"and no more", keyword.Retry{Max: 2}, 3, script, &seven, false},
		{"always is whatever went wrong", keyword.Retry{Max: 1, When: []string{"always"}}, 1, &event.Error{Kind: event.ErrorSystem}, nil, true},
		{"script_failure is a failing script", keyword.Retry{Max: 1, When: []string{"script_failure"}}, 1, script, &seven, true},
		{"and no timeout", keyword.Retry{Max: 1, When: []string{"script_failure"}}, 1, &event.Error{Kind: event.ErrorTimeout}, nil, false},
		{"a timeout has two names", keyword.Retry{Max: 1, When: []string{"stuck_or_timeout_failure"}}, 1, &event.Error{Kind: event.ErrorTimeout}, nil, true},
		{"an exit code that is listed", keyword.Retry{Max: 1, ExitCodes: []int{7}}, 1, script, &seven, true},
		{"an exit code that is not", keyword.Retry{Max: 1, ExitCodes: []int{8}}, 1, script, &seven, false},
		{"either is enough", keyword.Retry{Max: 1, ExitCodes: []int{8}, When: []string{"script_failure"}}, 1, script, &seven, true},
		{"what somebody stopped stays stopped", keyword.Retry{Max: 2}, 1, &event.Error{Kind: event.ErrorCancelled}, nil, false},
		{"a failure without a reason is an unknown one", keyword.Retry{Max: 1, When: []string{"unknown_failure"}}, 1, nil, nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := retries(test.retry, test.attempts, test.err, test.exitCode); got != test.want {
				t.Errorf("it runs once more: %v", got)
			}
		})
	}
}

func TestAllowingAFailure(t *testing.T) {
	seven := 7
	for _, test := range []struct {
		name     string
		allow    keyword.AllowFailure
		exitCode *int
		want     bool
	}{
		{"nothing is said", keyword.AllowFailure{}, &seven, false},
		{"any", keyword.AllowFailure{Always: true}, nil, true},
		{"the exit code is listed", keyword.AllowFailure{ExitCodes: []int{7}}, &seven, true},
		{"it is not", keyword.AllowFailure{ExitCodes: []int{8}}, &seven, false},
		{"there is none", keyword.AllowFailure{ExitCodes: []int{8}}, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := allowed(test.allow, test.exitCode); got != test.want {
				t.Errorf("it may fail: %v", got)
			}
		})
	}
}
