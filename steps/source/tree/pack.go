package tree

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/rungci/rung/internal/pack"
)

// Writer packs files into one stream. Every name is checked, and a file can be added once only. It is not safe for
// concurrent use.
type Writer struct {
	out      *bufio.Writer
	tar      *tar.Writer
	manifest Manifest
	names    map[string]bool // true: a file or link; false: a folder on the way to one
	size     int64
}

// NewWriter starts a pack.
func NewWriter(w io.Writer) *Writer {
	out := bufio.NewWriterSize(w, 64<<10)
	return &Writer{out: out, tar: tar.NewWriter(out), names: map[string]bool{}}
}

// AddFile packs a file of exactly size bytes. What is ignored in trees is packed, too, but for .git folders, which are an
// error as everything that CheckPath refuses.
func (w *Writer) AddFile(name string, executable bool, size int64, content io.Reader) error {
	if err := w.claim(name, size); err != nil {
		return err
	}
	typ, mode := Regular, int64(0o644)
	if executable {
		typ, mode = Executable, 0o755
	}
	if err := w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: size, Format: tar.FormatPAX}); err != nil {
		return fmt.Errorf("packing %s: %w", name, err)
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(w.tar, h), io.LimitReader(content, size))
	if err != nil {
		return fmt.Errorf("packing %s: %w", name, err)
	}
	if n < size {
		return fmt.Errorf("packing %s: it ends after %d of %d bytes", name, n, size)
	}
	if n, _ := content.Read(make([]byte, 1)); n > 0 {
		return fmt.Errorf("packing %s: it is longer than the %d bytes that were announced", name, size)
	}
	w.manifest.add(name, typ, [sha256.Size]byte(h.Sum(nil)))
	return nil
}

// AddSymlink packs a link. Its target is relative, with slashes, and inside of the tree.
func (w *Writer) AddSymlink(name, target string) error {
	if err := checkLink(name, target); err != nil {
		return err
	}
	if err := w.claim(name, 0); err != nil {
		return err
	}
	err := w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777, Format: tar.FormatPAX})
	if err != nil {
		return fmt.Errorf("packing %s: %w", name, err)
	}
	w.manifest.add(name, Symlink, sha256.Sum256([]byte(target)))
	return nil
}

// claim takes a name, which must be new and not be below a file.
func (w *Writer) claim(name string, size int64) error {
	if err := CheckPath(name); err != nil {
		return err
	}
	if w.size += size; size < 0 || len(w.manifest.lines) >= MaxFiles || w.size > MaxSize {
		return tooLarge(len(w.manifest.lines)+1, w.size)
	}
	if _, taken := w.names[name]; taken {
		return &PathError{name, "is there twice"}
	}
	for folder := name; ; {
		i := strings.LastIndexByte(folder, '/')
		if i < 0 {
			break
		}
		folder = folder[:i]
		isFile, known := w.names[folder]
		if isFile {
			return &PathError{name, "is below " + folder + ", which is not a folder"}
		}
		if known {
			break
		}
		w.names[folder] = false
	}
	w.names[name] = true
	return nil
}

// AddFolder packs the content of a folder on disk.
func (w *Writer) AddFolder(ctx context.Context, dir string) error {
	return Walk(dir, func(name string, info fs.FileInfo) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		full := filepath.Join(dir, filepath.FromSlash(name))
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(full)
			if err != nil {
				return err
			}
			return w.AddSymlink(name, filepath.ToSlash(target))
		}
		f, err := os.Open(full)
		if err != nil {
			return err
		}
		defer f.Close()
		return w.AddFile(name, typeOf(info) == Executable, info.Size(), f)
	})
}

// Close ends the pack and returns its content digest. A pack without files is an error.
func (w *Writer) Close() (digest string, err error) {
	if len(w.manifest.lines) == 0 {
		return "", errors.New("there are no files in it")
	}
	if err := w.tar.Close(); err != nil {
		return "", err
	}
	if err := w.out.Flush(); err != nil {
		return "", err
	}
	w.manifest.sort()
	return w.manifest.Digest(""), nil
}

// Manifest lists what was packed. It is complete after Close.
func (w *Writer) Manifest() *Manifest { return &w.manifest }

// CorruptError says that a pack is not what its digest says.
type CorruptError struct {
	Want, Got string // Got is "" when the pack cannot be read
	Err       error
}

func (e *CorruptError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("the package %s is damaged: %v", e.Want, e.Err)
	}
	return fmt.Sprintf("the package %s was changed: its content is now %s", e.Want, e.Got)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// Extract unpacks a pack into dir, which it makes and which must not exist. The digest is held against the whole pack; with a
// folder only what is below that is unpacked. What is not part of the digest is not unpacked. Where the digest is wrong dir is removed and the error is a *CorruptError.
func Extract(in io.Reader, want, dir, folder string) (*Manifest, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	m, err := extract(in, want, dir, folder)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return m, nil
}

