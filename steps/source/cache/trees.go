package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/lockedfile"
	"github.com/rungci/rung/steps/source/tree"
)

// treesDir has packages unpacked, by the digits of their content digest. Nothing in them can be written to, short of by root.
const treesDir = "trees"

// ErrChanged says that somebody wrote into an unpacked package.
var ErrChanged = errors.New("the unpacked package in the cache was changed")

// Tree returns the folder of a package, unpacked, every file of it verified. It is shared by all runs: nothing may be written
// there. The error is ErrChanged when something was, and fs.ErrNotExist when the package is not cached.
func (c *Cache) Tree(digest string) (dir string, m *tree.Manifest, err error) {
	dir = filepath.Join(c.dir, treesDir, strings.TrimPrefix(digest, "sha256:"))
	if _, err := c.packagePath(digest); err != nil {
		return "", nil, err
	}
	if err := c.holdTrees(); err != nil {
		return "", nil, err
	}
	if m, err = verified(dir, digest); !errors.Is(err, fs.ErrNotExist) {
		return dir, m, err
	}
	pack, err := c.Open(digest)
	if err != nil {
		return "", nil, err
	}
	defer pack.Close()
	parent, err := c.files.folder(treesDir)
	if err != nil {
		return "", nil, err
	}
	temp, err := os.MkdirTemp(parent, "new-")
	if err != nil {
		return "", nil, err
	}
	defer RemoveTree(temp)
	if m, err = tree.Extract(pack, digest, temp, ""); err != nil {
		return "", nil, err
	}
	if err := tree.Protect(temp); err != nil {
		return "", nil, err
	}
	if err := os.Rename(temp, dir); err != nil {
		m, verr := verified(dir, digest) // another process was faster
		if verr != nil {
			return "", nil, fmt.Errorf("keeping the unpacked package: %w", err)
		}
		return dir, m, nil
	}
	return dir, m, nil
}

// LayOut makes a folder, which must not exist, of the files of a package: real folders, and files that are hard links to those of the
// unpacked package where the file system allows it. What is there is verified, and protected against being written to. Nothing is left of
// it when it fails; the errors are those of Tree.
func (c *Cache) LayOut(digest, to string) (*tree.Manifest, error) {
	dir, m, err := c.Tree(digest)
	if err != nil {
		return nil, err
	}
	if err := shareFiles(dir, to); err != nil {
		_ = RemoveTree(to)
		return nil, fmt.Errorf("laying out a package: %w", err)
	}
	return m, nil
}

// shareFiles makes the folder to of the files in from.
func shareFiles(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	var folders []string
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case entry.IsDir():
			folders = append(folders, target)
			return os.Mkdir(target, 0o700)
		case entry.Type()&fs.ModeSymlink != 0:
			leads, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(leads, target)
		case os.Link(path, target) == nil:
			return nil
		}
		return copyFile(path, target) // another file system, or one without hard links
	})
	for _, folder := range folders {
		err = errors.Join(err, os.Chmod(folder, 0o555))
	}
	return err
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// treesLock is held, shared, by every process that reads unpacked packages, for as long as it lives.
const treesLock = "trees"

// heldTrees are the locks that this process holds, by the folder of the cache.
var heldTrees = struct {
	sync.Mutex
	files map[string]*lockedfile.File
}{files: map[string]*lockedfile.File{}}

// holdTrees keeps Prune from removing what this process reads.
func (c *Cache) holdTrees() error {
	heldTrees.Lock()
	defer heldTrees.Unlock()
	if heldTrees.files[c.dir] != nil {
		return nil
	}
	dir, err := c.files.folder(locksDir)
	if err != nil {
		return err
	}
	f, err := lockedfile.OpenFile(filepath.Join(dir, treesLock), os.O_RDONLY|os.O_CREATE, 0o600)
	if err == nil {
		heldTrees.files[c.dir] = f
	}
	return err
}

// treesFree reports whether no other process reads unpacked packages. None begins to before unlock is called.
func (c *Cache) treesFree(ctx context.Context) (free bool, unlock func()) {
	heldTrees.Lock()
	held := heldTrees.files[c.dir] != nil
	heldTrees.Unlock()
	if held {
		return false, func() {}
	}
	if _, err := os.Stat(filepath.Join(c.dir, treesDir)); err != nil {
		return true, func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	unlock, err := c.files.lock(ctx, treesLock)
	if err != nil {
		return false, func() {}
	}
	return true, unlock
}

// verified reads an unpacked package and compares its content with its digest.
func verified(dir, digest string) (*tree.Manifest, error) {
	if _, err := os.Lstat(dir); err != nil {
		return nil, err
	}
	m, err := tree.ScanExact(dir)
	if err != nil || m.Digest("") != digest {
		return nil, errors.Join(ErrChanged, err)
	}
	touch(dir)
	return m, nil
}

// RemoveTree removes an unpacked package, which is protected against that.
func RemoveTree(dir string) error {
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
