package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func needSetsid(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("setsid(1) is not installed")
	}
}

func TestDaemonsAreKilled(t *testing.T) {
	needSetsid(t)
	for _, tc := range []struct{ name, script string }{
		{"a new session that holds the output", "(setsid sh -c 'echo $$; exec sleep 1000' &) ; sleep 0.2"},
		{"a new session without the output", "(setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' &) ; sleep 0.2"},
		{"one that ignores signals", "(setsid sh -c 'trap \"\" TERM HUP; echo $$; exec sleep 1000' &) ; sleep 0.2"},
		{"a new session below a new session", "(setsid setsid -f sh -c 'echo $$; exec sleep 1000' &) ; sleep 0.2"},
		{"one whose parent lives on in another session", "(setsid sh -c 'setsid sh -c \"echo \\$\\$; exec sleep 1000\" & sleep 1000' &) ; sleep 0.3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, stdout, _ := sh(t, tc.script)
			if pid := pidFrom(t, stdout); !gone(pid) {
				t.Errorf("process %d lives", pid)
			}
			if !childless() {
				t.Error("there are children left")
			}
		})
	}
}

func TestBackgroundJobsOfAnInteractiveShellAreKilled(t *testing.T) {
	_, stdout, _ := sh(t, "set -m; sleep 1000 >/dev/null 2>&1 & echo $!")
	if pid := pidFrom(t, stdout); !gone(pid) {
		t.Errorf("process %d lives", pid)
	}
}

func TestStragglerThatCannotBeFoundDoesNotBlock(t *testing.T) {
	needSetsid(t)
	// Without a subreaper the daemon is out of reach, and it holds the pipe.
	subreaper.Store(false)
	t.Cleanup(func() { subreaper.Store(true) })
	_, stdout, _ := sh(t, "(setsid sh -c 'echo $$; exec sleep 1000' &) ; sleep 0.2")
	pid := pidFrom(t, stdout)
	if gone(pid) {
		t.Errorf("process %d is gone; the test shows nothing", pid)
	}
	_ = unix.Kill(pid, unix.SIGKILL)
	_, _ = unix.Wait4(pid, nil, 0, nil)
}

// holder runs a process that ends when stop is called, and reports what it printed once it is there.
func holder(t *testing.T, script string) (first string, stop func() error) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fifo := t.TempDir() + "/stop"
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := Run(context.Background(), nil, Spec{Args: []string{"sh", "-c", script + `; read line <"$0"`, fifo}, Env: testEnv(), Stdout: w})
		done <- err
	}()
	buf := make([]byte, 64)
	n, err := r.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n]), func() error {
		if err := os.WriteFile(fifo, []byte("\n"), 0); err != nil {
			return err
		}
		err := <-done
		w.Close()
		return err
	}
}

func TestOrphansAreAttributed(t *testing.T) {
	needSetsid(t)
	t.Run("a daemon that holds a pipe of another process lives as long as that one", func(t *testing.T) {
		first, stop := holder(t, "(setsid sh -c 'echo $$; exec sleep 1000' &)")
		pid := pidFrom(t, first)
		sh(t, "true")
		if gone(pid) {
			t.Error("the daemon was killed with the wrong process")
		}
		if err := stop(); err != nil || !gone(pid) {
			t.Errorf("the daemon lives on: %v", err)
		}
	})
	t.Run("a job in the session of another process lives as long as that one", func(t *testing.T) {
		first, stop := holder(t, "set -m; (sleep 1000 >/dev/null & echo $!)")
		pid := pidFrom(t, first)
		sh(t, "true")
		if gone(pid) {
			t.Error("the job was killed with the wrong process")
		}
		if err := stop(); err != nil || !gone(pid) {
			t.Errorf("the job lives on: %v", err)
		}
	})
	t.Run("a daemon that could be anyone's is killed with the last of them", func(t *testing.T) {
		_, stop := holder(t, "echo ready")
		_, stdout, _ := sh(t, "(setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' &) ; sleep 0.2")
		pid := pidFrom(t, stdout)
		if gone(pid) {
			t.Error("the daemon was killed while the other process could need it")
		}
		if err := stop(); err != nil || !gone(pid) {
			t.Errorf("the daemon lives on: %v", err)
		}
	})
	t.Run("a daemon is not taken for one of a process that started later", func(t *testing.T) {
		first, stopOld := holder(t, "(setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' &); sleep 0.2")
		pid := pidFrom(t, first)
		time.Sleep(50 * time.Millisecond) // ages are told apart by clock ticks, which are 10 ms
		_, stopNew := holder(t, "echo ready")
		if err := stopOld(); err != nil || !gone(pid) {
			t.Errorf("the daemon lives on: %v", err)
		}
		if err := stopNew(); err != nil {
			t.Error(err)
		}
	})
}

func TestDeadOrphansAreCollectedWhileAProcessRuns(t *testing.T) {
	_, stop := holder(t, "(true &); (true &); (true &); sleep 0.3; echo ready")
	family.Lock()
	before := len(children())
	family.Unlock()
	reapDeadOrphans()
	family.Lock()
	after := len(children())
	family.Unlock()
	if before < after || after > 1 {
		t.Errorf("%d children before, %d after; want the running process alone", before, after)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestParallelRunsWithOrphans(t *testing.T) {
	needSetsid(t)
	const workers, rounds = 8, 6
	var wg sync.WaitGroup
	errs := make(chan error, workers*rounds)
	for worker := range workers {
		wg.Go(func() {
			for round := range rounds {
				var stdout bytes.Buffer
				script := fmt.Sprintf(`(setsid sh -c 'exec sleep 1000' &) ; sleep 1000 & (true &) ; (setsid sleep 1000 >/dev/null 2>&1 &) ; echo out; exit %d`, worker+round)
				result, err := Run(context.Background(), nil, Spec{Args: []string{"sh", "-c", script}, Env: testEnv(), Stdout: &stdout})
				if err != nil || result.ExitCode != worker+round || strings.TrimSpace(stdout.String()) != "out" {
					errs <- fmt.Errorf("worker %d, round %d: %+v, %q, %w", worker, round, result, stdout.String(), err)
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	if !childless() {
		t.Error("there are children left")
	}
}

func TestSubreaperOffKillsTheGroup(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	subreaper.Store(false)
	t.Cleanup(func() {
		if err := EnableSubreaper(); err != nil {
			t.Error(err)
		}
	})
	_, stdout, _ := sh(t, "sleep 1000 & echo $!")
	pid := pidFrom(t, stdout)
	if o, ok := inspect(pid); ok && o.parent == os.Getpid() {
		t.Errorf("process %d is still a child", pid)
	}
	if !isEnded(pid) {
		t.Errorf("process %d lives", pid)
	}
}

func TestOrphansAreToldApartByTheirTemporaryFolders(t *testing.T) {
	needSetsid(t)
	_, stop := holder(t, "echo ready")
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	var stdout bytes.Buffer
	spec := Spec{
		Args:   []string{"sh", "-c", "(setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' &) ; sleep 0.2"},
		Env:    append(testEnv(), "TMPDIR="+t.TempDir()),
		Stdout: &stdout,
	}
	if _, err := Run(context.Background(), nil, spec); err != nil {
		t.Fatal(err)
	}
	if pid := pidFrom(t, stdout.String()); !gone(pid) {
		t.Errorf("process %d lives, while another process runs", pid)
	}
}
