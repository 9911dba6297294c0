//go:build unix

package projectfile

import "syscall"

// noWait keeps an open from waiting for a pipe's other end, if the file has become one since it was looked at.
const noWait = syscall.O_NONBLOCK
