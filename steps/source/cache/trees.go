package cache

import (
	"context"
	"errors"
	"fmt"
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
	if err := protect(temp); err != nil {
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

// protect takes the right to write away from everything in a tree.
func protect(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() &^ 0o222
		if entry.IsDir() {
			mode = 0o555
		}
		return os.Chmod(path, mode)
	})
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
