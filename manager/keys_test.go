//go:build unix

package manager_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/manager"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
)

func TestAStrictCheckIntervalIsKeptBetweenJobs(t *testing.T) {
	for _, strict := range []bool{false, true} {
		w := newWorld(t)
		first, second := w.server.Enqueue(script("true")), w.server.Enqueue(script("true"))
		interval, entry := 300, "" // of which nobody waits for the end
		if strict {
			interval, entry = 2, "strict_check_interval = true"
		}
		w.start(w.configure(fmt.Sprintf("concurrent = 2\ncheck_interval = %d", interval), entry))
		w.result(first)
		between := time.Now()
		w.result(second)
		if took := time.Since(between); strict && took < 1500*time.Millisecond {
			t.Errorf("the second job ended %s after the first", took)
		}
		w.manager.Kill("the test is over")
		w.wait()
	}
}

func TestAChangedEntryHasPlacesOfItsOwn(t *testing.T) {
	w := newWorld(t)
	program, err := executortest.Program()
	if err != nil {
		t.Fatal(err)
	}
	var opened, closed atomic.Int32
	o := w.options(w.configure("concurrent = 2\ncheck_interval = 1", ""), program)
	open := o.Open
	o.Open = func(ctx context.Context, r *config.Runner, level executor.Level, setup executor.Setup) (executor.Executor, error) {
		opened.Add(1)
		e, err := open(ctx, r, level, setup)
		return closing{e, &closed}, err
	}
	w.run(o)
	first := w.server.Enqueue(script("echo begun; while [ ! -e " + w.dir + "/go ]; do sleep 0.1; done"))
	if err := first.WaitLog(t.Context(), "begun"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time nothing changes
		if err := w.manager.Reload(t.Context(), w.configure("concurrent = 2\ncheck_interval = 1", "shell = \"sh\"")); err != nil {
			t.Fatal(err)
		}
		if r := w.result(w.server.Enqueue(script("true"))); r.State != gitlab.Success {
			t.Error(r.Log)
		}
	}
	if opened.Load() != 2 || closed.Load() != 0 {
		t.Errorf("%d were opened and %d closed while a job ran in the first", opened.Load(), closed.Load())
	}
	if err := os.WriteFile(w.dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := w.result(first); r.State != gitlab.Success {
		t.Error(r.Log)
	}
	for began := time.Now(); closed.Load() != 1; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("%d are closed after the last job of the first one", closed.Load())
		}
	}
}

// closing counts how often it is closed.
type closing struct {
	executor.Executor
	n *atomic.Int32
}

func (c closing) Close() error { c.n.Add(1); return c.Executor.Close() }

func TestAnEnvironmentThatTakesTooLongIsGivenUp(t *testing.T) {
	w := newWorld(t)
	w.start(w.configure("concurrent = 1", `prepare_timeout = "1ns"`))
	r := w.result(w.server.Enqueue(script("echo the script has run")))
	if r.State != gitlab.Failed || r.FailureReason != "runner_system_failure" || !strings.Contains(r.Log, "not ready within 1ns (prepare_timeout)") {
		t.Errorf("%s %s\n%s", r.State, r.FailureReason, r.Log)
	}
}

func TestAJobInTheFolderThatItChooses(t *testing.T) {
	w := newWorld(t)
	w.start(w.configure("concurrent = 1", "[runners.custom_build_dir]\nenabled = true"))
	from := script(`echo "in ${PWD#"$CI_BUILDS_DIR"}, as $CI_PROJECT_DIR is"; [ "$PWD" = "$CI_PROJECT_DIR" ]`)
	from.Variables = append(from.Variables, gitlab.Variable{Key: "GIT_CLONE_PATH", Value: "$CI_BUILDS_DIR/go/src/$CI_CONCURRENT_ID"})
	if r := w.result(w.server.Enqueue(from)); r.State != gitlab.Success || !strings.Contains(r.Log, "in /go/src/0, as") {
		t.Errorf("%s %s\n%s", r.State, r.FailureReason, r.Log)
	}
}

