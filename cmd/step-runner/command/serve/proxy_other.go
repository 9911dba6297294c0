//go:build !linux

package serve

import (
	"net"
	"time"
)

// goneTime is how long a server may take what is still to come, after it has said all that it will.
const goneTime = 2 * time.Second

// awaitGone gives the server time: elsewhere than on Linux the system does not tell a connection that is closed from one whose
// other side has only said all that it will.
func awaitGone(*net.UnixConn) { time.Sleep(goneTime) }
