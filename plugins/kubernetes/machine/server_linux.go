package machine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/host/sshd"
	"github.com/rungci/rung/internal/wholefile"
)

// serve starts the server, and collects the processes whose parents have ended, until the server ends.
//
// It goes on when it is asked to end: jobs may use the time that the pod has until it is removed. Whoever asks has said so in the pod's status, and the fleet gives the machine no
// more jobs.
func serve(address string) error {
	asked := make(chan os.Signal, 1) // which takes the place of being ended, and unlike an ignored signal is not inherited
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	server, err := syscall.ForkExec(self, []string{self, Argument, "listen", address}, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		return fmt.Errorf("starting the machine's SSH server: %w", err)
	}
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("waiting for the machine's SSH server: %w", err)
		case ended == server && status.Signaled():
			return fmt.Errorf("the machine's SSH server was killed (%s)", unix.SignalName(status.Signal()))
		case ended == server:
			return fmt.Errorf("the machine's SSH server has ended with exit code %d", status.ExitStatus())
		}
	}
}

// umask is that of what runs on the machine.
const umask = 0o022

// listen is the machine's SSH server.
func listen(folder, address string) error {
	// What runs on the machine may have the same user: this keeps it from looking into the server, which has the machine's key.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	unix.Umask(umask)
	server, err := sshd.NewServer(local.New(), filepath.Join(folder, authorizedFile))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("the machine's SSH server cannot listen: %w", err)
	}
	if err := wholefile.WriteText(filepath.Join(folder, hostKeyFile), forOne, []byte(server.Fingerprint())); err != nil {
		return fmt.Errorf("recording the fingerprint of the machine's key: %w", err)
	}
	return server.Serve(context.Background(), listener)
}
