//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rungci/rung/executor/executortest/enginetest"
)

// TestRestartScripts runs the stories of testdata/restart, each with an engine of its own, which it may end and start again.
func TestRestartScripts(t *testing.T) {
	stories, err := filepath.Glob("testdata/restart/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, story := range stories {
		t.Run(filepath.Base(story), func(t *testing.T) {
			own := enginetest.StartOwn(t)
			enginetest.BusyboxIn(t, own.Client(t))
			engine := func(ts *testscript.TestScript, neg bool, args []string) { engineCommand(ts, t, own, neg, args) }
			runStories(t, testscript.Params{
				Files: []string{story}, Cmds: map[string]func(*testscript.TestScript, bool, []string){"engine": engine},
			}, map[string]string{"DOCKER_HOST": own.Address})
		})
	}
}

// engineCommand is the engine of a story:
//
//	engine kill            as by SIGKILL
//	engine stop            as its service is stopped
//	engine start [OPTION]  and waits until it answers
//	engine empty           waits until nothing of a job is left in it
func engineCommand(ts *testscript.TestScript, t *testing.T, own *enginetest.Own, neg bool, args []string) {
	switch {
	case neg || len(args) == 0:
		ts.Fatalf("usage: engine kill|stop|start|empty")
	case args[0] == "kill":
		own.Kill()
	case args[0] == "stop":
		own.Stop()
	case args[0] == "start":
		own.Start(t, args[1:]...)
	case args[0] == "empty":
		left := ""
		for until := time.Now().Add(jobTime); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
			if left = leftIn(ts, t, own); left == "" {
				return
			}
		}
		ts.Fatalf("left in the engine: %s", left)
	}
}

// leftIn names what jobs have in an engine.
func leftIn(ts *testscript.TestScript, t *testing.T, own *enginetest.Own) string {
	c := own.Client(t)
	var left []string
	containers, err := c.ContainerList(t.Context(), client.ContainerListOptions{All: true})
	ts.Check(err)
	for _, one := range containers.Items {
		left = append(left, strings.Join(one.Names, " "))
	}
	networks, err := c.NetworkList(t.Context(), client.NetworkListOptions{})
	ts.Check(err)
	for _, one := range networks.Items {
		if strings.HasPrefix(one.Name, "rung-") {
			left = append(left, one.Name)
		}
	}
	return strings.Join(left, ", ")
}
