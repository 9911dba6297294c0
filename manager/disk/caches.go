package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/usage"
)

// CacheArchive and CacheMark are the files of a cache, in the folder of its key.
const CacheArchive, CacheMark = "cache.zip", "cache.mark"

// Caches are the caches of jobs in a folder:
//
//	ROOT/SERVER/PROJECT/KEY/cache.zip, cache.mark
//
// When one was used is the time of its folder, see Touch. It is an executor.Storer.
type Caches struct {
	Root string
	// Servers are the folders that hold those of projects. What is beside them is somebody else's.
	Servers []string
	// Busy reports whether a job of a project runs, by its folder: SERVER/PROJECT, with a slash. Its caches then stay, as nobody knows what it will
	// ask for.
	Busy func(project string) bool
}

// Touch remembers that a cache is used, by the folder of its key. One that does not exist stays so.
func Touch(folder string) {
	now := time.Now()
	_ = os.Chtimes(folder, now, now)
}

// Stored lists the caches.
func (c *Caches) Stored(ctx context.Context) (*executor.Stock, error) {
	stock := &executor.Stock{Folder: c.Root}
	root, err := os.OpenRoot(c.Root)
	if errors.Is(err, fs.ErrNotExist) {
		return &executor.Stock{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return nil // it is being removed, or nobody may look into it
		case path.Base(name) != CacheArchive || !entry.Type().IsRegular():
			return nil
		}
		dir := path.Dir(name)
		project, is := c.projectOf(dir)
		if !is {
			return nil
		}
		archive, err := entry.Info()
		if err != nil {
			return nil
		}
		folder, err := root.Stat(dir)
		if err != nil {
			return nil
		}
		stock.Things = append(stock.Things, executor.Stored{
			Kind: executor.StoredCache, Place: c.Root, ID: dir, Name: filepath.Join(c.Root, dir), Size: archive.Size(), Used: folder.ModTime(), InUse: c.Busy(project),
		})
		return nil
	})
	return stock, err
}

// projectOf is the project whose cache a folder holds.
func (c *Caches) projectOf(dir string) (string, bool) {
	parts := strings.SplitN(dir, "/", 3)
	if len(parts) < 3 || !slices.Contains(c.Servers, parts[0]) {
		return "", false
	}
	return path.Join(parts[0], parts[1]), true
}

// Discard removes a cache.
func (c *Caches) Discard(_ context.Context, what executor.Stored) error {
	project, is := c.projectOf(what.ID)
	if !is || what.Place != c.Root {
		return nil
	}
	if c.Busy(project) {
		return usage.ErrInUse
	}
	root, err := os.OpenRoot(c.Root) // a job of level none may have put a link there
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range []string{CacheArchive, CacheMark} { // a mark without its archive says nothing
		if err := root.Remove(path.Join(what.ID, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for dir := what.ID; dir != "."; dir = path.Dir(dir) {
		if root.Remove(dir) != nil {
			break // it is not empty: there are caches whose keys begin with this one
		}
	}
	return nil
}
