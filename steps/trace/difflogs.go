package trace

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strings"

	"github.com/rungci/rung/steps/event"
)

// LogChange is what differs in one stream of a step's log.
type LogChange struct {
	Stream event.Stream `json:"stream"`
	// Digests are of the stream, "sha256:…", after the run's folders, and with DiffOptions.Normalize times, are replaced.
	A string `json:"digest_a"`
	B string `json:"digest_b"`
	// Diff says how many lines differ, and which when DiffOptions.Logs is set. Nil when the logs are too long for that.
	Diff *LineDiff `json:"diff,omitempty"`
}

const (
	// maxComparedLogs is up to how many bytes of the logs of one trace are held to compare them line by line. Of what is
	// beyond only the digests are compared.
	maxComparedLogs = 64 << 20
	// maxComparedLine is where a longer line is taken in two pieces, in bytes: a folder across the cut is not replaced.
	maxComparedLine = 1 << 20
)

// pendingLog is a step whose logs differ, as far as is known before they are read.
type pendingLog struct {
	step *StepDifference
	a, b string // step IDs
}

// logOf compares the logs of a step by their digests, and leaves those that differ to logs.
func (d *differ) logOf(out *StepDifference, a, b *Step) {
	var x, y LogSummary
	if a.Log != nil {
		x = *a.Log
	}
	if b.Log != nil {
		y = *b.Log
	}
	if x != y {
		d.pending = append(d.pending, pendingLog{out, a.ID, b.ID})
	}
}

// logs reads each trace once, and compares each stream of the logs that differ by itself. The others are held against their digests: two that
// are the same say nothing of a log that was altered.
func (d *differ) logs() error {
	readerA, readerB := newStreamReader(&d.plainA, d.logA), newStreamReader(&d.plainB, d.logB)
	for _, p := range d.pending {
		readerA.want[p.a], readerB.want[p.b] = true, true
	}
	if err := d.a.Chunks(readerA.chunk); err != nil {
		return err
	}
	if err := d.b.Chunks(readerB.chunk); err != nil {
		return err
	}
	for _, p := range d.pending {
		for _, stream := range []event.Stream{event.Stdout, event.Stderr} {
			a, b := readerA.finish(p.a, stream), readerB.finish(p.b, stream)
			c := LogChange{Stream: stream, A: a.digest(), B: b.digest()}
			if c.A == c.B {
				continue
			}
			if !a.dropped && !b.dropped {
				c.Diff = diffLines(a.lines(), b.lines())
				if !d.opts.Logs {
					c.Diff.Lines, c.Diff.LeftOut = nil, 0
				}
			}
			p.step.Logs = append(p.step.Logs, c)
		}
	}
	return nil
}

// streamReader collects the streams of some steps of one trace.
type streamReader struct {
	plain   *places
	normal  *normalizer // nil leaves times as they are
	want    map[string]bool
	streams map[streamKey]*streamLines
	held    int // bytes of lines, of all streams
}

type streamKey struct {
	step   string
	stream event.Stream
}

// streamLines is one stream of one step, with the run's folders replaced.
type streamLines struct {
	sum     hash.Hash
	text    strings.Builder
	dropped bool   // it was too much to be held: text is not all of it
	rest    []byte // the beginning of a line whose end has not come
}

func newStreamReader(plain *places, normal *normalizer) *streamReader {
	return &streamReader{plain: plain, normal: normal, want: map[string]bool{}, streams: map[streamKey]*streamLines{}}
}

func (r *streamReader) stream(step string, stream event.Stream) *streamLines {
	key := streamKey{step, stream}
	if r.streams[key] == nil {
		r.streams[key] = &streamLines{sum: sha256.New()}
	}
	return r.streams[key]
}

func (r *streamReader) chunk(c Chunk) error {
	if !r.want[c.Step] {
		return nil
	}
	s := r.stream(c.Step, c.Stream)
	s.rest = append(s.rest, c.Data...)
	rest := s.rest
	for {
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 && len(rest) < maxComparedLine {
			break
		}
		if end == 0 {
			end = maxComparedLine
		}
		r.line(s, rest[:end])
		rest = rest[end:]
	}
	s.rest = append(s.rest[:0], rest...)
	return nil
}

// line takes one line with its end.
func (r *streamReader) line(s *streamLines, line []byte) {
	text := r.normal.line(r.plain.text(string(line)))
	s.sum.Write([]byte(text))
	if r.held += len(text); r.held > maxComparedLogs {
		s.dropped = true
		s.text.Reset()
		return
	}
	if !s.dropped {
		s.text.WriteString(text)
	}
}

// finish returns a stream whose last line has come, with or without its end.
func (r *streamReader) finish(step string, stream event.Stream) *streamLines {
	s := r.stream(step, stream)
	if len(s.rest) > 0 {
		r.line(s, s.rest)
		s.rest = nil
	}
	return s
}

// lines returns the stream line by line, without their ends.
func (s *streamLines) lines() []string {
	lines := splitLines(s.text.String())
	if n := len(lines); n > 0 && !strings.HasSuffix(s.text.String(), "\n") {
		lines[n-1] += noLineEnd
	}
	return lines
}

// noLineEnd follows the last line of a log that does not end it.
const noLineEnd = " (no line end)"

func (s *streamLines) digest() string { return "sha256:" + hex.EncodeToString(s.sum.Sum(nil)) }
