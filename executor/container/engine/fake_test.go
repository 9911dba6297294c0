package engine

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// exchange is what a fake engine is asked, and answers.
type exchange struct {
	ask    string // method, path with its query, and body: "GET /v1.41/version "
	status int    // 0 is 200
	answer string
	header http.Header
}

// serve starts a server on a unix socket and returns a client of it.
func serve(t testing.TB, handler http.HandlerFunc) *Client {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs unix sockets")
	}
	dir, err := os.MkdirTemp("", "rung-engine-") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Skipf("needs unix sockets: %v", err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	c, err := New("unix://"+listener.Addr().String(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// fake is an engine of version 1.41 that is asked exactly this, in order.
func fake(t *testing.T, exchanges ...exchange) *Client {
	t.Helper()
	exchanges = append([]exchange{{ask: "GET /_ping ", header: http.Header{"Api-Version": {"1.41"}}}}, exchanges...)
	t.Cleanup(func() {
		if len(exchanges) > 0 {
			t.Errorf("the engine is not asked %q", exchanges[0].ask)
		}
	})
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		ask := r.Method + " " + r.RequestURI + " " + string(body)
		if len(exchanges) == 0 || exchanges[0].ask != ask {
			t.Errorf("the engine is asked %q", ask)
			w.WriteHeader(http.StatusTeapot)
			return
		}
		now := exchanges[0]
		exchanges = exchanges[1:]
		for name, values := range now.header {
			w.Header()[name] = values
		}
		if now.status != 0 {
			w.WriteHeader(now.status)
		}
		_, _ = io.WriteString(w, now.answer)
	})
}
