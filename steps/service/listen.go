package service

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// SocketName is what a server's socket is called in a folder.
const SocketName = "step-runner.sock"

// dialWait is how long a server that is there may take to accept a connection.
const dialWait = time.Second

// DefaultSocket is where a server listens, and a proxy looks for it, when nothing else is said.
func DefaultSocket() string { return filepath.Join(os.TempDir(), SocketName) }

// ErrInUse says that another server listens on a socket.
var ErrInUse = errors.New("another step-runner listens there")

// ListenUnix listens on a unix socket that only this user may connect to. What a server that was killed has left there is
// replaced, at once; a live server's socket (ErrInUse) and any other file are not.
//
// The socket is made under another name, in a folder that nobody else may enter, and then renamed: at no time can anybody else
// connect.
func ListenUnix(path string) (net.Listener, error) {
	if err := checkStale(path); err != nil {
		return nil, err
	}
	private, err := os.MkdirTemp(filepath.Dir(path), ".sr-")
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", path, err)
	}
	defer os.RemoveAll(private)
	temporary := filepath.Join(private, "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: temporary, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", path, err)
	}
	listener.SetUnlinkOnClose(false)
	if err = os.Chmod(temporary, 0o600); err == nil {
		err = os.Rename(temporary, path)
	}
	var info os.FileInfo
	if err == nil {
		info, err = os.Lstat(path)
	}
	if err != nil {
		listener.Close()
		return nil, fmt.Errorf("cannot listen on %s: %w", path, err)
	}
	return &unixListener{Listener: listener, path: path, info: info}, nil
}

// checkStale returns an error unless there is nothing at path, or a socket that nobody listens on.
func checkStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", path, err)
	}
	if info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("cannot listen on %s: it exists and is no socket", path)
	}
	conn, err := net.DialTimeout("unix", path, dialWait)
	if err == nil {
		conn.Close()
		return fmt.Errorf("cannot listen on %s: %w", path, ErrInUse)
	}
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("cannot listen on %s: it is another user's: %w", path, err)
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("cannot listen on %s: %w, though it does not answer", path, ErrInUse)
	}
	return nil
}

// unixListener removes its socket when it is closed, unless another server's stands in its place.
type unixListener struct {
	net.Listener
	path string
	info os.FileInfo
	once sync.Once
}

// Addr returns the place of the socket.
func (l *unixListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Close stops listening.
func (l *unixListener) Close() error {
	err := l.Listener.Close()
	l.once.Do(func() {
		if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.info) {
			_ = os.Remove(l.path)
		}
	})
	return err
}
