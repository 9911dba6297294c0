package worktree

import (
	"errors"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// clonePath is for systems that make the copy by its name.
func clonePath(_, _ string, _ *atomic.Bool) (bool, error) { return false, nil }

// cloneFile makes an empty file share the blocks of another (FICLONE). That file systems cannot is remembered, not told.
func cloneFile(out, in *os.File, cannotShare *atomic.Bool) bool {
	err := unix.IoctlFileClone(int(out.Fd()), int(in.Fd()))
	if err == nil {
		return true
	}
	if !errors.Is(err, unix.EINTR) {
		cannotShare.Store(true)
	}
	return false
}
