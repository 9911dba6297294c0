package pages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/selection"
)

// copier copies the pages.
type copier struct {
	call  *program.Call
	from  *os.Root
	to    string
	files int
}

// copy copies a folder of the pages, and all that is in it. Names are bytes: not all are UTF-8.
func (c *copier) copy(ctx context.Context, folder string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	entries, err := c.list(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(folder, e.Name())
		if name == deploymentsFile {
			continue
		}
		target := filepath.Join(c.to, name)
		switch e.Type() {
		case fs.ModeDir:
			if err = os.Mkdir(target, 0o755); err == nil {
				err = c.copy(ctx, name)
			}
		case fs.ModeSymlink:
			err = c.link(name, target)
		case 0:
			err = c.file(name, target)
		default:
			selection.Warn(c.call, "%q is left out: it is not a file", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) list(folder string) ([]fs.DirEntry, error) {
	d, err := c.from.Open(folder)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.ReadDir(-1)
}

// link copies a symbolic link. It must lead to something of the pages, on no way out of them.
func (c *copier) link(name, target string) error {
	text, err := c.from.Readlink(name)
	if err != nil {
		return err
	}
	if _, err := c.from.Stat(name); filepath.IsAbs(text) || err != nil {
		if !filepath.IsAbs(text) && errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the symbolic link %q leads to %q, which does not exist", name, text)
		}
		return fmt.Errorf("the symbolic link %q leads out of the pages, to %q", name, text)
	}
	c.files++
	return os.Symlink(text, target)
}

func (c *copier) file(name, target string) error {
	in, err := c.from.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%q changed while it was copied", name)
	}
	out, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("copying %q: %w", name, err)
	}
	c.files++
	return os.Chtimes(target, info.ModTime(), info.ModTime())
}