func TestAJobBeyondThoseOfItsProjectWaitsWithoutASlot(t *testing.T) {
	w := requeueing(t, 50*time.Millisecond, 2*time.Second)
	gate := w.dir + "/go"
	first := w.server.Enqueue(script("echo begun; while [ ! -e " + gate + " ]; do sleep 0.1; done"))
	second, third := w.server.Enqueue(script("echo second")), w.server.Enqueue(script("echo third"))
	other := script("echo other")
	other.Info.ProjectID = 8
	w.start(w.configure("concurrent = 3\ncheck_interval = 1", "[runners.policy]\nmax_jobs_per_project = 1"))
	if err := first.WaitLog(t.Context(), "begun"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2500 * time.Millisecond) // GitLab has heard of both, and hands neither out again
	if r := w.result(w.server.Enqueue(other)); r.State != gitlab.Success {
		t.Errorf("the job of another project: %s\n%s", r.State, r.Log)
	}
	for name, j := range map[string]*gitlabtest.Job{"second": second, "third": third} {
		if r := j.Result(); r.State != gitlab.Pending {
			t.Errorf("the %s job is %s", name, r.State)
		}
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, j := range []*gitlabtest.Job{first, second, third} {
		if r := w.result(j); r.State != gitlab.Success {
			t.Errorf("%s %s\n%s", r.State, r.FailureReason, r.Log)
		}
	}
}

// heldJob begins two jobs that run until gate is there, and returns one of the same project, which is held meanwhile; its script adds a line to ran.
func (w *world) heldJob(ran, gate string) *gitlabtest.Job {
	w.t.Helper()
	w.start(w.configure("concurrent = 4\ncheck_interval = 1", "[runners.policy]\nmax_jobs_per_project = 2"))
	for range 2 {
		if err := w.server.Enqueue(script("echo begun; while [ ! -e "+gate+" ]; do sleep 0.1; done")).WaitLog(w.t.Context(), "begun"); err != nil {
			w.t.Fatal(err)
		}
	}
	return w.server.Enqueue(script("echo x >>"+ran, "sleep 1"))
}

// requeueing is a world whose GitLab hands a job out again that it has not heard of for some time.
func requeueing(t *testing.T, heldEvery, requeue time.Duration) *world {
	before := manager.HeldEvery(heldEvery)
	w := &world{t: t, dir: t.TempDir(), server: gitlabtest.New(gitlabtest.Options{Requeue: requeue}), ended: make(chan error, 1)}
	w.serve()
	t.Cleanup(func() { manager.HeldEvery(before) })
	return w
}

func TestGitLabHearsOfAHeldJobWhileOthersEnd(t *testing.T) {
	const requeue = 2 * time.Second // many times heldEvery
	w := requeueing(t, 100*time.Millisecond, requeue)
	gate, ran := w.dir+"/go", w.dir+"/ran"
	held := w.heldJob(ran, gate)
	other := script("true")
	other.Info.ProjectID = 8
	for began := time.Now(); time.Since(began) < 2*requeue; { // one ends every few milliseconds
		w.result(w.server.Enqueue(other))
	}
	if n := held.Status().Handed; n != 1 {
		t.Errorf("the job that is held was handed out %d times", n)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := w.result(held); r.State != gitlab.Success {
		t.Errorf("%s %s\n%s", r.State, r.FailureReason, r.Log)
	}
}

func TestAJobThatIsHandedOutTwiceRunsOnce(t *testing.T) {
	w := requeueing(t, time.Hour, time.Second)
	gate, ran := w.dir+"/go", w.dir+"/ran"
	held := w.heldJob(ran, gate)
	time.Sleep(3500 * time.Millisecond) // it is handed out again, and again
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := w.result(held); r.Handed < 2 {
		t.Errorf("it was handed out %d times", r.Handed)
	}
	w.result(w.server.Enqueue(script("true")))
	w.manager.Drain()
	w.wait()
	if text, err := os.ReadFile(ran); string(text) != "x\n" {
		t.Errorf("the script has written %q, %v", text, err)
	}
}
