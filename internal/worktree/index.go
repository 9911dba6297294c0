package worktree

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// copyIndex copies the index, whole or in two parts. It vouches for the copies of files too: they have the times of the originals, and the
// copy's configuration makes Git look at times and sizes alone (see vouching). Otherwise the first `git status` in the copy would read
// every file. The time of the index itself is kept, by which Git knows which of its entries prove nothing.
func (r *repository) copyIndex(to string) error {
	names, err := fs.Glob(os.DirFS(r.dir), "sharedindex.*")
	if err != nil {
		return err
	}
	for _, name := range append(names, "index") {
		data, info, err := readFile(r.dir, name, MaxIndex)
		if gone(err) {
			continue // a repository without commits has none
		}
		if err != nil {
			return err
		}
		copied := filepath.Join(to, name)
		if err := os.WriteFile(copied, data, 0o666); err != nil {
			return err
		}
		if err := os.Chtimes(copied, time.Time{}, info.ModTime()); err != nil {
			return err
		}
	}
	return nil
}
