package tree

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
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

// Extract unpacks a pack into dir, which it makes and which must not be there. The digest is held against the whole pack; with a
// folder only what is below that is unpacked. What is not part of the digest is not unpacked. Where the digest is wrong dir is removed and the error is a *CorruptError.
func Extract(pack io.Reader, want, dir, folder string) (*Manifest, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	m, err := extract(pack, want, dir, folder)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return m, nil
}

func extract(pack io.Reader, want, dir, folder string) (*Manifest, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	x := &extraction{root: root, folder: folder, made: map[string]bool{".": true}}
	if err := read(pack, want, x.file); err != nil {
		return nil, err
	}
	x.manifest.sort()
	if got := x.manifest.Digest(""); got != want {
		return nil, &CorruptError{Want: want, Got: got}
	}
	for _, l := range x.links { // last, so that no file is written through one
		if err := root.Symlink(filepath.FromSlash(l.target), filepath.FromSlash(l.name)); err != nil {
			return nil, err
		}
	}
	return &x.manifest, nil
}

// Verify reads a pack and compares its content with its digest. The error is a *CorruptError when they differ.
func Verify(pack io.Reader, want string) (*Manifest, error) {
	x := &extraction{}
	if err := read(pack, want, x.file); err != nil {
		return nil, err
	}
	x.manifest.sort()
	if got := x.manifest.Digest(""); got != want {
		return nil, &CorruptError{Want: want, Got: got}
	}
	return &x.manifest, nil
}

// read calls file with every file of a pack. What cannot be in a pack that a Writer made is a *CorruptError.
func read(pack io.Reader, want string, file func(*tar.Header, io.Reader) error) error {
	in := tar.NewReader(bufio.NewReaderSize(pack, 64<<10))
	var files int
	var size int64
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &CorruptError{Want: want, Err: err}
		}
		files++
		if size += h.Size; files > MaxFiles || size > MaxSize {
			return &CorruptError{Want: want, Err: tooLarge(files, size)}
		}
		err = CheckPath(h.Name)
		if err == nil && h.Typeflag == tar.TypeSymlink {
			err = checkLink(h.Name, h.Linkname)
		}
		if err != nil {
			return &CorruptError{Want: want, Err: err}
		}
		if err := file(h, in); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				return &CorruptError{Want: want, Err: err}
			}
			return err
		}
	}
}

// extraction is a pack on its way to a folder; without a root it is only looked at.
type extraction struct {
	root     *os.Root
	folder   string
	made     map[string]bool
	manifest Manifest
	links    []link
}

type link struct{ name, target string }

func (x *extraction) file(h *tar.Header, content io.Reader) error {
	typ := Regular
	switch h.Typeflag {
	case tar.TypeReg:
		if h.Mode&0o111 != 0 {
			typ = Executable
		}
	case tar.TypeSymlink:
		typ, content = Symlink, strings.NewReader(h.Linkname)
	default:
		return &PathError{h.Name, "is neither a file nor a link"}
	}
	if Ignored(h.Name) {
		_, err := io.Copy(io.Discard, content)
		return err
	}
	sum := sha256.New()
	var to io.Writer = sum
	var out *os.File
	inside := x.root != nil && (x.folder == "" || strings.HasPrefix(h.Name, x.folder+"/"))
	if inside {
		if err := x.makeFolder(filepath.Dir(filepath.FromSlash(h.Name))); err != nil {
			return err
		}
	}
	if typ == Symlink && inside {
		x.links = append(x.links, link{h.Name, h.Linkname})
	} else if inside {
		mode := fs.FileMode(0o644)
		if typ == Executable {
			mode = 0o755
		}
		var err error
		if out, err = x.root.OpenFile(filepath.FromSlash(h.Name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode); err != nil {
			return err
		}
		defer out.Close()
		to = io.MultiWriter(out, sum)
	}
	buf := buffers.Get().(*[64 << 10]byte)
	defer buffers.Put(buf)
	if _, err := io.CopyBuffer(to, content, buf[:]); err != nil {
		return err
	}
	if out != nil {
		if err := out.Close(); err != nil {
			return err
		}
	}
	x.manifest.add(h.Name, typ, [sha256.Size]byte(sum.Sum(nil)))
	return nil
}

func (x *extraction) makeFolder(dir string) error {
	if x.made[dir] {
		return nil
	}
	if err := x.root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for ; !x.made[dir]; dir = filepath.Dir(dir) {
		x.made[dir] = true
	}
	return nil
}

// maxSignatures bounds all files with signatures of a pack together, in bytes.
const maxSignatures = 64 << 20

// Signatures returns the files with signatures of a pack, by their folders: "" is the root. Nothing vouches for them.
func Signatures(pack io.Reader) (map[string][]byte, error) {
	found, size := map[string][]byte{}, int64(0)
	err := read(pack, "", func(h *tar.Header, content io.Reader) error {
		if path.Base(h.Name) != SignatureFile || h.Typeflag != tar.TypeReg {
			return nil
		}
		if size += h.Size; size > maxSignatures {
			return fmt.Errorf("%w: %d MiB of signatures", ErrLimit, size>>20)
		}
		text, err := io.ReadAll(content)
		folder := path.Dir(h.Name)
		if folder == "." {
			folder = ""
		}
		found[folder] = text
		return err
	})
	return found, err
}
