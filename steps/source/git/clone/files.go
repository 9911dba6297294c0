package clone

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/index"

	"github.com/rungci/rung/steps/source/git"
	"github.com/rungci/rung/steps/source/tree"
)

// maxLink is the longest target of a link, in bytes; no system has longer ones.
const maxLink = 1 << 16

// CheckOut writes the files of a commit, which is here, to the folder, and makes it the detached HEAD.
func (c *Clone) CheckOut(ctx context.Context, commit string) error {
	_, tree, err := c.store.Commit(plumbing.NewHash(commit))
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(c.options.Folder)
	if err != nil {
		return err
	}
	defer root.Close()
	w := &writer{ctx: ctx, store: c.store, root: root, attrs: &c.attrs, index: &index.Index{Version: indexVersion}, folders: map[string]bool{".": true}}
	if err := w.all(tree); err != nil {
		return refusePath(err)
	}
	if err := c.writeIndex(w.index); err != nil {
		return err
	}
	return c.write("HEAD", commit+"\n")
}

// refusePath says that hostile names do not go away.
func refusePath(err error) error {
	var hostile *tree.PathError
	if errors.As(err, &hostile) {
		return &RefusedError{fmt.Errorf("the commit cannot be checked out: %w", err)}
	}
	if errors.Is(err, git.ErrTooLarge) {
		return Refuse("%w", err)
	}
	return err
}

// indexVersion is that of the file index which every git reads.
const indexVersion = 2

func (c *Clone) writeIndex(ix *index.Index) error {
	var text bytes.Buffer
	if err := index.NewEncoder(&text).Encode(ix); err != nil {
		return fmt.Errorf("writing the index: %w", err)
	}
	return os.WriteFile(filepath.Join(c.gitDir, "index"), text.Bytes(), 0o666)
}

// writer writes the files of one tree.
type writer struct {
	ctx     context.Context
	store   *git.Store
	root    *os.Root
	attrs   *attributes
	index   *index.Index
	folders map[string]bool // that were made
	links   []git.File      // that are made last
}

func (w *writer) all(tree plumbing.Hash) error {
	if err := w.store.Files(w.ctx, tree, w.add); err != nil {
		return err
	}
	for _, f := range w.links {
		if err := w.link(f); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) add(f git.File) error {
	if err := context.Cause(w.ctx); err != nil {
		return err
	}
	if err := w.folder(path.Dir(f.Path)); err != nil {
		return err
	}
	switch f.Mode {
	case git.ModeLink:
		w.links = append(w.links, f)
		return nil
	case git.ModeSubmodule:
		w.index.Entries = append(w.index.Entries, &index.Entry{Name: f.Path, Mode: filemode.Submodule, Hash: f.Hash})
		return w.folder(f.Path)
	}
	return w.file(f)
}

// folder makes a folder, with those that it is in. One that is there was made here: the folder was empty, and no link is made yet.
func (w *writer) folder(name string) error {
	if w.folders[name] {
		return nil
	}
	if err := w.folder(path.Dir(name)); err != nil {
		return err
	}
	if err := w.root.Mkdir(filepath.FromSlash(name), 0o777); err != nil {
		info, statErr := w.root.Lstat(filepath.FromSlash(name))
		if !errors.Is(err, fs.ErrExist) || statErr != nil || !info.IsDir() {
			return exists(name, err)
		}
	}
	w.folders[name] = true
	return nil
}

// exists explains that something is there already, in a folder that was empty.
func exists(name string, err error) error {
	if errors.Is(err, fs.ErrExist) {
		return &tree.PathError{Path: name, Why: "already exists: this file system takes two names of the commit for the same"}
	}
	return err
}

// create makes a file where nothing is.
func (w *writer) create(name string, perm fs.FileMode, write func(io.Writer) error) (fs.FileInfo, error) {
	f, err := w.root.OpenFile(filepath.FromSlash(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return nil, exists(name, err)
	}
	if err := write(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("writing %s: %w", name, err)
	}
	info, err := f.Stat()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return info, err
}

func (w *writer) file(f git.File) error {
	perm, mode := fs.FileMode(0o666), filemode.Regular
	if f.Mode == git.ModeExecutable {
		perm, mode = 0o777, filemode.Executable
	}
	info, err := w.create(f.Path, perm, func(to io.Writer) error { return w.store.CopyBlob(to, f.Hash) })
	if err != nil {
		return err
	}
	if path.Base(f.Path) == ".gitattributes" {
		if err := w.attrs.read(w.store, f); err != nil {
			return err
		}
	}
	w.enter(f, mode, info)
	return nil
}

// link makes a link, whatever it leads to: nothing is written after the links. On Windows, as git does there, it is a file.
func (w *writer) link(f git.File) error {
	size, err := w.store.BlobSize(f.Hash)
	if err != nil {
		return err
	}
	if size > maxLink {
		return &tree.PathError{Path: f.Path, Why: fmt.Sprintf("is a link of %d bytes", size)}
	}
	var target bytes.Buffer
	if err := w.store.CopyBlob(&target, f.Hash); err != nil {
		return err
	}
	var info fs.FileInfo
	if runtime.GOOS == "windows" {
		info, err = w.create(f.Path, 0o666, func(to io.Writer) error { _, err := to.Write(target.Bytes()); return err })
	} else if err = w.root.Symlink(target.String(), f.Path); err == nil {
		info, err = w.root.Lstat(f.Path)
	}
	if err != nil {
		return exists(f.Path, err)
	}
	w.enter(f, filemode.Symlink, info)
	return nil
}

// enter writes a file to the index, with what git compares to see whether it has changed since.
func (w *writer) enter(f git.File, mode filemode.FileMode, info fs.FileInfo) {
	e := &index.Entry{Name: f.Path, Mode: mode, Hash: f.Hash, ModifiedAt: info.ModTime(), Size: uint32(info.Size())}
	system(e, info)
	w.index.Entries = append(w.index.Entries, e)
}
