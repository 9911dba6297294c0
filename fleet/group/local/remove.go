package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rungci/rung/fleet/group/local/machine"
)

const (
	// endTime bounds how long the processes of a machine may take to end once they are killed.
	endTime = time.Minute
	// askTime bounds how long the keeper of a container may take to end by itself, and with it the container.
	askTime = 20 * time.Second
	// look is the pause between two looks at whether they have.
	look = 5 * time.Millisecond
)

// Delete implements instancegroup.Cloud. What could not be removed is tried again.
func (c *cloud) Delete(ctx context.Context, id string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := context.Cause(c.ctx); err != nil {
		return err
	}
	r := c.machines[id]
	if r == nil || r.removing {
		return nil
	}
	if !r.Leaving {
		r.Leaving = true
		if err := c.save(r); err != nil {
			r.Leaving = false
			return err
		}
	}
	c.remove(r)
	return nil
}

// remove ends a machine and removes all of it, which takes a while. The caller holds the lock.
func (c *cloud) remove(r *record) {
	r.removing = c.ending.Go(func() { // else the next process does it
		ctx, cancel := context.WithTimeout(c.ctx, endTime)
		defer cancel()
		err := end(ctx, c.path(r.ID), r, func() error { return c.storage.takeAllBack(r.ID) })
		c.mu.Lock()
		defer c.mu.Unlock()
		r.removing = false
		switch {
		case err == nil:
			delete(c.machines, r.ID)
		case c.ctx.Err() == nil:
			r.reason = fmt.Sprintf("it could not be removed, and will be when it is deleted again: %v", err)
			c.log.Error("a machine could not be removed", "machine", r.ID, "error", err)
		}
	})
}

// end kills the processes of a machine, waits until they are gone, saves its volumes, and removes its folder. The record goes last.
func end(ctx context.Context, folder string, r *record, save func() error) error {
	ask(ctx, r.Keeper)
	if err := kill(ctx, folder, r); err != nil {
		return err
	}
	if err := machine.Remove(ctx, folder); err != nil {
		return err
	}
	if r.Group != nil {
		if err := r.Group.Remove(ctx); err != nil {
			return err
		}
	}
	if err := save(); err != nil {
		return err
	}
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.Name() != recordFile {
			err = errors.Join(err, removeAll(filepath.Join(folder, e.Name())))
		}
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(folder)
}

// ask gives the keeper of a container time to end with it: a container that it is just making could otherwise come later.
func ask(ctx context.Context, keeper machine.Process) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	for keeper.Ask(); keeper.Lives(); {
		select {
		case <-ctx.Done():
			return
		case <-time.After(look):
		}
	}
}

// kill kills the machine's processes: its keeper, which ends the others; and these, should it have been killed before it could.
func kill(ctx context.Context, folder string, r *record) error {
	for {
		status, _, err := machine.ReadStatus(folder) // may come while the keeper begins
		if err != nil {
			status = machine.Status{}
		}
		left := false
		for _, p := range []machine.Process{r.Keeper, status.Keeper, status.Door, status.Init} {
			p.Kill()
			left = left || p.Lives()
		}
		if !left && (r.Group == nil || r.Group.Kill(ctx) == nil) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("its processes have not ended: %w", context.Cause(ctx))
		case <-time.After(look):
		}
	}
}

// removeAll removes a folder also where what is in it was taken the permission to be removed.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(path, func(path string, e fs.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(path, private)
		}
		return nil
	})
	return os.RemoveAll(path)
}
