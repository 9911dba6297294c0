//go:build linux

package manager_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/manager"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
)

// smallState makes the state folder a file system of 8 MiB.
func (w *world) smallState() (folder string) {
	t := w.t
	t.Helper()
	if os.Geteuid() != 0 {
		enginetest.Skip(t, "root")
	}
	folder = filepath.Join(w.dir, "state")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", folder, "tmpfs", 0, "size=8m"); err != nil {
		t.Log(err)
		enginetest.Skip(t, "the right to mount")
	}
	t.Cleanup(func() {
		w.manager.Kill("the test is over")
		w.wait()
		if err := syscall.Unmount(folder, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return folder
}

// A runner that has just run jobs takes none when its disk is full, and those that wait are not failed one by one.
func TestNoJobIsTakenOnADiskThatHasBecomeFull(t *testing.T) {
	before, fit := manager.UnfitPause(50*time.Millisecond), manager.FitFor(time.Hour)
	t.Cleanup(func() { manager.UnfitPause(before); manager.FitFor(fit) })
	w := newWorld(t)
	filler := filepath.Join(w.smallState(), "filler")
	w.start(w.configure("concurrent = 2\ncheck_interval = 1", ""))
	if r := w.result(w.server.Enqueue(script("cat /dev/zero > " + filler + " || true"))); r.State != gitlab.Success && r.State != gitlab.Failed {
		t.Errorf("the job that fills it is %s", r.State)
	}
	var jobs []*gitlabtest.Job
	for range 20 {
		jobs = append(jobs, w.server.Enqueue(script("true")))
	}
	w.unable("no space left on device")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		if r := w.result(j); r.State != gitlab.Success {
			t.Errorf("a job that waited is %s %s\n%s", r.State, r.FailureReason, r.Log)
		}
	}
}

// TestAFullDisk has a state folder on a small file system: a job whose log does not fit fails and says so, and the manager goes on when there is room.
func TestAFullDisk(t *testing.T) {
	w := newWorld(t)
	state := w.smallState()
	w.start(w.configure("concurrent = 2\ncheck_interval = 1", "output_limit = 100000"))
	runs := w.server.Enqueue(script("echo begun; while [ ! -e /" + strings.TrimPrefix(w.dir, "/") + "/go ]; do sleep 0.1; done; echo whole"))
	if err := runs.WaitLog(t.Context(), "begun"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "filler"), make([]byte, 6<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	full := script("yes a line of a log that does not fit | head -c 20000000")
	full.Features.FailureReasons = []string{"runner_system_failure"}
	r := w.result(w.server.Enqueue(full))
	if r.State != gitlab.Failed || r.FailureReason != "runner_system_failure" {
		t.Errorf("the job whose log does not fit is %s %s\n%s", r.State, r.FailureReason, r.Log[:min(len(r.Log), 2000)])
	}
	if want := "(system failure): writing the job's log: "; !strings.Contains(r.Log, want) || !strings.Contains(r.Log, "no space left on device") {
		t.Errorf("its log does not say why: it ends with %q", r.Log[max(0, len(r.Log)-300):])
	}
	if err := os.Truncate(filepath.Join(state, "filler"), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := w.result(runs); r.State != gitlab.Success || !strings.Contains(r.Log, "whole") {
		t.Errorf("the job beside it is %s %s\n%s", r.State, r.FailureReason, r.Log)
	}
	if r := w.result(w.server.Enqueue(script("echo there is room"))); r.State != gitlab.Success {
		t.Errorf("the next job is %s %s\n%s", r.State, r.FailureReason, r.Log)
	}
}
