package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"
	"strings"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"

	"github.com/rungci/rung/internal/pack"
	"github.com/rungci/rung/steps/source/tree"
)

// Limits of a tree that is checked out. They are those of git where it has any.
const (
	maxCheckoutFiles = 5_000_000
	maxCheckoutDepth = 2048 // folders; core.maxTreeDepth
)

// Store are the objects of a repository in a folder of this machine. What is read is what its name says: it is hashed again. Close it.
type Store struct{ objects *objects }

// OpenStore opens the objects of a bare repository, or of a .git folder, as they are now: what is fetched later is not found in it.
func OpenStore(dir string) (*Store, error) {
	o, err := openObjects(osfs.New(dir), dir)
	if err != nil {
		return nil, err
	}
	return &Store{o}, nil
}

// Close closes the files.
func (s *Store) Close() { s.objects.close() }

// Has reports whether an object is there.
func (s *Store) Has(h plumbing.Hash) bool { return s.objects.has(h) == nil }

// Commit follows annotated tags to a commit, and returns its name and that of its tree.
func (s *Store) Commit(h plumbing.Hash) (commit, tree plumbing.Hash, err error) {
	for range maxSymbolic {
		typ, target, err := s.objects.target(h)
		switch {
		case err != nil:
			return commit, tree, err
		case typ == plumbing.CommitObject:
			return h, target, nil
		case typ != plumbing.TagObject:
			return commit, tree, fmt.Errorf("%s is not a commit, but a %s", h, typ)
		}
		h = target
	}
	return commit, tree, fmt.Errorf("the tag %s is about a tag, and so on, more than %d times", h, maxSymbolic)
}

// Find returns the commit whose name begins with some digits; ok is false where there is none. Several are an error.
func (s *Store) Find(digits string) (commit plumbing.Hash, ok bool, err error) {
	found, err := s.objects.commits(digits)
	if err != nil {
		return plumbing.ZeroHash, false, err
	}
	return onlyOne(digits, found)
}

// Modes of a File.
const (
	ModeFile       = modeFile | 0o644
	ModeExecutable = modeFile | 0o755
	ModeLink       = modeLink
	ModeSubmodule  = modeSubmodule
)

// File is what a tree has besides folders.
type File struct {
	Path string // with slashes, and safe: see Files
	Mode uint32 // one of the four
	Hash plumbing.Hash
}

// Files calls visit with everything in a tree but folders, in the order of the tree. A name that leads out of the tree, or that some file system
// takes for .git, is a *tree.PathError; more than can be checked out is ErrTooLarge.
func (s *Store) Files(ctx context.Context, root plumbing.Hash, visit func(File) error) error {
	w := &walk{objects: s.objects, check: checkCheckedOut, limit: maxCheckoutFiles, tooLarge: ErrTooLarge}
	w.visit = func(full string, e entry) error {
		f := File{Path: full, Hash: e.hash, Mode: e.mode & modeTypes}
		switch f.Mode {
		case modeFile:
			f.Mode = ModeFile
			if e.mode&0o100 != 0 {
				f.Mode = ModeExecutable
			}
		case modeLink, modeSubmodule:
			if path.Base(full) == modulesFile && f.Mode == modeLink { // as git does: who reads it would follow it
				return &tree.PathError{Path: full, Why: "is a link"}
			}
		default:
			return &tree.PathError{Path: full, Why: fmt.Sprintf("has the mode %o, which is that of neither a file, a folder nor a link", e.mode)}
		}
		return visit(f)
	}
	return w.tree(ctx, root, "")
}

// checkCheckedOut refuses the names that git refuses to check out, on any system. It allows more than checkName: a job may have names that not every
// system can have.
func checkCheckedOut(folder, name string) error {
	full := path.Join(folder, name)
	switch {
	case name == "", name == ".", name == "..", strings.ContainsAny(name, "/\x00"), runtime.GOOS == "windows" && strings.ContainsAny(name, `\:`):
		return &tree.PathError{Path: path.Join(folder, "…") + name, Why: "is not the name of a file"}
	case pack.InGit(name):
		return &tree.PathError{Path: full, Why: "could be taken for a .git folder"}
	case strings.Count(full, "/") >= maxCheckoutDepth:
		return &tree.PathError{Path: name, Why: fmt.Sprintf("is more than %d folders deep", maxCheckoutDepth)}
	}
	return nil
}

// CopyBlob writes the content of a file, or the target of a link. An error leaves a part of it written.
func (s *Store) CopyBlob(to io.Writer, h plumbing.Hash) error {
	content, err := s.objects.stream(h)
	if err != nil {
		return err
	}
	defer content.Close()
	if content.typ != plumbing.BlobObject {
		return &damagedError{h, "is not a file"}
	}
	if _, err := io.Copy(to, content); err != nil {
		return err
	}
	return content.check()
}

// BlobSize is the size of a file in bytes.
func (s *Store) BlobSize(h plumbing.Hash) (int64, error) {
	for _, store := range s.objects.stores {
		size, err := store.EncodedObjectSize(h)
		if !errors.Is(err, plumbing.ErrObjectNotFound) {
			return size, err
		}
	}
	return 0, &damagedError{h, "is missing"}
}
