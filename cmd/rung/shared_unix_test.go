//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/fleet/group/local/machine"
)

// The store of TestSharedScripts.
const (
	sharedAccess, sharedSecret, sharedBucket = "AKIDEXAMPLE", "a-secret-of-the-store", "state"
)

// TestSharedScripts runs the stories of managers that share their state in an object store, Versity's gateway. Each manager reaches it by a proxy of its own, which can be cut.
func TestSharedScripts(t *testing.T) {
	if err := machine.Possible(); err != nil {
		enginetest.Skip(t, "machines of this host: "+err.Error())
	}
	store := startStore(t, "127.0.0.1")
	one, two := newLine(t, store), newLine(t, store)
	runStories(t, testscript.Params{
		Dir: "testdata/shared", Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"line": func(ts *testscript.TestScript, _ bool, args []string) {
				lines := map[string]*line{"one": one, "two": two}
				if len(args) != 2 || lines[args[1]] == nil || args[0] != "cut" && args[0] != "mend" {
					ts.Fatalf("usage: line cut|mend one|two")
				}
				lines[args[1]].cut(args[0] == "cut")
			},
		},
	}, map[string]string{"STORE_ONE": one.address(), "STORE_TWO": two.address(), "STORE_ACCESS": sharedAccess, "STORE_SECRET": sharedSecret, "STORE_BUCKET": sharedBucket})
}

// startStore starts an S3 server with a bucket, on an address of this host.
func startStore(t *testing.T, on string) (address string) {
	t.Helper()
	program := enginetest.Versitygw(t)
	l, err := net.Listen("tcp", net.JoinHostPort(on, "0"))
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	_ = l.Close()
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, sharedBucket), 0o755); err != nil { // which is a bucket
		t.Fatal(err)
	}
	var said bytes.Buffer
	gateway := exec.CommandContext(t.Context(), program, "--access", sharedAccess, "--secret", sharedSecret, "--port", address, "--quiet", "posix", folder)
	gateway.Stdout, gateway.Stderr = &said, &said
	gateway.WaitDelay = 10 * time.Second
	if err := gateway.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = gateway.Process.Kill()
		_ = gateway.Wait()
		if t.Failed() {
			t.Logf("the store says:\n%s", said.String())
		}
	})
	for until := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			return address
		}
		if time.Now().After(until) {
			t.Fatal(err)
		}
	}
}

// line is a way to a server. While it is cut, connections are there, and nothing passes.
type line struct {
	listener net.Listener
	to       string

	mu   sync.Mutex
	open chan struct{} // closed while it is not cut
}

func newLine(t *testing.T, to string) *line { return newLineOn(t, "127.0.0.1", to) }

// newLineOn is a line that begins at an address of this host.
func newLineOn(t *testing.T, on, to string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(on, "0"))
	if err != nil {
		t.Fatal(err)
	}
	l := &line{listener: listener, to: to, open: make(chan struct{})}
	close(l.open)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go l.serve(conn)
		}
	}()
	return l
}

func (l *line) address() string { return l.listener.Addr().String() }

func (l *line) cut(is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.open:
		if is {
			l.open = make(chan struct{})
		}
	default:
		if !is {
			close(l.open)
		}
	}
}

// passes waits while the line is cut, for half a minute at most.
func (l *line) passes() error {
	l.mu.Lock()
	open := l.open
	l.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-time.After(30 * time.Second):
		return fmt.Errorf("%w: the line is cut", os.ErrDeadlineExceeded)
	}
}

func (l *line) serve(from net.Conn) {
	defer from.Close()
	var dialer net.Dialer
	to, err := dialer.DialContext(context.Background(), "tcp", l.to)
	if err != nil {
		return
	}
	defer to.Close()
	copied := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			defer func() { copied <- struct{}{} }()
			buffer := make([]byte, 32<<10)
			for {
				n, err := way[0].Read(buffer)
				if n > 0 {
					if l.passes() != nil {
						return
					}
					if _, err := way[1].Write(buffer[:n]); err != nil {
						return
					}
				}
				if err != nil {
					return
				}
			}
		}()
	}
	<-copied
}
