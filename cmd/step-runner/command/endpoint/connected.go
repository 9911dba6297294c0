package endpoint

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// connectedListener is a listener whose first connection exists already: whoever has started this program has it at the other end.
type connectedListener struct {
	net.Listener
	first chan net.Conn
}

// standardStreams are the descriptors of the connection to a container's first process.
const standardStreams = "0,1"

// withConnection adds the connection that the descriptors "IN,OUT" are to a listener, and returns what is to be announced of it. Where an
// entrypoint has closed them, there is none; nor on the standard streams, which other processes may have, too, unless this is the first process.
func withConnection(l net.Listener, descriptors string) (with net.Listener, also string) {
	if descriptors == standardStreams {
		if os.Getpid() != 1 {
			return l, ""
		}
		also = ", and on this stream"
	}
	conn, err := connectionOf(descriptors)
	if err != nil {
		return l, ""
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
