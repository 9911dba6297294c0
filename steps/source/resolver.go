package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source/cache"
	"github.com/rungci/rung/steps/source/lock"
	"github.com/rungci/rung/steps/source/tree"
)

// DefaultRefresh is how long what a tag, a branch or an address pointed to is believed before its server is asked again.
const DefaultRefresh = 10 * time.Minute

// SignatureFile is the name of the file in a folder that holds the signatures over its content.
const SignatureFile = tree.SignatureFile

// Rules are what the user configured about where things come from. Implementations are safe for concurrent use.
type Rules interface {
	// Apply says where a location is to be fetched (URL and Access of at, which come as the reference has them), and what is
	// demanded of what is found there. The error is a *DeniedError where it must not be used.
	Apply(at *Location) (Trust, error)
}

// Trust is what is demanded of components from a location.
type Trust struct {
	// Verify checks the signatures over content with a digest and returns who signed it. Nil demands none.
	Verify func(envelope []byte, digest string) (keyIDs []string, err error)
	// Pinned demands references that always mean the same: full commits and digests, or a lock file.
	Pinned bool
	// Refresh is how long a name is believed; 0 is the Resolver's.
	Refresh time.Duration
}

// Store has packages by content digest: the cache, or what came with a trace.
type Store interface {
	// Package opens the pack with a content digest. The error is fs.ErrNotExist where there is none.
	Package(digest string) (io.ReadCloser, error)
}

// Resolver is the Source of components from anywhere. What is fetched is put into the cache, and from there, verified, into
// the run's own folder.
type Resolver struct {
	Local    *Local
	Fetchers map[plan.RefKind]Fetcher
	Cache    *cache.Cache
	// Stores are asked for packages before the cache is.
	Stores []Store
	Rules  Rules // nil: things are where their references say
	// Lock says what names point to; nil asks their servers. With Locked, what is not in it is refused.
	Lock   *lock.File
	Locked bool
	// Project is set where a step of the run brings the project: what it says about components is not known before.
	Project *Project
	// Recorded says that Lock was made from a trace and not read from a file: errors name what it is.
	Recorded bool
	// Offline uses what is at hand only.
	Offline bool
	// Fresh asks servers what names point to, whenever that was asked before.
	Fresh   bool
	Refresh time.Duration // 0 is DefaultRefresh
	// Folder is where packages are laid out for the run: the run's own, which whoever made it removes.
	Folder  string
	WorkDir string // local archives and local components are seen from here; absolute

	mu       sync.Mutex
	laid     []*laidOut // in the order in which they were laid out
	builtins memory
	pinned   map[pinKey]*pinning
}

// pinKey is what tells the packages that a run asks for apart.
type pinKey struct {
	kind      plan.RefKind
	name, rev string
}

// pinning is one package's way from a name to content. Its lock keeps a run from fetching the same thing twice at a time.
type pinning struct {
	mu      sync.Mutex
	pin     string
	content string
}

// Load implements Source.
func (r *Resolver) Load(ctx context.Context, ref *plan.Reference, from string) (*Component, error) {
	if err := r.Project.await(ctx, r, ref); err != nil {
		return nil, err
	}
	c, err := r.load(ctx, ref, from)
	if err != nil {
		return nil, err
	}
	if _, err := r.LockedImage(ref.Text, ImageOf(c.Plan)); err != nil {
		return nil, err
	}
	return c, nil
}

func (r *Resolver) load(ctx context.Context, ref *plan.Reference, from string) (*Component, error) {
	if ref.Kind == plan.RefAction {
		anchored, err := r.Anchored(ref, from)
		if err != nil {
			return nil, err
		}
		if ref = anchored; isImage(ref) {
			if err := r.Check(ref, from); err != nil {
				return nil, err
			}
			return r.Local.image(ref, from)
		}
	}
	if within := r.laidOutAt(from); within != nil {
		if ref.IsLocal() {
			return r.relative(ctx, within, ref, from)
		}
		if err := within.mayName(ref); err != nil {
			return nil, err
		}
	}
	if ref.IsLocal() {
		return loadLocal(ctx, r, ref, from)
	}
	at, trust, err := r.locate(ref, from)
	if err != nil {
		return nil, err
	}
	pin, content, err := r.pkg(ctx, at, trust, ref)
	if err != nil {
		return nil, err
	}
	laid, err := r.layOut(packageFrom{at, trust, pin, content, ""})
	if errors.Is(err, fs.ErrNotExist) { // pruned by another process meanwhile
		r.forget(at)
		if pin, content, err = r.pkg(ctx, at, trust, ref); err != nil {
			return nil, err
		}
		laid, err = r.layOut(packageFrom{at, trust, pin, content, ""})
	}
	if err != nil {
		return nil, r.damaged(err, content, at)
	}
	return r.component(laid, ref, folderOf(ref))
}

