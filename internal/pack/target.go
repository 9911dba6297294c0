package pack

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// target is the folder that an archive is unpacked into.
type target struct {
	root    *os.Root
	replace bool
	real    map[string]bool       // folders that are known to be there, and to be no links
	modes   map[string]attributes // of folders; set at the end, since they may forbid to write
}

// attributes are what an archive says of an entry besides its content.
type attributes struct {
	perm     fs.FileMode
	modified time.Time
}

func (e *Entry) attributes() attributes { return attributes{perm: e.Mode.Perm(), modified: e.Modified} }

func openTarget(dir string, replace bool) (*target, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the folder that is unpacked into: %w", err)
	}
	return &target{root: root, replace: replace, real: map[string]bool{".": true}, modes: map[string]attributes{}}, nil
}

func (t *target) close() { _ = t.root.Close() }

// ensure makes a folder and those above it. What is there must be a folder, and not a link to one.
func (t *target) ensure(name string) error {
	if t.real[name] {
		return nil
	}
	if err := t.ensure(path.Dir(name)); err != nil {
		return err
	}
	at := filepath.FromSlash(name)
	err := t.root.Mkdir(at, 0o755)
	if errors.Is(err, fs.ErrExist) {
		var info fs.FileInfo
		info, err = t.root.Lstat(at)
		switch {
		case err == nil && !info.IsDir() && t.replace:
			if err = t.root.Remove(at); err == nil {
				err = t.root.Mkdir(at, 0o755)
			}
		case err == nil && !info.IsDir():
			return &UnsafeError{name, fmt.Sprintf("it is a folder in the archive, and %s where it is unpacked; remove that first", kindName(info.Mode()))}
		case err == nil && info.Mode().Perm()&0o700 != 0o700:
			err = t.root.Chmod(at, info.Mode().Perm()|0o700)
		}
	}
	if err != nil {
		return fmt.Errorf("making the folder %q: %w", name, err)
	}
	t.real[name] = true
	return nil
}

// setFolder makes a folder, and notes what it will be like at the end.
func (t *target) setFolder(name string, a attributes) error {
	if err := t.ensure(name); err != nil {
		return err
	}
	if name != "." {
		t.modes[name] = a
	}
	return nil
}

// makeWay removes what an entry replaces. A folder that is not empty makes way only where everything does.
func (w *writer) makeWay(in *os.Root, base, name string) error {
	remove := in.Remove
	if w.target.replace {
		remove = in.RemoveAll
	}
	err := remove(base)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if info, lerr := in.Lstat(base); lerr == nil && info.IsDir() {
		return &UnsafeError{name, "there is a folder of that name, which is not empty; remove it first"}
	}
	return fmt.Errorf("replacing %q: %w", name, err)
}

// writer writes files into a target. It keeps the folder of the latest one open, so that files of one folder, which come together, are
// found quickly. Each goroutine has its own.
type writer struct {
	target *target
	in     *os.Root
	at     string
	buf    []byte
}

func (t *target) newWriter() *writer { return &writer{target: t, buf: make([]byte, writeBuffer)} }

func (w *writer) close() {
	if w.in != nil {
		_ = w.in.Close()
	}
}

// enter opens the folder of an entry, which must be there.
func (w *writer) enter(name string) (*os.Root, string, error) {
	dir, base := path.Split(name)
	if w.in != nil && w.at == dir {
		return w.in, base, nil
	}
	in, err := w.target.root.OpenRoot(filepath.FromSlash(cmp.Or(dir, ".")))
	if err != nil {
		return nil, "", fmt.Errorf("opening the folder of %q: %w", name, err)
	}
	w.close()
	w.in, w.at = in, dir
	return in, base, nil
}

// file writes a file of exactly so many bytes. When that fails there is no file.
func (w *writer) file(name string, content io.Reader, size int64, a attributes) error {
	in, base, err := w.enter(name)
	if err != nil {
		return err
	}
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	f, err := in.OpenFile(base, flags, 0o600)
	if errors.Is(err, fs.ErrExist) {
		if err = w.makeWay(in, base, name); err == nil {
			f, err = in.OpenFile(base, flags, 0o600)
		}
	}
	if err != nil {
		return err
	}
	err = fill(f, name, content, size, a.perm, w.buf)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil && !a.modified.IsZero() {
		err = in.Chtimes(base, time.Time{}, a.modified)
	}
	if err != nil {
		_ = in.Remove(base)
	}
	return err
}

func fill(f *os.File, name string, content io.Reader, size int64, perm fs.FileMode, buf []byte) error {
	read := &sourceError{r: content}
	n, err := io.CopyBuffer(struct{ io.Writer }{f}, io.LimitReader(read, size+1), buf)
	switch {
	case read.err != nil:
		return unlessStopped(name, "its content cannot be read", read.err)
	case err != nil:
		return fmt.Errorf("writing %q: %w", name, err)
	case n > size:
		return &FormatError{Entry: name, Why: "it has more content than the archive says"}
	case n < size:
		return &FormatError{Entry: name, Why: "its content is cut short"}
	}
	return f.Chmod(perm)
}

// sourceError remembers why reading failed, to tell that from writing.
type sourceError struct {
	r   io.Reader
	err error
}

func (s *sourceError) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// link makes a symbolic link. Nothing follows it, so it may lead anywhere.
func (w *writer) link(name, to string) error {
	in, base, err := w.enter(name)
	if err != nil {
		return err
	}
	if err := w.makeWay(in, base, name); err != nil {
		return err
	}
	if err := in.Symlink(to, base); err != nil {
		return fmt.Errorf("making the symbolic link %q: %w", name, err)
	}
	return nil
}

// finish gives the folders what the archive says of them, the innermost first.
func (t *target) finish() error {
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(t.modes))) {
		a, at := t.modes[name], filepath.FromSlash(name)
		if !a.modified.IsZero() {
			if err := t.root.Chtimes(at, time.Time{}, a.modified); err != nil {
				return fmt.Errorf("setting the time of %q: %w", name, err)
			}
		}
		if err := t.root.Chmod(at, a.perm); err != nil {
			return fmt.Errorf("setting the permissions of %q: %w", name, err)
		}
	}
	return nil
}
