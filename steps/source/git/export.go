package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/rungci/rung/internal/pack"
	"github.com/rungci/rung/steps/source/tree"
)

// The modes of a tree's entries that are used. Older versions wrote 0664 and the like, too.
const (
	modeTypes     = 0o170000
	modeTree      = 0o040000
	modeFile      = 0o100000
	modeLink      = 0o120000
	modeSubmodule = 0o160000
)

// entry is a file, a link, a folder or a submodule.
type entry struct {
	name string // without its folder
	mode uint32
	hash plumbing.Hash
}

// parseTree reads a folder's list. A name that is there twice is an error: systems would differ in which one they take.
func parseTree(data []byte) ([]entry, error) {
	var entries []entry
	seen := map[string]bool{}
	for len(data) > 0 {
		header, rest, ok := bytes.Cut(data, []byte{0})
		mode, name, ok2 := strings.Cut(string(header), " ")
		if !ok || !ok2 || len(rest) < len(plumbing.ZeroHash) || len(mode) < 5 || len(mode) > 6 {
			return nil, errors.New("a list of files cannot be read")
		}
		e := entry{name: name}
		for _, digit := range mode {
			if digit < '0' || digit > '7' {
				return nil, errors.New("a list of files cannot be read")
			}
			e.mode = e.mode<<3 | uint32(digit-'0')
		}
		if seen[name] {
			return nil, &tree.PathError{Path: name, Why: "is there twice"}
		}
		seen[name] = true
		copy(e.hash[:], rest)
		data = rest[len(e.hash):]
		entries = append(entries, e)
	}
	return entries, nil
}

// checkName refuses names of entries that could leave the tree, or that Git itself would take for its own folder on some
// system: NTFS knows .git as git~1, too, and ignores dots and spaces at the end; HFS+ ignores some characters.
func checkName(folder, name string) error {
	full := path.Join(folder, name)
	if name == "" || strings.Contains(name, "/") {
		return &tree.PathError{Path: full, Why: "is not the name of a file"}
	}
	if pack.InGit(name) {
		return &tree.PathError{Path: full, Why: "could be taken for a .git folder"}
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return &tree.PathError{Path: full, Why: "has a control character"}
	}
	if strings.Count(full, "/") >= tree.MaxDepth {
		return &tree.PathError{Path: name, Why: fmt.Sprintf("is more than %d folders deep", tree.MaxDepth)}
	}
	return tree.CheckPath(full)
}

// walk calls visit with everything in a tree but folders, in the order of the paths. It ends when more was found than a
// package can hold, however often the same is in it.
type walk struct {
	objects *objects
	visit   func(full string, e entry) error
	// once leaves out trees that were seen already.
	once map[plumbing.Hash]bool
	// check refuses names; nil is checkName. Limit is how many files and folders there may be; 0 is tree.MaxFiles.
	check    func(folder, name string) error
	limit    int
	tooLarge error // nil is tree.ErrLimit
	trees    int
	files    int
}

func (w *walk) tree(ctx context.Context, h plumbing.Hash, folder string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if w.once[h] {
		return nil
	}
	if w.once != nil {
		w.once[h] = true
	}
	typ, data, err := w.objects.read(h)
	if err != nil {
		return err
	}
	check, limit := w.check, w.limit
	if check == nil {
		check = checkName
	}
	if limit == 0 {
		limit = tree.MaxFiles
	}
	tooLarge := w.tooLarge
	if tooLarge == nil {
		tooLarge = tree.ErrLimit
	}
	if w.trees++; w.trees > limit {
		return fmt.Errorf("%w: more than %d folders", tooLarge, limit)
	}
	if typ != plumbing.TreeObject {
		return &damagedError{h, "is not a folder"}
	}
	entries, err := parseTree(data)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := check(folder, e.name); err != nil {
			return err
		}
		full := path.Join(folder, e.name)
		if e.mode&modeTypes == modeTree {
			err = w.tree(ctx, e.hash, full)
		} else {
			if w.files++; w.files > limit {
				return fmt.Errorf("%w: more than %d files", tooLarge, limit)
			}
			err = w.visit(full, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// verify reads everything in a tree, so that what is missing or changed is found before anything of it is used. With fresh
// objects, which were hashed when they arrived, it is enough that they are there.
func (o *objects) verify(ctx context.Context, root plumbing.Hash, fresh bool) error {
	seen := map[plumbing.Hash]bool{}
	w := &walk{objects: o, once: seen}
	w.visit = func(_ string, e entry) error {
		if e.mode&modeTypes == modeSubmodule || seen[e.hash] {
			return context.Cause(ctx)
		}
		seen[e.hash] = true
		if fresh {
			return o.has(e.hash)
		}
		content, err := o.stream(e.hash)
		if err != nil {
			return err
		}
		defer content.Close()
		if _, err := io.Copy(io.Discard, content); err != nil {
			return &damagedError{e.hash, "cannot be read: " + err.Error()}
		}
		return content.check()
	}
	return w.tree(ctx, root, "")
}

// has reports an object that is not there.
func (o *objects) has(h plumbing.Hash) error {
	for _, s := range o.stores {
		if s.HasEncodedObject(h) == nil {
			return nil
		}
	}
	return &damagedError{h, "is missing"}
}

// export packs a commit's files.
type export struct {
	objects *objects
	to      *tree.Writer
	prefix  string // the folder that the files go to; "" is the root
	// leftOut are the links that lead outside.
	leftOut []string
	// submodules are the submodules, by their paths; modules is the file that says where they are.
	submodules []submodule
	modules    []byte
}

func (x *export) tree(ctx context.Context, root plumbing.Hash) error {
	w := &walk{objects: x.objects}
	w.visit = func(full string, e entry) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		return x.add(full, e)
	}
	return w.tree(ctx, root, "")
}

func (x *export) add(full string, e entry) error {
	name := path.Join(x.prefix, full)
	switch e.mode & modeTypes {
	case modeSubmodule:
		x.submodules = append(x.submodules, submodule{path: full, commit: e.hash})
		return nil
	case modeLink:
		typ, target, err := x.objects.read(e.hash)
		if err != nil {
			return err
		}
		if typ != plumbing.BlobObject {
			return &damagedError{e.hash, "is not a link"}
		}
		if x.outside(full, string(target)) {
			x.leftOut = append(x.leftOut, name)
			return nil
		}
		return x.to.AddSymlink(name, string(target))
	case modeFile:
		if full == modulesFile {
			_, data, err := x.objects.read(e.hash)
			if err != nil {
				return err
			}
			x.modules = data
		}
		return x.file(name, e)
	}
	return &tree.PathError{Path: name, Why: fmt.Sprintf("has the mode %o, which is that of neither a file, a folder nor a link", e.mode)}
}

// outside reports whether a link leads out of its repository, or could on some system. A submodule's links must not leave the
// submodule, although they would stay in the package.
func (x *export) outside(full, target string) bool {
	scratch := tree.NewWriter(io.Discard)
	return scratch.AddSymlink(full, target) != nil
}

func (x *export) file(name string, e entry) error {
	content, err := x.objects.stream(e.hash)
	if err != nil {
		return err
	}
	defer content.Close()
	if content.typ != plumbing.BlobObject {
		return &damagedError{e.hash, "is not a file"}
	}
	if err := x.to.AddFile(name, e.mode&0o111 != 0, content.size, content); err != nil {
		return err
	}
	return content.check()
}
