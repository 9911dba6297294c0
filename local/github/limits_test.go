package github_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest/forged"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/local/github"
	"github.com/rungci/rung/local/limits"
	"github.com/rungci/rung/steps/event"
)

// runContainer runs a job in a container with options, as a user allows.
func runContainer(t *testing.T, options string, user local.Options) (local.Result, []*executor.Job) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".rung"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".rung", "limits.yml"), []byte("pids: 300"), 0o644); err != nil {
		t.Fatal(err)
	}
	workflow := "on: push\njobs:\n  build:\n    runs-on: x\n    container: {image: forged, options: '" + options + "'}\n    services: {db: {image: db}}\n    steps: [{run: echo}]\n"
	p, err := github.Open(t.Context(), github.Options{Dir: dir, File: ".github/workflows/ci.yml", Text: []byte(workflow), Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := p.Select(nil, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	level := &forged.Level{Dir: t.TempDir(), Run: func(*forged.Environment) []event.Event { return nil }}
	user.Isolation, user.Observer = local.IsolateContainer, &local.Notes{}
	user.Container = func() (executor.Executor, error) { return level, nil }
	return p.Run(t.Context(), github.RunOptions{Options: user, Selection: chosen})[0], level.Jobs()
}

func TestOptionsOfAContainerNarrowWhatItsJobMayUse(t *testing.T) {
	t.Parallel()
	user := local.Options{Limits: limits.Limits{Resources: executor.Resources{Memory: 1 << 30}}}
	result, jobs := runContainer(t, "--memory 2g --cpus 0.5 --user 7", user)
	if result.Status != local.Success {
		t.Fatalf("%+v", result)
	}
	got := jobs[0]
	if diff := cmp.Diff(executor.Resources{Memory: 1 << 30, CPU: 0.5, PIDs: 300}, got.Resources); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(executor.Resources{Memory: 1 << 30, PIDs: 300}, got.ServiceResources); diff != "" {
		t.Errorf("its services: %s", diff)
	}
	if got.Image.User != "7" || got.Privileged {
		t.Errorf("user %q, privileged: %t", got.Image.User, got.Privileged)
	}
}

func TestOptionsThatOnlyTheUserCanGrantOrNobodyCanAreRefused(t *testing.T) {
	t.Parallel()
	for options, why := range map[string]string{
		"--privileged":     "container: options: --privileged asks for all rights on this machine's kernel",
		"--network host":   "--network is not supported: every job has a network of its own",
		"--memory nothing": `--memory: "nothing" is not a size`,
	} {
		if result, jobs := runContainer(t, options, local.Options{}); len(jobs) > 0 || result.Error == nil || !strings.Contains(result.Error.Error(), why) {
			t.Errorf("%s: %d jobs, %v", options, len(jobs), result.Error)
		}
	}
	if result, jobs := runContainer(t, "--privileged", local.Options{Privileged: true}); len(jobs) != 1 || !jobs[0].Privileged {
		t.Errorf("with the user's consent: %+v", result)
	}
	if _, jobs := runContainer(t, "", local.Options{Privileged: true}); len(jobs) != 1 || jobs[0].Privileged {
		t.Error("a job that does not ask gets privileges")
	}
}
