//go:build unix

package cache

import (
	"io/fs"
	"os"
	"syscall"
)

// isMine reports whether a file is this user's.
func isMine(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// isSecret reports whether only the owner can read it.
func isSecret(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 == 0 }
