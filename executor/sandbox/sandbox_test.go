//go:build unix

package sandbox_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/sandbox"
	"github.com/rungci/rung/executor/sandbox/direct"
	"github.com/rungci/rung/steps/containers"
)

// The variables that say what is tried to the processes that the suite starts.
const (
	wayVariable    = "RUNG_TEST_WAY"
	imagesVariable = "RUNG_TEST_IMAGES"
)

func TestMain(m *testing.M) {
	executortest.Main(m, func() (executortest.Level, error) { return level(), nil })
}

func job(id string) *executor.Job {
	return &executor.Job{ID: id, ProjectName: "project", Image: &containers.Image{Name: enginetest.Image, PullPolicies: []string{container.Never}}}
}

// level is what the suite tries, in the way that the environment names.
func level() executortest.Level {
	way := sandbox.Way(os.Getenv(wayVariable))
	l := executortest.Level{
		Open: func(ctx context.Context, setup executor.Setup) (executor.Executor, error) {
			o := sandbox.Options{Way: way, Direct: direct.Options{Saved: os.Getenv(imagesVariable), Cache: filepath.Join(os.Getenv(imagesVariable), ".cache")}}
			if way == sandbox.ThroughEngine {
				o.Engine = &container.Engine{Host: os.Getenv(enginetest.Variable), From: enginetest.Variable}
			}
			return sandbox.New(ctx, setup, o)
		},
		Host: overSSH(), Job: job, Left: left, Running: sandboxes,
		Ends: map[string]func(*testing.T, executor.Environment){
			"its sandbox is killed": func(t *testing.T, env executor.Environment) {
				for _, pid := range processes(t, env.Handle().ID, "runsc-sandbox") {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			},
			"its sandbox is removed": func(t *testing.T, env executor.Environment) { runsc(t, env, "delete", "--force") },
			"its sandbox is paused":  func(t *testing.T, env executor.Environment) { runsc(t, env, "pause") },
		},
	}
	if way == sandbox.ThroughEngine {
		l.Left, l.Running = leftInEngine, runningInEngine
		l.Ends = map[string]func(*testing.T, executor.Environment){
			"its container is killed": func(t *testing.T, env executor.Environment) {
				if _, err := enginetest.Client(t).ContainerKill(context.Background(), env.Layout().Name, client.ContainerKillOptions{Signal: "KILL"}); err != nil {
					t.Error(err)
				}
			},
		}
	}
	return l
}

// runsc runs a command of runsc on the sandbox of an environment. It may fail if the environment has ended: the level removes the files that runsc still works on.
func runsc(t *testing.T, env executor.Environment, args ...string) {
	t.Helper()
	args = append(append([]string{"--root", filepath.Join(env.Handle().ID, "state")}, args...), "job")
	if out, err := exec.Command(enginetest.Runsc(t), args...).CombinedOutput(); err != nil {
		select {
		case <-env.Done():
		case <-time.After(time.Minute):
			t.Errorf("runsc %q: %v\n%s", args, err, out)
		}
	}
}

// processes are those whose command line holds all of the texts.
func processes(t testing.TB, texts ...string) (pids []int) {
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil && t != nil {
		t.Fatal(err)
	}
next:
	for _, file := range found {
		line, _ := os.ReadFile(file)
		for _, text := range texts {
			if !bytes.Contains(line, []byte(text)) {
				continue next
			}
		}
		var pid int
		if _, err := fmt.Sscanf(file, "/proc/%d/cmdline", &pid); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// sandboxes are those of a level whose things are in dir.
func sandboxes(dir string) (names []string, err error) {
	for _, pid := range processes(nil, filepath.Join(dir, "temp"), "runsc-sandbox") {
		names = append(names, fmt.Sprint("sandbox ", pid))
	}
	return names, nil
}

// left names what there is of a level whose things are in dir: files, processes, mounts, control groups.
func left(dir string) (names []string, err error) {
	for _, pid := range processes(nil, filepath.Join(dir, "temp"), "runsc") {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if len(line) == 0 { // it has just ended
			continue
		}
		names = append(names, fmt.Sprintf("process %d %s", pid, bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
	}
	folders, err := filepath.Glob(filepath.Join(dir, "temp", "*"))
	if err != nil {
		return nil, err
	}
	names = append(names, folders...)
	for _, folder := range folders {
		names = append(names, belongings(filepath.Base(folder))...)
	}
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, " "+dir+"/") {
			names = append(names, "mount "+line)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "state", "*"))
	return append(names, files...), err
}

// belongings are the control groups, the network namespace and its process of a sandbox with a name.
func belongings(name string) (all []string) {
	for _, pattern := range []string{"/sys/fs/cgroup/*/rung/" + name, "/sys/fs/cgroup/rung/" + name, "/run/netns/" + name, "/run/netns/" + name + "-*", "/sys/fs/cgroup/*/rung/" + name + "-*"} {
		found, _ := filepath.Glob(pattern)
		all = append(all, found...)
	}
	for _, pid := range processes(nil, "slirp4netns", name) {
		all = append(all, fmt.Sprint("slirp4netns ", pid))
	}
	return all
}

// inEngine names the containers of the engine with the label of dir.
func inEngine(dir string, all bool) (names []string, err error) {
	c, err := client.New(client.WithHost(os.Getenv(enginetest.Variable)))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	filters := client.Filters{}.Add("label", executortest.LabelName+"="+dir)
	found, err := c.ContainerList(context.Background(), client.ContainerListOptions{All: all, Filters: filters})
	for _, i := range found.Items {
		names = append(names, "container "+i.Names[0])
	}
	return names, err
}

func runningInEngine(dir string) ([]string, error) { return inEngine(dir, false) }

func leftInEngine(dir string) ([]string, error) {
	names, err := inEngine(dir, true)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "state", "*"))
	return append(names, files...), err
}

// alone makes the tests' image a folder, for sandboxes without an engine.
func alone(t *testing.T) {
	t.Helper()
	t.Setenv(enginetest.RunscVariable, enginetest.Runsc(t))
	images := t.TempDir()
	enginetest.Tree(t, filepath.Join(images, enginetest.Image))
	t.Setenv(imagesVariable, images)
	t.Setenv(wayVariable, string(sandbox.Directly))
}

func TestConformanceWithoutAnEngine(t *testing.T) {
	alone(t)
	executortest.Run(t, level())
}

func TestConformanceThroughAnEngine(t *testing.T) {
	enginetest.Runsc(t)
	enginetest.Busybox(t)
	t.Setenv(wayVariable, string(sandbox.ThroughEngine))
	executortest.Run(t, level())
}
