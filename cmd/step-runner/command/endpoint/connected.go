package endpoint

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// connectedListener is a listener whose first connection exists already: whoever has started this program has it at the other end.
type connectedListener struct {
	net.Listener
	first chan net.Conn
}

// standardStreams are the descriptors of a connection that is the input and output of this program.
const standardStreams = "0,1"

// withConnection adds the connection that the descriptors "IN,OUT" are to a listener, and returns what is announced of it. Where an
// entrypoint has closed them, there is none. The end of a connection on the standard streams is announced on errs, because the other end may not see it.
func withConnection(l net.Listener, descriptors string, errs io.Writer) (with net.Listener, also string) {
	conn, err := connectionOf(descriptors)
	if err != nil {
		return l, ""
	}
	if descriptors == standardStreams {
		also = ", and on this stream"
		conn = &farewell{conn, sync.OnceFunc(func() { fmt.Fprintln(errs, "step-runner: the connection on standard output has ended") })}
	}
	out := &connectedListener{l, make(chan net.Conn, 1)}
	out.first <- conn
	return out, also
}

// Accept implements net.Listener.
func (l *connectedListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.first:
		return conn, nil
	default:
		return l.Listener.Accept()
	}
}

// connectionOf opens two pipes as a connection.
func connectionOf(descriptors string) (net.Conn, error) {
	var in, out int
	if _, err := fmt.Sscanf(descriptors, "%d,%d", &in, &out); err != nil {
		return nil, fmt.Errorf("%q are not two descriptors", descriptors)
	}
	reading, err := openDescriptor(in)
	if err != nil {
		return nil, err
	}
	writing, err := openDescriptor(out)
	if err != nil {
		return nil, errors.Join(err, reading.Close())
	}
	return &pipes{reading, writing}, nil
}

// farewell is a connection whose end is announced.
type farewell struct {
	net.Conn
	announce func()
}

// Close implements net.Conn.
func (f *farewell) Close() error {
	defer f.announce()
	return f.Conn.Close()
}

// pipes are a connection.
type pipes struct{ in, out *os.File }

func (p *pipes) Read(b []byte) (int, error)         { return p.in.Read(b) }
func (p *pipes) Write(b []byte) (int, error)        { return p.out.Write(b) }
func (p *pipes) Close() error                       { return errors.Join(p.out.Close(), p.in.Close()) }
func (p *pipes) LocalAddr() net.Addr                { return pipeAddress{} }
func (p *pipes) RemoteAddr() net.Addr               { return pipeAddress{} }
func (p *pipes) SetReadDeadline(t time.Time) error  { return p.in.SetReadDeadline(t) }
func (p *pipes) SetWriteDeadline(t time.Time) error { return p.out.SetWriteDeadline(t) }
func (p *pipes) SetDeadline(t time.Time) error {
	return errors.Join(p.SetReadDeadline(t), p.SetWriteDeadline(t))
}

// pipeAddress is that of both ends.
type pipeAddress struct{}

func (pipeAddress) Network() string { return "pipe" }
func (pipeAddress) String() string  { return "pipe" }
