package silence

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// boundUnacknowledged ends a connection whose other end does not acknowledge for so long what was sent.
func boundUnacknowledged(c syscall.RawConn, after time.Duration) error {
	var err error
	if wrong := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(after.Milliseconds()))
	}); wrong != nil {
		return wrong
	}
	return err
}
