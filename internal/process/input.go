package process

import (
	"io"
	"os"
	"time"
)

// input is what a process reads: its end of a pipe, or the null device, and ours.
type input struct {
	child   *os.File
	ours    *os.File // nil when there is nothing to write
	data    []byte
	stream  io.Reader // instead of data; may be nil
	written chan struct{}
}

func openInput(spec *Spec) (*input, error) {
	devNull, err := null()
	if err != nil {
		return nil, spec.fail(nil, err, "opening %s: %v", os.DevNull, err)
	}
	if len(spec.Stdin) == 0 && spec.Input == nil {
		return &input{child: devNull}, nil
	}
	child, ours, err := os.Pipe()
	if err != nil {
		return nil, spec.fail(nil, err, "making a pipe for its input: %v", err)
	}
	return &input{child: child, ours: ours, data: spec.Stdin, stream: spec.Input, written: make(chan struct{})}, nil
}

// closeChildEnd closes this program's copy of what the process reads, so that a write fails when nobody reads any more.
func (in *input) closeChildEnd() {
	if in.ours != nil {
		in.child.Close()
	}
}

// write begins to write in the background. A process need not read it all: that it does not is not an error.
func (in *input) write() {
	if in.ours == nil {
		return
	}
	go func() {
		defer close(in.written)
		if in.stream != nil {
			_, _ = io.Copy(in.ours, in.stream)
		} else {
			_, _ = in.ours.Write(in.data)
		}
		in.ours.Close() // the process reads the end
	}()
}

// stop ends the writing. The process has ended, but a straggler may still hold its end open.
func (in *input) stop() {
	if in.ours == nil {
		return
	}
	_ = in.ours.SetWriteDeadline(time.Unix(1, 0))
	in.ours.Close()
	if in.stream == nil {
		<-in.written
	}
}

// discard closes our end when there is no process.
func (in *input) discard() {
	if in.ours != nil {
		in.ours.Close()
	}
}
