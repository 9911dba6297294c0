//go:build unix

package manager_test

import (
	"context"
	"os/user"
	"strings"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/none"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/gitlab"
)

// TestJobsOfARootManagerRunAsTheUserOfTheConfiguration on this machine itself, as those of a gitlab-runner that was started with --user.
func TestJobsOfARootManagerRunAsTheUserOfTheConfiguration(t *testing.T) {
	nobody, err := user.Lookup("nobody")
	if err != nil || !local.CanBeOthers() {
		enginetest.Skip(t, "root, and a user called nobody")
	}
	w := newWorld(t)
	program, err := executortest.Program()
	if err != nil {
		t.Fatal(err)
	}
	o := w.options(w.configure("concurrent = 1\ncheck_interval = 1\nuser = \"nobody\"", ""), program)
	o.Open = func(ctx context.Context, _ *config.Runner, _ executor.Level, setup executor.Setup) (executor.Executor, error) {
		return none.New(ctx, setup, none.Options{Ahead: true}) // with folders that others can reach
	}
	w.run(o)
	r := w.result(w.server.Enqueue(script("echo uid=$(id -u) user=$USER logname=$LOGNAME", "touch made")))
	if want := "uid=" + nobody.Uid + " user=nobody logname=nobody"; r.State != gitlab.Success || !strings.Contains(r.Log, want) {
		t.Errorf("the job is %s %s, and has not said %q:\n%s", r.State, r.FailureReason, want, r.Log)
	}
	w.manager.Drain()
	w.wait()
}
