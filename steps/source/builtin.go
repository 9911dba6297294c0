package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source/tree"
)

// Builtin is the Fetcher of components that are part of the program.
type Builtin struct {
	// FS has a folder for every component. Files named run, *.sh and *.exe can be executed: it keeps no modes.
	FS fs.FS
}

// Variant implements Fetcher.
func (b *Builtin) Variant() string { return "" }

// Resolve implements Fetcher. The pin is the content digest of the component's folder.
func (b *Builtin) Resolve(ctx context.Context, at *Location) (string, error) {
	w := tree.NewWriter(io.Discard)
	if err := b.Fetch(ctx, at, "", w); err != nil {
		return "", err
	}
	return w.Close()
}

// Fetch implements Fetcher.
func (b *Builtin) Fetch(_ context.Context, at *Location, _ string, to *tree.Writer) error {
	if err := b.check(at); err != nil {
		return err
	}
	name := strings.TrimPrefix(at.URL, builtinScheme)
	return fs.WalkDir(b.FS, name, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(b.FS, file)
		if err != nil {
			return err
		}
		base := path.Base(file)
		executable := base == "run" || path.Ext(base) == ".sh" || path.Ext(base) == ".exe"
		return to.AddFile(strings.TrimPrefix(file, name+"/"), executable, int64(len(content)), bytes.NewReader(content))
	})
}

// builtinScheme begins the names of built-in components.
const builtinScheme = "builtin://"

// check says whether there is such a component.
func (b *Builtin) check(at *Location) error {
	if b.isComponent(strings.TrimPrefix(at.URL, builtinScheme)) {
		return nil
	}
	return &NotFoundError{Ref: at.URL, Err: fmt.Errorf("this program has the built-in steps %s", strings.Join(b.names(), ", "))}
}

func (b *Builtin) isComponent(name string) bool {
	for _, file := range []string{plan.DefaultFile, plan.FallbackFile} {
		if _, err := fs.Stat(b.FS, path.Join(name, file)); fs.ValidPath(name) && err == nil {
			return true
		}
	}
	return false
}

// names returns the names of all components.
func (b *Builtin) names() (names []string) {
	_ = fs.WalkDir(b.FS, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && b.isComponent(name) {
			names = append(names, name)
		}
		return err
	})
	return names
}

// memory is a Store of packages that are too small, and too much at hand, for the cache.
type memory map[string][]byte

// Package implements Store.
func (m memory) Package(digest string) (io.ReadCloser, error) {
	pack, ok := m[digest]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(pack)), nil
}

// builtin returns the pin and content digest of a built-in component, which are the same, and keeps its pack.
func (r *Resolver) builtin(ctx context.Context, at *Location) (digest string, err error) {
	var pack bytes.Buffer
	w := tree.NewWriter(&pack)
	if err := r.Fetchers[plan.RefBuiltin].Fetch(ctx, at, "", w); err != nil {
		return "", err
	}
	if digest, err = w.Close(); err != nil {
		return "", errors.Join(errors.New("packing "+at.Name), err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.builtins == nil {
		r.builtins = memory{}
	}
	r.builtins[digest] = pack.Bytes()
	return digest, nil
}
