package local

import (
	"cmp"
	"context"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/rungci/rung/local/repository"
)

const (
	// watchEvery is how often the files are looked at.
	watchEvery = 500 * time.Millisecond
	// listEvery is after how many looks the files are listed again, so that new ones are found.
	listEvery = 4
)

// Watcher knows how the files of a project were when it was made.
type Watcher struct {
	dir   string
	env   []string
	known map[string]stamp
	root  string
}

// stamp tells versions of a file apart.
type stamp struct {
	size int64
	time time.Time
	mode os.FileMode
}

// Watch takes note of the files of the project around a folder, those that Git ignores left out.
func Watch(ctx context.Context, dir string, env []string) (*Watcher, error) {
	w := &Watcher{dir: cmp.Or(dir, "."), env: env}
	var err error
	w.known, err = w.list(ctx)
	return w, err
}

// list looks at all files that there are now.
func (w *Watcher) list(ctx context.Context) (map[string]stamp, error) {
	r, err := repository.Open(ctx, w.dir, w.env)
	if err != nil {
		return nil, err
	}
	w.root = r.Root
	names, err := r.Files(ctx)
	if err != nil {
		return nil, err
	}
	return w.look(names), nil
}

// look looks at files by their names.
func (w *Watcher) look(names []string) map[string]stamp {
	out := make(map[string]stamp, len(names))
	for _, name := range names {
		if info, err := os.Lstat(filepath.Join(w.root, filepath.FromSlash(name))); err == nil {
			out[name] = stamp{info.Size(), info.ModTime(), info.Mode()}
		}
	}
	return out
}

// Wait waits until files have changed and then stay as they are, and returns the name of one of them.
func (w *Watcher) Wait(ctx context.Context) (string, error) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	changed, last := "", w.known
	for n := 0; ; n++ {
		now := map[string]stamp(nil)
		if n%listEvery == 0 || changed != "" {
			var err error
			if now, err = w.list(ctx); err != nil {
				return "", err
			}
		} else {
			names := make([]string, 0, len(last))
			for name := range last {
				names = append(names, name)
			}
			now = w.look(names)
		}
		switch one := difference(last, now); {
		case one != "":
			changed, last = one, now
		case changed != "":
			return changed, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// difference names a file that is not the same in both; "" when all are.
func difference(a, b map[string]stamp) string {
	if maps.Equal(a, b) {
		return ""
	}
	for name, s := range b {
		if a[name] != s {
			return name
		}
	}
	for name := range a {
		if _, there := b[name]; !there {
			return name
		}
	}
	return ""
}
