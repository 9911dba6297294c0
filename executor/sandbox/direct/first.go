package direct

import (
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// The first connection to a step-runner is a pair of pipes that it is started with: starting a proxy in the sandbox takes as long as a short
// job. An image's entrypoint may close them; then every connection goes through a proxy.

const (
	inPipe, outPipe = "in", "out" // as the sandbox sees them
	// firstWord bounds how long a step-runner that listens may take to say its first word on the connection.
	firstWord = 500 * time.Millisecond
)

// firstConn is this end of the pipes.
type firstConn struct {
	in, out *os.File // as this program sees them
	begun   []byte   // read already
}

// makeFirst makes the pipes, and opens this end of them.
func (b *box) makeFirst() (net.Conn, error) {
	if err := errors.Join(makePipe(b.path(inPipe)), makePipe(b.path(outPipe))); err != nil {
		return nil, err
	}
	out, err := openPipe(b.path(inPipe))
	if err != nil {
		return nil, err
	}
	in, err := openReading(b.path(outPipe))
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return &firstConn{in: in, out: out}, nil
}

// checkFirst gives the first connection up if the step-runner has not got it.
func (v *environment) checkFirst() {
	c, isFirst := v.first.(*firstConn)
	if !isFirst {
		return
	}
	word := make([]byte, 1)
	_ = c.in.SetReadDeadline(time.Now().Add(firstWord))
	if _, err := io.ReadFull(c.in, word); err != nil {
		v.first = nil
		_ = c.Close()
		return
	}
	_ = c.in.SetReadDeadline(time.Time{})
	c.begun = word
}

// takeFirst returns the first connection once; nil afterwards.
func (v *environment) takeFirst() net.Conn {
	v.firsts.Lock()
	defer v.firsts.Unlock()
	first := v.first
	v.first = nil
	return first
}

// Read implements net.Conn.
func (c *firstConn) Read(p []byte) (int, error) {
	if len(c.begun) > 0 && len(p) > 0 {
		n := copy(p, c.begun)
		c.begun = c.begun[n:]
		return n, nil
	}
	return c.in.Read(p)
}

// Write implements net.Conn.
func (c *firstConn) Write(p []byte) (int, error) { return c.out.Write(p) }

// Close implements net.Conn. The step-runner reads the end.
func (c *firstConn) Close() error { return errors.Join(c.out.Close(), c.in.Close()) }

// LocalAddr implements net.Conn.
func (c *firstConn) LocalAddr() net.Addr { return address{} }

// RemoteAddr implements net.Conn.
func (c *firstConn) RemoteAddr() net.Addr { return address{} }

// SetDeadline implements net.Conn.
func (c *firstConn) SetDeadline(t time.Time) error {
	return errors.Join(c.in.SetReadDeadline(t), c.out.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *firstConn) SetReadDeadline(t time.Time) error { return c.in.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (c *firstConn) SetWriteDeadline(t time.Time) error { return c.out.SetWriteDeadline(t) }
