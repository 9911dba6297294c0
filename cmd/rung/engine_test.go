package main

import (
	"context"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/client"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rungci/rung/executor/executortest/enginetest"
)

// TestEngineScripts runs the stories of testdata/engine, which need containers. Their image is rung-test-busybox:1.
func TestEngineScripts(t *testing.T) {
	host := enginetest.Host(t)
	enginetest.Busybox(t)
	runStories(t, testscript.Params{Dir: "testdata/engine"}, map[string]string{"DOCKER_HOST": host, "ADDRESS": enginetest.Address()})
}

// TestMachinesOfAFleetAreContainersOrSandboxes runs the story of testdata/boxes for each kind of machine.
func TestMachinesOfAFleetAreContainersOrSandboxes(t *testing.T) {
	host := enginetest.Host(t)
	enginetest.Busybox(t)
	program := filepath.Join(t.TempDir(), "machine") // these tests may need libraries, which images lack
	build := exec.Command("go", "build", "-o", program, "github.com/rungci/rung/fleet/group/local/machine/alone")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for kind, kernel := range map[string]string{"containers": "Linux", "sandboxes": "gVisor"} {
		t.Run(kind, func(t *testing.T) {
			if kind == "sandboxes" {
				enginetest.Runsc(t)
			}
			root := t.TempDir()
			t.Cleanup(func() {
				all, err := enginetest.Client(t).ContainerList(context.Background(), client.ContainerListOptions{All: true})
				for _, c := range all.Items {
					if strings.Contains(c.Labels["rung.machines"], root) {
						t.Errorf("a container is left: %s, %s", c.Names, c.State)
					}
				}
				if err != nil {
					t.Error(err)
				}
			})
			runStories(t, testscript.Params{Dir: "testdata/boxes", WorkdirRoot: root}, map[string]string{"ENGINE": host, "KIND": kind, "KERNEL": kernel, "PROGRAM": program})
		})
	}
}

// reachable starts a server that containers of the tests' engine reach, where there is one.
func reachable(server *httptest.Server) {
	if address := enginetest.Address(); address != "" {
		if listener, err := net.Listen("tcp", net.JoinHostPort(address, "0")); err == nil {
			_ = server.Listener.Close()
			server.Listener = listener
		}
	}
	server.Start()
}
