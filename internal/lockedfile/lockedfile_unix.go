//go:build unix

package lockedfile

import (
	"errors"
	"io/fs"
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

// Discard removes a file that nobody has locked. The error is ErrInUse where somebody has, where that is unknown, and where the file has just been replaced.
func Discard(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() { // which nobody has locked
		return os.Remove(path)
	}
	file, err := openToLock(path)
	if err != nil {
		return unlessGone(err)
	}
	if err := unlessUnsupported(Lock(file)); err != nil {
		return errors.Join(err, file.Close())
	}
	return CloseRemoved(file, path)
}

// openToLock opens a file for writing, too, if it can be: on NFS nothing else can be locked.
func openToLock(path string) (*os.File, error) {
	const flags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	file, err := os.OpenFile(path, os.O_RDWR|flags, 0)
	if errors.Is(err, fs.ErrPermission) {
		return os.OpenFile(path, os.O_RDONLY|flags, 0)
	}
	return file, err
}

// unlessGone is why a file cannot be opened, as ErrInUse unless it does not exist: it may be another user's, who has locked it.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(ErrInUse, err)
}

// unlessUnsupported is why a file is not locked, as ErrInUse; nil on a file system without locks, where nobody can have locked it.
func unlessUnsupported(err error) error {
	if err == nil || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return errors.Join(ErrInUse, err)
}

// CloseRemoved removes a locked file, lets go of the lock and closes it. The error is ErrInUse if the name belongs to another file by now, which stays.
func CloseRemoved(file *os.File, path string) error {
	err := ErrInUse
	if Has(file, path) {
		err = os.Remove(path)
	}
	return errors.Join(err, Close(file))
}
