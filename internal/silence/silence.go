// Package silence ends connections on which nothing comes back any more, because a firewall has forgotten them, or an address has moved. The system
// itself gives them up after a quarter of an hour.
package silence

import (
	"net"
	"net/http"
	"syscall"
	"time"
)

// Notice makes the connections of a transport end when nothing has come back for about so long, not even that what was sent has arrived. A server
// that takes its time to answer is not silent. It replaces the transport's DialContext.
func Notice(t *http.Transport, after time.Duration) {
	const dialTimeout, probes = 30 * time.Second, 3
	pause := after / (probes + 1)
	dialer := &net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: pause, Interval: pause, Count: probes}, // where nothing is sent
		Control:         func(_, _ string, c syscall.RawConn) error { return boundUnacknowledged(c, after) },
	}
	t.DialContext = dialer.DialContext
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: after / 2, PingTimeout: after / 2}
}
