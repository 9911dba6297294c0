package git

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/config"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"
)

// local is a repository on this machine. Nothing in it is run and none of its settings is followed: it may belong to anybody.
type local struct {
	*objects
	refs *refs
}

var errNoRepository = errors.New("there is no Git repository")

// openLocal opens a bare repository, or one with a work tree. Close it.
func openLocal(path string) (*local, error) {
	own, common, err := findRepository(path)
	if err != nil {
		return nil, err
	}
	if err := checkFormat(common); err != nil {
		return nil, err
	}
	var files billy.Filesystem = osfs.New(common)
	if own != common {
		files = dotgit.NewRepositoryFilesystem(osfs.New(own), files)
	}
	found, err := openObjects(files, common)
	if err != nil {
		return nil, err
	}
	l := &local{objects: found, refs: &refs{names: map[string]plumbing.Hash{}}}
	if err := l.readRefs(dotgit.New(files)); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// findRepository returns the folder of a repository, and the one that it has its objects in, which is another one for work
// trees that were added to a repository.
func findRepository(path string) (own, common string, err error) {
	if _, err := os.Stat(path); err != nil {
		if _, err := os.Stat(path + ".git"); err != nil {
			return "", "", fs.ErrNotExist
		}
	}
	for _, candidate := range []string{filepath.Join(path, ".git"), path, path + ".git"} {
		info, err := os.Stat(candidate)
		if err != nil {
			continue
		}
		if info.Mode().IsRegular() {
			if candidate, err = pointer(candidate, "gitdir: "); err != nil {
				continue
			}
		}
		common, err := pointer(filepath.Join(candidate, "commondir"), "")
		if errors.Is(err, fs.ErrNotExist) {
			common = candidate
		} else if err != nil {
			return "", "", err
		}
		if isFile(filepath.Join(candidate, "HEAD")) && isFolder(filepath.Join(common, objectsDir)) {
			return candidate, common, nil
		}
	}
	return "", "", errNoRepository
}

// pointer reads a file that holds a path, which may be relative to the file's folder.
func pointer(file, prefix string) (string, error) {
	const longest = 8 << 10
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if info.Size() > longest {
		return "", errNoRepository
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	path, ok := strings.CutPrefix(strings.TrimRight(string(text), "\r\n"), prefix)
	if !ok || path == "" || strings.ContainsAny(path, "\x00\n") {
		return "", errNoRepository
	}
	if path = filepath.FromSlash(path); !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(file), path)
	}
	return path, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// checkFormat refuses repositories that are stored in a way that this program cannot read. It is all that the configuration
// is looked at for.
func checkFormat(dir string) error {
	f, err := os.Open(filepath.Join(dir, "config"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	c := config.New()
	if err := config.NewDecoder(f).Decode(c); err != nil {
		return nil // settings that cannot be read do not matter
	}
	extensions := c.Section("extensions")
	if format := extensions.Option("objectformat"); format != "" && !strings.EqualFold(format, "sha1") {
		return fmt.Errorf("its objects are named by %s, which this program cannot read", clean(format))
	}
	if format := extensions.Option("refstorage"); format != "" && !strings.EqualFold(format, "files") {
		return fmt.Errorf("its refs are stored as %s, which this program cannot read", clean(format))
	}
	return nil
}

// maxSymbolic is how many refs may point to each other in a row, and how many tags may be about tags.
const maxSymbolic = 10

func (l *local) readRefs(dir *dotgit.DotGit) error {
	all, err := dir.Refs()
	if err != nil {
		return fmt.Errorf("reading its refs: %w", err)
	}
	byName := map[plumbing.ReferenceName]*plumbing.Reference{}
	for _, r := range all {
		byName[r.Name()] = r
	}
	for _, r := range all {
		to := r
		for range maxSymbolic {
			if to == nil || to.Type() != plumbing.SymbolicReference {
				break
			}
			to = byName[to.Target()]
		}
		if to != nil && to.Type() == plumbing.HashReference && !to.Hash().IsZero() {
			l.refs.names[string(r.Name())] = to.Hash()
		}
	}
	l.refs.peel = l.peel
	return nil
}

// peel returns what a tag is about in the end.
func (l *local) peel(h plumbing.Hash) plumbing.Hash {
	for range maxSymbolic {
		object, err := l.find(h)
		if err != nil || object.Type() != plumbing.TagObject {
			break
		}
		_, target, err := l.target(h)
		if err != nil {
			break
		}
		h = target
	}
	return h
}
