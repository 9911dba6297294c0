package trace

import (
	"time"
	"unicode/utf8"

	"github.com/rungci/rung/steps/event"
)

// maxChunk is how many bytes of log a chunk of the document holds at most. A chunk is cut there and nowhere else that
// depends on how the process happened to write, so that the same log gives the same chunks.
const maxChunk = 64 << 10

// merger joins the pieces that a step logs into chunks. It holds less than two chunks of every step that has not finished.
type merger struct {
	open  map[string]*openChunk
	order []string // the IDs in open, in the order in which their chunks began
	yield func(Chunk) error
}

// openChunk is what a step has logged and the merger has not passed on.
type openChunk struct {
	stream event.Stream
	offset int64 // of data
	time   time.Time
	data   []byte
}

func newMerger(yield func(Chunk) error) *merger {
	return &merger{open: map[string]*openChunk{}, yield: yield}
}

// add takes a piece of a step's log. It copies data.
func (m *merger) add(step string, stream event.Stream, at time.Time, data []byte) error {
	c := m.open[step]
	if c == nil {
		c = &openChunk{stream: stream, time: at}
		m.open[step] = c
		m.order = append(m.order, step)
	}
	if c.stream != stream {
		if err := m.flush(step, c, len(c.data)); err != nil {
			return err
		}
		c.stream = stream
	}
	for len(data) > 0 {
		if len(c.data) == 0 {
			c.time = at
		}
		n := min(len(data), maxChunk-len(c.data))
		c.data, data = append(c.data, data[:n]...), data[n:]
		if len(c.data) == maxChunk {
			if err := m.flush(step, c, wholeRunes(c.data)); err != nil {
				return err
			}
			if len(c.data) > 0 {
				c.time = at
			}
		}
	}
	return nil
}

// flush passes on the first n bytes of the chunk.
func (m *merger) flush(step string, c *openChunk, n int) error {
	if n == 0 {
		return nil
	}
	err := m.yield(Chunk{Step: step, Stream: c.stream, Offset: c.offset, Time: c.time, Data: c.data[:n]})
	c.offset += int64(n)
	c.data = append(c.data[:0], c.data[n:]...)
	return err
}

// finish passes on what is left of a step's log.
func (m *merger) finish(step string) error {
	c := m.open[step]
	if c == nil {
		return nil
	}
	delete(m.open, step)
	for i, id := range m.order {
		if id == step {
			m.order = append(m.order[:i], m.order[i+1:]...)
			break
		}
	}
	return m.flush(step, c, len(c.data))
}

// close passes on what is left of every log.
func (m *merger) close() error {
	for len(m.order) > 0 {
		if err := m.finish(m.order[0]); err != nil {
			return err
		}
	}
	return nil
}

// wholeRunes returns how much of data comes before a character that is cut off at its end.
func wholeRunes(data []byte) int {
	for n := 1; n < utf8.UTFMax && n < len(data); n++ {
		last := data[len(data)-n:]
		if utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				break
			}
			return len(data) - n
		}
	}
	return len(data)
}