// Check implements Checker.
func (r *Resolver) Check(ref *plan.Reference, from string) error {
	if r.Project.awaited() && ref.Kind != plan.RefBuiltin {
		return nil
	}
	switch {
	case isImage(ref):
		_, err := r.LockedImage(ref.Text, strings.TrimPrefix(ref.Action, plan.ImagePrefix))
		return err
	case ref.Kind == plan.RefDynamic, ref.IsLocal():
		return nil
	}
	at, trust, err := r.locate(ref, from)
	if err != nil {
		return err
	}
	if builtin, ok := r.Fetchers[at.Kind].(*Builtin); ok {
		return builtin.check(at)
	}
	return r.allowed(at, trust, ref)
}

// locate finds out where a reference leads, and applies the user's rules to it.
func (r *Resolver) locate(ref *plan.Reference, from string) (*Location, Trust, error) {
	if ref.Kind == plan.RefAction {
		if _, err := plan.ParseAction(ref.Action); err != nil {
			return nil, Trust{}, noAction(ref, err)
		}
	}
	at := LocationOf(ref, from, r.WorkDir)
	if at == nil || r.Fetchers[at.Kind] == nil || ref.Kind == plan.RefAction && r.Local.ParseAction == nil {
		return nil, Trust{}, &UnsupportedError{Ref: ref.Text, Kind: ref.Kind}
	}
	if r.Rules == nil || ref.Kind == plan.RefBuiltin {
		return at, Trust{}, nil
	}
	trust, err := r.Rules.Apply(at)
	return at, trust, err
}

// allowed says why a location cannot be used whatever is there.
func (r *Resolver) allowed(at *Location, trust Trust, ref *plan.Reference) error {
	if at.Kind == plan.RefBuiltin {
		return nil
	}
	locked := r.Lock.Find(at.Kind, at.Name, at.Rev)
	if r.Locked && locked == nil {
		if r.Recorded {
			return &DeniedError{What: ref.Text, Why: "the recorded run did not use it", Hint: changedHint}
		}
		return &DeniedError{What: ref.Text, Why: "it is not in the lock file", Hint: "step-runner lock adds it"}
	}
	if closed := r.Lock.Closes(at.Name); closed != nil && locked == nil {
		return &DeniedError{What: ref.Text, Why: "it is not locked, and " + closed.By, Hint: closed.Hint}
	}
	if trust.Pinned && locked == nil && !immutable(at) {
		return &DeniedError{What: ref.Text, Why: "your sources demand a reference that always means the same, and this one can change",
			Hint: "name a full commit or a digest, or write a lock file with step-runner lock"}
	}
	return nil
}

// immutable reports whether a location's revision always names the same bytes.
func immutable(at *Location) bool {
	if at.Kind == plan.RefGit {
		return len(at.Rev) == 40 && strings.Trim(at.Rev, "0123456789abcdef") == ""
	}
	return strings.HasPrefix(at.Rev, "sha256:")
}

// pkg returns the pin that a location has in this run, and the content digest of what that is. It is at hand then.
func (r *Resolver) pkg(ctx context.Context, at *Location, trust Trust, ref *plan.Reference) (pin, content string, err error) {
	if err := r.allowed(at, trust, ref); err != nil {
		return "", "", err
	}
	p := r.pinningOf(at)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.content != "" {
		return p.pin, p.content, nil
	}
	if at.Kind == plan.RefBuiltin {
		p.content, err = r.builtin(ctx, at)
		p.pin = p.content
	} else if locked := r.Lock.Find(at.Kind, at.Name, at.Rev); locked != nil {
		p.pin, p.content, err = r.locked(ctx, at, locked)
	} else if p.pin, err = r.pin(ctx, at, trust); err == nil {
		p.content, err = r.content(ctx, at, p.pin)
	}
	return p.pin, p.content, err
}

func (r *Resolver) pinningOf(at *Location) *pinning {
	key := pinKey{at.Kind, at.Name, at.Rev}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pinned == nil {
		r.pinned = map[pinKey]*pinning{}
	}
	if r.pinned[key] == nil {
		r.pinned[key] = &pinning{}
	}
	return r.pinned[key]
}

// locked returns what the lock file says, and refuses anything else that may be found at its place.
func (r *Resolver) locked(ctx context.Context, at *Location, l *lock.Package) (pin, content string, err error) {
	same := l.Content != "" && forHere(r, l)
	// A bundle is believed, as it was made from such a file. In the cache there may be the content of anything else: what is used
	// is what the pin holds.
	if same && (r.bundled(l.Content) || r.Offline && r.has(l.Content)) {
		return l.Pin, l.Content, nil
	}
	content, err = r.content(ctx, at, l.Pin)
	if err != nil {
		return "", "", err
	}
	if same && content != l.Content {
		denied := r.otherContent(at.Name, "the content of "+l.Pin, content, l.Content)
		if !r.Recorded {
			denied.Hint = "somebody changed the lock file, or what a server sends: find out who before you write the file again with step-runner lock"
		}
		return "", "", denied
	}
	return l.Pin, content, nil
}

