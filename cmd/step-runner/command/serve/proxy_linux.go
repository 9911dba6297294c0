package serve

import (
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// awaitGone waits until the other side of a connection has closed both directions of it.
func awaitGone(conn *net.UnixConn) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	for {
		gone := false
		err := raw.Control(func(fd uintptr) {
			// POLLHUP is always told, and of a unix socket only when both directions are shut.
			fds := []unix.PollFd{{Fd: int32(fd)}}
			n, err := unix.Poll(fds, 0)
			gone = n > 0 && fds[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0 || err != nil && !errors.Is(err, unix.EINTR)
		})
		if err != nil || gone {
			return
		}
		time.Sleep(goneInterval)
	}
}

// goneInterval is how often it looks: rarely is a server that has ended one direction not gone.
const goneInterval = 50 * time.Millisecond
