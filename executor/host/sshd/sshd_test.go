//go:build unix

package sshd_test

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/host/ssh"
	"github.com/rungci/rung/executor/host/sshd"
)

func TestMain(m *testing.M) { hosttest.Main(m) }

// connect opens this machine as a host at the other end of one connection. The second result ends when its server has.
func connect(t *testing.T) (*ssh.Host, *deafened, <-chan struct{}) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // with room, as pipes have
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ours, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	quiet := &deafened{Conn: ours}
	theirs, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = sshd.Serve(context.Background(), theirs, local.New())
	}()
	var once sync.Once
	h, err := ssh.New(t.Context(), ssh.Options{
		Name: "test", Program: func(host.Platform) (string, error) { return os.Executable() },
		Connect: func(context.Context) (conn net.Conn, err error) {
			err = errors.New("there is only one connection")
			once.Do(func() { conn, err = quiet, nil })
			return conn, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = h.Close()
		<-served
	})
	return h, quiet, served
}

// deafened is a connection whose other end can be kept from hearing anything.
type deafened struct {
	net.Conn
	deaf atomic.Bool
}

func (d *deafened) Write(p []byte) (int, error) {
	if d.deaf.Load() {
		return len(p), nil
	}
	return d.Conn.Write(p)
}

func TestACallToAHostThatDoesNotAnswerEndsWithItsContext(t *testing.T) {
	h, conn, _ := connect(t)
	files := h.Files()
	conn.deaf.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := files.Stat(ctx, "/"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the call ends with %v", err)
	}
}

func TestTheOtherEndOfAConnectionIsAHost(t *testing.T) {
	hosttest.Run(t, func(t *testing.T) host.Host {
		h, _, _ := connect(t)
		return h
	})
}

func TestTheEndOfTheConnectionEndsWhatRuns(t *testing.T) {
	h, conn, served := connect(t)
	p, err := h.Exec(t.Context(), &host.Command{Args: []string{"sleep", "600"}})
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if _, err := p.Wait(); !errors.Is(err, host.ErrLost) {
		t.Errorf("the command ends with %v", err)
	}
	for what, ended := range map[string]<-chan struct{}{"the server": served, "the host": h.Done()} {
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Errorf("%s does not end with the connection", what)
		}
	}
}
