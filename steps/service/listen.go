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

// DefaultSocket is where a server listens, and a proxy looks for it, when nothing else is said: in a folder that others cannot enter.
func DefaultSocket() string { return filepath.Join(socketFolder(), SocketName) }

// ErrInUse says that another server listens on a socket.
var ErrInUse = errors.New("another step-runner is listening there")

// maxSocketPath is how long the path of a unix socket may be, in bytes, on every system.
const maxSocketPath = 103

// ListenUnix listens on a unix socket that only this user may connect to. What a server that was killed has left there is
// replaced, at once; a live server's socket (ErrInUse) and any other file are not.
//
// The socket is made under another name, in a folder that nobody else may enter, and then gets its own: at no time can anybody
// else connect, and of several servers that start at once one gets the name.
func ListenUnix(path string) (net.Listener, error) {
	listener, err := listenUnix(path)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", path, err)
	}
	return listener, nil
}

func listenUnix(path string) (net.Listener, error) {
	if err := checkStale(path); err != nil {
		return nil, err
	}
	private, err := os.MkdirTemp(filepath.Dir(path), ".sr-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(private)
	temporary := filepath.Join(private, "s")
	if longest := max(len(path), len(temporary)); longest > maxSocketPath {
		return nil, fmt.Errorf("the path is %d bytes too long for a unix socket", longest-maxSocketPath)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: temporary, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	var info os.FileInfo
	if err = os.Chmod(temporary, 0o600); err == nil {
		info, err = os.Lstat(temporary)
	}
	if err == nil {
		err = place(temporary, path)
	}
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	return &unixListener{Listener: listener, path: path, info: info}, nil
}

// placeTries is how often place begins anew when others are about the same name.
const placeTries = 10

// place gives a socket its name. A stale one that has it is moved aside and looked at once more, for meanwhile another server
// may have replaced it.
func place(socket, path string) error {
	for range placeTries {
		err := os.Link(socket, path)
		if err == nil {
			return nil
		}
		if !errors.Is(err, os.ErrExist) { // a file system without links
			return os.Rename(socket, path)
		}
		if err := checkStale(path); err != nil {
			return err
		}
		aside := filepath.Join(filepath.Dir(socket), "o") // a name as short as the socket's
		if err := os.Rename(path, aside); errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		if err := checkStale(aside); err != nil {
			_ = os.Link(aside, path)
			return err
		}
		_ = os.Remove(aside)
	}
	return ErrInUse
}

// checkStale returns an error unless there is nothing at path, or a socket that nobody listens on.
func checkStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSocket == 0 {
		return errors.New("it exists and is not a socket")
	}
	conn, err := net.DialTimeout("unix", path, dialWait)
	if err == nil {
		conn.Close()
		return ErrInUse
	}
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("it is another user's: %w", err)
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("%w, though it does not answer", ErrInUse)
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
