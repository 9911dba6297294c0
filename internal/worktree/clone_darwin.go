package worktree

import (
	"errors"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// clonePath makes a copy that shares its blocks, with the mode and times of the original (clonefile). Where the file system
// cannot, that is remembered, and the file is copied.
func clonePath(from, to string, cannotShare *atomic.Bool) (bool, error) {
	err := unix.Clonefile(from, to, unix.CLONE_NOFOLLOW|unix.CLONE_NOOWNERCOPY)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.EXDEV):
		cannotShare.Store(true)
		return false, nil
	}
	return false, &os.LinkError{Op: "clonefile", Old: from, New: to, Err: err}
}

// cloneFile is for systems that fill a file that is there.
func cloneFile(_, _ *os.File, _ *atomic.Bool) bool { return false }
