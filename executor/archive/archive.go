// Package archive makes and unpacks the tar archives in which files go into an environment and come out of it.
//
// Names are bytes, and may hold anything that the system lets them hold. Unpacking (internal/pack) trusts nobody: it never writes outside of
// its folder, nor through a symbolic link. Pipes, sockets and devices are left out on either way.
package archive

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Pack writes the file or folder at path to w. Names in the archive start with the last element of path, as those of a
// container engine do. Owners are left out.
func Pack(ctx context.Context, w io.Writer, path string) error {
	path = filepath.Clean(path)
	if _, err := os.Lstat(path); err != nil {
		return err
	}
	parent, name := filepath.Split(path)
	root, err := os.OpenRoot(filepath.Clean(parent))
	if err != nil {
		return err
	}
	defer root.Close()
	p := &packer{ctx: ctx, root: root, tar: tar.NewWriter(w)}
	if err := fs.WalkDir(root.FS(), filepath.ToSlash(name), p.add); err != nil {
		return fmt.Errorf("packing %s: %w", path, err)
	}
	return p.tar.Close()
}

type packer struct {
	ctx  context.Context
	root *os.Root
	tar  *tar.Writer
}

// add adds one file. What vanishes while the archive is made is left out.
func (p *packer) add(name string, entry fs.DirEntry, err error) error {
	switch {
	case p.ctx.Err() != nil:
		return context.Cause(p.ctx)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	info, err := entry.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if t := info.Mode().Type(); t != 0 && t != fs.ModeDir && t != fs.ModeSymlink {
		return nil
	}
	header := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime().Truncate(time.Second)}
	switch {
	case entry.IsDir():
		header.Typeflag = tar.TypeDir
		header.Name += "/"
	case info.Mode().IsRegular():
		return p.addFile(header)
	default:
		header.Typeflag = tar.TypeSymlink
		if header.Linkname, err = p.root.Readlink(filepath.FromSlash(name)); err != nil {
			return err
		}
		header.Linkname = filepath.ToSlash(header.Linkname)
	}
	return p.tar.WriteHeader(header)
}

// addFile adds a regular file with the size that it has when it is opened: one that grows is cut there.
func (p *packer) addFile(header *tar.Header) error {
	file, err := p.root.Open(filepath.FromSlash(header.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() { // it was replaced meanwhile
		return nil
	}
	header.Typeflag, header.Size = tar.TypeReg, info.Size()
	if err := p.tar.WriteHeader(header); err != nil {
		return err
	}
	n, err := io.Copy(p.tar, &interruptible{p.ctx, io.LimitReader(file, header.Size)})
	if err == nil && n < header.Size {
		return fmt.Errorf("%q became shorter while it was read", header.Name)
	}
	return err
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
