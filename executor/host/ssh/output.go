package ssh

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
)

// exitMark hands output on, but for a mark at its very beginning, which says that the command did not start.
type exitMark struct {
	mark []byte
	out  io.Writer
	held []byte // a beginning that may become the mark
	past bool   // it has not
	seen bool
}

func (m *exitMark) Write(p []byte) (int, error) {
	switch {
	case m.past:
		return m.out.Write(p)
	case m.seen:
		return len(p), nil
	}
	m.held = append(m.held, p...)
	if bytes.HasPrefix(m.held, m.mark) {
		m.seen = true
		return len(p), nil
	}
	if len(m.held) < len(m.mark) && bytes.HasPrefix(m.mark, m.held) {
		return len(p), nil
	}
	return len(p), m.flush()
}

// flush hands on what was held back.
func (m *exitMark) flush() error {
	if m.past || m.seen {
		return nil
	}
	m.past = true
	held := m.held
	m.held = nil
	if len(held) == 0 {
		return nil
	}
	_, err := m.out.Write(held)
	return err
}

// complaint is the standard error of a session: what the login shell and ours say, up to a line with the mark, and then the command's.
type complaint struct {
	in    *bufio.Reader
	mark  []byte
	past  chan struct{} // closed when the line with the mark was read, or the end
	mu    sync.Mutex
	said  []byte
	after sync.Once
}

func newComplaint(in io.Reader, mark string) *complaint {
	return &complaint{in: bufio.NewReader(in), mark: []byte(mark), past: make(chan struct{})}
}

// skip says that there will be no mark, because everything goes to a terminal.
func (c *complaint) skip() { c.after.Do(func() { close(c.past) }) }

// collect reads up to the mark.
func (c *complaint) collect() {
	defer c.skip()
	select {
	case <-c.past:
		return
	default:
	}
	for {
		line, err := c.in.ReadSlice('\n')
		if bytes.Equal(bytes.TrimRight(line, "\r\n"), c.mark) {
			return
		}
		c.mu.Lock()
		c.said = append(c.said, line[:min(len(line), maxComplaint-len(c.said))]...)
		c.mu.Unlock()
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// text is what was said so far.
func (c *complaint) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.said) == maxComplaint {
		return strings.ToValidUTF8(string(c.said), "") + "…"
	}
	return string(c.said)
}

// rest is what the command writes.
func (c *complaint) rest() io.Reader {
	<-c.past
	return c.in
}
