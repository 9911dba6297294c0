package main

import (
	"encoding/json"
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
	pods := func(ts *testscript.TestScript, neg bool, args []string) { podsCommand(ts, t, c, neg, args) }
	runStories(t, testscript.Params{Dir: "testdata/kubernetes", Cmds: map[string]func(*testscript.TestScript, bool, []string){"pods": pods}},
		map[string]string{"KUBECONFIG": rights, "IMAGE": c.Image})
}

// podsCommand is the cluster of a story:
//
//	pods evict      asks for the removal of all pods of jobs, as `kubectl drain` does
//	pods wait TEXT  waits for one whose object has the text
//	pods none       waits until there are none
func podsCommand(ts *testscript.TestScript, t *testing.T, c *kubetest.Cluster, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: pods evict|wait TEXT|none")
	}
	for until := time.Now().Add(jobTime); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		pods, err := c.Pods(t.Context(), kubetest.Jobs)
		ts.Check(err)
		switch args[0] {
		case "evict":
			for _, pod := range pods {
				ts.Check(c.Evict(t.Context(), pod.Namespace, pod.Name))
			}
			return
		case "none":
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
