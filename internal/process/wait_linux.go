package process

import (
	"errors"

	"golang.org/x/sys/unix"
)

// awaitEnd blocks until the main process has ended and leaves it unreaped, so that its pid, and with it its group's id, stays
// its own until the group has been killed.
func (c *child) awaitEnd() {
	for errors.Is(unix.Waitid(unix.P_PID, c.pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}
