//go:build unix

package worktree

import (
	"errors"
	"io/fs"
	"syscall"
)

// noFollow opens no link, and waits for nobody at the other end of a pipe, should a file have become one meanwhile.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// gone reports whether a file is not there, or a folder of its path is none any more.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }
