//go:build unix

package rootfs

import (
	"errors"
	"os"
	"syscall"
)

func lockShared(file *os.File) error { return flock(file, syscall.LOCK_SH) }

func lockExclusive(file *os.File) error {
	err := flock(file, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrInUse
	}
	return err
}

func flock(file *os.File, how int) error {
	for {
		if err := syscall.Flock(int(file.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
