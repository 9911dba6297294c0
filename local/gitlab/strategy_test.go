package gitlab_test

import (
	"testing"

	"github.com/rungci/rung/executor/executortest/forged"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/steps/event"
)

func TestNoGitStrategyKeepsAProjectFolderBetweenRuns(t *testing.T) {
	for _, strategy := range []string{"", "variables: {GIT_STRATEGY: fetch}", "variables: {GIT_STRATEGY: clone}"} {
		f := newForgery(t, "build:\n  image: forged\n  script: [make]\n  "+strategy+"\n", func(*forged.Environment) []event.Event { return nil })
		if r := f.run(t.Context())[0]; r.Status != local.Success {
			t.Fatalf("%q: %+v", strategy, r)
		}
		if kept := f.level.Jobs()[0].KeepProject; kept != "" {
			t.Errorf("%q keeps %q", strategy, kept)
		}
	}
}
