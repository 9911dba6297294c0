package engine

import (
	"bytes"
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"io"
	"os"
	"sync"

	"github.com/rungci/rung/internal/mask"
	"github.com/rungci/rung/steps/event"
)

// stepLog counts the log of a step over all its attempts.
type stepLog struct {
	out *emitter
	id  string

	mu     sync.Mutex
	offset int64
}

func (l *stepLog) size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.offset
}

// emit sends masked log data on its way. The lock is held throughout: offsets must rise in the order of the events.
func (l *stepLog) emit(stream event.Stream, data []byte, tee *teeFile) {
	if len(data) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	tee.write(data)
	l.out.emit(l.id, event.Log{Stream: stream, Offset: l.offset, Data: data})
	l.offset += int64(len(data))
}

// attemptLog takes what one process writes.
type attemptLog struct {
	stdout, stderr io.Writer
	masks          []maskedWriter
	tee            *teeFile // nil when no file takes the log as well
	held           *heldLog // nil when the log is shown as it comes
}

// maskedWriter masks what is written and sends it on before another mask is added.
type maskedWriter struct {
	*mask.Writer
	adding *sync.RWMutex
}

func (w maskedWriter) Write(p []byte) (int, error) {
	w.adding.RLock()
	defer w.adding.RUnlock()
	return w.Writer.Write(p)
}

func (w maskedWriter) Flush() {
	w.adding.RLock()
	defer w.adding.RUnlock()
	w.Writer.Flush()
}

// attempt opens the log for one process. With hold, nothing is shown before end. file, which may be nil, takes it as well.
func (l *stepLog) attempt(hold bool, dir string, file io.WriteCloser) *attemptLog {
	a := &attemptLog{}
	if file != nil {
		a.tee = &teeFile{file: file}
	}
	out := l.out.mask.NewWriter(func(data []byte) { l.emit(event.Stdout, data, a.tee) })
	err := l.out.mask.NewWriter(func(data []byte) { l.emit(event.Stderr, data, a.tee) })
	a.masks = []maskedWriter{{out, &l.out.maskMu}, {err, &l.out.maskMu}}
	a.stdout, a.stderr = a.masks[0], a.masks[1]
	if hold {
		a.held = &heldLog{dir: dir}
		a.stdout, a.stderr = a.held.writer(0), a.held.writer(1)
	}
	return a
}

// end shows all that is left.
func (a *attemptLog) end() error {
	var err error
	if a.held != nil {
		err = a.held.release(a.masks)
	}
	for _, m := range a.masks {
		m.Flush()
	}
	return cmp.Or(err, a.tee.close())
}

// teeFile is the file that takes the log of a process as well. The lock of the step's log guards it.
type teeFile struct {
	file io.WriteCloser
	err  error // the first one
}

func (t *teeFile) write(data []byte) {
	if t != nil && t.err == nil {
		_, t.err = t.file.Write(data)
	}
}

func (t *teeFile) close() error {
	if t == nil {
		return nil
	}
	return cmp.Or(t.err, t.file.Close())
}

// maxHeldInMemory is how much of a held log stays in memory, in bytes; the rest goes, encrypted, to a file.
const maxHeldInMemory = 1 << 20

// heldKeySize is the size of the key of that file, in bytes.
const heldKeySize = 32

// heldLog keeps the log of a step whose outputs are secret until the step has ended and they are known: only then can they
// be masked in it.
type heldLog struct {
	dir string

	mu     sync.Mutex
	memory bytes.Buffer
	file   *os.File
	sealed cipher.StreamWriter
	cipher cipher.Block // of the file, with a key that nobody else has; each file has a key of its own
	err    error
}

// stream encrypts and decrypts the file, from its beginning.
func (h *heldLog) stream() cipher.Stream { return cipher.NewCTR(h.cipher, make([]byte, aes.BlockSize)) }

// frameSize is the size of the header of a piece of a held log: the stream, and how long the piece is.
const frameSize = 5

func (h *heldLog) writer(stream byte) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		var header [frameSize]byte
		header[0] = stream
		binary.LittleEndian.PutUint32(header[1:], uint32(len(p)))
		h.memory.Write(header[:])
		h.memory.Write(p)
		if h.memory.Len() > maxHeldInMemory {
			h.spill()
		}
		return len(p), nil
	})
}

func (h *heldLog) spill() {
	if h.file == nil && h.err == nil {
		h.file, h.err = os.CreateTemp(h.dir, "held-")
		key := make([]byte, heldKeySize)
		_, _ = rand.Read(key) // never fails
		h.cipher, _ = aes.NewCipher(key)
		h.sealed = cipher.StreamWriter{S: h.stream(), W: h.file}
	}
	if h.err == nil {
		_, h.err = h.sealed.Write(h.memory.Bytes())
	}
	h.memory.Reset()
}

// release passes everything on, in order.
func (h *heldLog) release(to []maskedWriter) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var from io.Reader = &h.memory
	if h.file != nil {
		defer os.Remove(h.file.Name())
		defer h.file.Close()
		if _, err := h.file.Seek(0, io.SeekStart); err != nil && h.err == nil {
			h.err = err
		}
		from = io.MultiReader(cipher.StreamReader{S: h.stream(), R: h.file}, &h.memory)
	}
	if h.err != nil {
		return h.err
	}
	var header [frameSize]byte
	for {
		if _, err := io.ReadFull(from, header[:]); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		data := make([]byte, binary.LittleEndian.Uint32(header[1:]))
		if _, err := io.ReadFull(from, data); err != nil {
			return err
		}
		if _, err := to[header[0]].Write(data); err != nil {
			return err
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
