package archive

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// MaxEntries bounds the number of entries of an archive, whatever its Limits say.
const MaxEntries = 2_000_000

// Limits bound what an archive may hold. 0 means no limit.
type Limits struct {
	Bytes   int64 // of all files together, holes of sparse files included
	Entries int
}

// LimitError says that an archive holds more than it may.
type LimitError struct{ What string }

func (e *LimitError) Error() string { return "the archive holds more than " + e.What }

// UnsafeError says that an entry of an archive would be written where it must not.
type UnsafeError struct{ Entry, Why string }

func (e *UnsafeError) Error() string {
	return fmt.Sprintf("the archive's entry %q is refused: %s", e.Entry, e.Why)
}

// Unpack unpacks an archive below dir, which is made. What an entry replaces is removed first. Owners, and the bits that make
// programs run as somebody else, are not restored.
func Unpack(ctx context.Context, r io.Reader, dir string) error {
	return UnpackWithin(ctx, r, dir, Limits{})
}

// UnpackWithin is Unpack for an archive of somebody who is not trusted. The error is a *LimitError where it holds too much.
func UnpackWithin(ctx context.Context, r io.Reader, dir string, limits Limits) error {
	if limits.Entries <= 0 || limits.Entries > MaxEntries {
		limits.Entries = MaxEntries
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	u := &unpacker{ctx: ctx, root: root, links: map[string]string{}, limit: limits.Bytes}
	in := tar.NewReader(r)
	for count := 0; ; count++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the archive: %w", err)
		}
		if count == limits.Entries {
			return &LimitError{fmt.Sprintf("%d entries", limits.Entries)}
		}
		if err := u.entry(header, in); err != nil {
			return err
		}
	}
	return u.finish()
}

type unpacker struct {
	ctx   context.Context
	root  *os.Root
	limit int64         // of size; 0 is none
	size  int64         // of all files so far
	dirs  []*tar.Header // their modes and times are set at the end, when nothing is written into them any more
	// Symbolic links are made at the end, so that nothing is written through them: by name, and in their order.
	links map[string]string
	order []string
}

func (u *unpacker) entry(header *tar.Header, content io.Reader) error {
	name, err := localName(header.Name)
	if err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		header.Name = name
		err = u.folder(header)
	case tar.TypeReg:
		if u.size += header.Size; u.limit > 0 && u.size > u.limit {
			return &LimitError{fmt.Sprintf("%d bytes", u.limit)}
		}
		err = u.file(name, header, content)
	case tar.TypeLink:
		err = u.hardLink(name, header)
	case tar.TypeSymlink:
		if name == "." {
			return &UnsafeError{header.Name, "it would replace the folder itself"}
		}
		if _, again := u.links[name]; !again {
			u.order = append(u.order, name)
		}
		u.links[name] = filepath.FromSlash(header.Linkname)
	}
	var unsafe *UnsafeError
	if err != nil && !errors.As(err, &unsafe) {
		return fmt.Errorf("unpacking %q: %w", header.Name, err)
	}
	return err
}

// localName is the name of an entry below the folder, in the system's form.
func localName(name string) (string, error) {
	clean := filepath.FromSlash(path.Clean(strings.TrimSuffix(name, "/")))
	if strings.HasPrefix(name, "/") || !filepath.IsLocal(clean) {
		return "", &UnsafeError{name, "it leads out of the folder"}
	}
	return clean, nil
}

func (u *unpacker) folder(header *tar.Header) error {
	u.dirs = append(u.dirs, header)
	if header.Name == "." {
		return nil
	}
	if err := u.parents(header.Name); err != nil {
		return err
	}
	err := u.root.Mkdir(header.Name, 0o700)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if info, err := u.root.Lstat(header.Name); err != nil || info.IsDir() {
		return err
	}
	if err := u.root.Remove(header.Name); err != nil {
		return err
	}
	return u.root.Mkdir(header.Name, 0o700)
}

// parents makes the folders that an entry is in. Whatever else has their names makes way: nothing goes through a link.
func (u *unpacker) parents(name string) error {
	parent := filepath.Dir(name)
	if parent == "." {
		return nil
	}
	if info, err := u.root.Lstat(parent); err == nil && info.IsDir() {
		return u.noLinkAbove(parent)
	}
	if err := u.parents(parent); err != nil {
		return err
	}
	if info, err := u.root.Lstat(parent); err == nil && !info.IsDir() {
		if err := u.root.Remove(parent); err != nil {
			return err
		}
	}
	if err := u.root.Mkdir(parent, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// noLinkAbove checks that a folder is where its name says.
func (u *unpacker) noLinkAbove(name string) error {
	for above := filepath.Dir(name); above != "."; above = filepath.Dir(above) {
		if info, err := u.root.Lstat(above); err != nil || !info.IsDir() {
			return &UnsafeError{name, "its way leads through a symbolic link"}
		}
	}
	return nil
}

// clear makes way for a file or link.
func (u *unpacker) clear(name string) error {
	if name == "." {
		return &UnsafeError{name, "it would replace the folder itself"}
	}
	if err := u.parents(name); err != nil {
		return err
	}
	if _, err := u.root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return u.root.RemoveAll(name)
}

func (u *unpacker) file(name string, header *tar.Header, content io.Reader) error {
	if err := u.clear(name); err != nil {
		return err
	}
	file, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, &interruptible{u.ctx, content})
	if err == nil {
		err = file.Chmod(header.FileInfo().Mode().Perm())
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, u.root.Remove(name)) // no half a file is taken for a whole one
	}
	return u.setTime(name, header)
}

// interruptible is a reader that ends with a context.
type interruptible struct {
	ctx  context.Context
	from io.Reader
}

func (r *interruptible) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.from.Read(p)
}

func (u *unpacker) hardLink(name string, header *tar.Header) error {
	target, err := localName(header.Linkname)
	if err != nil {
		return err
	}
	if to, isLink := u.links[target]; isLink { // a link to a symbolic link is another one
		u.links[name] = to
		u.order = append(u.order, name)
		return nil
	}
	if target == name {
		return &UnsafeError{header.Name, "it is a link to itself"}
	}
	if info, err := u.root.Lstat(target); err == nil && !info.Mode().IsRegular() {
		return &UnsafeError{header.Name, "it is a link to something that is not a file"}
	}
	if err := errors.Join(u.noLinkAbove(target), u.clear(name)); err != nil {
		return err
	}
	return u.root.Link(target, name)
}

func (u *unpacker) setTime(name string, header *tar.Header) error {
	if header.ModTime.IsZero() || header.ModTime.Unix() == 0 {
		return nil
	}
	return u.root.Chtimes(name, time.Time{}, header.ModTime)
}

// finish makes the symbolic links, and then gives folders their modes and times, the innermost first.
func (u *unpacker) finish() error {
	for _, name := range u.order {
		if err := u.clear(name); err != nil {
			return err
		}
		if err := u.root.Symlink(u.links[name], name); err != nil {
			return fmt.Errorf("unpacking the link %q: %w", name, err)
		}
	}
	for i := len(u.dirs) - 1; i >= 0; i-- {
		header := u.dirs[i]
		if info, err := u.root.Lstat(header.Name); err != nil || !info.IsDir() {
			continue // an entry after it has replaced it
		}
		if header.Name == "." {
			continue // the folder itself is its owner's
		}
		if err := errors.Join(u.setTime(header.Name, header), u.root.Chmod(header.Name, header.FileInfo().Mode().Perm())); err != nil {
			return fmt.Errorf("unpacking the folder %q: %w", header.Name, err)
		}
	}
	return nil
}
