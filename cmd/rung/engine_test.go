package main

import (
	"net"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rungci/rung/executor/executortest/enginetest"
)

// engineAddress is where containers of the tests' engine reach this machine (scripts/engine.sh).
const engineAddress = "192.0.2.1"

// TestEngineScripts runs the stories of testdata/engine, which need containers. Their image is rung-test-busybox:1.
func TestEngineScripts(t *testing.T) {
	host := enginetest.Host(t)
	enginetest.Busybox(t)
	runStories(t, testscript.Params{Dir: "testdata/engine"}, map[string]string{"DOCKER_HOST": host})
}

// reachable starts a server that containers of the tests' engine reach, where there is one. Without, the address may be that of another run's engine,
// and would be gone with it.
func reachable(server *httptest.Server) {
	if os.Getenv(enginetest.Variable) == "" {
		server.Start()
		return
	}
	if listener, err := net.Listen("tcp", net.JoinHostPort(engineAddress, "0")); err == nil {
		_ = server.Listener.Close()
		server.Listener = listener
	}
	server.Start()
}
