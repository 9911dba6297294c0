package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// forgetTracked removes what would change how git compares and writes the files of the commit, wherever those are: attributes, which would hold for them
// although they are not of the commit, the list of submodules, and the repositories in the work trees of submodules. What is of the commit is made again.
// So attributes stay in submodules that this job does not bring: no git looks at them, without a repository there, and nobody would make them again.
func (c *checkout) forgetTracked(ctx context.Context) error {
	text, err := c.ask(ctx, "ls-files", "-z", "--stage")
	if err != nil {
		return err
	}
	brought, err := broughtSubmodules(ctx, c)
	if err != nil {
		return err
	}
	for _, name := range []string{".gitattributes", ".gitmodules"} {
		if err := removeAll(filepath.Join(c.folder, name)); err != nil {
			return err
		}
	}
	tracked := trackedFolders{root: c.folder, known: map[string]bool{".": true}}
	for line := range strings.SplitSeq(text, "\x00") {
		_, name, ok := strings.Cut(line, "\t")
		if !ok {
			continue
		}
		exists, err := tracked.forget(path.Dir(name))
		if err == nil && exists && strings.HasPrefix(line, gitlink) {
			err = disconnect(filepath.Join(c.folder, filepath.FromSlash(name)), brought[line])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gitlink begins the line of a submodule in a list of git.
const gitlink = "160000 "

// broughtSubmodules are the lines of git's list of files that are submodules which this job brings.
func broughtSubmodules(ctx context.Context, c *checkout) (map[string]bool, error) {
	if !c.in.withSubmodules() {
		return nil, nil
	}
	text, err := c.ask(ctx, append([]string{"ls-files", "-z", "--stage", "--"}, c.in.SubmodulePaths...)...)
	if err != nil {
		return nil, err
	}
	brought := map[string]bool{}
	for line := range strings.SplitSeq(text, "\x00") {
		if strings.HasPrefix(line, gitlink) {
			brought[line] = true
		}
	}
	return brought, nil
}

// trackedFolders are the folders of a commit, as an earlier job left them.
type trackedFolders struct {
	root  string
	known map[string]bool // whether it is a folder
}

// forget removes the attributes of a folder, and of those that it is in. It reports whether that is a folder: where a link is in its place, git goes
// no further either, and makes a folder of it.
func (t *trackedFolders) forget(folder string) (exists bool, err error) {
	if exists, ok := t.known[folder]; ok {
		return exists, nil
	}
	if exists, err = t.forget(path.Dir(folder)); err != nil {
		return false, err
	}
	if exists {
		at := filepath.Join(t.root, filepath.FromSlash(folder))
		info, err := os.Lstat(at)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		if exists = err == nil && info.IsDir(); exists {
			if err := removeAll(filepath.Join(at, ".gitattributes")); err != nil {
				return false, err
			}
		}
	}
	t.known[folder] = exists
	return exists, nil
}

// disconnect removes what makes the work tree of a submodule, and folders in it, a repository: git connects those of submodules again. It removes the
// attributes there, too, if the job brings the submodule; also those of submodules in it, which the strategy normal does not make again. Nobody knows yet
// which of the folders are submodules' own, so a folder whose .git is not the file that a submodule has goes as a whole: it would pass for a part of
// what it is in.
func disconnect(workTree string, attributes bool) error {
	return filepath.WalkDir(workTree, func(at string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.IsDir() {
			return err
		}
		git := filepath.Join(at, ".git") // not by the names in the folder: the file system knows what else it takes for that
		info, err := os.Lstat(git)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case at != workTree && !info.Mode().IsRegular():
			return removeAll(at)
		default:
			err = removeAll(git)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if !attributes {
			return nil
		}
		return removeAll(filepath.Join(at, ".gitattributes"))
	})
}
