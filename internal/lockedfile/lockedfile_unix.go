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
	if err := Lock(lock); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// Lock locks a file until it is closed, or the process ends; others can open it all the same. The error is ErrInUse where another has locked it.
func Lock(file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrInUse
		case err != nil:
			return &os.PathError{Op: "locking", Path: file.Name(), Err: err}
		default:
			return nil
		}
	}
}

// Close lets go of a lock and closes its file. Closing alone would leave it with a process that was forked and has not executed its program yet.
func Close(lock *os.File) error {
	return errors.Join(syscall.Flock(int(lock.Fd()), syscall.LOCK_UN), lock.Close())
}

// Discard removes a file that nobody has locked. The error is ErrInUse where somebody has, or has just replaced it.
func Discard(path string) error {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil { // what cannot be opened is nothing that somebody has locked
		return os.Remove(path)
	}
	if err := Lock(file); errors.Is(err, ErrInUse) {
		return errors.Join(err, file.Close())
	}
	return CloseRemoved(file, path)
}

// CloseRemoved removes a locked file, lets go of the lock and closes it. The error is ErrInUse if the name belongs to another file by now, which stays.
func CloseRemoved(file *os.File, path string) error {
	err := ErrInUse
	if Has(file, path) {
		err = os.Remove(path)
	}
	return errors.Join(err, Close(file))
}
