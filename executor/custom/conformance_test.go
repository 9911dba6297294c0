//go:build unix

package custom_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/custom"
	"github.com/rungci/rung/executor/executortest"
)

func TestMain(m *testing.M) {
	custom.Hurry()
	executortest.Main(m, func() (executortest.Level, error) { return level(), nil })
}

// level is the level with a driver whose places are folders of this machine.
func level() executortest.Level {
	return executortest.Level{
		Open: func(ctx context.Context, setup executor.Setup) (executor.Executor, error) {
			program, err := filepath.Abs("testdata/bash/run")
			if err != nil {
				return nil, err
			}
			setup.Env = append(os.Environ(), cache())
			return custom.New(ctx, setup, custom.Options{
				Driver: custom.Driver{RunExec: program, CleanupExec: filepath.Join(filepath.Dir(program), "cleanup")}, BuildsDir: filepath.Join(filepath.Dir(setup.Temp), "builds"),
			})
		},
		Job:     func(id string) *executor.Job { return &executor.Job{ID: id, ProjectName: "project"} },
		Left:    left,
		Running: running,
		Ends: map[string]func(*testing.T, executor.Environment){
			"its step-runner is killed": func(t *testing.T, env executor.Environment) { signal(t, env, "serve", syscall.SIGKILL) },
			"its driver is killed":      func(t *testing.T, env executor.Environment) { signal(t, env, "run", syscall.SIGKILL) },
			"its place ends":            func(t *testing.T, env executor.Environment) { signal(t, env, "place", syscall.SIGKILL) },
		},
		Stalls: map[string]func(*testing.T, executor.Environment){
			"its step-runner is stopped, and does not answer": func(t *testing.T, env executor.Environment) { signal(t, env, "serve", syscall.SIGSTOP) },
			"its place is stopped, and does not answer":       func(t *testing.T, env executor.Environment) { signal(t, env, "place", syscall.SIGSTOP) },
		},
	}
}

// cache is a variable that keeps copies of programs out of the user's cache.
func cache() string {
	program, _ := executortest.Program()
	return "XDG_CACHE_HOME=" + filepath.Join(filepath.Dir(program), "cache")
}

// processes calls a function with the processes of a folder: those whose TMPDIR is in it, and what they have started.
func processes(dir string, do func(pid int, args []string)) {
	found, _ := filepath.Glob("/proc/[0-9]*/status")
	parent, ours := map[int]int{}, map[int]bool{}
	for _, file := range found {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		text, _ := os.ReadFile(file)
		if _, rest, is := strings.Cut(string(text), "\nPPid:\t"); is {
			line, _, _ := strings.Cut(rest, "\n")
			parent[pid], _ = strconv.Atoi(line)
		}
		env, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "environ"))
		ours[pid] = bytes.Contains(env, []byte("TMPDIR="+dir+"/temp/custom-executor"))
	}
	for pid := range parent {
		for above := pid; above > 1; above = parent[above] {
			if ours[above] {
				text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
				do(pid, strings.Split(strings.TrimRight(string(text), "\x00"), "\x00"))
				break
			}
		}
	}
}

// signal sends a signal to the process of an environment that plays a part.
func signal(t *testing.T, env executor.Environment, part string, sig syscall.Signal) {
	t.Helper()
	dir := filepath.Dir(filepath.Dir(filepath.Dir(env.Layout().Project)))
	sent := false
	processes(dir, func(pid int, args []string) {
		if len(args) > 1 && (args[1] == part || part == "run" && filepath.Base(args[1]) == "run") {
			sent = true
			if err := syscall.Kill(pid, sig); err != nil {
				t.Error(err)
			}
		}
	})
	if !sent {
		t.Errorf("there is no process %s", part)
	}
}

func running(dir string) (names []string, err error) {
	processes(dir, func(pid int, args []string) {
		if len(args) > 1 && args[1] == "serve" {
			names = append(names, strconv.Itoa(pid))
		}
	})
	return names, nil
}

// left names the folders and processes that are left.
func left(dir string) (names []string, err error) {
	for _, sub := range []string{"temp", "state", "builds"} {
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	processes(dir, func(pid int, args []string) {
		if len(args) > 1 && (args[1] == "place" || args[1] == "serve") {
			names = append(names, strings.Join(args, " "))
		}
	})
	slices.Sort(names)
	return names, nil
}

func TestConformance(t *testing.T) { executortest.Run(t, level()) }
