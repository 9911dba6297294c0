package machine

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/host/sshd"
)

// serve is the machine's SSH server.
func serve() {
	told := os.NewFile(statusFD, "status")
	fail := func(err error) {
		message{Ended: "its SSH server does not begin: " + err.Error()}.send(told)
		os.Exit(1)
	}
	// What runs on the machine has the same user: this keeps it from looking into the server, which has the machine's key.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		fail(err)
	}
	unix.Umask(0o022)
	server, err := sshd.NewServer(local.New(), filepath.Join(doorAt, filepath.Base(Authorized)))
	if err != nil {
		fail(err)
	}
	port := os.NewFile(portFD, "port")
	listener, err := net.FileListener(port)
	if err != nil {
		fail(err)
	}
	port.Close()
	message{HostKey: server.Fingerprint()}.send(told)
	told.Close()
	fmt.Fprintln(os.Stderr, server.Serve(context.Background(), listener))
	os.Exit(1)
}
