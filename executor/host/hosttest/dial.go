package hosttest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rungci/rung/executor/host"
)

// Listen listens until the test ends.
func Listen(t testing.TB, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// listen starts a server on this machine that hands each connection to serve.
func listen(t testing.TB, network, address string, serve func(net.Conn)) string {
	t.Helper()
	l := Listen(t, network, address)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// echoAtEnd reads to the end, and only then answers.
func echoAtEnd(conn net.Conn) {
	all, err := io.ReadAll(conn)
	if err == nil {
		_, _ = conn.Write(append([]byte("got "), all...))
	}
}

// shortTemp is a temporary folder whose path is short enough for a socket.
func shortTemp(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rung")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// closeWriter is a connection whose one side can end before the other.
type closeWriter interface{ CloseWrite() error }

func testDial(t *testing.T, h host.Host) {
	for _, network := range []string{"unix", "tcp"} {
		start := func(t *testing.T, serve func(net.Conn)) net.Conn {
			t.Helper()
			address := "127.0.0.1:0"
			if network == "unix" {
				address = filepath.Join(shortTemp(t), "socket")
			}
			conn, err := h.Dial(t.Context(), network, listen(t, network, address, serve))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			return conn
		}
		t.Run(network+": one side can end before the other", func(t *testing.T) {
			conn := start(t, echoAtEnd)
			_, err := io.WriteString(conn, "hello")
			if err := errors.Join(err, conn.(closeWriter).CloseWrite()); err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(conn); string(got) != "got hello" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
		t.Run(network+": closing ends the other side", func(t *testing.T) {
			ended := make(chan error, 1)
			conn := start(t, func(conn net.Conn) {
				_, err := conn.Read(make([]byte, 1))
				ended <- err
			})
			if err := errors.Join(conn.Close(), conn.Close()); err != nil && !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
			if err := <-ended; err == nil {
				t.Error("something was read")
			}
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		})
		t.Run(network+": deadlines", func(t *testing.T) {
			conn := start(t, func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
			buf := make([]byte, 10)
			if err := conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
			if err := conn.SetDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
			_, err := io.WriteString(conn, "still here")
			if _, readErr := io.ReadFull(conn, buf); err != nil || readErr != nil || string(buf) != "still here" {
				t.Errorf("%v, %v, %q", err, readErr, buf)
			}
		})
	}
	testDialManner(t, h)
}

func testDialManner(t *testing.T, h host.Host) {
	t.Run("nobody listens", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		for network, address := range map[string]string{"tcp": l.Addr().String(), "unix": filepath.Join(shortTemp(t), "none")} {
			conn, err := h.Dial(t.Context(), network, address)
			var op *net.OpError
			if !errors.As(err, &op) || op.Op != "dial" {
				t.Errorf("%s: %v, %v", network, conn, err)
			}
		}
	})
	t.Run("a connection outlives the context of the call", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		conn, err := h.Dial(ctx, "tcp", listen(t, "tcp", "127.0.0.1:0", func(conn net.Conn) { _, _ = io.Copy(conn, conn) }))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		cancel()
		_, err = io.WriteString(conn, "x")
		if _, readErr := conn.Read(make([]byte, 1)); err != nil || readErr != nil {
			t.Error(err, readErr)
		}
	})
	t.Run("many connections at once, both ways", func(t *testing.T) {
		address := listen(t, "tcp", "127.0.0.1:0", func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				conn, err := h.Dial(t.Context(), "tcp", address)
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				sent, received := sha256.New(), sha256.New()
				go func() {
					_, _ = io.Copy(io.MultiWriter(conn, sent), io.LimitReader(rand.NewChaCha8([32]byte{byte(i)}), 1<<20))
					_ = conn.(closeWriter).CloseWrite()
				}()
				if n, err := io.Copy(received, conn); n != 1<<20 || err != nil || !bytes.Equal(sent.Sum(nil), received.Sum(nil)) {
					t.Errorf("%d bytes, %v", n, err)
				}
			})
		}
		all.Wait()
	})
}
