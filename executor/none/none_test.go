//go:build unix

package none

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/storertest"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/usage"
)

func TestMain(m *testing.M) {
	executortest.Main(m, func() (executortest.Level, error) {
		if user := os.Getenv(asUser); user != "" { // of the test that starts this binary again
			return levelAs(user), nil
		}
		l := level()
		l.Host = overSSH() // the same
		return l, nil
	})
}

func level() executortest.Level {
	return executortest.Level{
		Open: func(ctx context.Context, setup executor.Setup) (executor.Executor, error) {
			return New(ctx, setup, Options{})
		},
		Job:  func(id string) *executor.Job { return &executor.Job{ID: id, ProjectName: "project"} },
		Left: left,
		Running: func(dir string) ([]string, error) { // a step-runner that ends removes its socket
			return filepath.Glob(filepath.Join(dir, "temp", "*", socketName))
		},
		Ends: map[string]func(*testing.T, executor.Environment){
			"its step-runner is killed": func(t *testing.T, env executor.Environment) {
				process := env.(*environment).runner.process
				if err := process.Kill(); err != nil {
					t.Error(err)
				}
				_, _ = process.Wait() // killing does not wait
			},
			"its socket is removed": func(t *testing.T, env executor.Environment) {
				if err := os.Remove(env.(*environment).runner.socket); err != nil {
					t.Error(err)
				}
			},
		},
		Stalls: map[string]func(*testing.T, executor.Environment){
			"its step-runner is stopped, and does not answer": func(t *testing.T, env executor.Environment) {
				pid := env.(*environment).runner.process.PID()
				if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
					t.Error(err)
				}
			},
		},
	}
}

