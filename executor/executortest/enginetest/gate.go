package enginetest

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Gate stands before the engine and delays one kind of call, so that a test can do something meanwhile.
type Gate struct {
	// Address is that of the engine behind the gate.
	Address string
	// Reached gets a value when a call is delayed.
	Reached chan struct{}
}

// NewGate makes a gate whose engine takes its time for the calls that match.
func NewGate(t testing.TB, match func(*http.Request) bool, delay time.Duration) *Gate {
	t.Helper()
	behind := strings.TrimPrefix(Host(t), "unix://")
	dir, err := os.MkdirTemp("", "rung-gate-") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	g := &Gate{Address: "unix://" + listener.Addr().String(), Reached: make(chan struct{}, 100)}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "engine"})
	proxy.FlushInterval = -1
	proxy.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", behind)
	}}
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if match(r) {
			select {
			case g.Reached <- struct{}{}:
			default:
			}
			select {
			case <-time.After(delay):
			case <-r.Context().Done(): // nobody waits for it
			}
		}
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		_ = os.RemoveAll(dir)
	})
	return g
}