func extract(in io.Reader, want, dir, folder string) (*Manifest, error) {
	x := &contents{}
	options := pack.ExtractOptions{MaxBytes: MaxSize, MaxEntries: MaxFiles, Each: func(e *pack.Entry) (io.Writer, bool, error) {
		sum, inside, err := x.entry(e)
		return sum, inside && (folder == "" || strings.HasPrefix(e.Name, folder+"/")), err
	}}
	if _, err := pack.ExtractTar(context.Background(), bufio.NewReaderSize(in, 64<<10), dir, options); err != nil {
		return nil, corrupt(want, err)
	}
	return x.held(want)
}

// Verify reads a pack and compares its content with its digest. The error is a *CorruptError when they differ.
func Verify(in io.Reader, want string) (*Manifest, error) {
	x := &contents{}
	err := read(in, want, func(e *pack.Entry, content io.Reader) error {
		sum, _, err := x.entry(e)
		if err != nil || sum == nil {
			return err
		}
		buf := buffers.Get().(*[64 << 10]byte)
		defer buffers.Put(buf)
		_, err = io.CopyBuffer(sum, content, buf[:])
		return err
	})
	if err != nil {
		return nil, err
	}
	return x.held(want)
}

// read calls visit with every entry of a pack. What cannot be in a pack that a Writer made is a *CorruptError.
func read(in io.Reader, want string, visit func(*pack.Entry, io.Reader) error) error {
	budget := &pack.Budget{MaxBytes: MaxSize, MaxEntries: MaxFiles}
	return corrupt(want, pack.ReadTar(context.Background(), bufio.NewReaderSize(in, 64<<10), budget, false, visit))
}

// corrupt makes an error about what a pack holds a *CorruptError.
func corrupt(want string, err error) error {
	var path *PathError
	if errors.As(err, &path) || pack.Refused(err) {
		return &CorruptError{Want: want, Err: err}
	}
	return err
}

// contents finds out what a pack holds. A hash is summed when the next entry is there.
type contents struct {
	manifest Manifest
	name     string
	typ      Type
	sum      hash.Hash // of the entry that is being read; nil when there is none
}

// entry takes in an entry of a pack, and returns what its content is to be written to. What is ignored is not part of the digest.
func (x *contents) entry(e *pack.Entry) (sum io.Writer, part bool, err error) {
	x.summed()
	if err := CheckPath(e.Name); err != nil {
		return nil, false, err
	}
	typ, mode := Regular, fs.FileMode(0o644)
	switch e.Kind {
	case pack.KindFile:
		if e.Mode&0o111 != 0 {
			typ, mode = Executable, 0o755
		}
	case pack.KindSymlink:
		typ = Symlink
		if err := checkLink(e.Name, e.Target); err != nil {
			return nil, false, err
		}
	default:
		return nil, false, &PathError{e.Name, "is neither a file nor a link"}
	}
	if Ignored(e.Name) {
		return nil, false, nil
	}
	if typ == Symlink {
		x.manifest.add(e.Name, typ, sha256.Sum256([]byte(e.Target)))
		return nil, true, nil
	}
	e.Mode, e.Modified = mode, time.Time{}
	x.name, x.typ, x.sum = e.Name, typ, sha256.New()
	return x.sum, true, nil
}

// summed adds the entry that was read.
func (x *contents) summed() {
	if x.sum != nil {
		x.manifest.add(x.name, x.typ, [sha256.Size]byte(x.sum.Sum(nil)))
		x.sum = nil
	}
}

// held returns what the pack holds, if it is what the digest says.
func (x *contents) held(want string) (*Manifest, error) {
	x.summed()
	x.manifest.sort()
	if got := x.manifest.Digest(""); got != want {
		return nil, &CorruptError{Want: want, Got: got}
	}
	return &x.manifest, nil
}

// maxSignatures bounds all files with signatures of a pack together, in bytes.
const maxSignatures = 64 << 20

// Signatures returns the files with signatures of a pack, by their folders: "" is the root. Nothing vouches for them.
func Signatures(in io.Reader) (map[string][]byte, error) {
	found, size := map[string][]byte{}, int64(0)
	err := read(in, "", func(e *pack.Entry, content io.Reader) error {
		if err := CheckPath(e.Name); err != nil || path.Base(e.Name) != SignatureFile || e.Kind != pack.KindFile {
			return err
		}
		if size += e.Size; size > maxSignatures {
			return fmt.Errorf("%w: %d MiB of signatures", ErrLimit, size>>20)
		}
		text, err := io.ReadAll(content)
		folder := path.Dir(e.Name)
		if folder == "." {
			folder = ""
		}
		found[folder] = text
		return err
	})
	return found, err
}
