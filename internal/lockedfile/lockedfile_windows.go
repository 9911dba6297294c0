package lockedfile

import (
	"errors"
	"os"
	"syscall"
)

// errSharing is ERROR_SHARING_VIOLATION.
const errSharing = syscall.Errno(32)

// Open makes a file without sharing it: nobody else can open it until it is closed, or the process ends. The error is ErrInUse where another process has it.
func Open(path string) (*os.File, error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	handle, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil, syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	switch {
	case errors.Is(err, errSharing):
		return nil, ErrInUse
	case err != nil:
		return nil, &os.PathError{Op: "opening", Path: path, Err: err}
	}
	return os.NewFile(uintptr(handle), path), nil
}

// Lock does nothing: a file that is open cannot be removed on Windows, which tells that it is in use.
func Lock(*os.File) error { return nil }

// Close lets go of a lock and closes its file.
func Close(lock *os.File) error { return lock.Close() }

// Discard removes a file that nobody has open. The error is ErrInUse where somebody has.
func Discard(path string) error {
	err := os.Remove(path)
	if errors.Is(err, errSharing) {
		return ErrInUse
	}
	return err
}

// CloseRemoved closes a file and removes it. The error is ErrInUse if somebody else has it open.
func CloseRemoved(file *os.File, path string) error {
	return errors.Join(file.Close(), Discard(path))
}
