//go:build unix

package manager_test

import (
	"strings"
	"testing"

	"github.com/rungci/rung/manager/gitlab"
)

func TestAJobThatTheOperatorDoesNotAllowFailsBeforeItHasAnEnvironment(t *testing.T) {
	w := newWorld(t)
	w.start(w.configure("concurrent = 4\ncheck_interval = 1", "[runners.policy]\nprotected_refs_only = true\nnetwork = \"all\""))
	yes, no := true, false
	for name, c := range map[string]struct {
		protected *bool
		network   string
		want      string
	}{
		"a protected ref":       {&yes, "", "Job succeeded"},
		"another ref":           {&no, "", "runners.policy.protected_refs_only"},
		"GitLab says nothing":   {nil, "", "runners.policy.protected_refs_only"},
		"no network on a host":  {&yes, "none", "does not support the network policy"},
		"no policy of networks": {&yes, "lan", "is neither none, public, all, nor a host"},
	} {
		from := script("echo the script has run")
		from.Git.Protected = c.protected
		if c.network != "" {
			from.Variables = append(from.Variables, gitlab.Variable{Key: "RUNG_NETWORK", Value: c.network})
		}
		r := w.result(w.server.Enqueue(from))
		if ran := strings.Contains(r.Log, "the script has run\n"); !strings.Contains(r.Log, c.want) || ran != (c.want == "Job succeeded") {
			t.Errorf("%s: %s %s\n%s", name, r.State, r.FailureReason, r.Log)
		}
	}
}
