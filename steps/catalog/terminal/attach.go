package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/rungci/rung/internal/process"
)

// RefusedError says why a terminal lets nobody in.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "the terminal cannot be attached to: " + e.Reason }

// Connection is one to a terminal, attached.
type Connection struct{ conn net.Conn }

// Dial attaches to the terminal that listens on a socket. The error is a *RefusedError when it says no. The context is for dialling alone.
func Dial(ctx context.Context, socket string, p Person) (*Connection, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	c := &Connection{conn}
	if err := c.greet(p); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

// Close detaches. Carry does, too.
func (c *Connection) Close() error { return c.conn.Close() }

func (c *Connection) greet(p Person) error {
	_ = c.conn.SetDeadline(time.Now().Add(helloTimeout))
	if err := writeFrame(c.conn, kindHello, p.encode()); err != nil {
		return err
	}
	kind, payload, err := readFrame(c.conn)
	switch {
	case err != nil:
		return fmt.Errorf("no terminal answers: %w", unexpected(err))
	case kind == kindRefused:
		return &RefusedError{printable(payload)}
	case kind != kindWelcome:
		return errors.New("it is not a terminal that answers")
	}
	return c.conn.SetDeadline(time.Time{})
}

// End is how it came that somebody is not attached any more.
type End struct {
	Detached bool   // the terminal is open still
	ExitCode int    // the shell's; -1 when it has none
	Reason   string // why it is closed
}

// Streams are a person's side of a terminal.
type Streams struct {
	In  io.Reader
	Out io.Writer
	// Sizes sends new sizes; may be nil.
	Sizes <-chan process.Size
	// Interactive says that In is somebody who types: EscapeHelp counts, and the end of In is theirs. Otherwise the end of In is an end of
	// input for what the shell runs, and the shell goes on.
	Interactive bool
}

// endOfInput is what a terminal takes for the end of its input, at the beginning of a line.
const endOfInput = 4

// Carry carries what is typed and what is shown until the terminal is closed, or somebody detaches: by typing so, or with the context. It
// may leave a read of the streams' In behind.
func (c *Connection) Carry(ctx context.Context, s Streams) (End, error) {
	defer c.conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.conn.Close() })
	defer stop()
	out := make(chan outgoing)
	go s.read(ctx, out)
	sent := make(chan error, 1)
	go func() {
		err := c.send(ctx, out, s.Sizes)
		if errors.Is(err, errDetach) {
			cancel()
		}
		sent <- err
	}()
	end, err := c.show(s.Out)
	cancel()
	if err == nil {
		return end, nil
	}
	var writing *outputError
	if errors.As(err, &writing) {
		return End{}, writing.err
	}
	if failed := <-sent; errors.Is(failed, errDetach) || errors.Is(failed, context.Canceled) {
		return End{Detached: true}, nil
	}
	return End{}, fmt.Errorf("the connection to the terminal broke: %w", unexpected(err))
}

var errDetach = errors.New("detached")

// outgoing is what goes to the terminal.
type outgoing struct {
	data   []byte
	detach bool
}

// read reads what is typed.
func (s *Streams) read(ctx context.Context, out chan<- outgoing) {
	var e escape
	buf := make([]byte, 4096)
	for {
		n, err := s.In.Read(buf)
		o := outgoing{data: append([]byte(nil), buf[:n]...)}
		if s.Interactive {
			o.data, o.detach = e.filter(buf[:n])
			o.detach = o.detach || err != nil
		} else if err != nil {
			o.data = append(o.data, endOfInput)
		}
		select {
		case out <- o:
		case <-ctx.Done():
			return
		}
		if err != nil || o.detach {
			return
		}
	}
}

// send sends what is typed, and sizes.
func (c *Connection) send(ctx context.Context, out <-chan outgoing, sizes <-chan process.Size) error {
	for {
		select {
		case <-ctx.Done():
			return context.Canceled
		case o := <-out:
			if len(o.data) > 0 {
				if err := writeFrame(c.conn, kindData, o.data); err != nil {
					return err
				}
			}
			if o.detach {
				return errDetach
			}
		case size, open := <-sizes:
			if !open {
				sizes = nil
				continue
			}
			if err := writeFrame(c.conn, kindSize, appendSize(nil, size)); err != nil {
				return err
			}
		}
	}
}

// outputError is one of the person's side.
type outputError struct{ err error }

func (e *outputError) Error() string { return e.err.Error() }

// show shows what comes until the terminal is closed.
func (c *Connection) show(w io.Writer) (End, error) {
	for {
		kind, payload, err := readFrame(c.conn)
		if err != nil {
			return End{}, err
		}
		switch kind {
		case kindData:
			if _, err := w.Write(payload); err != nil {
				return End{}, &outputError{err}
			}
		case kindEnded:
			if e, ok := decodeEnded(payload); ok {
				return End{ExitCode: e.code, Reason: printable([]byte(e.text))}, nil
			}
			return End{}, errors.New("its last word cannot be read")
		}
	}
}

// printable is a text of one line that cannot change a terminal.
func printable(text []byte) string {
	out := []rune{}
	for _, r := range string(text) {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			r = ' '
		}
		out = append(out, r)
	}
	return string(out)
}
