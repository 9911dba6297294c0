package direct

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/sandbox/rootfs"
	"github.com/rungci/rung/executor/usage"
	"github.com/rungci/rung/internal/scarcity"
)

// The files of images that were unpacked for a job are kept for later ones, and are on record in Setup.Uses. Those that another program has unpacked into the same
// folder are its own, and so are images of the operator.

// Folder is where the files of images are.
func (e *Executor) Folder() string { return e.store.Folder }

func (e *Executor) key(id string) usage.Key {
	return usage.Key{Place: e.store.Folder, Kind: executor.StoredImage, ID: id}
}

// uses keeps an image from being removed as long as the job has its environment. It is false for one that is gone already.
func (v *environment) uses(i *rootfs.Image, name string) (bool, error) {
	book := v.executor.setup.Uses
	defer book.Hold()()
	done, here := v.executor.store.Use(i)
	if !here {
		return false, nil
	}
	v.marks.Add(done)
	k := v.executor.key(i.ID)
	if i.ID == "" || !i.Unpacked && !book.Has(k) {
		return true, nil
	}
	if name != "" {
		if err := book.Add(k, name); err != nil {
			return true, err
		}
	}
	v.marks.Add(book.Use(k))
	return true, nil
}

// Stored lists the images on record whose files are here, and the folders that are kept. It implements executor.Storer.
func (e *Executor) Stored(ctx context.Context) (*executor.Stock, error) {
	uses := e.setup.Uses
	stock := &executor.Stock{Folder: e.store.Folder}
	known, err := uses.List(e.store.Folder)
	for _, t := range known {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		dir, busy := e.store.FolderOf(t.ID), e.store.Busy
		if t.Kind != executor.StoredImage {
			dir, busy = t.ID, isBusy
		}
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			if err := uses.Forget(t.Key); err != nil {
				return nil, err
			}
			continue
		}
		it := executor.Stored{
			Kind: t.Kind, Place: t.Place, ID: t.ID, Name: t.ID, Used: t.Used, InUse: uses.InUse(t.Key) || busy(t.ID),
			Size: uses.Size(t, func() int64 { return scarcity.Taken(ctx, dir) }),
		}
		if len(t.Names) > 0 {
			it.Name = t.Names[0]
		}
		if t.Kind != executor.StoredImage {
			it.Folder = filepath.Dir(t.ID)
		}
		stock.Things = append(stock.Things, it)
	}
	return stock, err
}

// Discard removes the files of an image that is on record, or a kept folder. It implements executor.Storer.
func (e *Executor) Discard(ctx context.Context, what executor.Stored) error {
	if what.Place != e.store.Folder {
		return nil
	}
	if what.Kind != executor.StoredImage {
		return e.discardKept(ctx, usage.Key{Place: what.Place, Kind: what.Kind, ID: what.ID})
	}
	return e.setup.Uses.Remove(e.key(what.ID), func(t usage.Thing) error {
		err := e.store.Remove(t.ID)
		if errors.Is(err, rootfs.ErrInUse) {
			return usage.ErrInUse
		}
		if err != nil {
			return fmt.Errorf("removing the files of the image %s: %w", what.Name, err)
		}
		return nil
	})
}
