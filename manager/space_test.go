//go:build unix

package manager_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/traces"
)

// saving is a job of a project that saves a cache of a megabyte, which cannot be compressed.
func saving(project int64) gitlab.Job {
	j := caching("main-non_protected", "mkdir -p deps", "head -c 1048576 /dev/urandom >deps/a")
	j.Info.ProjectID = project
	return j
}

func TestADiskBudgetRemovesTheCachesThatWereNotUsedForLongest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(w.configure("concurrent = 1\ncheck_interval = 1", ""))
	cache := func(project int) string {
		return filepath.Join(w.dir, "state", "caches", traces.ProjectFolder(w.url, int64(project)), "main-non_protected", "cache.zip")
	}
	for project := range 3 {
		if r := w.result(w.server.Enqueue(saving(int64(project)))); r.State != gitlab.Success {
			t.Fatalf("%s\n%s", r.State, r.Log)
		}
		if _, err := os.Stat(cache(project)); err != nil {
			t.Fatal(err)
		}
	}
	if w.manager.State().Disk != nil {
		t.Error("without a budget it says how the disk is")
	}
	reading := caching("main-non_protected", "test -f deps/a") // the cache of the first project is used again
	reading.Info.ProjectID, reading.Cache[0].Policy = 0, "pull"
	if r := w.result(w.server.Enqueue(reading)); r.State != gitlab.Success {
		t.Fatalf("%s\n%s", r.State, r.Log)
	}

	if err := w.manager.Reload(t.Context(), w.configure("concurrent = 1\ncheck_interval = 1\n[disk]\nbudget = \"2500k\"", "")); err != nil {
		t.Fatal(err)
	}
	for d := w.manager.State().Disk; d == nil || d.Looked.IsZero(); d = w.manager.State().Disk { // before that, GitLab was asked for a job without a budget
		time.Sleep(10 * time.Millisecond)
	}
	if r := w.result(w.server.Enqueue(script("true"))); r.State != gitlab.Success {
		t.Fatalf("%s\n%s", r.State, r.Log)
	}
	for project, want := range []bool{true, false, true} {
		if _, err := os.Stat(cache(project)); (err == nil) != want {
			t.Errorf("the cache of project %d: %v", project, err)
		}
	}
	if d := w.manager.State().Disk; d == nil || d.Removed["cache"].Things != 1 || d.Waiting != "" || d.Budget != 2500<<10 {
		t.Errorf("it says that the disk is %+v", d)
	}
}

func TestWithoutRoomNoJobIsAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(w.configure("concurrent = 1\ncheck_interval = 1\n[disk]\nkeep_free = \"1000t\"", ""))
	deadline := time.Now().Add(time.Minute)
	for {
		if d := w.manager.State().Disk; d != nil && d.Waiting != "" {
			if !strings.Contains(d.Waiting, "disk.keep_free") {
				t.Errorf("it waits: %s", d.Waiting)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not wait for room")
		}
		time.Sleep(10 * time.Millisecond)
	}
	waiting := w.server.Enqueue(script("true"))
	if err := w.manager.Reload(t.Context(), w.configure("concurrent = 1\ncheck_interval = 1\n[disk]\nkeep_free = \"1k\"", "")); err != nil {
		t.Fatal(err)
	}
	if r := w.result(waiting); r.State != gitlab.Success {
		t.Errorf("when there is room the job is %s\n%s", r.State, r.Log)
	}
}

// stocking is a level that has one image, which nobody uses.
type stocking struct {
	executor.Executor
	removed chan string
}

func (s *stocking) Stored(context.Context) (*executor.Stock, error) {
	return &executor.Stock{Things: []executor.Stored{{Kind: executor.StoredImage, Place: "engine", ID: "sha256:1", Name: "big:1", Size: 2 << 30}}}, nil
}

func (s *stocking) Discard(_ context.Context, what executor.Stored) error {
	s.removed <- what.Name
	return nil
}

func TestWhatALevelKeepsIsRemovedBeforeTheFirstJobIsAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	program, err := executortest.Program()
	if err != nil {
		t.Fatal(err)
	}
	removed := make(chan string, 100)
	o := w.options(w.configure("concurrent = 1\ncheck_interval = 1\n[disk]\nbudget = \"1 GiB\"", ""), program)
	open := o.Open
	o.Open = func(ctx context.Context, r *config.Runner, level executor.Level, setup executor.Setup) (executor.Executor, error) {
		if setup.Uses == nil {
			t.Error("the level has no record of uses")
		}
		opened, err := open(ctx, r, level, setup)
		return &stocking{opened, removed}, err
	}
	job := w.server.Enqueue(script("true"))
	w.run(o)
	if r := w.result(job); r.State != gitlab.Success {
		t.Fatalf("%s\n%s", r.State, r.Log)
	}
	select {
	case name := <-removed:
		if name != "big:1" {
			t.Errorf("%s is removed", name)
		}
	default:
		t.Error("nothing is removed when the first job has ended")
	}
}
