package none

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest"
)

func TestMain(m *testing.M) {
	executortest.Main(m, func() (executortest.Level, error) { return level(os.Args[0]), nil })
}

func level(program string) executortest.Level {
	return executortest.Level{
		New: func(dir string) (executor.Executor, error) {
			temp := filepath.Join(dir, "temp")
			if err := os.MkdirAll(temp, 0o700); err != nil {
				return nil, err
			}
			return New(Options{
				StepRunner: func() (StepRunner, error) { return executortest.NewStepRunner() },
				Program:    program, State: filepath.Join(dir, "state"), Temp: temp,
			})
		},
		Job:  func(id string) *executor.Job { return &executor.Job{ID: id, ProjectName: "project"} },
		Left: left,
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
	if runtime.GOOS == "windows" {
		t.Skip("needs a POSIX shell")
	}
	executortest.Run(t, level(os.Args[0]))
}

func open(t *testing.T) executor.Executor {
	t.Helper()
	e, err := level(os.Args[0]).New(t.TempDir())
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
	if err == nil || !strings.Contains(err.Error(), "there already") {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
}

func TestKeptFilesStayAlsoAfterASweep(t *testing.T) {
	dir := t.TempDir()
	e, err := level(os.Args[0]).New(dir)
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

func TestCloseIsBoundedByItsContext(t *testing.T) {
	dir := t.TempDir()
	stuck := &stuckRunner{release: make(chan struct{})}
	e, err := New(Options{StepRunner: func() (StepRunner, error) { return stuck, nil }, State: filepath.Join(dir, "state"), Temp: dir})
	if err != nil {
		t.Fatal(err)
	}
	env, err := e.Prepare(t.Context(), &executor.Job{ID: "stuck", ProjectName: "shop"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := env.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("closing gives %v", err)
	}
	close(stuck.release)
	if err := errors.Join(env.Close(t.Context()), e.Close()); err != nil {
		t.Errorf("closing again gives %v", err)
	}
}

// stuckRunner does not end before it is released.
type stuckRunner struct{ release chan struct{} }

func (r *stuckRunner) Serve(net.Listener) error { return nil }
func (r *stuckRunner) Close()                   { <-r.release }

func BenchmarkPrepare(b *testing.B) {
	e, err := level(os.Args[0]).New(b.TempDir())
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
