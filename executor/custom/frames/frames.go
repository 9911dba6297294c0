// Package frames puts a stream of bytes into the lines of an output that others write to as well: a driver's standard output, which is a
// job's log. Both ends of the stream know it: executor/custom, and the step-runner in the place that a driver made.
//
//	some text of the driver
//	MARK=aGVsbG8…            a part of the stream, in base64
//	MARKready                a word for whoever reads
//
// The mark is one that nobody can guess. It may stand anywhere in a line, and a line may end as those of terminals do.
package frames

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

const (
	// maxPart is how much of the stream is in one line, in bytes.
	maxPart = 24 << 10
	// maxLine bounds a line, in bytes. What is longer comes in parts, and can hold nothing of the stream.
	maxLine = 64 << 10
)

// Prefix begins every mark.
const Prefix = "@rung"

// NewMark returns a mark that nobody can guess.
func NewMark() string { return Prefix + "-" + rand.Text() + ":" }

// Writer is the end that is written to. Its methods are safe for concurrent use.
type Writer struct {
	Mark string
	Out  io.Writer

	mu  sync.Mutex
	buf []byte
}

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(p) > 0 {
		part := p[:min(len(p), maxPart)]
		w.buf = append(append(w.buf[:0], w.Mark...), '=')
		w.buf = base64.StdEncoding.AppendEncode(w.buf, part)
		w.buf = append(w.buf, '\n')
		if _, err := w.Out.Write(w.buf); err != nil {
			return n, err
		}
		n += len(part)
		p = p[len(part):]
	}
	return n, nil
}

// Reader takes lines apart.
type Reader struct {
	Mark string
	// Data gets what is of the stream; an error of it ends Read. Word gets words; Other gets all other lines, without their ends.
	Data  func([]byte) error
	Word  func(string)
	Other func([]byte)
}

// Read reads until the end. The error is that of reading, that of Data, or says that the stream is damaged.
func (r *Reader) Read(from io.Reader) error {
	in := bufio.NewReaderSize(from, maxLine)
	var data []byte
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			if data, err = r.line(line, data, err); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// line takes one line. It hands the error of reading on, unless there is another.
func (r *Reader) line(line, data []byte, read error) ([]byte, error) {
	line = bytes.TrimRight(line, "\r\n")
	before, rest, found := bytes.Cut(line, []byte(r.Mark))
	if !found {
		r.Other(line)
		return data, read
	}
	if len(before) > 0 {
		r.Other(before)
	}
	if len(rest) == 0 || rest[0] != '=' {
		r.Word(string(rest))
		return data, read
	}
	var err error
	if data, err = base64.StdEncoding.AppendDecode(data[:0], rest[1:]); err != nil {
		return data, fmt.Errorf("what the driver passes on is not what was written: %w", err)
	}
	if err := r.Data(data); err != nil {
		return data, err
	}
	return data, read
}

// Conn is a connection of what is read and what is written.
type Conn struct {
	In  io.Reader
	Out io.Writer
	// End ends both; it is called once.
	End func() error

	ending sync.Once
}

var _ net.Conn = (*Conn)(nil)

func (c *Conn) Read(p []byte) (int, error)  { return c.In.Read(p) }
func (c *Conn) Write(p []byte) (int, error) { return c.Out.Write(p) }

// Close ends the connection.
func (c *Conn) Close() (err error) {
	c.ending.Do(func() { err = c.End() })
	return err
}

// LocalAddr and RemoteAddr name nothing that could be dialled.
func (c *Conn) LocalAddr() net.Addr { return address{} }

// RemoteAddr is like LocalAddr.
func (c *Conn) RemoteAddr() net.Addr { return address{} }

// SetDeadline and its like are not supported: whoever is late closes the connection.
func (c *Conn) SetDeadline(time.Time) error { return os.ErrNoDeadline }

// SetReadDeadline is like SetDeadline.
func (c *Conn) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

// SetWriteDeadline is like SetDeadline.
func (c *Conn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

type address struct{}

func (address) Network() string { return "stdio" }
func (address) String() string  { return "the input and output of a command" }
