package ledger

import (
	"errors"
	"os"
	"syscall"
)

// errSharing is ERROR_SHARING_VIOLATION.
const errSharing = syscall.Errno(32)

// A file that is opened without sharing cannot be opened by anybody else until it is closed: that is the lock.

func createLocked(path string) (*os.File, error) { return open(path, syscall.CREATE_NEW) }

func openLocked(path string) (*os.File, error) { return open(path, syscall.OPEN_EXISTING) }

func open(path string, mode uint32) (*os.File, error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	handle, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil, mode, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	switch {
	case errors.Is(err, errSharing):
		return nil, errLocked
	case err != nil:
		return nil, &os.PathError{Op: "opening", Path: path, Err: err}
	}
	return os.NewFile(uintptr(handle), path), nil
}

// finish closes the file. One that is done with is removed then: nobody can while it is open.
func finish(file *os.File, path string, done bool) error {
	err := file.Close()
	if done {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// checkOwner leaves it to the system: folders of users are their own there.
func checkOwner(string) error { return nil }
