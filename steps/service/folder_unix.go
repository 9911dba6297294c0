//go:build unix

package service

import (
	"os"
	"syscall"
)

// lockFolder locks a folder until the file is closed, or the process ends. It returns nil when another process has locked it, or
// it cannot be locked.
func lockFolder(path string) *os.File {
	folder, err := os.Open(path)
	if err != nil {
		return nil
	}
	if syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		_ = folder.Close()
		return nil
	}
	return folder
}

// isMine reports whether a file is this user's.
func isMine(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
