package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// Dial connects to a socket or port on the host.
func (h *Host) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if network != "unix" && network != "tcp" {
		return nil, fmt.Errorf("%q is not a network that can be reached through %s; it must be unix or tcp", network, h.name)
	}
	for broken := 0; ; broken++ {
		l, _, err := h.pool.take(ctx)
		if err != nil {
			return nil, err
		}
		dialing, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(l.alive, cancel)
		inner, err := l.client.DialContext(dialing, network, address)
		stop()
		cancel()
		if err == nil {
			return newConn(inner, func() { h.pool.release(l) }), nil
		}
		h.pool.release(l)
		var refused *ssh.OpenChannelError
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.As(err, &refused):
			return nil, &net.OpError{Op: "dial", Net: network, Addr: remoteAddr{network, address, h.name}, Err: explainRefusal(network, refused)}
		case broken > 0:
			return nil, lost(h.name, err)
		}
		_ = l.client.Close() // whoever watches it forgets it
		<-l.alive.Done()
	}
}

// explainRefusal says why a server did not make a connection. For a socket, servers do not tell one reason from another.
func explainRefusal(network string, refused *ssh.OpenChannelError) error {
	switch {
	case refused.Reason == ssh.Prohibited:
		return errors.New("the SSH server does not allow it; set AllowTcpForwarding in its sshd_config")
	case network == "unix":
		return fmt.Errorf("nothing accepts connections there, or the SSH server does not allow it (AllowStreamLocalForwarding in its sshd_config): %s", refused.Message)
	}
	return fmt.Errorf("nothing accepts connections there: %s", refused.Message)
}

// remoteAddr is an address on a host.
type remoteAddr struct{ network, address, host string }

func (a remoteAddr) Network() string { return a.network }
func (a remoteAddr) String() string  { return a.address + " on " + a.host }

const copySize = 32 << 10

// conn adds deadlines to a forwarded connection, which has none. A write that meets its deadline closes the connection: how much of
// it has arrived is unknown.
type conn struct {
	net.Conn
	release func()
	closing sync.Once

	chunks chan []byte // what arrives; closed at the end, when readErr is set
	free   chan []byte // the buffer that it arrives in
	end    error
	closed chan struct{}

	reading sync.Mutex
	left    []byte // of the last chunk
	buffer  []byte // what left is part of

	readLimit, writeLimit deadline
}

func newConn(inner net.Conn, release func()) *conn {
	c := &conn{Conn: inner, release: release, chunks: make(chan []byte), free: make(chan []byte, 1), closed: make(chan struct{})}
	c.readLimit.passed, c.writeLimit.passed = make(chan struct{}), make(chan struct{})
	c.free <- make([]byte, copySize)
	go c.pump()
	return c
}

// pump reads ahead by one buffer.
func (c *conn) pump() {
	defer close(c.chunks)
	for {
		var buffer []byte
		select {
		case buffer = <-c.free:
		case <-c.closed:
			c.end = net.ErrClosed
			return
		}
		n, err := c.Conn.Read(buffer)
		if n > 0 {
			select {
			case c.chunks <- buffer[:n]:
			case <-c.closed:
				c.end = net.ErrClosed
				return
			}
		}
		if err != nil {
			c.end = err
			return
		}
	}
}

func (c *conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	passed := c.readLimit.wait()
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	case <-passed:
		return 0, os.ErrDeadlineExceeded
	default:
	}
	if len(c.left) == 0 {
		select {
		case chunk, open := <-c.chunks:
			if !open {
				return 0, c.end
			}
			c.left, c.buffer = chunk, chunk[:cap(chunk)]
		case <-c.closed:
			return 0, net.ErrClosed
		case <-passed:
			return 0, os.ErrDeadlineExceeded
		}
	}
	n := copy(p, c.left)
	if c.left = c.left[n:]; len(c.left) == 0 {
		c.free <- c.buffer
	}
	return n, nil
}

func (c *conn) Write(p []byte) (int, error) {
	passed := c.writeLimit.wait()
	select {
	case <-passed:
		return 0, os.ErrDeadlineExceeded
	default:
	}
	written := make(chan struct{})
	late := make(chan struct{})
	if c.writeLimit.set() {
		go func() {
			defer close(late)
			select {
			case <-passed:
				_ = c.Close()
			case <-written:
			}
		}()
	} else {
		close(late)
	}
	n, err := c.Conn.Write(p)
	close(written)
	<-late
	select {
	case <-passed:
		if err != nil {
			err = os.ErrDeadlineExceeded
		}
	default:
	}
	return n, err
}

// CloseWrite ends what the other side reads.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (c *conn) Close() (err error) {
	c.closing.Do(func() {
		close(c.closed)
		err = c.Conn.Close()
		c.readLimit.stop()
		c.writeLimit.stop()
		c.release()
	})
	return err
}

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.readLimit.at(t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.writeLimit.at(t)
	return nil
}

// deadline is a time that can be moved.
type deadline struct {
	mu     sync.Mutex
	timer  *time.Timer
	passed chan struct{} // closed when the time has passed
}

// at sets the time; zero is never.
func (d *deadline) at(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.passed // the timer closes it
	}
	d.timer = nil
	select {
	case <-d.passed:
		d.passed = make(chan struct{})
	default:
	}
	if t.IsZero() {
		return
	}
	passed := d.passed
	if wait := time.Until(t); wait > 0 {
		d.timer = time.AfterFunc(wait, func() { close(passed) })
		return
	}
	close(passed)
}

func (d *deadline) stop() { d.at(time.Time{}) }

// wait returns what is closed when the time has passed.
func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.passed
}

// set reports whether there is a time.
func (d *deadline) set() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.timer != nil
}
