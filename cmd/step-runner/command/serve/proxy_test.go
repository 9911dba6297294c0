package serve

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
)

// proxied is a proxy between its two ends: what a client writes and reads, and the server's side of the socket.
type proxied struct {
	in     io.WriteCloser
	out    io.ReadCloser
	server *net.UnixConn
	ended  chan error
}

func startProxy(t *testing.T) *proxied {
	t.Helper()
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	p := &proxied{in: inWrite, out: outRead}
	p.start(t, inRead, outWrite)
	return p
}

// start starts the proxy with the standard input and output that a client has the other ends of.
func (p *proxied) start(t *testing.T, stdin io.Reader, stdout io.WriteCloser) {
	t.Helper()
	dir, err := os.MkdirTemp("", "px-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	connected := make(chan *net.UnixConn, 1)
	go func() { // a server that starts late
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
		if err != nil {
			t.Error(err)
			close(connected)
			return
		}
		defer listener.Close()
		conn, err := listener.AcceptUnix()
		if err != nil {
			t.Error(err)
		}
		connected <- conn
	}()
	conn, err := dialServer(t.Context(), socket, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	p.server, p.ended = <-connected, make(chan error, 1)
	go func() { p.ended <- carry(stdin, stdout, conn) }()
	t.Cleanup(func() { p.in.Close(); p.server.Close() })
}

func (p *proxied) wait(t *testing.T) {
	t.Helper()
	select {
	case err := <-p.ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the proxy does not end")
	}
}

func TestProxy(t *testing.T) {
	t.Parallel()
	t.Run("the client's end is handed on, and the server still answers", func(t *testing.T) {
		t.Parallel()
		p := startProxy(t)
		go func() { _, _ = p.in.Write([]byte("question")); p.in.Close() }()
		asked, err := io.ReadAll(p.server)
		if err != nil || string(asked) != "question" {
			t.Errorf("the server reads %q, %v", asked, err)
		}
		go func() { _, _ = p.server.Write([]byte("answer")); p.server.Close() }()
		answered, err := io.ReadAll(p.out)
		if err != nil || string(answered) != "answer" {
			t.Errorf("the client reads %q, %v", answered, err)
		}
		p.wait(t)
	})
	t.Run("the server's end is handed on, and the client still speaks", func(t *testing.T) {
		t.Parallel()
		p := startProxy(t)
		go func() { _, _ = p.server.Write([]byte("all I say")); _ = p.server.CloseWrite() }()
		if said, err := io.ReadAll(p.out); err != nil || string(said) != "all I say" {
			t.Errorf("the client reads %q, %v", said, err)
		}
		go func() { _, _ = p.in.Write([]byte("more")); p.in.Close() }()
		if more, err := io.ReadAll(p.server); err != nil || string(more) != "more" {
			t.Errorf("the server reads %q, %v", more, err)
		}
		p.wait(t)
	})
	t.Run("a server that goes away ends it, though its input goes on", func(t *testing.T) {
		t.Parallel()
		p := startProxy(t)
		p.server.Close()
		p.wait(t)
	})
	t.Run("a client that reads no more ends it, though the server goes on", func(t *testing.T) {
		t.Parallel()
		p := startProxy(t)
		p.out.Close()
		go func() { _, _ = p.server.Write(make([]byte, 1<<20)) }()
		select {
		case err := <-p.ended:
			if err == nil {
				t.Error("it does not say so")
			}
		case <-time.After(time.Minute):
			t.Error("the proxy does not end")
		}
	})
	t.Run("a client that hangs up ends it without an error, though the server goes on", func(t *testing.T) {
		t.Parallel()
		inRead, inWrite, err := os.Pipe() // the system's own, which break as those of a process
		if err != nil {
			t.Fatal(err)
		}
		outRead, outWrite, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		p := &proxied{in: inWrite, out: outRead}
		p.start(t, inRead, outWrite)
		p.out.Close()
		p.in.Close()
		go func() { _, _ = p.server.Write(make([]byte, 1<<20)) }()
		p.wait(t)
	})
	for name, test := range map[string]struct {
		input error // nil: it goes on
		want  string
	}{
		"an input that fails is named, also if its client hangs up": {errors.New("a broken disk"), "a broken disk"},
		"a client that reads no more, and may say more, is named":   {nil, syscall.EPIPE.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inRead, inWrite := io.Pipe()
			outRead, outWrite, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			p := &proxied{in: inWrite, out: outRead}
			p.start(t, inRead, outWrite)
			p.out.Close()
			if test.input != nil {
				_ = inWrite.CloseWithError(test.input)
			}
			go func() { _, _ = p.server.Write(make([]byte, 1<<20)) }()
			select {
			case err := <-p.ended:
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %s", err, test.want)
				}
			case <-time.After(time.Minute):
				t.Error("the proxy does not end")
			}
		})
	}
	t.Run("without a server it gives up in the end", func(t *testing.T) {
		t.Parallel()
		_, err := dialServer(t.Context(), filepath.Join(t.TempDir(), "nowhere"), time.Millisecond)
		var own *exit.Error
		if !errors.As(err, &own) || own.Code != exit.System {
			t.Errorf("got %v", err)
		}
	})
}
