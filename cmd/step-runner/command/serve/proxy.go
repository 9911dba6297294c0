package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/steps/service"
)

const (
	// proxyWait is how long a proxy waits for a server that is about to start.
	proxyWait = 5 * time.Second
	// proxyRetry is how often it tries meanwhile.
	proxyRetry = 20 * time.Millisecond
	// hangUpTime is how long the end of the input may take to be seen after that of the output, when the client has closed both.
	hangUpTime = time.Second
)

func (a *app) proxyCommand() *cobra.Command {
	var socket string
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "proxy",
		Short: "Connect standard input and output to a local server",
		Long: `proxy connects its standard input and output to the socket of a server (step-runner serve), so that clients reach the server
through any command channel: ssh HOST step-runner proxy, docker exec -i CONTAINER step-runner proxy.

It passes on the end of each direction and exits when both have ended, or at once when the server goes away.

Exit codes: 0 success · 2 usage · 4 the server belongs to another user · 5 no server, or internal error`,
		Example: `  step-runner proxy
  ssh build.example.com step-runner proxy --socket /run/step-runner.sock`,
		Args: command.Arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			conn, err := dialServer(cmd.Context(), socket, wait)
			if err != nil {
				return err
			}
			if err = checkPeer(conn, thisUser()); err == nil && socket == service.DefaultSocket() {
				err = checkFolder()
			}
			if err != nil {
				_ = conn.Close()
				return err
			}
			return carry(a.Stdin, a.Stdout, conn)
		},
	}
	cmd.Flags().StringVar(&socket, "socket", service.DefaultSocket(), "connect to the unix socket `PATH` (default: step-runner-user-ID/step-runner.sock in the temporary folder)")
	cmd.Flags().Lookup("socket").DefValue = "" // it differs from machine to machine
	cmd.Flags().DurationVar(&wait, "wait", proxyWait, "wait up to `TIME` for the server to start")
	return cmd
}

// dialServer connects to a server, which may be about to start.
func dialServer(ctx context.Context, socket string, wait time.Duration) (*net.UnixConn, error) {
	until := time.Now().Add(wait)
	for {
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
		if err == nil {
			return conn, nil
		}
		starting := errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
		if errors.Is(err, os.ErrPermission) {
			return nil, exit.Coded(exit.Denied, "connecting to the server: %v", err).Hinted("only the user who runs the server may connect")
		}
		if !starting || time.Now().After(until) {
			return nil, exit.Coded(exit.System, "there is no server: %v", err).Hinted("start one with `step-runner serve`, or name its socket with --socket")
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(proxyRetry):
		}
	}
}

// carry carries bytes both ways until both have ended, or the server is gone.
func carry(in io.Reader, out io.WriteCloser, conn *net.UnixConn) error {
	defer conn.Close()
	sent, received := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := io.Copy(conn, in)
		sent <- errors.Join(err, ignoreGone(conn.CloseWrite()))
	}()
	go func() {
		_, err := io.Copy(out, conn)
		received <- errors.Join(err, out.Close())
	}()
	gone := make(chan struct{})
	var sendErr, receiveErr error
	for left := 2; left > 0; left-- {
		select {
		case sendErr = <-sent:
		case receiveErr = <-received:
			if errors.Is(receiveErr, syscall.EPIPE) && (left == 1 || endsSoon(sent, &sendErr)) {
				return proxyError(sendErr, nil) // the client has hung up, while the server says that it ends, or asks whether the client lives
			}
			if receiveErr != nil { // the server is gone, or nobody reads what it says
				return proxyError(sendErr, receiveErr)
			}
			go func() { // the server may take what is still to come, or be gone
				awaitGone(conn)
				close(gone)
			}()
		case <-gone:
			left = 0
		}
	}
	return proxyError(sendErr, receiveErr)
}

// endsSoon says whether the input ends within hangUpTime. It sets the input's error.
func endsSoon(sent <-chan error, err *error) bool {
	select {
	case *err = <-sent:
		return true
	case <-time.After(hangUpTime):
		return false
	}
}

// proxyError is what a proxy says at its end.
func proxyError(sendErr, receiveErr error) error {
	if errors.Is(receiveErr, syscall.ECONNRESET) {
		receiveErr = nil // splicing takes it for an error of the output
	}
	if err := errors.Join(ignoreGone(sendErr), receiveErr); err != nil {
		return exit.Coded(exit.System, "carrying bytes to and from the server: %v", err)
	}
	return nil
}

// ignoreGone leaves out that the server was gone already: its clients see that for themselves.
func ignoreGone(err error) error {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ENOTCONN) || errors.Is(err, syscall.ECONNRESET) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("to the server: %w", err)
	}
	return nil
}
