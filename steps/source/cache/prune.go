package cache

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// What the cache keeps when nobody says otherwise.
const (
	DefaultMaxSize = 5 << 30             // bytes
	DefaultMaxAge  = 90 * 24 * time.Hour // since the last use
)

const (
	// abandoned is how old a file must be that belongs to no process any more: one that is half written, or a broken download.
	abandoned = 24 * time.Hour
	// tidyEvery is how often the cache prunes itself.
	tidyEvery = 24 * time.Hour
	// tidySpares is how lately a thing must have been used to stay when the cache prunes itself: the time of the last use is not
	// exact (touchAfter).
	tidySpares = 2 * touchAfter
	// lockPatience is how long Prune waits for a mirror that another process uses, before it leaves that alone.
	lockPatience = 200 * time.Millisecond
)

// PruneOptions say what stays.
type PruneOptions struct {
	MaxSize int64         // bytes; 0 means no limit
	MaxAge  time.Duration // since the last use; 0 means no limit
	All     bool          // nothing stays
	// Spare is the time after its last use in which a thing stays anyway.
	Spare time.Duration
	// DryRun removes nothing, and says what would be removed.
	DryRun bool
}

// Pruned says what was removed.
type Pruned struct {
	Removed []Entry `json:"removed"`
	Freed   int64   `json:"freed"` // bytes
	Left    int64   `json:"left"`  // bytes
}

// Prune removes what was not used for longest until what is left is within the bounds. Other processes may use the cache
// meanwhile: a package that is open stays readable, a mirror that is in use stays, and so does, while any run goes on, every
// unpacked package that was used in the last day.
func (c *Cache) Prune(ctx context.Context, o PruneOptions) (*Pruned, error) {
	entries, err := c.List()
	if err != nil {
		return nil, err
	}
	result := &Pruned{Removed: []Entry{}}
	for _, e := range entries {
		result.Left += e.Size
	}
	now := time.Now()
	treesFree, unlock := c.treesFree(ctx)
	defer unlock()
	for _, e := range slices.Backward(entries) {
		age := now.Sub(e.Used)
		if e.Kind == Unpacked && !treesFree && age < abandoned {
			continue // a run may be reading it
		}
		tooOld := o.MaxAge > 0 && age > o.MaxAge || e.Kind == Download && age > abandoned
		tooMuch := o.MaxSize > 0 && result.Left > o.MaxSize
		if !o.All && !tooOld && !tooMuch || age < o.Spare {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return result, err
		}
		if !o.DryRun && !c.remove(ctx, e) {
			continue
		}
		result.Removed = append(result.Removed, e)
		result.Freed += e.Size
		result.Left -= e.Size
	}
	if !o.DryRun {
		c.sweep(o, now)
	}
	return result, nil
}

// remove takes one thing out, and reports whether it is gone.
func (c *Cache) remove(ctx context.Context, e Entry) bool {
	if e.Kind == Mirror {
		return c.removeMirror(ctx, e)
	}
	if e.Kind == Unpacked {
		return RemoveTree(e.path) == nil
	}
	if info, err := os.Stat(e.path); err == nil && info.ModTime().UTC().After(e.Used) {
		return false // it was used since
	}
	err := os.Remove(e.path)
	return err == nil || errors.Is(err, fs.ErrNotExist)
}

// removeMirror takes a mirror out if nobody uses it. It goes out of the way in one move, so that what breaks off here leaves
// nothing that looks like a mirror.
func (c *Cache) removeMirror(ctx context.Context, e Entry) bool {
	if strings.HasPrefix(e.Name, removedPrefix) {
		return os.RemoveAll(e.path) == nil
	}
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	unlock, err := c.files.lock(ctx, mirrorLock+e.Name)
	if err != nil {
		return false
	}
	defer unlock()
	away := filepath.Join(filepath.Dir(e.path), removedPrefix+e.Name)
	_ = os.RemoveAll(away)
	if err := os.Rename(e.path, away); err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return os.RemoveAll(away) == nil
}

// removedPrefix begins the names of mirrors that are being removed.
const removedPrefix = "removed-"

// sweep removes small files that have lost their meaning: pins of packages that are gone, names that nobody asked for in a long
// time, files that a process was killed over.
func (c *Cache) sweep(o PruneOptions, now time.Time) {
	for _, dir := range []string{packagesDir, pinsDir, namesDir, treesDir} {
		files, _ := c.files.entries(dir)
		for _, file := range files {
			if info, err := file.Info(); err == nil && strings.HasPrefix(file.Name(), tempPrefix) && now.Sub(info.ModTime()) > abandoned {
				_ = RemoveTree(filepath.Join(c.dir, dir, file.Name()))
			}
		}
	}
	c.files.eachJSON(pinsDir, func(path string, text []byte) {
		var p pinned
		if json.Unmarshal(text, &p) == nil && c.has(p.Digest) {
			return
		}
		if info, err := os.Stat(path); err == nil && (o.All || now.Sub(info.ModTime()) > o.Spare) {
			_ = os.Remove(path)
		}
	})
	c.files.eachJSON(namesDir, func(path string, text []byte) {
		var n Name
		if json.Unmarshal(text, &n) != nil || o.All || o.MaxAge > 0 && now.Sub(n.Time) > o.MaxAge {
			_ = os.Remove(path)
		}
	})
}

// has reports whether a package is there.
func (c *Cache) has(digest string) bool {
	path, err := c.packagePath(digest)
	if err != nil {
		return false
	}
	_, err = os.Stat(path)
	return err == nil
}

// tidy keeps the cache within its usual bounds: Put calls it, and once a day it does something. What goes wrong is left for the
// next day.
func (c *Cache) tidy() {
	stamp := filepath.Join(c.dir, "tidied")
	info, err := os.Stat(stamp)
	if err == nil && time.Since(info.ModTime()) < tidyEvery {
		return
	}
	if os.WriteFile(stamp, nil, 0o600) != nil {
		return
	}
	now := time.Now()
	if os.Chtimes(stamp, now, now) != nil || err != nil { // the first time there is nothing to remove
		return
	}
	_, _ = c.Prune(context.Background(), PruneOptions{MaxSize: DefaultMaxSize, MaxAge: DefaultMaxAge, Spare: tidySpares})
}
