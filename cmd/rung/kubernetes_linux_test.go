package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rungci/rung/executor/kubernetes/kubetest"
)

// TestKubernetesScripts runs the stories of testdata/kubernetes on a cluster, with the rights of deploy/kubernetes.
func TestKubernetesScripts(t *testing.T) {
	c := kubetest.Start(t)
	t.Cleanup(kubetest.Stop) // the package has no other use for it
	rights := c.Deploy(t, filepath.Join("..", "..", "deploy", "kubernetes"))
	for _, file := range []string{filepath.Join("plugins", "kubernetes", "rbac.yaml"), filepath.Join("deploy", "kubernetes", "state.yaml")} {
		if err := c.Apply(t.Context(), "", filepath.Join("..", "..", file)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Namespace(t.Context(), machines); err != nil {
		t.Fatal(err)
	}
	plugins := t.TempDir()
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(plugins, "group-plugin-kubernetes"), ".")
	build.Dir, build.Env = filepath.Join("..", "..", "plugins", "kubernetes"), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the plugin: %v\n%s", err, out)
	}
	pods := func(ts *testscript.TestScript, neg bool, args []string) { podsCommand(ts, t, c, neg, args) }
	runStories(t, testscript.Params{Dir: "testdata/kubernetes", Cmds: map[string]func(*testscript.TestScript, bool, []string){"pods": pods}},
		map[string]string{"KUBECONFIG": rights, "MACHINES": c.As(t, machines, machines), "PLUGINS": plugins, "IMAGE": c.Image})
}

// machines is the namespace of machines in plugins/kubernetes, and the account that may make them.
const machines = "rung-machines"

// podsCommand is the cluster of a story:
//
//	pods evict      asks for the removal of all pods of jobs, as `kubectl drain` does
//	pods wait TEXT  waits for one whose object has the text
//	pods none       waits until there are none
//	pods machines   waits until there are no machines
func podsCommand(ts *testscript.TestScript, t *testing.T, c *kubetest.Cluster, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: pods evict|wait TEXT|none|machines")
	}
	for until := time.Now().Add(jobTime); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		in := kubetest.Jobs
		if args[0] == "machines" {
			in = machines
		}
		pods, err := c.Pods(t.Context(), in)
		ts.Check(err)
		switch args[0] {
		case "evict":
			for _, pod := range pods {
				ts.Check(c.Evict(t.Context(), pod.Namespace, pod.Name))
			}
			return
		case "none", "machines":
			if len(pods) == 0 {
				return
			}
		case "wait":
			text, err := json.Marshal(pods)
			ts.Check(err)
			if strings.Contains(string(text), args[1]) {
				return
			}
		}
	}
	ts.Fatalf("pods %s: not within %s", strings.Join(args, " "), jobTime)
}