// changedHint is what to do when a replay refuses a component.
const changedHint = "--changed uses components that the recorded run did not have"

// otherContent is the error of something whose content is not what it is locked to.
func (r *Resolver) otherContent(what, subject, content, locked string) *DeniedError {
	if r.Recorded {
		return &DeniedError{What: what, Why: fmt.Sprintf("%s is %s, but the recorded run had %s", subject, content, locked), Hint: changedHint}
	}
	return &DeniedError{What: what, Why: fmt.Sprintf("%s is %s, but the lock file has %s", subject, content, locked)}
}

// forHere reports whether the content digests of a locked package are those of this platform.
func forHere(r *Resolver, l *lock.Package) bool {
	return l.Platform == "" || l.Platform == r.Fetchers[l.Kind].Variant()
}

// bundled reports whether a package came with a trace.
func (r *Resolver) bundled(content string) bool {
	return slices.ContainsFunc(r.Stores, func(s Store) bool {
		f, err := s.Package(content)
		if err == nil {
			f.Close()
		}
		return err == nil
	})
}

// has reports whether a package is at hand.
func (r *Resolver) has(content string) bool {
	f, err := r.openPackage(content)
	if err == nil {
		f.Close()
	}
	return err == nil
}

// pin finds out what a location's revision points to.
func (r *Resolver) pin(ctx context.Context, at *Location, trust Trust) (string, error) {
	fetcher := r.Fetchers[at.Kind]
	if immutable(at) {
		return fetcher.Resolve(ctx, at)
	}
	believed := r.Refresh
	if trust.Refresh > 0 {
		believed = trust.Refresh
	} else if believed == 0 {
		believed = DefaultRefresh
	}
	name := []string{string(at.Kind), at.Name, WithoutUserinfo(at.URL), at.Rev}
	known, ok := r.Cache.Name(name...)
	if age := time.Since(known.Time); ok && (r.Offline || !r.Fresh && age >= 0 && age < believed) {
		return known.Pin, nil
	}
	if r.Offline && !local(at) {
		return "", notCached(at)
	}
	pin, err := fetcher.Resolve(ctx, at)
	if err != nil {
		return "", err
	}
	return pin, r.Cache.SetName(pin, name...)
}

// local reports whether a location is on this machine.
func local(at *Location) bool {
	return strings.HasPrefix(at.URL, "file://") || at.Kind == plan.RefBuiltin
}

func notCached(at *Location) error {
	what := at.Name
	if at.Rev != "" {
		what += "@" + at.Rev
	}
	return &NotFoundError{Ref: what, Err: errors.New("the run is offline, and it is not in the cache; run once without --offline, or give a bundle that has it")}
}

// content returns the content digest of the package that a pin holds. It is at hand then.
func (r *Resolver) content(ctx context.Context, at *Location, pin string) (string, error) {
	fetcher := r.Fetchers[at.Kind]
	parts := []string{string(at.Kind), pin, fetcher.Variant()}
	if at.Access.Submodules {
		parts = append(parts, "submodules")
	}
	if content := r.Cache.Pinned(parts...); content != "" && r.has(content) {
		return content, nil
	}
	if r.Offline && !local(at) {
		return "", notCached(at)
	}
	content, err := r.Cache.Put(func(w *tree.Writer) error { return fetcher.Fetch(ctx, at, pin, w) })
	if err != nil {
		return "", refused(err, at)
	}
	return content, r.Cache.SetPinned(content, parts...)
}

// refused makes an error of what cannot be part of a component.
func refused(err error, at *Location) error {
	var name *tree.PathError
	if errors.As(err, &name) || errors.Is(err, tree.ErrLimit) {
		return &DeniedError{What: at.Name, Why: err.Error()}
	}
	var denied *DeniedError
	var missing *NotFoundError
	var fetch *FetchError
	if errors.As(err, &denied) || errors.As(err, &missing) || errors.As(err, &fetch) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &FetchError{What: at.Name, Err: err}
}

// openPackage opens a package that is at hand.
func (r *Resolver) openPackage(content string) (io.ReadCloser, error) {
	for _, store := range r.Stores {
		if f, err := store.Package(content); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return r.Cache.Open(content)
}

// forget makes the next load of a location find its package again.
func (r *Resolver) forget(at *Location) {
	p := r.pinningOf(at)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.content = ""
}

// damaged handles a package that is not what its digest says: it is taken out of the cache, so that it is fetched again.
func (r *Resolver) damaged(err error, content string, at *Location) error {
	var corrupt *tree.CorruptError
	if !errors.As(err, &corrupt) {
		return &FetchError{What: at.Name, Err: err}
	}
	r.forget(at)
	_ = r.Cache.Remove(content)
	return &DeniedError{
		What: at.Name,
		Why:  fmt.Sprintf("%v; somebody or something changed a file in %s", err, r.Cache.Dir()),
		Hint: "it was removed from the cache and is fetched again the next time; step-runner cache verify checks the rest",
	}
}
