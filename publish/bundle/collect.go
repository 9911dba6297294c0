package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/replay"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/tree"
	"github.com/rungci/rung/steps/trace"
)

// Collect finds the packages of all components of a recorded run: those that were fetched in the resolver's stores and cache, or
// where they came from, unless it is offline; with local also those in local folders, as seen from workDir. The error is a
// *replay.ChangedError where local ones are not what they were. The resolver's lock is replaced.
func Collect(ctx context.Context, t *trace.Trace, resolver *source.Resolver, workDir string, local bool) ([]Item, error) {
	c := &collection{resolver: resolver, workDir: workDir, index: map[string]int{}}
	lock, err := replay.Lock(t, true)
	if err != nil {
		return nil, err
	}
	resolver.Lock, resolver.Locked = lock, true
	for _, r := range replay.Fetched(t) {
		if err := c.fetched(ctx, r); err != nil {
			return nil, err
		}
	}
	if !local {
		return c.items, nil
	}
	changed := &replay.ChangedError{}
	for _, l := range replay.Locals(ctx, t, workDir, resolver.Local) {
		if !l.Same {
			changed.Changed = append(changed.Changed, l)
			continue
		}
		if err := c.local(ctx, l); err != nil {
			return nil, err
		}
	}
	if len(changed.Changed) > 0 {
		return nil, changed
	}
	return c.items, nil
}

// collection is the packages of a run on their way into a bundle.
type collection struct {
	resolver *source.Resolver
	workDir  string
	items    []Item
	index    map[string]int // by digest
}

// add adds a package; false when it already exists.
func (c *collection) add(digest, component string, item func() (Item, error)) error {
	i, known := c.index[digest]
	if !known {
		added, err := item()
		if err != nil {
			return err
		}
		i = len(c.items)
		added.Digest = digest
		c.items, c.index[digest] = append(c.items, added), i
	}
	c.items[i].Components = append(c.items[i].Components, component)
	return nil
}

// fetched adds the package of a component that was fetched.
func (c *collection) fetched(ctx context.Context, r *trace.Resolved) error {
	name := strings.TrimSuffix(r.Origin.String()+" "+r.File, " ")
	return c.add(r.Origin.Package, name, func() (Item, error) {
		if r.Origin.Kind == plan.RefBuiltin {
			return c.builtin(ctx, r.Origin)
		}
		open := func() (io.ReadCloser, error) { return c.open(r.Origin.Package) }
		in, err := open()
		if errors.Is(err, fs.ErrNotExist) {
			// Loading the component fetches its package into the cache, under all the rules of the user's sources.
			if _, err = c.resolver.Load(ctx, referenceTo(r), c.workDir); err != nil {
				return Item{}, err
			}
			in, err = open()
		}
		if err != nil {
			return Item{}, err
		}
		return Item{Open: open}, in.Close()
	})
}

// open opens a package that is at hand.
func (c *collection) open(digest string) (io.ReadCloser, error) {
	for _, store := range c.resolver.Stores {
		if f, err := store.Package(digest); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return c.resolver.Cache.Open(digest)
}

// builtin packs a component of this program.
func (c *collection) builtin(ctx context.Context, o *plan.Origin) (Item, error) {
	for _, store := range c.resolver.Stores {
		if f, err := store.Package(o.Package); err == nil {
			f.Close()
			return Item{Open: func() (io.ReadCloser, error) { return store.Package(o.Package) }}, nil
		}
	}
	fetcher := c.resolver.Fetchers[plan.RefBuiltin]
	if fetcher == nil {
		return Item{}, &source.UnsupportedError{Ref: o.URL, Kind: o.Kind}
	}
	var pack bytes.Buffer
	w := tree.NewWriter(&pack)
	if err := fetcher.Fetch(ctx, &source.Location{Kind: o.Kind, Name: o.URL, URL: o.URL}, o.Pin, w); err != nil {
		return Item{}, err
	}
	digest, err := w.Close()
	if err != nil {
		return Item{}, err
	}
	if digest != o.Package {
		return Item{}, &source.DeniedError{What: o.URL, Why: "the component of this version is not that of the recorded run", Hint: "make the bundle with the version that recorded the run"}
	}
	return Item{Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(pack.Bytes())), nil }}, nil
}

// referenceTo makes a reference to a component of a recorded run.
func referenceTo(r *trace.Resolved) *plan.Reference {
	o := r.Origin
	ref := &plan.Reference{Kind: o.Kind, Text: r.Ref, File: r.File}
	if o.Path != "" {
		ref.Path = strings.Split(o.Path, "/")
	}
	switch {
	case o.Kind == plan.RefGit && source.IsActionFile(r.File):
		ref.Kind, ref.Action = plan.RefAction, o.URL+"/-/"+o.Path+"@"+o.Rev
	case o.Kind == plan.RefOCI:
		ref.Registry, ref.Repository, _ = strings.Cut(strings.TrimPrefix(o.URL, "oci://"), "/")
		ref.Tag = o.Rev
	case o.Kind == plan.RefArchive:
		ref.URL, ref.SHA256 = o.URL, strings.TrimPrefix(o.Pin, "sha256:")
	default:
		ref.URL, ref.Rev = o.URL, o.Rev
	}
	return ref
}

// local adds a local component: the definition file alone where that is what its digest is of, else its folder.
func (c *collection) local(ctx context.Context, l *replay.Local) error {
	return c.add(l.Now, l.Ref, func() (Item, error) {
		for _, pack := range []func(*tree.Writer) error{
			func(w *tree.Writer) error {
				text, err := source.ReadFile(filepath.Join(l.Here, l.File))
				if err != nil {
					return err
				}
				return w.AddFile(l.File, false, int64(len(text)), bytes.NewReader(text))
			},
			func(w *tree.Writer) error { return w.AddFolder(ctx, l.Here) },
		} {
			w := tree.NewWriter(io.Discard)
			if err := pack(w); err != nil {
				continue // a folder with things in it that no component can have
			}
			if digest, err := w.Close(); err != nil || digest != l.Now {
				continue
			}
			return Item{Local: true, Open: func() (io.ReadCloser, error) { return packed(pack), nil }}, nil
		}
		return Item{}, fmt.Errorf("the component %s is changing while it is packed, or cannot be read", l.Ref)
	})
}

// packed is the archive that pack writes. Closing it ends pack.
func packed(pack func(*tree.Writer) error) io.ReadCloser {
	in, out := io.Pipe()
	go func() {
		w := tree.NewWriter(out)
		err := pack(w)
		if err == nil {
			_, err = w.Close()
		}
		out.CloseWithError(err)
	}()
	return in
}
