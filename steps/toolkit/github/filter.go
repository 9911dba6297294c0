package github

import (
	"bytes"
	"io"
	"strings"

	"github.com/rungci/rung/steps/event"
)

// Limits of what a process prints.
const (
	// MaxCommand bounds one command in the output, in bytes. A longer line is text.
	MaxCommand = 16 << 20
	// MaxMatchedLine bounds the lines that problem matchers see, in bytes. They skip longer ones.
	MaxMatchedLine = 64 << 10
	// MaxAnnotations bounds the annotations of one process. More of them are in the log only, which is said once.
	MaxAnnotations = 1000
	// MaxAnnotation bounds the message of an annotation, and its title, in bytes. What is longer is in the log only.
	MaxAnnotation = 64 << 10
)

// place is where in a line a filter is.
type place uint8

const (
	atStart   place = iota // all of the line so far is held back: it may be a command
	inText                 // the beginning of the line has passed; "##[" may come
	inBracket              // what is held back begins with "##["
	inRest                 // the rest of the line is text
)

// filter takes the commands out of one stream. What cannot be a command passes at once; what may be one is held back until its
// line is complete. Lines end with a line feed, a carriage return, or both. Where the stream is cut into writes changes nothing.
type filter struct {
	session *Session
	next    io.Writer
	place   place
	line    []byte // what is held back
	blanks  int    // how many bytes at the beginning of line are blanks
	out     []byte // what passes, for one write

	afterReturn bool // a line feed belongs to the line before
	command     bool // the line before was a command: its line feed is dropped

	watched bool // the line is for the problem matchers
	seen    []byte
	running map[*matcher][]*found
}

// Write implements io.Writer.
func (f *filter) Write(p []byte) (int, error) {
	f.session.mu.Lock()
	defer f.session.mu.Unlock()
	for rest := p; len(rest) > 0; {
		if f.afterReturn && rest[0] == '\n' {
			if !f.command {
				f.out = append(f.out, '\n')
			}
			f.afterReturn, rest = false, rest[1:]
			continue
		}
		f.afterReturn = false
		i := bytes.IndexAny(rest, "\r\n")
		if i < 0 {
			f.take(rest)
			break
		}
		f.take(rest[:i])
		f.complete(rest[i : i+1])
		f.afterReturn, rest = rest[i] == '\r', rest[i+1:]
	}
	return len(p), f.flush()
}

// take takes a piece of a line, without a line end.
func (f *filter) take(piece []byte) {
	f.watch(piece)
	switch {
	case f.place == inRest:
		f.out = append(f.out, piece...)
		return
	case f.place == atStart && len(f.line) == 0 && len(piece) > 0 && !mayBegin(piece[0]): // almost every line
		f.place = inText
		f.scan(piece)
	case f.place == inText:
		f.scan(piece)
	default:
		f.line = append(f.line, piece...)
		if f.place == atStart && !f.mayBeCommand() {
			held := f.line
			f.place, f.line = inText, nil
			f.scan(held)
		}
	}
	if len(f.line) > MaxCommand {
		f.pass()
		f.place = inRest
	}
}

// mayBeCommand reports whether what is held back may begin a command.
func (f *filter) mayBeCommand() bool {
	for f.blanks < len(f.line) && isBlank(f.line[f.blanks]) {
		f.blanks++
	}
	text := f.line[f.blanks:]
	return begins(text, "::") || begins(text, bracket)
}

// begins reports whether a text begins with the mark, or may when it goes on.
func begins(text []byte, mark string) bool {
	n := min(len(text), len(mark))
	return string(text[:n]) == mark[:n]
}

// mayBegin reports whether a command's line may begin with the byte.
func mayBegin(c byte) bool { return c == ':' || c == '#' || isBlank(c) }

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\v' || c == '\f' }

// scan passes text on until "##[" comes.
func (f *filter) scan(piece []byte) {
	text := piece
	if len(f.line) > 0 {
		text = append(f.line, piece...)
		f.line = nil
	}
	keep := bytes.Index(text, []byte(bracket))
	if keep >= 0 {
		f.place = inBracket
	} else {
		keep = len(text)
		for n := len(bracket) - 1; n > 0; n-- {
			if bytes.HasSuffix(text, []byte(bracket[:n])) {
				keep -= n
				break
			}
		}
	}
	f.out = append(f.out, text[:keep]...)
	f.line = append(f.line, text[keep:]...)
}

// complete takes the line, which ends with the given bytes, as a command or as text.
func (f *filter) complete(end []byte) {
	var c command
	c, f.command = f.session.accept(f.line, f.place)
	if f.command {
		f.line = f.line[:0]
		if f.place == inBracket || strings.TrimSpace(c.before) != "" {
			f.say(c.before) // a line of its own
		}
		f.carryOut(c)
	} else {
		f.pass()
		f.out = append(f.out, end...)
		f.match()
	}
	f.place, f.blanks = atStart, 0
	f.watched, f.seen = false, f.seen[:0]
}

func (f *filter) pass() {
	f.out = append(f.out, f.line...)
	f.line = f.line[:0]
}

func (f *filter) flush() error {
	if len(f.out) == 0 {
		return nil
	}
	_, err := f.next.Write(f.out)
	f.out = f.out[:0]
	return err
}

// end takes a last line without line end.
func (f *filter) end() {
	f.session.mu.Lock()
	defer f.session.mu.Unlock()
	if f.place != atStart || len(f.line) > 0 {
		f.complete(nil)
	}
	_ = f.flush() // the log takes everything
}

// say writes a line of the runner's own into the log.
func (f *filter) say(text string) { f.out = append(append(f.out, text...), '\n') }

// tell emits an event after all that the log had before it.
func (f *filter) tell(body event.Body) {
	_ = f.flush() // the log takes everything
	f.session.process.Emit(body)
}
