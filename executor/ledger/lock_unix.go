//go:build unix

package ledger

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

func createLocked(path string) (*os.File, error) {
	return lock(os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600))
}

func openLocked(path string) (*os.File, error) {
	return lock(os.OpenFile(path, os.O_RDWR|os.O_APPEND|syscall.O_NOFOLLOW, 0))
}

// lock locks a file that was opened. Children do not inherit it: Go's files are closed when a program is executed.
func lock(file *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		return file, nil
	}
	file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errLocked
	}
	return nil, &os.PathError{Op: "locking", Path: file.Name(), Err: err}
}

// finish closes the file. One that is done with is removed first, while the lock is held.
func finish(file *os.File, path string, done bool) error {
	var err error
	if done {
		err = os.Remove(path)
	}
	return errors.Join(err, file.Close())
}

// checkOwner refuses a folder that others can write to: what ledgers list is removed without asking.
func checkOwner(folder string) error {
	info, err := os.Stat(folder)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) != os.Getuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("other users can write to %s, the folder of the cleanup ledger; remove it, or set XDG_STATE_HOME", folder)
	}
	return nil
}
