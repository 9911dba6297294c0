package brought

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// serve starts the server, and collects the processes whose parents have ended, until the server ends, or the lifeline does if there is one.
//
// It goes on when it is asked to end: jobs may use the time that a pod has until it is removed. Whoever asks has said so in the pod's status, and the fleet gives the machine no
// more jobs.
func serve(argument, address string, lifeline io.Reader) error {
	asked := make(chan os.Signal, 1) // which takes the place of being ended, and unlike an ignored signal is not inherited
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	nothing, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer nothing.Close()
	server, err := syscall.ForkExec(self, []string{self, argument, "listen", address}, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{nothing.Fd(), 1, 2}})
	if err != nil {
		return fmt.Errorf("starting the machine's SSH server: %w", err)
	}
	if lifeline != nil {
		go func() {
			_, _ = io.Copy(io.Discard, lifeline)
			os.Exit(0) // and with it the machine
		}()
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

// umask is that of what runs on a machine.
const umask = 0o022

// NewServer makes the SSH server of the machine that this process is on, and readies the process for it: what runs on the machine may have the same user, and is kept from looking into the
// process, which has the machine's key. authorized is as for sshd.NewServer.
func NewServer(authorized string) (*sshd.Server, error) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, err
	}
	unix.Umask(umask)
	return sshd.NewServer(local.New(), authorized)
}

// listen is the machine's SSH server.
func listen(folder, address string) error {
	server, err := NewServer(filepath.Join(folder, authorizedFile))
	if err != nil {
		return err
	}
	if home, err := os.UserHomeDir(); err == nil {
		_ = os.Chdir(home) // where commands begin; images have users without one
	}
	listener, err := net.Listen(network(address), address)
	if err != nil {
		return fmt.Errorf("the machine's SSH server cannot listen: %w", err)
	}
	if err := wholefile.WriteText(filepath.Join(folder, hostKeyFile), forOne, []byte(server.Fingerprint())); err != nil {
		return fmt.Errorf("recording the fingerprint of the machine's key: %w", err)
	}
	return server.Serve(context.Background(), listener)
}
