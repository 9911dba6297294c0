package trace

import (
	"io"
	"time"
	"unicode/utf8"

	"github.com/rungci/rung/steps/event"
)

// maxChunk is how many bytes of log a chunk of the document holds at most. A chunk is cut there and nowhere else that
// depends on how the process happened to write, so that the same log gives the same chunks.
const maxChunk = 64 << 10

// piece is a part of a step's log: the bytes themselves, or where they are in the log file.
type piece struct {
	data []byte
	span span // when data is nil
}

func (p piece) size() int64 {
	if p.data != nil {
		return int64(len(p.data))
	}
	return p.span.size
}

// cut returns the first n bytes of the piece, and the rest.
func (p piece) cut(n int64) (first, rest piece) {
	if p.data != nil {
		return piece{data: p.data[:n]}, piece{data: p.data[n:]}
	}
	return piece{span: span{p.span.at, n}}, piece{span: span{p.span.at + n, p.span.size - n}}
}

// merger joins the pieces that a step logs into chunks. It holds less than two chunks of every step that has not finished.
type merger struct {
	log   io.ReaderAt // what the spans of pieces are in; nil when all pieces have data
	open  map[string]*openChunk
	order []string // the IDs in open, in the order in which their chunks began
	yield func(mergedChunk) error
}

// openChunk is what a step has logged and the merger has not passed on: data, or spans.
type openChunk struct {
	stream event.Stream
	offset int64 // of the first byte, in the step's log
	time   time.Time
	size   int64
	data   []byte
	spans  []span
}

// mergedChunk is a Chunk whose data may be in the log file.
type mergedChunk struct {
	Chunk
	size  int64
	spans []span // valid until the function that was given the chunk returns
}

func newMerger(log io.ReaderAt, yield func(mergedChunk) error) *merger {
	return &merger{log: log, open: map[string]*openChunk{}, yield: yield}
}

// add takes a piece of a step's log. It copies data.
func (m *merger) add(step string, stream event.Stream, at time.Time, p piece) error {
	c := m.open[step]
	if c == nil {
		c = &openChunk{stream: stream, time: at}
		m.open[step] = c
		m.order = append(m.order, step)
	}
	if c.stream != stream {
		if err := m.flush(step, c, c.size); err != nil {
			return err
		}
		c.stream = stream
	}
	for p.size() > 0 {
		if c.size == 0 {
			c.time = at
		}
		var first piece
		first, p = p.cut(min(p.size(), maxChunk-c.size))
		c.append(first)
		if c.size == maxChunk {
			n, err := m.wholeRunes(c)
			if err != nil {
				return err
			}
			if err := m.flush(step, c, n); err != nil {
				return err
			}
			if c.size > 0 {
				c.time = at
			}
		}
	}
	return nil
}

// append adds a piece to the end of the chunk.
func (c *openChunk) append(p piece) {
	c.size += p.size()
	if p.data != nil {
		c.data = append(c.data, p.data...)
		return
	}
	if n := len(c.spans); n > 0 && c.spans[n-1].at+c.spans[n-1].size == p.span.at {
		c.spans[n-1].size += p.span.size
		return
	}
	c.spans = append(c.spans, p.span)
}

// drop removes the first n bytes of the chunk.
func (c *openChunk) drop(n int64) {
	c.offset, c.size = c.offset+n, c.size-n
	if len(c.data) > 0 {
		c.data = append(c.data[:0], c.data[n:]...)
		return
	}
	i := 0
	for ; i < len(c.spans) && c.spans[i].size <= n; i++ {
		n -= c.spans[i].size
	}
	c.spans = append(c.spans[:0], c.spans[i:]...)
	if n > 0 {
		c.spans[0].at, c.spans[0].size = c.spans[0].at+n, c.spans[0].size-n
	}
}

// first returns the spans of the first n bytes of the chunk.
func (c *openChunk) first(n int64) []span {
	var out []span
	for _, s := range c.spans {
		if n == 0 {
			break
		}
		s.size = min(s.size, n)
		out, n = append(out, s), n-s.size
	}
	return out
}

// flush passes on the first n bytes of the chunk.
func (m *merger) flush(step string, c *openChunk, n int64) error {
	if n == 0 {
		return nil
	}
	out := mergedChunk{Chunk: Chunk{Step: step, Stream: c.stream, Offset: c.offset, Time: c.time}, size: n, spans: c.first(n)}
	if len(c.data) > 0 {
		out.Data = c.data[:n]
	}
	err := m.yield(out)
	c.drop(n)
	return err
}

// cut passes on what a step has logged so far: what comes next is a chunk of its own.
func (m *merger) cut(step string) error {
	if c := m.open[step]; c != nil {
		return m.flush(step, c, c.size)
	}
	return nil
}

// cutAll does so for all steps, in the order in which they began to log.
func (m *merger) cutAll() error {
	for _, step := range m.order {
		if err := m.cut(step); err != nil {
			return err
		}
	}
	return nil
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
	return m.flush(step, c, c.size)
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

// wholeRunes returns how much of a full chunk comes before a character that is cut off at its end.
func (m *merger) wholeRunes(c *openChunk) (int64, error) {
	if len(c.data) > 0 {
		return int64(wholeRunes(c.data)), nil
	}
	before := *c
	before.spans = append([]span(nil), c.spans...)
	before.drop(c.size - utf8.UTFMax)
	tail, err := readSpans(m.log, before.spans, nil)
	if err != nil {
		return 0, err
	}
	return c.size - int64(len(tail)-wholeRunes(tail)), nil
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
