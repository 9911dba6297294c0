//go:build unix

package tempfolder

import (
	"errors"
	"os"
	"syscall"
)

// lockFile locks a file until it is closed, or the program ends. It reports false when another program has locked it, or it cannot be locked.
func lockFile(file *os.File) bool {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// openOwn opens a regular file of this user.
func openOwn(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if stat, ok := info.Sys().(*syscall.Stat_t); err != nil || !ok || !info.Mode().IsRegular() || int(stat.Uid) != os.Geteuid() {
		_ = file.Close()
		return nil, errors.New("not a file of this user")
	}
	return file, nil
}
