package joblog

import (
	"bytes"
	"time"
	"unicode/utf8"

	"github.com/rungci/rung/steps/event"
)

// maxEntry is how long an entry of the log gets before its line has ended, in bytes.
const maxEntry = 8 << 10

// stampFormat is the time of an entry.
const stampFormat = "2006-01-02T15:04:05.000000Z"

// source is something that writes lines: one stream of a step, or the runner. A line appears when it is complete, or too long to wait for, so
// that the lines of sources do not mix and do not depend on how writes were cut.
type source struct {
	stamp  string // stream and type, "01O"
	prefix func() string
	redact redactor

	line     []byte    // of an entry that did not appear yet
	time     time.Time // of its first byte
	midLine  bool      // an entry appeared whose line has not ended
	returned bool      // line ends with a carriage return
}

// streamKinds are the types of streams in stamps.
var streamKinds = map[event.Stream]string{event.Stdout: "01O", event.Stderr: "01E"}

// data takes what the source writes.
func (r *Renderer) data(s *source, at time.Time, data []byte) {
	s.redact.write(r.tokens, data, func(p []byte) { r.lines(s, at, p) })
}

// lines cuts data, which is safe to show, into entries.
func (r *Renderer) lines(s *source, at time.Time, data []byte) {
	for len(data) > 0 {
		// A carriage return ends an entry, so that progress is seen, but not where it is part of a line end or of the mark of a section.
		if s.returned && data[0] != '\n' && data[0] != 0x1b {
			r.entry(s)
		}
		s.returned = false
		if len(s.line) == 0 {
			s.time = at
		}
		end := lineEnd(data)
		room := maxEntry - len(s.line)
		switch {
		case len(s.line) == 0 && end >= 0 && end < room && data[end] == '\n': // as nearly always
			r.write(s, data[:end+1])
			data = data[end+1:]
		case end >= 0 && end < room:
			s.line = append(s.line, data[:end+1]...)
			s.returned = data[end] == '\r'
			if data = data[end+1:]; !s.returned {
				r.entry(s)
			}
		case len(data) < room:
			s.line = append(s.line, data...)
			return
		default:
			s.line = append(s.line, data[:room]...)
			data = data[room:]
			rest := cutRune(s.line)
			kept := bytes.Clone(s.line[len(s.line)-rest:])
			s.line = s.line[:len(s.line)-rest]
			r.entry(s)
			s.line, s.time = append(s.line, kept...), at
		}
	}
}

// lineEnd returns the index of the first line feed or carriage return, -1 when there is none.
func lineEnd(data []byte) int {
	end := bytes.IndexByte(data, '\n')
	if end < 0 {
		return bytes.IndexByte(data, '\r')
	}
	if returned := bytes.IndexByte(data[:end], '\r'); returned >= 0 {
		return returned
	}
	return end
}

// cutRune returns how many bytes at the end of data are the beginning of a character.
func cutRune(data []byte) int {
	for n := 1; n < utf8.UTFMax && n < len(data); n++ {
		if tail := data[len(data)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// entry writes what the source has.
func (r *Renderer) entry(s *source) {
	r.write(s, s.line)
	s.line, s.returned = s.line[:0], false
}

// write writes an entry of a source.
func (r *Renderer) write(s *source, line []byte) {
	ended := bytes.HasSuffix(line, []byte("\n"))
	from := len(r.out)
	if r.lastTo != nil && r.lastTo != s && !r.opts.Timestamps {
		r.out = append(r.out, '\n')
		r.bound(from)
		r.lastTo.midLine = false
		from = len(r.out)
	}
	if r.marked && s != &r.runner {
		r.runner.midLine = false
	}
	r.marked = false
	b := r.out
	if r.opts.Timestamps {
		b = append(b, r.stampOf(s.time)...)
		b = append(b, s.stamp...)
		if s.midLine {
			b = append(b, '+')
		} else {
			b = append(b, ' ')
		}
	}
	if s.prefix != nil && !s.midLine {
		b = append(b, s.prefix()...)
	}
	b = appendValid(b, line)
	if r.opts.Timestamps && !ended {
		b = append(b, '\n')
	}
	r.out = b
	r.bound(from)
	s.midLine = !ended
	r.lastTo = nil
	if !ended {
		r.lastTo = s
	}
}

// appendValid appends data with U+FFFD in the place of every byte that is not UTF-8.
func appendValid(b, data []byte) []byte {
	if utf8.Valid(data) {
		return append(b, data...)
	}
	for len(data) > 0 {
		c, size := utf8.DecodeRune(data)
		b = utf8.AppendRune(b, c)
		data = data[size:]
	}
	return b
}

// flush ends the source's line.
func (r *Renderer) flush(s *source) {
	s.redact.flush(func(p []byte) { r.lines(s, s.time, p) })
	if len(s.line) == 0 && !s.midLine {
		return
	}
	if len(s.line) == 0 && r.opts.Timestamps { // the next entry is a new line in any case
		s.midLine = false
		if r.lastTo == s {
			r.lastTo = nil
		}
		return
	}
	if len(s.line) == 0 && r.lastTo != s {
		s.midLine = false
		return
	}
	s.line = append(s.line, '\n')
	r.entry(s)
}

// say writes lines of the runner itself.
func (r *Renderer) say(at time.Time, text string) {
	r.runner.stamp = "00O"
	r.data(&r.runner, at, []byte(text))
}

// mark writes the mark of a section. What follows it continues its line, as gitlab-runner writes it.
func (r *Renderer) mark(at time.Time, text string) {
	r.runner.stamp = "00O"
	r.runner.line, r.runner.time = append(r.runner.line, text...), at
	r.entry(&r.runner)
	r.marked, r.runner.midLine, r.lastTo = true, r.opts.Timestamps, nil
}

// stampOf is a time as entries have it, with a space behind it. The lines of one event have one time.
func (r *Renderer) stampOf(t time.Time) []byte {
	if r.stamp == nil || !t.Equal(r.stampTime) {
		r.stamp = append(t.UTC().AppendFormat(r.stamp[:0], stampFormat), ' ')
		r.stampTime = t
	}
	return r.stamp
}
