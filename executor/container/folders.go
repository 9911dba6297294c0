package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/usage"
	"github.com/rungci/rung/internal/scarcity"
)

// Folders of Volumes.Folder that are kept are on record as volumes are, where this process may remove them: the engine is on this machine, and the
// files in them, which are those of any user, are root's to remove.

const (
	// foldersPlace is where they are, whichever engine a job has them in.
	foldersPlace = "this machine"
	// keptPrefix begins the names of volumes and folders that are kept.
	keptPrefix = "rung-volume-"
)

// removes reports whether this process may remove what jobs leave in folders of the engine's machine.
func (e *Engine) removes() bool {
	return e.on == nil && strings.HasPrefix(e.Host, "unix:") && os.Geteuid() == 0
}

// keptInFolder records a folder that outlives the job, before the engine makes it.
func (v operator) keptInFolder(folder string) error {
	uses := v.executor.setup.Uses
	if v.job.Root != "" || !v.executor.engine.removes() {
		return nil
	}
	defer uses.Hold()()
	k := usage.Key{Place: foldersPlace, Kind: executor.StoredVolume, ID: filepath.Clean(folder)}
	if err := uses.Add(k); err != nil {
		return err
	}
	v.marks.Add(uses.Use(k))
	return nil
}

// folders are those on record that are there.
func (e *Executor) folders(ctx context.Context) (all []executor.Stored, err error) {
	known, err := e.setup.Uses.List(foldersPlace)
	if err != nil || len(known) == 0 || !e.engine.removes() {
		return nil, err
	}
	bound, err := e.client.Containers.Bound(ctx)
	if err != nil {
		return nil, e.unreachable(ctx, err)
	}
	for _, t := range known {
		root, _, err := openKept(t.ID)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
			if !e.setup.Uses.InUse(t.Key) { // or it is about to be made
				err = e.setup.Uses.Forget(t.Key)
			}
			if err == nil {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		_ = root.Close()
		all = append(all, executor.Stored{
			Kind: t.Kind, Place: t.Place, ID: t.ID, Name: t.ID, Used: t.Used, Folder: root.Name(),
			InUse: e.setup.Uses.InUse(t.Key) || has(bound, t.ID), Size: e.setup.Uses.Size(t, func() int64 { return scarcity.Taken(ctx, t.ID) }),
		})
	}
	return all, nil
}

// openKept opens the operator's folder that a kept one is in. It is an error unless the kept one is there, is a folder and not a link to one, and
// has a name of ours.
func openKept(folder string) (root *os.Root, name string, err error) {
	base := filepath.Dir(filepath.Dir(folder))
	if !strings.HasPrefix(filepath.Base(folder), keptPrefix) {
		return nil, "", fmt.Errorf("%s is not one of ours: %w", folder, fs.ErrNotExist)
	}
	if name, err = filepath.Rel(base, folder); err != nil {
		return nil, "", err
	}
	if root, err = os.OpenRoot(base); err != nil {
		return nil, "", err
	}
	for _, dir := range []string{filepath.Dir(name), name} {
		info, err := root.Lstat(dir)
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a folder: %w", filepath.Join(base, dir), fs.ErrNotExist)
		}
		if err != nil {
			return nil, "", errors.Join(err, root.Close())
		}
	}
	return root, name, nil
}

// has reports whether containers have a folder, or one in it.
func has(bound []string, folder string) bool {
	return slices.ContainsFunc(bound, func(source string) bool { return within(path.Clean(source), folder) })
}

// discardFolder removes a folder that is kept, and the one around it if that was the last one. Links are not followed.
func (e *Executor) discardFolder(ctx context.Context, folder string) error {
	bound, err := e.client.Containers.Bound(ctx)
	if err != nil {
		return err
	}
	if has(bound, folder) {
		return usage.ErrInUse
	}
	root, name, err := openKept(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.RemoveAll(name); err != nil {
		return err
	}
	_ = root.Remove(filepath.Dir(name)) // unless there are others in it
	return nil
}
