package pack

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"sync"
)

// frameSize is how much of a tar archive makes one frame of Zstandard. Frames are compressed at the same time; as many as there are
// workers, and two more, are in memory.
const frameSize = 4 << 20

// TarZstd writes a tar archive compressed with Zstandard, in frames that stand alone.
func TarZstd(ctx context.Context, w io.Writer, dir string, names []string, o Options) (*Summary, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	src, err := newSource(ctx, dir, names)
	if err != nil {
		return nil, err
	}
	defer src.close()
	src.readable = o.Readable
	frames, err := newFrames(w, o, cancel)
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(frames)
	err = writeTar(t, src)
	if err == nil {
		err = t.Close()
	}
	if werr := frames.Close(); werr != nil { // it is why the other one failed
		return nil, fmt.Errorf("writing the archive: %w", werr)
	}
	if err != nil {
		return nil, err
	}
	return src.summary, nil
}

func writeTar(t *tar.Writer, src *source) error {
	buf := make([]byte, writeBuffer)
	for {
		it, err := src.read()
		if it == nil || err != nil {
			return err
		}
		n, err := writeTarItem(t, it, buf)
		if err != nil {
			return fmt.Errorf("packing %q: %w", it.name, err)
		}
		src.summary.Bytes += n
	}
}

func writeTarItem(t *tar.Writer, it *item, buf []byte) (written int64, err error) {
	if it.file != nil {
		defer it.file.Close()
	}
	h, err := tar.FileInfoHeader(it.info, it.target)
	if err != nil {
		return 0, err
	}
	h.Name = it.name
	if it.info.IsDir() {
		h.Name += "/"
	}
	h.Uname, h.Gname = "", "" // which users there are is nobody's concern
	if err := t.WriteHeader(h); err != nil || it.file == nil {
		return 0, err
	}
	written, err = io.CopyBuffer(struct{ io.Writer }{t}, it.content(), buf)
	if err == nil && written < it.info.Size() {
		err = fmt.Errorf("it became shorter while it was read, %d bytes of %d; does something still write %s?", written, it.info.Size(), path.Base(it.name))
	}
	return written, err
}

// frames is a writer that compresses what it gets in frames, several at a time, and writes them in order.
type frames struct {
	current *frame
	workers chan *framer // those that have nothing to do
	order   chan *frame
	spare   chan *frame
	written chan struct{} // closed when the last frame is written
	fail    func()

	mu  sync.Mutex
	err error
}

type frame struct {
	raw    []byte
	packed bytes.Buffer
	err    error
	done   chan struct{}
}

// newFrames returns a writer; fail is called when writing fails.
func newFrames(w io.Writer, o Options, fail func()) (*frames, error) {
	n := o.workers()
	f := &frames{
		workers: make(chan *framer, n), order: make(chan *frame, n), spare: make(chan *frame, n+2), written: make(chan struct{}), fail: fail,
	}
	for range n {
		e, err := newFramer(o.Level)
		if err != nil {
			return nil, err
		}
		f.workers <- e
	}
	for range n + 2 {
		f.spare <- &frame{}
	}
	go f.writeAll(w)
	return f, nil
}

func (f *frames) writeAll(w io.Writer) {
	defer close(f.written)
	for fr := range f.order {
		<-fr.done
		err := fr.err
		if err == nil && f.failure() == nil {
			_, err = w.Write(fr.packed.Bytes())
		}
		if err != nil {
			f.mu.Lock()
			f.err = err
			f.mu.Unlock()
			f.fail()
		}
		f.spare <- fr
	}
}

func (f *frames) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// Write implements io.Writer.
func (f *frames) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 {
		if err := f.failure(); err != nil {
			return 0, err
		}
		if f.current == nil {
			f.current = <-f.spare
			if f.current.raw == nil {
				f.current.raw = make([]byte, 0, frameSize)
			}
			f.current.raw = f.current.raw[:0]
		}
		n := min(len(p), frameSize-len(f.current.raw))
		f.current.raw = append(f.current.raw, p[:n]...)
		p = p[n:]
		if len(f.current.raw) == frameSize {
			f.send()
		}
	}
	return total, nil
}

// send has the current frame compressed.
func (f *frames) send() {
	fr := f.current
	f.current = nil
	fr.done = make(chan struct{})
	f.order <- fr
	worker := <-f.workers
	go func() {
		fr.packed.Reset()
		fr.err = worker.piece(&fr.packed, fr.raw, true)
		f.workers <- worker
		close(fr.done)
	}()
}

// Close writes what is left, and returns the error of writing, if there was one.
func (f *frames) Close() error {
	if f.current != nil {
		f.send()
	}
	close(f.order)
	<-f.written
	return f.failure()
}
