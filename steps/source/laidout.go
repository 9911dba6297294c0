package source

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"maps"
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

// laidOut is a package in a real folder of the run's own, so that programs find their files under the same path wherever the cache is. Its
// files are shared with the unpacked package in the cache, or copies. What a step changes is not used again, here or there.
type laidOut struct {
	packageFrom
	root     string // absolute; where the root of the package is, or would be
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
	laid := &laidOut{packageFrom: from, root: r.place(&from)}
	if !r.share(laid) {
		if err := r.copy(laid); err != nil {
			return nil, err
		}
	}
	var err error
	if laid.state, err = stateOf(laid.root); err != nil {
		return nil, err
	}
	r.laid = append(r.laid, laid)
	return laid, nil
}

// share makes the package of the files of the unpacked one in the cache, which spares a run from writing every one again. It reports
// whether it could: the cache may not have it, or somebody wrote there.
func (r *Resolver) share(laid *laidOut) bool {
	if laid.part != "" {
		return false
	}
	m, err := r.Cache.LayOut(laid.content, laid.root)
	if err != nil {
		return false
	}
	laid.manifest = m
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
	if laid.manifest, err = tree.Extract(pack, laid.content, laid.root, laid.part); err != nil {
		return err
	}
	return tree.Protect(laid.root) // as what is shared is
}

// componentsFolder is where packages are, in the run's folder.
const componentsFolder = "components"

// How much of a digest is enough to tell apart the packages of one run, and the references that lead to one of them.
const (
	shortDigest = 16
	shortOrigin = 8
)

// place finds a folder for a package. Its name depends on nothing but what is in it and which reference led there, so that two runs leave
// the same trace, whatever is first in them.
func (r *Resolver) place(p *packageFrom) string {
	origin := p.at.Name
	if r.WorkDir != "" { // a package in the work directory is the same one wherever that is
		origin = strings.ReplaceAll(origin, filepath.ToSlash(r.WorkDir), "")
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{string(p.at.Kind), origin, p.at.Rev}, "\x00")))
	name := strings.TrimPrefix(p.content, "sha256:")[:shortDigest] + "-" + hex.EncodeToString(sum[:])[:shortOrigin]
	if p.part != "" {
		name += "-" + strings.ReplaceAll(p.part, "/", "-")
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
	now, err := stateOf(l.root)
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
