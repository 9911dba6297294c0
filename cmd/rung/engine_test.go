package main

import (
	"net"
	"net/http/httptest"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rungci/rung/executor/executortest/enginetest"
)

// TestEngineScripts runs the stories of testdata/engine, which need containers. Their image is rung-test-busybox:1.
func TestEngineScripts(t *testing.T) {
	host := enginetest.Host(t)
	enginetest.Busybox(t)
	runStories(t, testscript.Params{Dir: "testdata/engine"}, map[string]string{"DOCKER_HOST": host, "ADDRESS": enginetest.Address()})
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
