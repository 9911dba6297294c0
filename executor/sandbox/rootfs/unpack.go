package rootfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/rungci/rung/internal/pack"
)

// Limits of one image, unpacked.
const (
	maxBytes   = 64 << 30
	maxEntries = 4_000_000
	// maxLinks bounds how many symbolic links lead to one folder.
	maxLinks = 40
)

// Marks in layers, of https://github.com/opencontainers/image-spec/blob/main/layer.md: what is removed of the layers below.
const (
	whiteout = ".wh."
	opaque   = whiteout + whiteout + ".opq"
)

// layers puts layers over each other in a folder.
type layers struct {
	root   *os.Root
	owners bool // files keep their owners, which only root can do
	budget pack.Budget
	made   map[string]bool // what the present layer has made
	// parent is the folder of the last entry, and in where that is: most entries are in the folder of the one before.
	parent, in string
}

// unpackLayers unpacks layers, the lowest first, into a folder. Each is a tar archive, which may be compressed. Nothing leaves the folder:
// links on the way to an entry are followed as in the image, and none is followed out of the folder.
func unpackLayers(ctx context.Context, dir string, opens []func() (io.ReadCloser, error)) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	u := &layers{root: root, owners: os.Geteuid() == 0, budget: pack.Budget{MaxBytes: maxBytes, MaxEntries: maxEntries}}
	for i, open := range opens {
		if err := u.layer(ctx, open); err != nil {
			return fmt.Errorf("unpacking layer %d of %d: %w", i+1, len(opens), err)
		}
	}
	return nil
}

func (u *layers) layer(ctx context.Context, open func() (io.ReadCloser, error)) error {
	packed, err := open()
	if err != nil {
		return err
	}
	defer packed.Close()
	plain, end, err := pack.Decompress(packed, 1)
	if err != nil {
		return err
	}
	defer end()
	u.made = map[string]bool{}
	u.forget()
	return pack.ReadTar(ctx, plain, &u.budget, true, u.entry)
}

func (u *layers) forget() { u.parent, u.in = "", "" }

func (u *layers) entry(e *pack.Entry, content io.Reader) error {
	if e.Name == "." {
		return u.finish(".", e)
	}
	folder, err := u.folder(path.Dir(e.Name))
	if err != nil {
		return err
	}
	base := path.Base(e.Name)
	switch {
	case base == opaque:
		return u.clear(folder)
	case strings.HasPrefix(base, whiteout):
		u.forget()
		return u.root.RemoveAll(path.Join(folder, strings.TrimPrefix(base, whiteout)))
	}
	name := path.Join(folder, base)
	if err := u.write(name, e, content); err != nil {
		return err
	}
	u.made[name] = true
	return nil
}

// write makes an entry, in place of what is there.
func (u *layers) write(name string, e *pack.Entry, content io.Reader) error {
	info, err := u.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case e.Kind == pack.KindFolder && info.IsDir():
		return u.finish(name, e)
	default:
		u.forget()
		if err := u.root.RemoveAll(name); err != nil {
			return err
		}
	}
	switch e.Kind {
	case pack.KindFolder:
		err = u.root.Mkdir(name, 0o700)
	case pack.KindFile:
		err = u.file(name, content)
	case pack.KindSymlink:
		err = u.root.Symlink(e.Target, name)
	case pack.KindHardLink:
		return u.link(name, e)
	default:
		return nil // a sandbox has devices of its own
	}
	if err != nil {
		return err
	}
	return u.finish(name, e)
}

func (u *layers) file(name string, content io.Reader) error {
	out, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, content)
	return errors.Join(err, out.Close())
}

func (u *layers) link(name string, e *pack.Entry) error {
	folder, err := u.folder(path.Dir(e.Target))
	if err != nil {
		return err
	}
	return u.root.Link(path.Join(folder, path.Base(e.Target)), name)
}

// finish gives an entry its owner, mode and time.
func (u *layers) finish(name string, e *pack.Entry) error {
	if u.owners {
		if err := u.root.Lchown(name, e.UID, e.GID); err != nil {
			return err
		}
	}
	if e.Kind == pack.KindSymlink {
		return nil
	}
	if err := u.root.Chmod(name, e.Mode&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky)); err != nil {
		return err
	}
	if e.Kind == pack.KindFolder || e.Modified.IsZero() { // the time of a folder changes with what comes into it
		return nil
	}
	return u.root.Chtimes(name, e.Modified, e.Modified)
}

// clear removes what the layers below have put into a folder.
func (u *layers) clear(folder string) error {
	u.forget()
	dir, err := u.root.Open(folder)
	if err != nil {
		return err
	}
	names, err := dir.Readdirnames(-1)
	if err := errors.Join(err, dir.Close()); err != nil {
		return err
	}
	for _, base := range names {
		if name := path.Join(folder, base); !u.made[name] {
			if err := u.root.RemoveAll(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// folder finds a folder, whose links are followed as in the image, and makes what is missing on the way.
func (u *layers) folder(name string) (string, error) {
	if name == u.parent && name != "" {
		return u.in, nil
	}
	at, rest, links := ".", strings.Split(name, "/"), 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		if part == "" || part == "." {
			continue
		}
		if part == ".." {
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, part)
		info, err := u.root.Lstat(next)
		switch {
		case err == nil && info.IsDir():
			at = next
		case err == nil && info.Mode()&fs.ModeSymlink != 0:
			if links++; links > maxLinks {
				return "", fmt.Errorf("too many symbolic links lead to %s", name)
			}
			target, err := u.root.Readlink(next)
			if err != nil {
				return "", err
			}
			if path.IsAbs(target) {
				at = "."
			}
			rest = append(strings.Split(target, "/"), rest...)
		case err == nil || errors.Is(err, fs.ErrNotExist):
			if err == nil {
				err = u.root.Remove(next)
			} else {
				err = nil
			}
			if err == nil {
				err = u.root.Mkdir(next, 0o755)
			}
			if err != nil {
				return "", err
			}
			at = next
		default:
			return "", err
		}
	}
	u.parent, u.in = name, at
	return at, nil
}
