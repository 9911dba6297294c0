package silence_test

import (
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rungci/rung/internal/silence"
)

// What is sent on a connection, and never acknowledged, ends it after a minute: the kernel would try for a quarter of an hour.
func TestWhatIsNotAcknowledgedEndsAConnection(t *testing.T) {
	t.Parallel()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	transport := &http.Transport{}
	silence.Notice(transport, time.Minute)
	c, err := transport.DialContext(t.Context(), "tcp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]struct{ option, want int }{
		"milliseconds without an acknowledgement": {unix.TCP_USER_TIMEOUT, 60_000},
		"seconds until a probe":                   {unix.TCP_KEEPIDLE, 15},
		"seconds between probes":                  {unix.TCP_KEEPINTVL, 15},
		"probes":                                  {unix.TCP_KEEPCNT, 3},
	} {
		var got int
		if wrong := raw.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, of.option) }); wrong != nil || err != nil {
			t.Fatal(wrong, err)
		}
		if got != of.want {
			t.Errorf("%s: %d, not %d", name, got, of.want)
		}
	}
}
