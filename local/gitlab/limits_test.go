package gitlab_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest/forged"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/local/limits"
	"github.com/rungci/rung/steps/event"
)

func TestAJobAndItsServicesAreLimitedByTheUserAndNarrowedByTheProject(t *testing.T) {
	t.Parallel()
	f := newForgery(t, "test: {image: forged, services: [db], script: echo}\n", func(*forged.Environment) []event.Event { return nil })
	f.write(".rung/limits.yml", "memory: 1GiB\ncpus: 8\nnetwork: none\n")
	p, err := gitlab.Open(t.Context(), gitlab.Options{Dir: f.dir, Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	options := gitlab.RunOptions{Jobs: p.Pipeline.Jobs, Options: local.Options{
		Isolation: local.IsolateContainer, Container: func() (executor.Executor, error) { return f.level, nil }, Observer: &local.Notes{},
		Limits: limits.Limits{Resources: executor.Resources{CPU: 2, Memory: 4 << 30, PIDs: 100}}, Privileged: true,
	}}
	if r := p.Run(t.Context(), options); r[0].Status != local.Success {
		t.Fatalf("%+v", r[0])
	}
	j, want := f.level.Jobs()[0], executor.Resources{CPU: 2, Memory: 1 << 30, PIDs: 100}
	if diff := cmp.Diff([]executor.Resources{want, want}, []executor.Resources{j.Resources, j.ServiceResources}); diff != "" {
		t.Error(diff)
	}
	if j.Network != executor.NetworkNone || !j.Privileged {
		t.Errorf("its network is %q, privileged: %t", j.Network, j.Privileged)
	}
}
