package silence_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rungci/rung/internal/silence"
)

// frozen passes bytes on to a server until it is told not to: the connections stay, and nothing comes any more.
type frozen struct {
	net.Listener
	still atomic.Bool
}

func freezing(t *testing.T, to string) *frozen {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &frozen{Listener: l}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", to)
			if err != nil {
				_ = c.Close()
				continue
			}
			t.Cleanup(func() { _, _ = c.Close(), s.Close() })
			go f.pass(s, c)
			go f.pass(c, s)
		}
	}()
	return f
}

func (f *frozen) pass(to io.Writer, from io.Reader) {
	buf := make([]byte, 4<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if !f.still.Load() {
			_, _ = to.Write(buf[:n])
		}
	}
}

// A request on a connection that a firewall has forgotten is repeated on another one soon, and not when the request's own time is over.
func TestADeadConnectionIsNoticed(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	between := freezing(t, server.Listener.Addr().String())
	transport := server.Client().Transport.(*http.Transport).Clone()
	transport.ForceAttemptHTTP2 = true
	silence.Notice(transport, 200*time.Millisecond)
	t.Cleanup(transport.CloseIdleConnections)
	ask := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+between.Addr().String(), http.NoBody)
		if err != nil {
			return err
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			if ctx.Err() != nil {
				t.Error("the dead connection was not noticed")
			}
			return err
		}
		if resp.ProtoMajor != 2 {
			t.Errorf("it was HTTP/%d", resp.ProtoMajor)
		}
		return resp.Body.Close()
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	between.still.Store(true)
	if err := ask(); err == nil {
		t.Error("a request was answered on a dead connection")
	}
}
