package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/internal/discard"
)

// hostile are files and folders of a repository that an earlier job can harm this one with: hooks, and configuration, which names programs;
// what leads to a repository elsewhere, with its configuration or its objects; and what makes files differ from those of the commit, such as a graph
// of commits that says what they hold.
var hostile = []string{"hooks", "config", "config.worktree", "commondir", "gitdir", "worktrees", "info", "refs/replace", "objects/info"}

// cleanRepository removes what an earlier job left in a repository and could harm this one: what is hostile, locks of a git that was killed, and
// what is neither a file nor a folder: git waits for somebody to write to a pipe, and follows links. Of objects no others go. Without config, what
// says how git is to work stays.
func cleanRepository(git string, config bool) error {
	other := func(path string) bool { // a folder that could be another repository; names in refs and logs are those of branches
		return path != git && config && !below(path, filepath.Join(git, "refs")) && !below(path, filepath.Join(git, "logs"))
	}
	return filepath.WalkDir(git, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		kind := entry.Type()
		switch {
		case kind.IsDir() && other(path) && has(path, "commondir") && !has(path, "objects"): // the configuration and the hooks would be those of another
			return removeAll(path)
		case kind.IsDir() && other(path) && has(path, "objects"): // a submodule's, whose index can say that a changed file has not changed
			return errors.Join(disarm(path), removeAll(filepath.Join(path, "index")))
		case kind.IsDir(), kind.IsRegular() && !strings.HasSuffix(entry.Name(), ".lock"), kind == fs.ModeSymlink && !config:
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

// has reports whether a folder has a file or folder of some name. Git takes one with objects for a repository, as those of submodules below modules/,
// and one with a commondir, which says where the objects are. A branch can be called config.
func has(folder, name string) bool {
	_, err := os.Lstat(filepath.Join(folder, name))
	return err == nil
}

// below reports whether a path is a folder, or in it, by their names.
func below(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+string(filepath.Separator))
}

// clearFolder leaves an empty folder. The folder itself stays: it may be a mount, or somebody's work directory.
func clearFolder(folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	return discard.Contents(context.Background(), folder)
}

// removeAll removes a file or a folder, also when it is hard to remove.
func removeAll(path string) error { return discard.Stubborn(context.Background(), path) }
