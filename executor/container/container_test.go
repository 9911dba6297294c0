package container_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/source/sourcetest"
)

// testLabel is on all that a test makes, so that tests that run at once do not see each other's.
const testLabel = executortest.LabelName

func TestMain(m *testing.M) {
	executortest.Main(m, func() (executortest.Level, error) { return level(), nil })
}

// onHost is the machine of the engine; nil is this one. It may panic: a test binary that is started again has no test to fail.
var onHost = func() host.Host { return nil }

// options are those of a level whose things are in dir.
func options(dir string) settings {
	return settings{
		Setup: executor.Setup{
			Program: func(string, string) (string, error) { return executortest.Program() },
			State:   filepath.Join(dir, "state"), Labels: map[string]string{testLabel: dir},
		},
		Options: container.Options{Engine: &container.Engine{Host: os.Getenv(enginetest.Variable), From: enginetest.Variable}},
	}
}

// settings are what a level is made of.
type settings struct {
	executor.Setup
	container.Options
}

func (s settings) open(ctx context.Context) (*container.Executor, error) {
	return container.New(ctx, s.Setup, s.Options)
}

// level is what the suite tries.
func level() executortest.Level {
	return executortest.Level{
		Open: func(ctx context.Context, setup executor.Setup) (executor.Executor, error) {
			return container.New(ctx, setup, options("").Options)
		},
		Host: onHost(),
		Job:  job,
		Left: left,
		Running: func(dir string) (names []string, err error) {
			c, err := client.New(client.WithHost(os.Getenv(enginetest.Variable)))
			if err != nil {
				return nil, err
			}
			defer c.Close()
			found, err := c.ContainerList(context.Background(), client.ContainerListOptions{Filters: client.Filters{}.Add("label", testLabel+"="+dir)})
			for _, i := range found.Items {
				names = append(names, i.Names[0])
			}
			return names, err
		},
		Stalls: map[string]func(*testing.T, executor.Environment){
			"its step-runner is stopped, and does not answer": func(t *testing.T, env executor.Environment) {
				sh(t, env, "for p in /proc/[0-9]*; do case $(xargs -0 echo <$p/cmdline) in '/opt/rung/bin/step-runner serve'*) kill -STOP ${p#/proc/};; esac; done")
			},
		},
		Ends: map[string]func(*testing.T, executor.Environment){
			"its container is killed": func(t *testing.T, env executor.Environment) {
				_, err := enginetest.Client(t).ContainerKill(context.Background(), env.Layout().Name, client.ContainerKillOptions{Signal: "KILL"})
				if err != nil {
					t.Error(err)
				}
			},
			"its container is removed": func(t *testing.T, env executor.Environment) {
				_, err := enginetest.Client(t).ContainerRemove(context.Background(), env.Layout().Name, client.ContainerRemoveOptions{Force: true})
				if err != nil {
					t.Error(err)
				}
			},
			"its container is paused": func(t *testing.T, env executor.Environment) {
				pause(t, env.Layout().Name)
			},
		},
	}
}

// pause pauses a container. The kernel may give up freezing processes on a busy machine.
func pause(t *testing.T, name string) {
	for tries := 1; ; tries++ {
		_, err := enginetest.Client(t).ContainerPause(context.Background(), name, client.ContainerPauseOptions{})
		if err == nil {
			return
		}
		if tries == 10 || !strings.Contains(err.Error(), "unable to freeze") {
			t.Error(err)
			return
		}
		time.Sleep(time.Second)
	}
}

func job(id string) *executor.Job {
	return &executor.Job{ID: id, ProjectName: "project", Image: &containers.Image{Name: enginetest.Image, PullPolicies: []string{container.Never}}}
}

// left names what there is in the tests' engine of the level whose things are in dir.
func left(dir string) (names []string, err error) {
	return leftIn(os.Getenv(enginetest.Variable), dir)
}

// leftIn is left in the engine with an address.
func leftIn(address, dir string) (names []string, err error) {
	c, err := client.New(client.WithHost(address))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx, filters := context.Background(), client.Filters{}.Add("label", testLabel+"="+dir)
	containers, err := c.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
	if err != nil {
		return nil, err
	}
	for _, i := range containers.Items {
		names = append(names, "container "+i.Names[0])
	}
	networks, err := c.NetworkList(ctx, client.NetworkListOptions{Filters: filters})
	if err != nil {
		return nil, err
	}
	for _, i := range networks.Items {
		names = append(names, "network "+i.Name)
	}
	volumes, err := c.VolumeList(ctx, client.VolumeListOptions{Filters: filters})
	if err != nil {
		return nil, err
	}
	for _, i := range volumes.Items {
		names = append(names, "volume "+i.Name)
	}
	files, err := filepath.Glob(filepath.Join(dir, "state", "*"))
	return append(names, files...), err
}

func TestConformance(t *testing.T) {
	t.Parallel()
	enginetest.Busybox(t)
	registry := sourcetest.NewRegistry(false)
	t.Cleanup(registry.Close) // after the cases, which go on when this has returned
	l := level()
	l.MissingImage = registry.Host() + "/rung/missing:1"
	executortest.Run(t, l)
}

func TestConformanceOfAnotherUser(t *testing.T) {
	t.Parallel()
	enginetest.Busybox(t)
	l := level()
	l.MissingImage = "" // tried already
	l.Job = func(id string) *executor.Job {
		j := job(id)
		j.Image.User = "worker"
		return j
	}
	executortest.Run(t, l)
}
