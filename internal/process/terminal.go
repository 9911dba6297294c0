package process

import (
	"io"
	"os"
	"time"
)

// Terminal is a terminal that a process is given: its input, its output, and the one that controls it.
type Terminal struct {
	// Input is what a person types. It is read until it ends or the process has. A read that is under way then is not waited
	// for, and what it gets is lost.
	Input io.Reader
	// Output gets what the process shows.
	Output io.Writer
	// Size is the terminal's size when the process starts; zero leaves the system's.
	Size Size
	// Resize sends the size of the person's terminal whenever it changes; nil never changes it.
	Resize <-chan Size
}

// Size is that of a terminal, in characters.
type Size struct{ Columns, Rows uint16 }

// terminal is our end of a process's terminal, and its own.
type terminal struct {
	spec        *Terminal
	ours, child *os.File
	ended       chan struct{} // closed when the process has
	shown       chan error    // gets an item when all output was handed on
}

// openStreams makes what a process reads and writes: pipes, or a terminal.
func openStreams(spec *Spec) (*input, *output, *terminal, error) {
	if spec.Terminal != nil {
		devNull, err := null()
		if err != nil {
			return nil, nil, nil, spec.fail(nil, err, "opening %s: %v", os.DevNull, err)
		}
		t, err := openTerminal(spec)
		if err != nil {
			return nil, nil, nil, err
		}
		if size := spec.Terminal.Size; size != (Size{}) {
			setSize(t.ours, size)
		}
		return &input{child: t.child}, &output{null: devNull, childOut: t.child, childErr: t.child, done: make(chan struct{}, 2)}, t, nil
	}
	in, err := openInput(spec)
	if err != nil {
		return nil, nil, nil, err
	}
	out, err := openOutput(spec)
	if err != nil {
		in.closeChildEnd()
		in.discard()
		return nil, nil, nil, err
	}
	return in, out, nil, nil
}

// carry begins to carry what is typed and shown. A nil terminal has nothing to carry.
func (t *terminal) carry() {
	if t == nil {
		return
	}
	t.ended, t.shown = make(chan struct{}), make(chan error, 1)
	go func() { _, _ = io.Copy(t.ours, t.spec.Input) }()
	go func() { t.shown <- t.show() }()
	go func() {
		for {
			select {
			case <-t.ended:
				return
			case size, open := <-t.spec.Resize:
				if !open {
					return
				}
				setSize(t.ours, size)
			}
		}
	}()
}

// show hands on what the process shows until nobody has the terminal open any more, which systems report as an error.
func (t *terminal) show() error {
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)
	var failed error
	for {
		n, err := t.ours.Read(buf[:])
		if n > 0 && failed == nil {
			if _, writeErr := t.spec.Output.Write(buf[:n]); writeErr != nil {
				failed = &OutputError{Stream: "stdout", Err: writeErr}
			}
		}
		if err != nil {
			return failed
		}
	}
}

// finish waits until all that a process has shown is handed on, and closes the terminal.
func (t *terminal) finish() (err error) {
	if t == nil {
		return nil
	}
	close(t.ended)
	select {
	case err = <-t.shown:
	case <-time.After(WaitDelay):
		_ = t.ours.SetReadDeadline(time.Unix(1, 0))
	}
	t.ours.Close()
	return err
}

// discard closes our end when there is no process.
func (t *terminal) discard() {
	if t != nil {
		t.ours.Close()
	}
}
