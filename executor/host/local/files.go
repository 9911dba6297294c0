package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rungci/rung/executor/archive"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/internal/discard"
	"github.com/rungci/rung/internal/scarcity"
)

// Files are the files on this machine.
type Files struct{}

var _ host.Files = Files{}

// Temp is the system's folder for temporary files.
func (Files) Temp(context.Context) (string, error) { return filepath.Abs(os.TempDir()) }

// Stat describes a file.
func (Files) Stat(_ context.Context, path string) (host.Info, error) {
	if err := absolute(path); err != nil {
		return host.Info{}, err
	}
	found, err := os.Lstat(path)
	if err != nil {
		return host.Info{}, err
	}
	info := host.Info{Mode: found.Mode(), ModTime: found.ModTime()}
	switch {
	case found.Mode().IsRegular():
		info.Size = found.Size()
	case found.IsDir():
		if info.Empty, err = isEmpty(path); err != nil {
			return host.Info{}, err
		}
	}
	return info, nil
}

func isEmpty(dir string) (bool, error) {
	f, err := os.Open(dir)
	if err != nil {
		return false, err
	}
	defer f.Close()
	_, err = f.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	return false, err
}

// Mkdir makes a folder. The umask does not apply.
func (Files) Mkdir(_ context.Context, path string, perm fs.FileMode) error {
	if err := absolute(path); err != nil {
		return err
	}
	if err := os.Mkdir(path, perm); err != nil {
		return named(err)
	}
	return os.Chmod(path, perm)
}

// MkdirAll makes a folder and those above it.
func (Files) MkdirAll(_ context.Context, path string, perm fs.FileMode) error {
	if err := absolute(path); err != nil {
		return err
	}
	return named(os.MkdirAll(path, perm))
}

// Link makes a program available at another path, in the first way that works: not every system, or user, can make links.
func (Files) Link(_ context.Context, target, path string) error {
	if err := errors.Join(absolute(target), absolute(path)); err != nil {
		return err
	}
	err := os.Symlink(target, path)
	if err == nil || errors.Is(err, fs.ErrExist) || os.Link(target, path) == nil {
		return err
	}
	in, err := os.Open(target)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return named(err)
	}
	_, err = io.Copy(out, in)
	return named(errors.Join(err, out.Close()))
}

// RemoveAll removes a file, or a folder and what is in it, however hard that is made: see discard.All.
func (Files) RemoveAll(ctx context.Context, path string) error {
	if err := absolute(path); err != nil {
		return err
	}
	return discard.All(ctx, path)
}

// Taken measures a file or folder.
func (Files) Taken(ctx context.Context, path string) (bytes int64, err error) {
	if err := absolute(path); err != nil {
		return 0, err
	}
	bytes = scarcity.Taken(ctx, path)
	return bytes, context.Cause(ctx)
}

// Free measures what is left of a folder's disk.
func (Files) Free(_ context.Context, path string) (bytes int64, known bool, err error) {
	if err := absolute(path); err != nil {
		return 0, false, err
	}
	bytes, known = scarcity.Free(path)
	return bytes, known, nil
}

// Unpack unpacks a tar archive.
func (Files) Unpack(ctx context.Context, dir string, in io.Reader) error {
	if err := absolute(dir); err != nil {
		return err
	}
	return named(archive.Unpack(ctx, in, dir))
}

// Pack writes a tar archive.
func (Files) Pack(ctx context.Context, path string, out io.Writer) error {
	if err := absolute(path); err != nil {
		return err
	}
	return archive.Pack(ctx, out, path)
}

// absolute refuses paths whose meaning depends on the current folder.
func absolute(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%q is not an absolute path", path)
	}
	return nil
}
