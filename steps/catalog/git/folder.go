package git

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// hostile are files and folders of a repository that an earlier job can harm this one with: hooks, and configuration, which names programs;
// what leads to a repository elsewhere, with its configuration; and what makes files differ from those of the commit.
var hostile = []string{"hooks", "config", "config.worktree", "commondir", "gitdir", "worktrees", "info", "refs/replace"}

// cleanRepository removes what an earlier job left in a repository and could harm this one: what is hostile, and locks of a git that was
// killed. Of objects only the locks go.
func cleanRepository(git string) error {
	if err := disarm(git); err != nil {
		return err
	}
	objects := filepath.Join(git, "objects")
	return filepath.WalkDir(git, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			switch {
			case filepath.Dir(path) == objects && isLoose(name):
				return fs.SkipDir
			case path != git && isGitDir(path): // a submodule's
				return disarm(path)
			}
			return nil
		}
		if !strings.HasSuffix(name, ".lock") {
			return nil
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// disarm removes what is hostile in one repository, whatever it is: a link is removed, and not followed.
func disarm(git string) error {
	for _, name := range hostile {
		if err := removeAll(filepath.Join(git, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	return nil
}

// isLoose reports whether a folder of objects is one of those, 256 at most, that loose objects are in.
func isLoose(name string) bool {
	const digits = 2
	return len(name) == digits && strings.Trim(name, "0123456789abcdef") == ""
}

// isGitDir reports whether a folder is a repository: the main one, or a submodule's below modules/. A branch can be called config.
func isGitDir(folder string) bool {
	_, err := os.Lstat(filepath.Join(folder, "objects"))
	return err == nil
}

// clearFolder leaves an empty folder. The folder itself stays: it may be a mount, or somebody's work directory.
func clearFolder(folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := removeAll(filepath.Join(folder, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// removeAll removes a file or a folder, also when folders in it are for reading only, as those of Go's module cache are.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(path)
}
