package serve

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
)

func TestAProxyTalksToAServerOfItsOwnUserOnly(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not say who is at the other end of a socket")
	}
	dir, err := os.MkdirTemp("", "peer") // a short path, as sockets need
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.DialUnix("unix", nil, listener.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := checkPeer(conn, os.Geteuid()); err != nil {
		t.Errorf("a server of this user: %v", err)
	}
	if peer, known, err := peerUser(conn); err != nil || !known || peer != os.Geteuid() {
		t.Errorf("the peer is %d, %v, %v", peer, known, err)
	}
	err = refusePeer(os.Geteuid()+1, os.Geteuid())
	var refused *exit.Error
	if !errors.As(err, &refused) || refused.Code != exit.Denied {
		t.Errorf("a server of another user: %v", err)
	}
	if err := refusePeer(0, os.Geteuid()); err != nil {
		t.Errorf("a server of root: %v", err)
	}
}
