package tracefile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"

	"github.com/rungci/rung/cmd/step-runner/command/components"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/publish/bundle"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/trace"
)

// Loaded is a trace as every command has it: whether it is shown, verified, signed, compared or run, it was read here.
type Loaded struct {
	Trace *trace.Trace
	// SHA256 is of the file, in hexadecimal, and Document of the trace itself: they differ for a bundle. Both are "" for an event log.
	SHA256, Document string

	path   string
	bundle *bundle.Bundle // nil for a plain trace
	plain  bool           // the file is the whole document, as it is
}

// Load reads a trace, or that of a bundle.
func Load(path string) (*Loaded, error) {
	l := &Loaded{path: path}
	err := l.read()
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	var own *exit.Error
	if errors.As(err, &own) {
		return nil, err
	}
	return nil, exit.Coded(exit.Definition, "%v", err)
}

func (l *Loaded) read() (err error) {
	if !bundle.IsBundle(l.path) {
		l.Trace, l.SHA256, err = trace.ReadSummed(l.path)
		l.Document, l.plain = l.SHA256, l.SHA256 != "" && err == nil && !l.Trace.LogsBeside()
		return err
	}
	if l.bundle, err = components.OpenBundle(l.path); err != nil {
		return err
	}
	if l.SHA256, err = l.bundle.Sum(); err != nil {
		return err
	}
	l.Trace, err = l.bundle.Trace()
	l.Document = l.bundle.Manifest.Trace.SHA256
	return err
}

// Packages are those that came with the trace; nil if it is not in a bundle.
func (l *Loaded) Packages() source.Store {
	if l.bundle == nil {
		return nil
	}
	return l.bundle
}

// Open opens the trace as one document with its logs. Reading fails if the file is no longer what was loaded.
func (l *Loaded) Open() (io.ReadCloser, error) {
	if l.plain {
		return l.file()
	}
	in, out := io.Pipe()
	go func() { out.CloseWithError(trace.Export(out, "json", l.Trace)) }()
	return in, nil
}

// CopyTo writes what was loaded to a new file: the bundle, or the trace as one document.
func (l *Loaded) CopyTo(path string) error {
	open := l.Open
	if l.bundle != nil {
		open = l.file
	}
	in, err := open()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// file opens the file that was loaded.
func (l *Loaded) file() (io.ReadCloser, error) {
	f, err := os.Open(l.path)
	if err != nil {
		return nil, err
	}
	return &summed{f, sha256.New(), l.SHA256}, nil
}

// summed is a file whose end is an error unless it is what it should be.
type summed struct {
	*os.File
	sum  hash.Hash
	want string
}

func (s *summed) Read(p []byte) (int, error) {
	n, err := s.File.Read(p)
	s.sum.Write(p[:n])
	if errors.Is(err, io.EOF) && hex.EncodeToString(s.sum.Sum(nil)) != s.want {
		return n, fmt.Errorf("%s changed while it was being read", s.Name())
	}
	return n, err
}

// WriteTo implements io.WriterTo, so that nothing reads the file past the sum.
func (s *summed) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{s})
}
