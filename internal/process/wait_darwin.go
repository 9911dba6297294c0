package process

import (
	"errors"
	"syscall"
	"unsafe"
)

// awaitEnd blocks until the main process has ended and leaves it unreaped, so that its pid, and with it its group's id, stays
// its own until the group has been killed.
func (c *child) awaitEnd() {
	const (
		byPid   = 1    // P_PID
		exited  = 0x04 // WEXITED
		keepIt  = 0x20 // WNOWAIT
		sizeMax = 128
	)
	var info [sizeMax]byte
	for {
		//nolint:staticcheck // the syscall package has no wrapper for waitid
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPid, uintptr(c.pid), uintptr(unsafe.Pointer(&info)), exited|keepIt, 0, 0)
		if !errors.Is(errno, syscall.EINTR) {
			return
		}
	}
}
