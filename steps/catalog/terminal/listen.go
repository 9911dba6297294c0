package terminal

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// maxPath is how long the path of a Unix socket may be on all systems, in bytes.
const maxPath = 103

// listen makes a socket that is this user's alone from the first moment: it is made in a folder of its own, and moved.
func listen(path string) (net.Listener, error) {
	if err := vacate(path); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(filepath.Dir(path), ".t")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	first := filepath.Join(folder, "s")
	if longest := max(len(first), len(path)); longest > maxPath {
		return nil, fmt.Errorf("the path of a socket in %s has %d bytes; at most %d are allowed", filepath.Dir(path), longest, maxPath)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: first, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(first, 0o600), os.Rename(first, path)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &socket{l, path}, nil
}

// vacate removes a socket that nobody listens on any more. Anything else stays, and is an error.
func vacate(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is not a socket", path)
	}
	if conn, err := net.Dial("unix", path); err == nil {
		conn.Close()
		return fmt.Errorf("somebody listens on %s already", path)
	}
	return os.Remove(path)
}

// socket is a listener that takes its file along.
type socket struct {
	net.Listener
	path string
}

// Close ends listening.
func (s *socket) Close() error {
	return errors.Join(os.Remove(s.path), s.Listener.Close())
}
