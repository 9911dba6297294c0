package worktree

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// repository is where the parts of a work tree's repository are.
type repository struct {
	top    bool   // the folder is the work tree's own, not one inside
	dir    string // what belongs to this work tree: HEAD and the index
	common string // what all of its work trees share: objects, refs, the configuration
	config *config
}

// head is where HEAD of a repository is.
type head struct {
	commit string // "" when there is none yet
	branch string // "" when it is detached
}

// locate finds the repository of a work tree. It is nil for a folder that is in none.
func locate(folder string) (*repository, error) {
	if isGitDir(folder) && !exists(filepath.Join(folder, ".git")) {
		return nil, fmt.Errorf("%s is a bare repository: it has no files to copy; name a work tree", folder)
	}
	return find(folder)
}

// find is locate for a folder that may be anything.
func find(folder string) (*repository, error) {
	for dir, top := folder, true; ; top = false {
		r, err := repositoryOf(dir)
		if r != nil || err != nil {
			if r != nil {
				r.top = top
			}
			return r, err
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil, nil
		}
		dir = up
	}
}

// repositoryOf is the repository whose work tree a folder is, nil when it is none's.
func repositoryOf(folder string) (*repository, error) {
	link := filepath.Join(folder, ".git")
	info, err := os.Lstat(link)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := &repository{dir: link}
	if !info.IsDir() {
		if r.dir, err = target(folder, info); err != nil {
			return nil, err
		}
	}
	r.common = r.dir
	switch text, _, err := readFile(r.dir, "commondir", maxSmall); {
	case err == nil:
		if r.common, err = filepath.EvalSymlinks(from(r.dir, strings.TrimRight(string(text), "\r\n"))); err != nil {
			return nil, err
		}
	case !gone(err):
		return nil, err
	}
	if !exists(filepath.Join(r.dir, "HEAD")) || !exists(filepath.Join(r.common, "objects")) {
		return nil, nil // an empty folder called .git is none, to Git too
	}
	if r.dir != link || r.common != link {
		return r, r.knows(folder)
	}
	return r, nil
}

// target is the folder that a .git leads to which is not a folder itself.
func target(folder string, info fs.FileInfo) (string, error) {
	link := filepath.Join(folder, ".git")
	if info.Mode()&fs.ModeSymlink != 0 {
		dir, err := filepath.EvalSymlinks(link)
		if err != nil {
			return "", fmt.Errorf("%s leads to a repository that does not exist: %w", link, err)
		}
		return dir, nil
	}
	text, _, err := readFile(folder, ".git", maxSmall)
	if err != nil {
		return "", err
	}
	name, ok := strings.CutPrefix(strings.TrimRight(string(text), "\r\n"), "gitdir: ")
	if !ok {
		return "", fmt.Errorf("%s does not say where the repository is", link)
	}
	dir, err := filepath.EvalSymlinks(from(folder, name))
	if err != nil || !exists(filepath.Join(dir, "HEAD")) {
		return "", fmt.Errorf("%s names a repository that does not exist: %s", link, name)
	}
	return dir, nil
}

// isRepository reports whether a folder is a work tree of its own.
func isRepository(folder string) bool {
	r, err := repositoryOf(folder)
	return r != nil || err != nil
}

func isGitDir(folder string) bool {
	return exists(filepath.Join(folder, "HEAD")) && exists(filepath.Join(folder, "objects")) && exists(filepath.Join(folder, "refs"))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// shared are files of the part that all work trees share, and own those of the one: without them, `git status` would not say the
// same in the copy.
var (
	shared = []string{"shallow", "info/exclude", "info/attributes", "info/grafts"}
	own    = []string{"info/sparse-checkout", "MERGE_HEAD", "MERGE_MODE", "MERGE_MSG", "CHERRY_PICK_HEAD", "REVERT_HEAD"}
)

// write makes a repository in the folder to that is at the same commit. Its index is written later.
func (r *repository) write(to, workTree string) (*head, error) {
	// Nothing that git makes by itself when it needs it: making files is what takes the time of a copy.
	for _, folder := range []string{"objects/info", "refs"} {
		if err := os.MkdirAll(filepath.Join(to, filepath.FromSlash(folder)), 0o777); err != nil {
			return nil, err
		}
	}
	if err := folderOf(r.common, "objects"); err != nil {
		return nil, err
	}
	text, _, err := readFile(r.dir, "HEAD", maxSmall)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(to, "HEAD"), text, 0o666); err != nil {
		return nil, err
	}
	if err := r.writeConfig(filepath.Join(to, "config"), workTree); err != nil {
		return nil, err
	}
	for _, name := range shared {
		if err := copyText(r.common, to, name); err != nil {
			return nil, err
		}
	}
	for _, name := range own {
		if err := copyText(r.dir, to, name); err != nil {
			return nil, err
		}
	}
	if err := r.writeAlternates(filepath.Join(to, "objects", "info", "alternates")); err != nil {
		return nil, err
	}
	refs, err := r.copyRefs(to)
	if err != nil {
		return nil, err
	}
	return r.head(strings.TrimSpace(string(text)), refs)
}

// copyText copies a small file of a repository, whose name has slashes, if it is there and says anything.
func copyText(dir, copied, name string) error {
	text, _, err := readFile(dir, name, MaxText)
	if gone(err) {
		return nil
	}
	if err != nil || !saysAnything(text) {
		return err
	}
	to := filepath.Join(copied, filepath.FromSlash(name))
	if err := os.WriteFile(to, text, 0o666); !gone(err) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o666)
}

// saysAnything reports whether a text has a line that is not a comment. Every repository has files of comments only.
func saysAnything(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return true
		}
	}
	return false
}

// writeAlternates makes the copy read the original's objects. Git quotes such a path as C does where a line could not hold it.
func (r *repository) writeAlternates(file string) error {
	objects := filepath.ToSlash(filepath.Join(r.common, "objects"))
	line := objects
	if strings.ContainsAny(objects, "\n\\") || strings.HasPrefix(objects, `"`) || strings.HasPrefix(objects, "#") {
		line = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(objects) + `"`
	}
	return os.WriteFile(file, []byte(line+"\n"), 0o666)
}

// head finds out what HEAD is.
func (r *repository) head(text string, refs *refTable) (*head, error) {
	ref, symbolic := strings.CutPrefix(text, "ref:")
	if !symbolic {
		return &head{commit: text}, nil
	}
	if refs == nil {
		return &head{}, nil // tables know, and git
	}
	ref = strings.TrimSpace(ref)
	return &head{branch: strings.TrimPrefix(ref, "refs/heads/"), commit: refs.commit(ref)}, nil
}

// maxSmall is the size of files that hold one line, in bytes.
const maxSmall = 64 << 10
