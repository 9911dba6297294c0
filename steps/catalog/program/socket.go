package program

import (
	"fmt"
	"os"
	"path/filepath"
)

// maxSocketPath is how long the path of a Unix socket may be, in bytes: the least of all systems, that of macOS, without its end.
const maxSocketPath = 103

// socketNameRoom is what a socket's name, and that of its folder, may add to the path of the folder for temporary files.
const socketNameRoom = 40

// SocketFolder makes a folder for sockets that only this user may enter, in the call's folder for temporary files, or where that has too
// long a path, in the system's. The caller removes it.
func (c *Call) SocketFolder(pattern string) (string, error) {
	for _, parent := range []string{c.Getenv("TMPDIR"), os.TempDir(), "/tmp"} {
		if parent == "" || !filepath.IsAbs(parent) || len(parent) > maxSocketPath-socketNameRoom {
			continue
		}
		folder, err := os.MkdirTemp(parent, pattern)
		if err != nil {
			return "", fmt.Errorf("making a folder for a socket: %w", err)
		}
		return folder, nil
	}
	return "", fmt.Errorf("making a folder for a socket: the path of every folder for temporary files is longer than %d bytes", maxSocketPath-socketNameRoom)
}
