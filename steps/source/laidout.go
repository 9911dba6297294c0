package source

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source/tree"
)

// packageFrom is a package, and how it was come by.
type packageFrom struct {
	at      *Location
	trust   Trust
	pin     string
	content string
	part    string // the folder of the package that is used; "" is all
}

// same reports whether two are one package from one place.
func (p *packageFrom) same(q *packageFrom) bool {
	return p.content == q.content && p.part == q.part && p.at.Kind == q.at.Kind && p.at.Name == q.at.Name && p.at.Rev == q.at.Rev
}

// laidOut is a package in the run's own folder: a link to where the cache has it unpacked, or a copy. What a step changes there
// it changes for nobody else, because what was changed is not used again.
type laidOut struct {
	packageFrom
	root     string // absolute; where the root of the package is, or would be
	real     string // root, or what it is a link to
	manifest *tree.Manifest
	state    map[string]fileState
}

// origin is that of a component at the root of the package.
func (l *laidOut) origin() plan.Origin {
	origin := plan.Origin{Kind: l.at.Kind, URL: l.at.Name, Rev: l.at.Rev, Pin: l.pin, Package: l.content}
	if l.at.Kind == plan.RefArchive {
		origin.Rev = "" // the pin says it
	}
	return origin
}

// fileState tells whether a file was changed.
type fileState struct {
	size    int64
	changed int64 // when, in nanoseconds
	mode    fs.FileMode
}

// layOut puts a package, verified, into the run's folder, unless it already exists, unchanged.
func (r *Resolver) layOut(from packageFrom) (*laidOut, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, have := range r.laid {
		if have.same(&from) && have.untouched() {
			return have, nil
		}
	}
	laid := &laidOut{packageFrom: from, root: r.place(from.content, from.part)}
	if !r.link(laid) {
		if err := r.copy(laid); err != nil {
			return nil, err
		}
	}
	var err error
	if laid.state, err = stateOf(laid.real); err != nil {
		return nil, err
	}
	r.laid = append(r.laid, laid)
	return laid, nil
}

// link makes the package a link to the unpacked one in the cache, which spares a run from writing every file again. It reports
// whether it could: the cache may not have it, or somebody wrote there, or the system may have no links.
func (r *Resolver) link(laid *laidOut) bool {
	if laid.part != "" { // from a link, .. leads to the rest of the package
		return false
	}
	dir, m, err := r.Cache.Tree(laid.content)
	if err != nil {
		return false
	}
	if err := os.MkdirAll(filepath.Dir(laid.root), 0o700); err != nil || os.Symlink(dir, laid.root) != nil {
		return false
	}
	laid.real, laid.manifest = dir, m
	return true
}

// copy unpacks the package for this run alone.
func (r *Resolver) copy(laid *laidOut) error {
	pack, err := r.builtins.Package(laid.content)
	if err != nil {
		pack, err = r.openPackage(laid.content)
	}
	if err != nil {
		return err
	}
	defer pack.Close()
	laid.real = laid.root
	laid.manifest, err = tree.Extract(pack, laid.content, laid.root, laid.part)
	return err
}

// componentsFolder is where packages are, in the run's folder.
const componentsFolder = "components"

// shortDigest is how much of a digest is enough to tell the packages of one run apart.
const shortDigest = 16

// place finds a folder for a package. Its name depends on nothing but what is in it, so that two runs leave the same trace.
func (r *Resolver) place(content, part string) string {
	name := strings.TrimPrefix(content, "sha256:")[:shortDigest]
	if part != "" {
		name += "-" + strings.ReplaceAll(part, "/", "-")
	}
	dir := filepath.Join(r.Folder, componentsFolder, name)
	for n := 2; r.taken(dir); n++ {
		dir = filepath.Join(r.Folder, componentsFolder, name+"-"+strconv.Itoa(n))
	}
	return dir
}

func (r *Resolver) taken(dir string) bool {
	for _, laid := range r.laid {
		if laid.root == dir {
			return true
		}
	}
	return false
}

// laidOutAt returns the package that a folder is in, nil when it is in none.
func (r *Resolver) laidOutAt(dir string) *laidOut {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, laid := range r.laid {
		if rel, err := filepath.Rel(laid.root, dir); err == nil && filepath.IsLocal(rel) {
			return laid
		}
	}
	return nil
}

// untouched reports whether a package is as it was laid out.
func (l *laidOut) untouched() bool {
	now, err := stateOf(l.real)
	return err == nil && maps.Equal(now, l.state)
}

func stateOf(root string) (map[string]fileState, error) {
	state := map[string]fileState{}
	err := tree.Walk(root, func(name string, info fs.FileInfo) error {
		state[name] = stateOfFile(info)
		return nil
	})
	return state, err
}

func stateOfFile(info fs.FileInfo) fileState {
	return fileState{info.Size(), info.ModTime().UnixNano(), info.Mode()}
}
