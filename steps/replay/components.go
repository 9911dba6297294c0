package replay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/tree"
	"github.com/rungci/rung/steps/trace"
)

// Components makes the source of the recorded run's components. The resolver, which is then locked to what was recorded, finds
// those that came from elsewhere; local ones are held against what they were. Those that are not what they were are taken from
// packages, which may be nil, and are an error that is a *ChangedError where they are not there either. They are laid out in the
// resolver's folder, the run's own.
func (r *Replay) Components(ctx context.Context, resolver *source.Resolver, packages source.Store) (source.Source, error) {
	same := r.recorded.Runtime.OS == r.opts.OS && r.recorded.Runtime.Arch == r.opts.Arch
	locked, err := Lock(r.recorded, same)
	if err != nil {
		return nil, err
	}
	resolver.Lock, resolver.Locked, resolver.Recorded = locked, !r.opts.Changed, true
	if err := r.builtins(ctx, resolver, packages); err != nil {
		return nil, err
	}
	l := &locals{resolver: resolver, was: r.recorded.Run.WorkDir, now: r.opts.WorkDir, laid: map[localKey]string{}, dirs: map[string]bool{}, failed: r.failures()}
	changed := &ChangedError{}
	for _, c := range Locals(ctx, r.recorded, r.opts.WorkDir, resolver.Local) {
		if c.Same {
			continue
		}
		used, err := r.layOut(l, c, resolver.Folder, packages)
		if err != nil {
			return nil, err
		}
		switch {
		case used:
		case c.Now == "" && r.recorded.Run.FreshWorkDir: // a step makes it: nothing else is there
		case c.Now == "": // a step may have made it
			r.note("the component %s of the recorded run is not in %s, unless a step makes it", c.Ref, c.Here)
		default:
			changed.Changed = append(changed.Changed, c)
		}
	}
	if len(changed.Changed) > 0 && !r.opts.Changed {
		return nil, changed
	}
	return l, nil
}

// layOut puts a local component that came with the trace below the mirror; false when it did not come with it.
func (r *Replay) layOut(l *locals, c *Local, folder string, packages source.Store) (bool, error) {
	if packages == nil {
		return false, nil
	}
	pack, err := packages.Package(c.Digest)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer pack.Close()
	l.mirror = filepath.Join(folder, trace.MirrorFolder)
	dir := l.mirrored(c.Dir)
	if _, err := os.Lstat(filepath.Join(dir, c.File)); err == nil { // it came with the folder around it
		if now, err := tree.Digest(dir); err != nil || now != c.Digest && !l.dirs[c.Dir] {
			return false, wrong("the components of the recorded run do not fit together: %s is not what it was", c.Ref)
		}
	} else if _, err := tree.Extract(pack, c.Digest, dir, ""); err != nil {
		return false, fmt.Errorf("the component %s, which came with the trace: %w", c.Ref, err)
	}
	l.dirs[c.Dir] = true
	l.laid[localKey{c.Dir, c.File}] = c.Digest
	return true, nil
}

// builtins makes sure that built-in components are those of the recorded run.
func (r *Replay) builtins(ctx context.Context, resolver *source.Resolver, packages source.Store) error {
	fetcher := resolver.Fetchers[plan.RefBuiltin]
	if fetcher == nil {
		return nil
	}
	b := &builtins{Fetcher: fetcher, folder: resolver.Folder, packages: packages, instead: map[string]string{}}
	checked := map[string]bool{}
	for _, c := range Fetched(r.recorded) {
		o := c.Origin
		if o.Kind != plan.RefBuiltin || checked[o.URL] {
			continue
		}
		checked[o.URL] = true
		now, err := fetcher.Resolve(ctx, &source.Location{Kind: plan.RefBuiltin, Name: o.URL, URL: o.URL})
		if now == o.Package || r.opts.Changed {
			continue
		}
		if b.has(o.Package) {
			b.instead[o.URL] = o.Package
			continue
		}
		if err != nil {
			return err
		}
		e := event.NewError(event.CodeComponentDenied, "the component %s of this version is not that of the recorded run (%s → %s)", o.URL, short(o.Package), short(now))
		e.Hint = "replay with the version that recorded it, with a bundle, or with --changed"
		return e
	}
	if len(b.instead) > 0 {
		resolver.Fetchers[plan.RefBuiltin] = b
	}
	return nil
}

// builtins gives built-in components as they were in the version that recorded a run.
type builtins struct {
	source.Fetcher
	folder   string
	packages source.Store
	instead  map[string]string // by URL: the content digests of those that this program has otherwise, or not at all
}

func (b *builtins) has(digest string) bool {
	if b.packages == nil {
		return false
	}
	f, err := b.packages.Package(digest)
	if err == nil {
		f.Close()
	}
	return err == nil
}

// Fetch implements source.Fetcher.
func (b *builtins) Fetch(ctx context.Context, at *source.Location, pin string, to *tree.Writer) error {
	digest := b.instead[at.URL]
	if digest == "" {
		return b.Fetcher.Fetch(ctx, at, pin, to)
	}
	pack, err := b.packages.Package(digest)
	if err != nil {
		return err
	}
	defer pack.Close()
	dir, err := os.MkdirTemp(b.folder, "builtin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	files := filepath.Join(dir, "files")
	if _, err := tree.Extract(pack, digest, files, ""); err != nil {
		return err
	}
	return to.AddFolder(ctx, files)
}
