//go:build darwin || freebsd

package serve

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUser is the user that made the socket a server listens on.
func peerUser(conn *net.UnixConn) (user int, known bool, err error) {
	err = control(conn, func(fd int) error {
		const local = 0 // SOL_LOCAL
		credentials, err := unix.GetsockoptXucred(fd, local, unix.LOCAL_PEERCRED)
		if err == nil {
			user = int(credentials.Uid)
		}
		return err
	})
	return user, err == nil, err
}
