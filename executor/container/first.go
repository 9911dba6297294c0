package container

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/executor/container/engine"
)

// The first connection to the step-runner of a container is the container's own input and output: an engine takes about 100 ms to start a proxy
// in it. The step-runner ends what is said on its output with a line that hands it over. The first process of such a container is a step-runner, too, as both
// keep their descriptors from the processes of steps, which docker-init does not. Every connection has a proxy if the image has an entrypoint, which may hold the streams,
// too, if the container has more rights than usual, if the engine keeps a log, or if it is Podman.

const (
	// handedOver ends the line after which a container's output is the connection.
	handedOver = ", and on this stream"
	// maxLine is how much of a line is looked at, in bytes.
	maxLine = 1 << 10
	// maxEarly bounds what comes on the connection before anybody has it, in bytes: a server says a few words.
	maxEarly = 64 << 10
	// hungUp is what the step-runner says on standard error when it has ended the connection: the engine does not tell that of a stream.
	hungUp = "step-runner: the connection on standard output has ended"
	// firstTime is for how long the connection can be had, which is less than a step-runner waits for the first word on it (20 s).
	firstTime = 10 * time.Second
)

// firstConn reads the output of a job's container: what it says, and then the first connection.
type firstConn struct {
	said  io.Writer      // gets what is said
	input *engine.Stream // the container's input, the other half of the connection

	mu    sync.Mutex
	line  []byte         // the beginning of the line that is read
	over  time.Time      // when the stream was handed over; zero before
	early []byte         // what has come on the connection before somebody had it
	to    *io.PipeWriter // who has it; nil before
	spent bool           // it was had, or cannot be
}

// Write implements io.Writer.
func (f *firstConn) Write(p []byte) (int, error) {
	f.mu.Lock()
	rest := p
	if f.over.IsZero() {
		n := f.saying(p)
		_, _ = f.said.Write(p[:n]) // it takes everything
		rest = p[n:]
	}
	to := f.to
	if to == nil && !f.spent {
		if f.early = append(f.early, rest...); len(f.early) > maxEarly {
			f.early, f.spent = nil, true
		}
	}
	f.mu.Unlock()
	if to != nil {
		_, _ = to.Write(rest) // who has closed it wants no more
	}
	return len(p), nil
}

// saying returns how much of p is said before the stream is handed over.
func (f *firstConn) saying(p []byte) int {
	for i, b := range p {
		if b != '\n' {
			if len(f.line) < maxLine {
				f.line = append(f.line, b)
			}
			continue
		}
		if line := string(f.line); strings.HasPrefix(line, listening) && strings.HasSuffix(line, handedOver) {
			f.over, f.line = time.Now(), nil
			return i + 1
		}
		f.line = f.line[:0]
	}
	return len(p)
}

// take returns the connection; nil if there is none, or somebody has it.
func (f *firstConn) take() net.Conn {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.spent || f.over.IsZero() || time.Since(f.over) > firstTime {
		f.early, f.spent = nil, true
		return nil
	}
	out, to := io.Pipe()
	c := &taken{Stream: f.input, out: out, in: io.MultiReader(bytes.NewReader(f.early), out)}
	f.early, f.to, f.spent = nil, to, true
	return c
}

// hangUps returns a writer for the container's standard error, which notices that the step-runner has ended the connection.
func (f *firstConn) hangUps() io.Writer { return &hangUps{first: f} }

type hangUps struct {
	first *firstConn
	tail  []byte // of what was written, which may be the beginning of hungUp
}

// Write implements io.Writer.
func (h *hangUps) Write(p []byte) (int, error) {
	h.tail = append(h.tail, p...)
	if bytes.Contains(h.tail, []byte(hungUp)) {
		h.first.refuse()
		time.AfterFunc(settleTime, func() { h.first.end(nil) }) // the engine may still have output from before
	}
	h.tail = append(h.tail[:0], h.tail[max(0, len(h.tail)-len(hungUp)):]...)
	return len(p), nil
}

// refuse lets nobody have the connection any more.
func (f *firstConn) refuse() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spent = true
}

// end says that nothing more comes.
func (f *firstConn) end(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.spent = true; f.to != nil {
		f.to.CloseWithError(why)
	}
}

// taken is the first connection. It leaves the container's output open, on which the engine sends more than that.
type taken struct {
	*engine.Stream // for addresses, and for writing
	in             io.Reader
	out            *io.PipeReader
}

// Read implements net.Conn.
func (c *taken) Read(p []byte) (int, error) { return c.in.Read(p) }

// Close implements net.Conn. The step-runner reads the end of its input.
func (c *taken) Close() error {
	c.out.CloseWithError(net.ErrClosed)
	return c.CloseWrite()
}

// SetDeadline implements net.Conn: of writing alone, as the other is not this connection's.
func (c *taken) SetDeadline(t time.Time) error { return c.SetWriteDeadline(t) }

// SetReadDeadline implements net.Conn. It does nothing.
func (c *taken) SetReadDeadline(time.Time) error { return nil }
