//go:build unix

package sshd_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	xssh "golang.org/x/crypto/ssh"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/hosttest"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/host/ssh"
	"github.com/rungci/rung/executor/host/sshd"
)

// port is a server on a port of this machine.
type port struct {
	options    ssh.Options
	authorized string
	conns      chan net.Conn // those that it accepts
}

// accepting hands on what is accepted.
type accepting struct {
	net.Listener
	conns chan net.Conn
}

func (a accepting) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err == nil {
		a.conns <- conn
	}
	return conn, err
}

func listen(t *testing.T) *port {
	t.Helper()
	dir := t.TempDir()
	p := &port{authorized: filepath.Join(dir, "authorized"), conns: make(chan net.Conn, 100)}
	key := filepath.Join(dir, "key")
	public := hosttest.WriteKey(t, key)
	if err := os.WriteFile(p.authorized, xssh.MarshalAuthorizedKey(public), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := sshd.NewServer(local.New(), p.authorized)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = server.Serve(ctx, accepting{l, p.conns})
	}()
	t.Cleanup(func() { stop(); <-over })
	p.options = ssh.Options{
		Address: "anybody@" + l.Addr().String(), Key: key, Fingerprint: server.Fingerprint(), Config: []string{os.DevNull},
		Program: func(host.Platform) (string, error) { return os.Executable() },
	}
	return p
}

func (p *port) connect(t *testing.T) *ssh.Host {
	t.Helper()
	h, err := ssh.New(t.Context(), p.options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

func TestAServerOfAPortIsAHost(t *testing.T) {
	hosttest.Run(t, func(t *testing.T) host.Host { return listen(t).connect(t) })
}

func TestOnlyKeysOfTheFileAreLetIn(t *testing.T) {
	p := listen(t)
	p.connect(t)
	other := p.options
	other.Key = filepath.Join(t.TempDir(), "other")
	public := hosttest.WriteKey(t, other.Key)
	if _, err := ssh.New(t.Context(), other); err == nil {
		t.Error("a key that is not in the file is let in")
	}
	if err := os.WriteFile(p.authorized, xssh.MarshalAuthorizedKey(public), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ssh.New(t.Context(), p.options); err == nil {
		t.Error("a key that is not in the file any more is let in")
	}
	h, err := ssh.New(t.Context(), other)
	if err != nil {
		t.Fatal("a key that has come to the file is not let in:", err)
	}
	h.Close()
	wrong := other
	wrong.Fingerprint = xssh.FingerprintSHA256(public)
	if _, err := ssh.New(t.Context(), wrong); err == nil {
		t.Error("the server has no key of its own")
	}
	if err := os.Remove(p.authorized); err != nil {
		t.Fatal(err)
	}
	if _, err := ssh.New(t.Context(), other); err == nil {
		t.Error("without a file everybody is let in")
	}
}

func TestACommandOutlivesItsConnection(t *testing.T) {
	p := listen(t)
	h := p.connect(t)
	file := filepath.Join(t.TempDir(), "pipe")
	hosttest.Sh(t, h, `mkfifo "$1"`, file)
	command, err := h.Exec(t.Context(), &host.Command{Args: []string{"sh", "-c", `read line <"$0"; echo "$line" >"$0.out"; mv "$0.out" "$0.done"; exec cat "$0"`, file}})
	if err != nil {
		t.Fatal(err)
	}
	for range len(p.conns) {
		(<-p.conns).Close()
	}
	if _, err := command.Wait(); !errors.Is(err, host.ErrLost) {
		t.Errorf("it ends with %v", err)
	}
	again := p.connect(t)
	hosttest.Sh(t, again, `echo hello >"$1"; until test -e "$1.done"; do sleep 0.02; done`, file)
	if got := hosttest.Sh(t, again, `cat "$1.done"; echo over >"$1"`, file); got != "hello" {
		t.Errorf("the command has read %q", got)
	}
	if _, err := os.Stat(file + ".out"); err == nil {
		t.Error("it has not gone on")
	}
}
