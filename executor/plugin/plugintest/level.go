// Package plugintest tries executor plugins with the suite that every level passes, from outside: it knows nothing of a plugin but its file.
package plugintest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/plugin"
	"github.com/rungci/rung/steps/service/client"
)

// Level is a plugin as the suite tries it. A plugin must keep what it records in the folder State of its setup, what it makes for jobs in
// Temp, and give every process of a job CI_PROJECT_DIR, as the step-runner does: that is how the suite sees what is left.
func Level(config plugin.Config, job func(id string) *executor.Job) executortest.Level {
	if job == nil {
		job = func(id string) *executor.Job { return &executor.Job{ID: id, ProjectName: "project"} }
	}
	return executortest.Level{
		Open: func(ctx context.Context, setup executor.Setup) (executor.Executor, error) {
			awaitOrphans(setup.State)
			own := config // its processes are told apart by the folder
			own.Env = append(append([]string{}, config.Env...), marker+"="+setup.State)
			return plugin.Open(ctx, own, setup)
		},
		Job:     job,
		Left:    left,
		Running: running,
		Ends: map[string]func(*testing.T, executor.Environment){
			"a job kills its step-runner": func(t *testing.T, env executor.Environment) {
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
				defer cancel()
				c, err := client.Dial("environment", client.WithDialer(env.Connect))
				if err != nil {
					t.Fatal(err)
				}
				defer c.Disconnect()
				alive, err := env.Connect(ctx) // a connection of its own, which ends with the step-runner
				if err != nil {
					t.Fatal(err)
				}
				defer alive.Close()
				request := client.Request{ID: "killer", Text: "- script: kill -9 $PPID", WorkDir: env.Layout().Project, Env: map[string]string{"CI_PROJECT_DIR": env.Layout().Project}}
				if err := c.Run(ctx, request); err != nil {
					t.Log(err) // it may be dead before it answers
				}
				_ = alive.SetReadDeadline(time.Now().Add(3 * time.Minute)) // it may have ended
				if _, err := io.Copy(io.Discard, alive); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error("the step-runner goes on")
				}
			},
			"the plugin is killed": func(t *testing.T, env executor.Environment) {
				process, err := os.FindProcess(plugin.PID(env))
				if err == nil {
					err = process.Kill()
				}
				if err != nil {
					t.Error(err)
				}
			},
		},
	}
}

// marker is the variable of a plugin's process that says which folder it works for.
const marker = "RUNG_TEST_PLUGIN_STATE"

// orphanTime bounds how long it is waited for the plugins of runners that were killed, which end with them, but not at once.
const orphanTime = 10 * time.Second

// awaitOrphans waits until no plugin of a dead runner works for the folder.
func awaitOrphans(state string) {
	for until := time.Now().Add(orphanTime); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if len(processes(func(dir, env string) bool {
			if !strings.Contains(env, marker+"="+state+"\x00") || strings.Contains(env, "CI_PROJECT_DIR=") {
				return false
			}
			stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
			_, rest, _ := strings.Cut(string(stat), ") ")
			var status string
			var parent int
			_, err := fmt.Sscan(rest, &status, &parent)
			return err == nil && parent == 1 && strings.Contains(env, "PLUGIN_PROTOCOL_VERSIONS=")
		})) == 0 {
			return
		}
	}
}

// processes names the processes of this machine that are like that, where the system shows them.
func processes(like func(dir, env string) bool) (names []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		if env, err := os.ReadFile(file); err == nil && like(filepath.Dir(file), "\x00"+string(env)) {
			names = append(names, "process "+filepath.Base(filepath.Dir(file)))
		}
	}
	return names
}

// left names the files and processes that are left.
func left(dir string) (names []string, err error) {
	for _, sub := range []string{"temp", "state"} {
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			names = append(names, sub+"/"+e.Name())
		}
	}
	return append(names, ofJobs(dir)...), nil
}

func ofJobs(dir string) []string {
	return processes(func(_, env string) bool { return strings.Contains(env, "\x00CI_PROJECT_DIR="+dir) })
}

// running names the sockets of step-runners, which go when one ends, and the processes of jobs.
func running(dir string) (names []string, err error) {
	err = filepath.WalkDir(filepath.Join(dir, "temp"), func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type() == os.ModeSocket {
			names = append(names, path)
		}
		return nil // what goes while it is looked at is gone
	})
	return append(names, ofJobs(dir)...), err
}