// left names the folders and processes that are left.
func left(dir string) (names []string, err error) {
	for _, sub := range []string{"temp", "state"} {
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	processes, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range processes {
		if env, err := os.ReadFile(file); err == nil && strings.Contains(string(env), "CI_PROJECT_DIR="+dir) {
			names = append(names, "process "+filepath.Base(filepath.Dir(file)))
		}
	}
	return names, nil
}

func TestConformance(t *testing.T) {
	executortest.Run(t, level())
}

func newLevel(dir string) (executor.Executor, error) {
	l := level()
	return l.New(dir, executor.Lease{})
}

func open(t *testing.T) executor.Executor {
	t.Helper()
	e, err := newLevel(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestTheProjectIsWhereTheJobWantsIt(t *testing.T) {
	root := filepath.Join(t.TempDir(), "jobs")
	env, err := open(t).Prepare(t.Context(), &executor.Job{ID: "build", ProjectName: "shop", Root: root}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := env.Layout().Project, filepath.Join(root, "build", "shop"); got != want {
		t.Errorf("it is %s, not %s", got, want)
	}
	if !env.Layout().Shared {
		t.Error("the layout does not say that paths are shared")
	}
	if err := env.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(root); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestAFolderThatIsThereIsNotTouched(t *testing.T) {
	root := t.TempDir()
	mine := filepath.Join(root, "build", "shop", "mine")
	if err := os.MkdirAll(mine, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := open(t).Prepare(t.Context(), &executor.Job{ID: "build", ProjectName: "shop", Root: root}, nil)
	if err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
}

func TestKeptFilesStayAlsoAfterASweep(t *testing.T) {
	dir := t.TempDir()
	e, err := newLevel(dir)
	if err != nil {
		t.Fatal(err)
	}
	env, err := e.Prepare(t.Context(), &executor.Job{ID: "kept", ProjectName: "shop", Keep: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(env.Layout().Project, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(env.Close(t.Context()), e.Close(), e.Sweep(t.Context())); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

func TestAFullDiskIsNamed(t *testing.T) {
	env, err := open(t).Prepare(t.Context(), &executor.Job{ID: "full", ProjectName: "shop"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := env.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	executortest.RunFullDisk(t, env, hosttest.SmallDisk(t))
}

func TestCloseIsBoundedByItsContext(t *testing.T) {
	e := open(t)
	env, err := e.Prepare(t.Context(), &executor.Job{ID: "stuck", ProjectName: "shop"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pid := env.(*environment).runner.process.PID()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := env.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("closing gives %v", err)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(env.Close(t.Context()), e.Close()); err != nil {
		t.Errorf("closing again gives %v", err)
	}
}

// prepareKept prepares a job that keeps its project in a folder.
func prepareKept(t *testing.T, e executor.Executor, id, root string) executor.Environment {
	t.Helper()
	env, err := e.Prepare(t.Context(), &executor.Job{ID: id, ProjectName: "shop", Root: root, KeepProject: "shop-1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func TestAKeptProjectIsFoundByTheNextJobAndHadByOneOnly(t *testing.T) {
	e, root := open(t), t.TempDir()
	prepare := func(id string) executor.Environment { return prepareKept(t, e, id, root) }
	first := prepare("first")
	if err := os.WriteFile(filepath.Join(first.Layout().Project, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	beside := prepare("beside")
	if beside.Layout().Project == first.Layout().Project {
		t.Errorf("two jobs have %s", beside.Layout().Project)
	}
	if err := errors.Join(first.Close(t.Context()), beside.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	next := prepare("next")
	if _, err := os.Stat(filepath.Join(next.Layout().Project, "file")); err != nil {
		t.Errorf("the next job does not find the file: %v", err)
	}
	if err := next.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(root, "*"+busySuffix)); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// stubborn is this machine, where a folder cannot be removed at first.
type stubborn struct {
	host.Host
	folder string
}

type stubbornFiles struct {
	host.Files
	on *stubborn
}

func (h *stubborn) Files() host.Files { return stubbornFiles{h.Host.Files(), h} }

func (f stubbornFiles) RemoveAll(ctx context.Context, path string) error {
	if path == f.on.folder {
		f.on.folder = ""
		return errors.New("it is busy")
	}
	return f.Files.RemoveAll(ctx, path)
}

func TestClosingAgainLeavesWhatAnotherJobHas(t *testing.T) {
	root := t.TempDir()
	l := level()
	l.Host = &stubborn{Host: local.New(), folder: filepath.Join(root, "first")}
	e, err := l.New(t.TempDir(), executor.Lease{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	prepare := func(id string) executor.Environment { return prepareKept(t, e, id, root) }
	first := prepare("first")
	if err := first.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "it is busy") {
		t.Fatalf("closing gives %v", err)
	}
	next := prepare("next") // has the kept project of the first
	if err := first.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(root, "first")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the first job's folder: %v", err)
	}
	if beside := prepare("beside"); beside.Layout().Project == next.Layout().Project {
		t.Errorf("two jobs have %s", next.Layout().Project)
	} else if err := errors.Join(beside.Close(t.Context()), next.Close(t.Context())); err != nil {
		t.Error(err)
	}
}

// processOf starts a process of a job. lives ends it, and fails the test if something else has.
func processOf(t *testing.T, env executor.Environment) (lives func()) {
	t.Helper()
	process := exec.Command("sleep", "60")
	process.Env = []string{"CI_PROJECT_DIR=" + env.Layout().Project}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- process.Wait() }()
	return func() {
		t.Helper()
		_ = process.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "terminated") {
			t.Errorf("the job's process ended: %v", err)
		}
	}
}

// TestClosingEndsWhatAShellLeft leaves a process behind, which the step-runner has not started and does not end.
func TestClosingEndsWhatAShellLeft(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes of a job are known on Linux only")
	}
	// The substitution ends when the process has a session of its own. What is still in the shell's ends with it.
	const script = `pid=$(setsid sh -c 'echo $$; exec sleep 600 </dev/null >/dev/null 2>&1' &); echo $pid`
	lease := executor.Lease{Owner: "manager-1", Keep: time.Minute}
	for name, recovered := range map[string]bool{"": false, "recovered": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, l := t.TempDir(), level()
			e, err := l.New(dir, lease)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = e.Close() })
			env := prepareKept(t, e, "job", t.TempDir())
			var out bytes.Buffer
			code, err := env.Shell(t.Context(), &executor.Shell{
				Args: []string{"sh", "-c", script}, Env: []string{"CI_PROJECT_DIR=" + env.Layout().Project}, Stdout: &out,
			})
			pid, wrong := strconv.Atoi(strings.TrimSpace(out.String()))
			if err := errors.Join(err, wrong); err != nil || code != 0 {
				t.Fatal(code, err)
			}
			if err := syscall.Kill(pid, 0); err != nil {
				t.Fatal(err)
			}
			if recovered {
				handle := env.Handle()
				if err := errors.Join(env.Detach(), e.Close()); err != nil {
					t.Fatal(err)
				}
				if e, err = l.New(dir, lease); err != nil {
					t.Fatal(err)
				}
				if env, err = e.Recover(t.Context(), handle); err != nil {
					t.Fatal(err)
				}
			}
			if err := env.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(state), ") Z ") {
				t.Errorf("the process of the shell is there: %s", state)
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		})
	}
}

// TestAHandleOfAnEnvironmentThatIsClosedLeavesWhatAnotherJobHas closes a job's environment while its record, with the handle, is still there. Another job has
// its kept project when both are left to a successor.
func TestAHandleOfAnEnvironmentThatIsClosedLeavesWhatAnotherJobHas(t *testing.T) {
	lease := executor.Lease{Owner: "manager-1", Keep: time.Minute}
	for name, c := range map[string]struct {
		stays     string // of the first job's folders, at first
		elsewhere bool   // the successor is on another host
	}{
		"whole":                                {},
		"but for a folder":                     {stays: "first"},
		"but for the step-runner's":            {stays: "step-runner"},
		"whole, elsewhere":                     {elsewhere: true},
		"but for a folder, elsewhere":          {stays: "first", elsewhere: true},
		"but for the step-runner's, elsewhere": {stays: "step-runner", elsewhere: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, root := t.TempDir(), t.TempDir()
			on := &stubborn{Host: local.New()}
			l := level()
			l.Host = on
			e, err := l.New(dir, lease)
			if err != nil {
				t.Fatal(err)
			}
			first := prepareKept(t, e, "first", root)
			handle := first.Handle()
			switch c.stays {
			case "first":
				on.folder = filepath.Join(root, "first")
			case "step-runner":
				on.folder = first.(*environment).dirs.Runner
			}
			if err := first.Close(t.Context()); (err != nil) != (c.stays != "") {
				t.Fatalf("closing gives %v", err)
			}
			next := prepareKept(t, e, "next", root)
			lives := processOf(t, next)
			left := next.Handle()
			if c.stays != "" {
				if err := first.Detach(); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(next.Detach(), e.Close()); err != nil {
				t.Fatal(err)
			}

			lease := lease
			if lease.Elsewhere = c.elsewhere; c.elsewhere {
				if err := os.Rename(filepath.Join(dir, "state"), filepath.Join(dir, "lost")); err != nil {
					t.Fatal(err)
				}
			}
			l = level()
			heir, err := l.New(dir, lease)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = heir.Close() })
			if _, err := heir.Recover(t.Context(), handle); !errors.Is(err, executor.ErrGone) {
				t.Errorf("recovering what was closed gives %v", err)
			}
			env, err := heir.Recover(t.Context(), left)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(env.(*environment).dirs.Busy); err != nil {
				t.Error(err)
			}
			lives()
			if err := env.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestASweepLeavesTheFoldersOfJobsAlone leaves the ledger of a process that was killed when it had removed its job's folders and not yet said so. The next
// job has folders of the same names.
func TestASweepLeavesTheFoldersOfJobsAlone(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	l := level()
	e, err := l.New(dir, executor.Lease{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	prepare := func() executor.Environment { return prepareKept(t, e, "job", root) }
	first := prepare()
	ledgers, _ := filepath.Glob(filepath.Join(dir, "state", "*.ledger"))
	if len(ledgers) != 1 {
		t.Fatalf("the ledgers are %q", ledgers)
	}
	text, err := os.ReadFile(ledgers[0])
	if err == nil {
		err = errors.Join(first.Close(t.Context()), os.WriteFile(strings.Replace(ledgers[0], ".ledger", "-dead.ledger", 1), text, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}

	next := prepare()
	lives := processOf(t, next)
	if err := e.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "state", "*-dead.ledger")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	for _, folder := range []string{filepath.Join(root, "job"), filepath.Join(root, "shop-1.0"+busySuffix), next.Layout().Temp} {
		if _, err := os.Stat(folder); err != nil {
			t.Error(err)
		}
	}
	lives()
	if err := next.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func BenchmarkPrepare(b *testing.B) {
	e, err := newLevel(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	for b.Loop() {
		env, err := e.Prepare(b.Context(), &executor.Job{ID: "fast", ProjectName: "shop"}, nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := env.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func TestStepRunnersStandBeforeTheirJobsCome(t *testing.T) {
	dir := t.TempDir()
	l := level()
	l.Open = func(ctx context.Context, setup executor.Setup) (executor.Executor, error) {
		return New(ctx, setup, Options{Ahead: true})
	}
	opened, err := l.New(dir, executor.Lease{})
	if err != nil {
		t.Fatal(err)
	}
	e := opened.(*Executor)
	e.Ready(t.Context(), 3)
	standing := map[*runner]bool{}
	for _, s := range e.spares {
		if s.runner == nil || !s.runner.alive() {
			t.Fatalf("a step-runner does not stand: %v", s.err)
		}
		standing[s.runner] = true
	}
	if len(standing) != 3 {
		t.Fatalf("%d step-runners stand, not 3", len(standing))
	}
	for _, id := range []string{"a", "b", "c"} {
		env, err := e.Prepare(t.Context(), &executor.Job{ID: id, ProjectName: "project"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !standing[env.(*environment).runner] {
			t.Errorf("job %s has a step-runner that was started for it", id)
		}
		if err := env.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}

	e.Ready(t.Context(), 3)
	spares := slices.Clone(e.spares)
	for _, s := range spares {
		s.began = s.began.Add(-maxSpared)
	}
	e.Ready(t.Context(), 1)
	e.discards.Wait()
	for i, s := range spares {
		if alive := s.runner.alive(); alive != (i == 0) {
			t.Errorf("step-runner %d of those that nobody needs: alive is %v", i, alive)
		}
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if names, err := left(dir); err != nil || len(names) != 0 {
		t.Errorf("left: %v, %v", names, err)
	}
}

// TestKeptProjectsAreStored runs the suite of what keeps things on this machine.
func TestKeptProjectsAreStored(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	program, err := executortest.Program()
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(t.Context(), executor.Setup{
		Program: func(string, string) (string, error) { return program, nil }, State: dir, Uses: usage.New(filepath.Join(dir, "uses")),
	}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	storertest.Run(t, storertest.Case{
		Storer: e, Kind: executor.StoredProject,
		Use: func(number int) func() {
			env, err := e.Prepare(t.Context(), &executor.Job{ID: fmt.Sprintf("job-%d", number), ProjectName: "shop", Root: root, KeepProject: fmt.Sprintf("shop-%d", number)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(env.Layout().Project, "file"), []byte("content"), 0o600); err != nil {
				t.Fatal(err)
			}
			return func() {
				if err := env.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
		},
		Foreign: func() (executor.Stored, func() bool) {
			folder := filepath.Join(root, "other.0")
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			return executor.Stored{Kind: executor.StoredProject, Place: "local", ID: folder}, func() bool {
				_, err := os.Stat(folder)
				return err == nil
			}
		},
	})
	if left, _ := filepath.Glob(filepath.Join(root, "*"+busySuffix)); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
