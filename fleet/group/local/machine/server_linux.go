package machine

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/rungci/rung/executor/host/brought"
)

// serve is the machine's SSH server.
func serve() {
	told := os.NewFile(statusFD, "status")
	fail := func(err error) {
		message{Ended: "its SSH server does not begin: " + err.Error()}.send(told)
		os.Exit(1)
	}
	server, err := brought.NewServer(filepath.Join(doorAt, filepath.Base(Authorized)))
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
