package worktree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// A repository can be a stranger's, who unpacked it from an archive or shared the folder: then a file of it can be a link to any file of the user,
// a pipe that nobody writes to, or the address of another repository of the user. What is read of it would be a job's to see.

// RefusedError says that a repository is not read, as it would hand out files that are not its own, or hold us up.
type RefusedError struct {
	Path string // what is wrong with it
	Why  string // and what to do
}

func (e *RefusedError) Error() string { return e.Path + " " + e.Why }

// Check reports, as a *RefusedError, why git should not be asked about the repository that a folder is in. That there is none, or that it is damaged, is
// not an error: git says so.
func Check(folder string) error {
	real, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return nil // git says so
	}
	r, err := find(real)
	if err == nil && r != nil {
		err = r.check()
	}
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		return refused
	}
	return nil
}

// check refuses a repository in which git would wait for somebody to write to a pipe, or read a device. Sockets and links are no trouble to git: its own
// monitor of files has one there, and git-new-workdir makes links.
func (r *repository) check() error {
	for _, folder := range []string{r.dir, r.common} {
		for _, name := range []string{"", "info", "objects/info", "objects/pack"} {
			dir := filepath.Join(folder, filepath.FromSlash(name))
			entries, err := os.ReadDir(dir)
			if err != nil {
				continue // it need not be there
			}
			for _, e := range entries {
				if err := checkEntry(filepath.Join(dir, e.Name()), e); err != nil {
					return err
				}
			}
		}
		err := filepath.WalkDir(filepath.Join(folder, "refs"), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return nil // git says so
			}
			return checkEntry(path, e)
		})
		if err != nil {
			return err
		}
		if r.dir == r.common {
			break
		}
	}
	return nil
}

func checkEntry(path string, e fs.DirEntry) error {
	mode := e.Type()
	if mode&fs.ModeSymlink != 0 {
		info, err := os.Stat(path)
		if err != nil {
			return nil // a link that leads nowhere holds nobody up
		}
		mode = info.Mode()
	}
	if mode&(fs.ModeNamedPipe|fs.ModeDevice|fs.ModeCharDevice) != 0 {
		return &RefusedError{path, "is not a regular file, and git would wait for it; remove it"}
	}
	return nil
}

// readFile reads a file of a repository, whose name has slashes: a regular one that no link leads to.
func readFile(dir, name string, limit int64) ([]byte, fs.FileInfo, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	for end := range len(name) + 1 {
		if end < len(name) && name[end] != '/' {
			continue
		}
		info, err := root.Lstat(filepath.FromSlash(name[:end]))
		if err != nil {
			return nil, nil, err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return nil, nil, linked(filepath.Join(dir, filepath.FromSlash(name[:end])))
		}
	}
	file := filepath.Join(dir, filepath.FromSlash(name))
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|noFollow, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, &RefusedError{file, "is not a regular file; remove it"}
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", file, limit)
	}
	return text, info, err
}

func linked(path string) error {
	return &RefusedError{path, "is a symbolic link, which could hand any file of yours to a job; use a clone, or a work tree of `git worktree add`"}
}

// folderOf refuses a folder of a repository that is a link.
func folderOf(dir, name string) error {
	if isLink(filepath.Join(dir, name)) {
		return linked(filepath.Join(dir, name))
	}
	return nil
}

// knows checks that a repository outside of a work tree, which the work tree's .git names, names the work tree in turn, as those of submodules and of
// `git worktree add` do. Any other could be a private one of the user.
func (r *repository) knows(folder string) error {
	if r.dir != r.common {
		text, _, err := readFile(r.dir, "gitdir", maxSmall)
		if err != nil && !gone(err) {
			return err
		}
		back := from(r.dir, strings.TrimRight(string(text), "\r\n"))
		if path.Base(filepath.ToSlash(filepath.Dir(r.dir))) == "worktrees" && sameFolder(filepath.Dir(filepath.Dir(r.dir)), r.common) &&
			filepath.Base(back) == ".git" && sameFolder(filepath.Dir(back), folder) {
			return nil
		}
		return &RefusedError{filepath.Join(folder, ".git"), fmt.Sprintf("leads to the repository %s, which does not have this work tree: a job would be handed another repository of yours. "+
			"If it is one of its work trees and was moved, run `git worktree repair` in %s", r.common, folder)}
	}
	c, err := r.readConfig()
	if err != nil {
		return err
	}
	if back := c.get("core.worktree"); back != "" && sameFolder(from(r.dir, back), folder) {
		return nil
	}
	return &RefusedError{filepath.Join(folder, ".git"), fmt.Sprintf("leads to the repository %s, whose core.worktree is not this folder: a job would be handed another repository of yours. "+
		"If it is this folder's, run `git --git-dir=%s config core.worktree %s`", r.dir, r.dir, folder)}
}

// from is a path of a file in dir.
func from(dir, path string) string {
	if path = filepath.FromSlash(path); filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func sameFolder(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}
