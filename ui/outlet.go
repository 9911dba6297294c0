package ui

import (
	"bytes"
	"io"
	"os"
	"reflect"

	"github.com/rungci/rung/steps/event"
)

// partialBytes bounds an unfinished line that is held back; a longer one is broken.
const partialBytes = 64 << 10

var newline = []byte{'\n'}

// outlet is a writer that knows whether it stands at the start of a line, and remembers its first error.
type outlet struct {
	w       io.Writer
	open    *bool // the last line has no end yet; shared by outlets that end in the same place
	err     error
	scratch []byte
}

// newOutlets returns the outlets for both streams; same says that they are one terminal or file.
func newOutlets(o Options) (out, err *outlet, same bool) {
	out, err = &outlet{w: o.Stdout, open: new(bool)}, &outlet{w: o.Stderr, open: new(bool)}
	if same = sameFile(o); same {
		err.open = out.open
	}
	return out, err, same
}

func sameFile(o Options) bool {
	if o.StdoutTTY && o.StderrTTY {
		return true
	}
	a, isFile := o.Stdout.(*os.File)
	b, areFiles := o.Stderr.(*os.File)
	if !isFile || !areFiles {
		return sameWriter(o.Stdout, o.Stderr)
	}
	infoA, errA := a.Stat()
	infoB, errB := b.Stat()
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// sameWriter compares without a panic for writers that cannot be compared. Discarding twice is not one place.
func sameWriter(a, b io.Writer) bool {
	return a != io.Discard && reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}

// write passes bytes on as they are. After an error the rest is dropped.
func (o *outlet) write(data []byte) {
	if len(data) == 0 || o.err != nil {
		return
	}
	*o.open = data[len(data)-1] != '\n'
	_, o.err = o.w.Write(data)
}

// lineStart ends the line that step output has left open.
func (o *outlet) lineStart() {
	if *o.open {
		o.write(newline)
	}
}

// pass puts out step output: byte for byte, or in whole lines that begin with the name of the step.
func (o *outlet) pass(l look, s *step, stream event.Stream, data []byte, named bool) {
	if i := index(stream); !named && len(s.partial[i]) == 0 {
		o.write(data)
		return
	}
	o.scratch = o.scratch[:0]
	s.wholeLines(stream, data, func(line []byte) { o.appendNamed(l, s, line) })
	if len(o.scratch) > 0 {
		o.lineStart()
		o.write(o.scratch)
	}
}

func (o *outlet) appendNamed(l look, s *step, line []byte) {
	o.scratch = append(o.scratch, s.label...)
	o.scratch = append(o.scratch, l.separator...)
	o.scratch = append(o.scratch, line...)
	o.scratch = append(o.scratch, '\n')
}

// flush completes the partial line of a step that ended.
func (o *outlet) flush(l look, s *step, stream event.Stream) {
	if i := index(stream); len(s.partial[i]) > 0 {
		o.lineStart()
		o.scratch = o.scratch[:0]
		o.appendNamed(l, s, s.partial[i])
		s.partial[i] = nil
		o.write(o.scratch)
	}
}

func index(stream event.Stream) int {
	if stream == event.Stderr {
		return 1
	}
	return 0
}

// wholeLines calls emit for every line that data completes, without its end, and keeps the rest for later.
func (s *step) wholeLines(stream event.Stream, data []byte, emit func(line []byte)) {
	partial := &s.partial[index(stream)]
	for {
		n := bytes.IndexByte(data, '\n')
		if n < 0 {
			break
		}
		if len(*partial) > 0 {
			*partial = append(*partial, data[:n]...)
			emit(*partial)
			*partial = (*partial)[:0]
		} else {
			emit(data[:n])
		}
		data = data[n+1:]
	}
	for len(*partial)+len(data) > partialBytes {
		n := partialBytes - len(*partial)
		*partial = append(*partial, data[:n]...)
		emit(*partial)
		*partial, data = (*partial)[:0], data[n:]
	}
	*partial = append(*partial, data...)
}
