package process

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// bufferSize is how much one read takes from a pipe.
const bufferSize = 32 << 10

// wideSize is the same of a process that fills such a buffer, and so the most that a writer gets in one call: each piece of a log costs
// about 50 microseconds on its way through two processes, however long it is.
const wideSize = 128 << 10

// maxPipe is the most that a pipe holds on the systems that we know, when nobody with special rights made it larger.
const maxPipe = 1 << 20

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// wider returns the buffer for what follows a read of n bytes into buf from p: a wide one where buf was filled.
func wider(buf []byte, n int, p *pipe) []byte {
	if n < len(buf) || n == wideSize {
		return buf
	}
	p.widen(wideSize)
	return make([]byte, wideSize)
}

// null is the null device, opened once: the input of a process that has none, and the output that nobody wants.
var null = sync.OnceValues(func() (*os.File, error) { return os.OpenFile(os.DevNull, os.O_RDWR, 0) })

// stream is one pipe from a process to a writer.
type stream struct {
	name   string
	pipe   *pipe
	writer io.Writer
	state  streamState
	err    error
}

// streamState says who reads a stream.
type streamState uint8

const (
	idle       streamState = iota // nobody at the moment
	background                    // a goroutine of its own, until its end
	ended                         // it is at its end
)

// output is what a process writes to: its end of each stream, and ours.
type output struct {
	null               *os.File
	childOut, childErr *os.File // may be the same file, may be the null device
	streams            [2]stream
	count              int
	done               chan struct{} // gets an item for every stream that has ended
}

func openOutput(spec *Spec) (*output, error) {
	devNull, err := null()
	if err != nil {
		return nil, spec.fail(nil, err, "opening %s: %v", os.DevNull, err)
	}
	o := &output{null: devNull, childOut: devNull, childErr: devNull, done: make(chan struct{}, 2)}
	if spec.Stdout != nil {
		if o.childOut, err = o.open("stdout", spec.Stdout); err != nil {
			return nil, spec.fail(nil, err, "making a pipe for its output: %v", err)
		}
	}
	switch {
	case spec.Stderr == nil:
	case sameWriter(spec.Stdout, spec.Stderr):
		o.childErr = o.childOut
	default:
		if o.childErr, err = o.open("stderr", spec.Stderr); err != nil {
			o.closeChildEnds()
			o.discard()
			return nil, spec.fail(nil, err, "making a pipe for its output: %v", err)
		}
	}
	return o, nil
}

func (o *output) open(name string, w io.Writer) (*os.File, error) {
	p, childEnd, err := newPipe()
	if err != nil {
		return o.null, err
	}
	o.streams[o.count] = stream{name: name, pipe: p, writer: w}
	o.count++
	return childEnd, nil
}

// sameWriter compares the writers; those of a type that cannot be compared are different.
func sameWriter(a, b io.Writer) (same bool) {
	defer func() { _ = recover() }()
	return a == b
}

// closeChildEnds closes this program's copies of what the process writes to, so that the pipes end with the process.
func (o *output) closeChildEnds() {
	if o.childOut != o.null {
		o.childOut.Close()
	}
	if o.childErr != o.null && o.childErr != o.childOut {
		o.childErr.Close()
	}
}

func (o *output) discard() {
	for i := range o.count {
		o.streams[i].pipe.close()
	}
}

// copy hands the output on in the background until the pipes end.
func (o *output) copy() {
	for i := range o.count {
		if o.streams[i].state != idle {
			continue
		}
		o.streams[i].state = background
		o.streams[i].pipe.background()
		go func() {
			o.streams[i].copy()
			o.done <- struct{}{}
		}()
	}
}

func (s *stream) copy() {
	small := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(small)
	buf := small[:]
	for {
		n, err := s.pipe.Read(buf)
		s.write(buf[:n])
		if err == nil {
			buf = wider(buf, n, s.pipe)
			continue
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			s.copyRest(buf)
		}
		return
	}
}

// copyRest hands on what the pipe holds now, without waiting for more.
func (s *stream) copyRest(buf []byte) {
	for total := 0; total < maxPipe; {
		n, atEnd := s.pipe.readNow(buf)
		if atEnd && s.state == idle {
			s.state = ended
		}
		if n <= 0 {
			return
		}
		s.write(buf[:n])
		total += n
	}
}

// write hands on one piece. After an error the rest is discarded, so that the process can go on.
func (s *stream) write(p []byte) {
	if len(p) == 0 || s.err != nil {
		return
	}
	if _, err := s.writer.Write(p); err != nil {
		s.err = &OutputError{Stream: s.name, Err: err}
	}
}

// drain waits until the pipes have ended, or WaitDelay after which it takes what they hold.
func (o *output) drain() error {
	o.copyRest()
	o.copy()
	waiting := 0
	for i := range o.count {
		if o.streams[i].state == background {
			waiting++
		}
	}
	if waiting > 0 {
		o.await(waiting)
	}
	o.discard()
	return errors.Join(o.streams[0].err, o.streams[1].err)
}

// copyRest takes what is left of the streams that nobody reads. As a rule that is their end.
func (o *output) copyRest() {
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)
	for i := range o.count {
		if o.streams[i].state == idle {
			o.streams[i].copyRest(buf[:])
		}
	}
}

// await waits for the end of streams that are read in the background.
func (o *output) await(waiting int) {
	late := time.NewTimer(WaitDelay)
	defer late.Stop()
	for waiting > 0 {
		select {
		case <-o.done:
			waiting--
		case <-late.C:
			for i := range o.count {
				if o.streams[i].state == background {
					o.streams[i].pipe.interrupt()
				}
			}
		}
	}
}
