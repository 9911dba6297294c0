//go:build unix

package engine

import (
	"os"
	"syscall"
)

// ofTheSystem reports whether a file or folder is the system's, and only the system can write to it.
func ofTheSystem(path string) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == 0 && !isWritable(info) && info.Mode()&os.ModeSymlink == 0
}
