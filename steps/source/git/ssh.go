package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/rungci/rung/internal/sshclient"
	"github.com/rungci/rung/steps/source"
)

// sshRemote is a repository behind SSH.
type sshRemote struct {
	client  *ssh.Client
	session *ssh.Session
	in      io.WriteCloser
	out     *packets
	conn    *idleConn
	stderr  *firstText
	stop    func() bool
}

func connectSSH(ctx context.Context, a *address, access *source.Access, idle time.Duration) (remote, error) {
	r := &sshRemote{stderr: &firstText{}}
	client, err := sshclient.Dial(ctx, &sshclient.Target{
		Host: a.host, Port: a.port, User: cmp.Or(a.user, access.Username), DefaultUser: "git", Password: cmp.Or(access.Password, a.password),
		Key: access.SSHKey, KnownHosts: access.KnownHosts,
	}, func(conn net.Conn) net.Conn {
		r.conn = &idleConn{Conn: conn, timeout: idle}
		return r.conn
	})
	var refused *sshclient.Error
	var broken *sshclient.BrokenError
	switch {
	case errors.As(err, &refused):
		return nil, &accessError{refused.Message, refused.Hint}
	case errors.As(err, &broken):
		return nil, &connectionError{err}
	case err != nil:
		return nil, err
	}
	r.client = client
	// The connection is the only thing that everything else waits for.
	r.stop = context.AfterFunc(ctx, func() { _ = r.conn.Close() })
	if err := r.open(a.path); err != nil {
		r.stop()
		_ = client.Close()
		return nil, &connectionError{err}
	}
	return r, nil
}

// open starts git on the server.
func (r *sshRemote) open(path string) (err error) {
	if r.session, err = r.client.NewSession(); err != nil {
		return err
	}
	r.session.Stderr = r.stderr
	if r.in, err = r.session.StdinPipe(); err != nil {
		return err
	}
	out, err := r.session.StdoutPipe()
	if err != nil {
		return err
	}
	r.out = newPackets(idleReader{out, r.conn})
	return r.session.Start("git-upload-pack " + shellQuote(path))
}

// shellQuote makes one word of text for the shell of a server. The exclamation mark is for those that have csh.
func shellQuote(text string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(text) + "'"
}

func (r *sshRemote) refs(context.Context) (*refs, error) {
	list, err := readRefs(r.out, false)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errNotGit) {
		_ = r.session.Wait() // so that stderr is there
		if text := r.stderr.text(); text != "" {
			return nil, &remoteError{text}
		}
		return nil, fmt.Errorf("the server ends the connection: %w", unexpectedEOF(err))
	}
	return list, err
}

func (r *sshRemote) uploadPack(_ context.Context, request []byte) (io.ReadCloser, error) {
	if _, err := r.in.Write(request); err != nil {
		return nil, &connectionError{err}
	}
	return io.NopCloser(r.out.in), nil
}

// idleReader is what comes through a connection. SSH lets it just end when the connection breaks.
type idleReader struct {
	io.Reader
	conn *idleConn
}

func (r idleReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && r.conn.silent.Load() {
		err = errIdle
	}
	return n, err
}

func (r *sshRemote) close() {
	_ = r.in.Close()
	_ = r.session.Close()
	_ = r.client.Close()
	r.stop()
}

// firstText keeps the beginning of what a server says besides.
type firstText struct {
	mu  sync.Mutex
	all []byte
}

func (t *firstText) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const enough = 4 << 10
	t.all = append(t.all, p[:min(len(p), enough-len(t.all))]...)
	return len(p), nil
}

func (t *firstText) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for line := range strings.Lines(string(t.all)) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "remote:"))
		if strings.Trim(line, "= ") != "" {
			lines = append(lines, line)
		}
	}
	return clean(strings.Join(lines, " "))
}

// idleConn is a connection that fails when nothing arrives for some time.
type idleConn struct {
	net.Conn
	timeout time.Duration
	silent  atomic.Bool // it failed because of that
}

func (c *idleConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		c.silent.Store(true)
		err = errIdle
	}
	return n, err
}
