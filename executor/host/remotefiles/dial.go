package remotefiles

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/rungci/rung/executor/host"
)

func init() {
	operations["dial"] = operation{"NETWORK ADDRESS", func(ctx context.Context, _ host.Files, args []string, in io.Reader, out io.Writer) error {
		return dial(ctx, args[0], args[1], in, out)
	}}
}

// connected is what the program writes once it is connected, before what comes from there.
const connected = '\n'

// dial connects to a socket or port of this machine, and carries bytes both ways until both have ended.
func dial(ctx context.Context, network, address string, in io.Reader, out io.Writer) error {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := out.Write([]byte{connected}); err != nil {
		return err
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.Copy(conn, in)
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	if _, err = io.Copy(out, conn); err != nil {
		return err
	}
	select {
	case <-sent:
	case <-time.After(goneTime):
	}
	return nil
}

// goneTime is how long the other side may take what is still to come, after it has said all that it will. Whether it is gone altogether cannot be told, and
// that it says no more is only seen at the end of this program.
const goneTime = 2 * time.Second

// Dial connects to a "unix" socket or a "tcp" port as seen from the machine, as host.Host does: the input and output of the program there are
// the connection.
func (c *Client) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	ours, input := net.Pipe()
	output, theirs := net.Pipe()
	running, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	conn := &programConn{read: output, write: ours, stop: stop, to: remoteAddr{network, address}}
	over := make(chan struct{})
	go func() {
		defer close(over)
		conn.end = c.call(running, input, theirs, "dial", network, address)
		_ = theirs.Close()
		_ = input.Close()
		stop(nil)
	}()
	begun := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(output, make([]byte, 1))
		begun <- err
	}()
	select {
	case err := <-begun:
		if err == nil {
			conn.over = over
			return conn, nil
		}
		<-over
	case <-ctx.Done():
		_ = conn.Close()
		<-over
		return nil, context.Cause(ctx)
	}
	err := conn.end
	if err == nil {
		err = errors.New("the program on the machine has ended")
	}
	_ = conn.Close()
	return nil, &net.OpError{Op: "dial", Net: network, Addr: conn.to, Err: err}
}

// programConn is a connection by way of a program on a machine.
type programConn struct {
	read, write net.Conn
	stop        context.CancelCauseFunc
	to          remoteAddr
	over        <-chan struct{} // closed when the program has ended, and end is set
	end         error

	mu     sync.Mutex
	closed bool
}

func (c *programConn) Read(p []byte) (int, error) {
	n, err := c.read.Read(p)
	if errors.Is(err, io.EOF) && n == 0 {
		<-c.over
		if c.end != nil && !c.isClosed() {
			return 0, c.end
		}
	}
	return n, c.named(err)
}

func (c *programConn) Write(p []byte) (int, error) {
	n, err := c.write.Write(p)
	return n, c.named(err)
}

// named is an error of the pipes in the words of connections.
func (c *programConn) named(err error) error {
	if err != nil && c.isClosed() || errors.Is(err, io.ErrClosedPipe) {
		return net.ErrClosed
	}
	return err
}

func (c *programConn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// CloseWrite ends what the other side reads.
func (c *programConn) CloseWrite() error { return c.write.Close() }

func (c *programConn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop(net.ErrClosed)
	return errors.Join(c.write.Close(), c.read.Close())
}

func (c *programConn) LocalAddr() net.Addr  { return c.to }
func (c *programConn) RemoteAddr() net.Addr { return c.to }

func (c *programConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
func (c *programConn) SetReadDeadline(t time.Time) error  { return c.read.SetReadDeadline(t) }
func (c *programConn) SetWriteDeadline(t time.Time) error { return c.write.SetWriteDeadline(t) }

// remoteAddr is an address on a machine.
type remoteAddr struct{ network, address string }

func (a remoteAddr) Network() string { return a.network }
func (a remoteAddr) String() string  { return a.address }
