package terminal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/rungci/rung/internal/process"
)

const (
	// helloTimeout is how long one who connects has to say who it is.
	helloTimeout = 10 * time.Second
	// sendTimeout is how long one who is attached may take no output before the connection counts as broken: the shell waits meanwhile.
	sendTimeout = 30 * time.Second
	// maxKept bounds what is kept of the output for the next who attaches, in bytes.
	maxKept = 64 << 10
)

// host connects those who attach with the shell's terminal.
type host struct {
	l     net.Listener
	input *io.PipeReader // what is typed
	typed *io.PipeWriter
	sizes chan process.Size // at most one: the newest

	came    chan struct{} // closed when the first is attached
	changes chan struct{} // gets an item when somebody attaches or detaches

	mu     sync.Mutex // also while something is sent, so that all is sent in order
	guest  net.Conn   // who is attached; nil is nobody
	term   string     // the kind of the first one's terminal
	kept   []byte
	closed bool
	open   map[net.Conn]bool // all connections
	conns  sync.WaitGroup
}

// newHost begins to let people in.
func newHost(l net.Listener) *host {
	h := &host{
		l: l, sizes: make(chan process.Size, 1), came: make(chan struct{}), changes: make(chan struct{}, 1), open: map[net.Conn]bool{},
	}
	h.input, h.typed = io.Pipe()
	h.conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // it is closed
			}
			h.conns.Go(func() {
				defer h.forget(conn)
				if h.track(conn) {
					h.serve(conn)
				}
			})
		}
	})
	return h
}

// track takes a connection in, unless it is too late.
func (h *host) track(conn net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.open[conn] = true
	}
	return !h.closed
}

func (h *host) forget(conn net.Conn) {
	conn.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.open, conn)
}

// first waits until somebody is attached.
func (h *host) first(ctx context.Context, wait time.Duration) (bool, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-h.came:
		return true, nil
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// watch calls a function when nobody was attached for a time.
func (h *host) watch(ctx context.Context, wait time.Duration, over func()) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		if h.occupied() {
			timer.Stop()
		} else {
			timer.Reset(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-h.changes:
		case <-timer.C:
			over()
			return
		}
	}
}

func (h *host) occupied() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.guest != nil
}

// kind is the kind of the first one's terminal.
func (h *host) kind() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.term
}

// serve is one connection, until it ends.
func (h *host) serve(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(helloTimeout))
	kind, payload, err := readFrame(conn)
	if err != nil {
		return
	}
	person, err := decodePerson(payload)
	if kind != kindHello || err != nil {
		_ = writeFrame(conn, kindRefused, []byte(errForeign.Error()))
		return
	}
	_ = conn.SetDeadline(time.Time{})
	if why := h.attach(conn, person); why != "" {
		_ = conn.SetWriteDeadline(time.Now().Add(helloTimeout))
		_ = writeFrame(conn, kindRefused, []byte(why))
		return
	}
	defer h.detach(conn)
	for {
		kind, payload, err := readFrame(conn)
		if err != nil {
			return
		}
		switch kind {
		case kindData:
			if _, err := h.typed.Write(payload); err != nil {
				return // the shell has ended
			}
		case kindSize:
			size, ok := decodeSize(payload)
			if !ok {
				return
			}
			h.resize(size)
		}
	}
}

// attach lets somebody in, or says why not, and shows what was shown before.
func (h *host) attach(conn net.Conn, p Person) (why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return "the terminal is closed"
	case h.guest != nil:
		return "somebody else is attached"
	}
	h.guest = conn
	h.resize(p.Size)
	h.send(kindWelcome, nil)
	h.show(h.kept)
	select {
	case <-h.came:
	default:
		h.term = p.Kind
		close(h.came)
	}
	h.changed()
	return ""
}

func (h *host) detach(conn net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.guest == conn {
		h.guest = nil
		h.changed()
	}
}

func (h *host) changed() {
	select {
	case h.changes <- struct{}{}:
	default: // one is under way
	}
}

// resize hands a size on, in place of one that nobody has taken yet.
func (h *host) resize(size process.Size) {
	if size.Columns == 0 || size.Rows == 0 {
		return
	}
	for {
		select {
		case h.sizes <- size:
			return
		default:
		}
		select {
		case <-h.sizes:
		default:
		}
	}
}

// Write takes what the shell shows.
func (h *host) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keep(p)
	h.show(p)
	return len(p), nil
}

// keep keeps the end of the output, from the beginning of a line where there is one.
func (h *host) keep(p []byte) {
	h.kept = append(h.kept, p...)
	if len(h.kept) <= maxKept {
		return
	}
	rest := h.kept[len(h.kept)-maxKept/2:]
	if i := bytes.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[i+1:]
	}
	h.kept = bytes.Clone(rest)
}

// show sends output. The lock is held.
func (h *host) show(p []byte) {
	for len(p) > 0 {
		n := min(len(p), maxFrame)
		h.send(kindData, p[:n])
		p = p[n:]
	}
}

// send sends a frame to who is attached. One that takes none is put out; of one that has gone, what was typed last is read still. The lock
// is held.
func (h *host) send(kind byte, payload []byte) {
	if h.guest == nil {
		return
	}
	_ = h.guest.SetWriteDeadline(time.Now().Add(sendTimeout))
	if err := writeFrame(h.guest, kind, payload); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			h.guest.Close()
		}
		h.guest = nil
		h.changed()
	}
}

// close ends everything, and tells why. A second call does nothing.
func (h *host) close(e ended) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return
	}
	h.closed = true
	h.l.Close()
	h.input.Close()
	h.send(kindEnded, e.encode())
	for conn := range h.open {
		conn.Close()
	}
	h.mu.Unlock()
	h.conns.Wait()
}
