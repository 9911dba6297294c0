//go:build unix

package lockedfile

import (
	"errors"
	"os"
	"syscall"
)

// Open makes a file and locks it until it is closed, or the process ends. The error is ErrInUse where another process has it.
func Open(path string) (*os.File, error) {
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		return lock, nil
	}
	_ = lock.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, ErrInUse
	}
	return nil, &os.PathError{Op: "locking", Path: path, Err: err}
}

// Close lets go of a lock and closes its file. Closing alone would leave it with a process that was forked and has not executed its program yet.
func Close(lock *os.File) error {
	return errors.Join(syscall.Flock(int(lock.Fd()), syscall.LOCK_UN), lock.Close())
}
