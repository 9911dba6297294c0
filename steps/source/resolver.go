package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
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
const SignatureFile = "component" + tree.SignatureSuffix

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
	if within := r.laidOutAt(from); within != nil && ref.Kind == plan.RefLocal {
		return r.relative(within, ref, from)
	}
	if ref.Kind == plan.RefLocal || ref.Kind == plan.RefAction {
		return r.Local.Load(ctx, ref, from)
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
	folder := path.Join(ref.Path...)
	if ref.Kind == plan.RefBuiltin {
		folder = ""
	}
	return r.component(laid, ref, folder)
}

// Check implements Checker.
func (r *Resolver) Check(ref *plan.Reference, from string) error {
	switch ref.Kind {
	case plan.RefLocal, plan.RefAction, plan.RefDynamic:
		return nil
	}
	at, trust, err := r.locate(ref, from)
	if err != nil {
		return err
	}
	return r.allowed(at, trust, ref)
}

// locate finds out where a reference leads, and applies the user's rules to it.
func (r *Resolver) locate(ref *plan.Reference, from string) (*Location, Trust, error) {
	if r.Fetchers[ref.Kind] == nil {
		return nil, Trust{}, &UnsupportedError{Ref: ref.Text, Kind: ref.Kind}
	}
	at := LocationOf(ref, from, r.WorkDir)
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
		return &DeniedError{What: ref.Text, Why: "it is not in the lock file", Hint: "step-runner lock adds it"}
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
	same := r.forHere(l)
	if same && r.has(l.Content) {
		return l.Pin, l.Content, nil
	}
	content, err = r.content(ctx, at, l.Pin)
	if err != nil {
		return "", "", err
	}
	if same && content != l.Content {
		return "", "", &DeniedError{What: at.Name, Why: fmt.Sprintf("%s is now %s, but the lock file has %s", l.Pin, content, l.Content)}
	}
	return l.Pin, content, nil
}

// forHere reports whether the content digests of a locked package are those of this platform.
func (r *Resolver) forHere(l *lock.Package) bool {
	return l.Platform == "" || l.Platform == r.Fetchers[l.Kind].Variant()
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
		return "", r.offline(at)
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

func (r *Resolver) offline(at *Location) error {
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
		return "", r.offline(at)
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

// forget makes the next load of a location find its package anew.
func (r *Resolver) forget(at *Location) {
	p := r.pinningOf(at)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.content = ""
}

// damaged handles a package that is not what its digest says: it is taken out of the cache, so that it is fetched anew.
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
		Hint: "it was removed from the cache and is fetched anew the next time; step-runner cache verify checks the rest",
	}
}

// candidates are the folders and files where the definition that a reference names can be, in the order in which to look.
func candidates(ref *plan.Reference, folder string) (places [][2]string) {
	folders := []string{folder}
	if ref.OrRoot {
		if _, rest, ok := strings.Cut(folder+"/", "/"); ok {
			folders = append(folders, strings.TrimSuffix(rest, "/"))
		}
	}
	names := []string{plan.DefaultFile, plan.FallbackFile}
	if ref.File != "" {
		names = []string{ref.File}
	}
	for _, dir := range folders {
		for _, name := range names {
			places = append(places, [2]string{dir, name})
		}
	}
	return places
}

// relative follows a local reference from inside a package, which it cannot leave.
func (r *Resolver) relative(laid *laidOut, ref *plan.Reference, from string) (*Component, error) {
	dir, err := filepath.Rel(laid.root, filepath.Join(append([]string{from}, ref.Path...)...))
	if len(ref.Path) > 0 && ref.Path[0] == "/" || err != nil || !filepath.IsLocal(dir) {
		return nil, &DeniedError{What: ref.Text, Why: "a component that was fetched cannot refer to files outside of its package"}
	}
	folder := filepath.ToSlash(dir)
	if folder == "." {
		folder = ""
	}
	return r.component(laid, ref, folder)
}

// component finds and reads the definition that a reference names in a folder of a package.
func (r *Resolver) component(laid *laidOut, ref *plan.Reference, folder string) (*Component, error) {
	missing := &NotFoundError{Ref: ref.Text}
	for _, place := range candidates(ref, folder) {
		file := path.Join(place[0], place[1])
		if laid.manifest.Has(file) {
			return r.read(laid, place[0], place[1], ref.Text)
		}
		missing.Looked = append(missing.Looked, file)
	}
	return nil, missing
}

// read reads one definition of a package.
func (r *Resolver) read(laid *laidOut, folder, file, text string) (*Component, error) {
	digest := laid.manifest.Digest(folder)
	origin := laid.origin()
	origin.Path = folder
	if l := r.Lock.Find(laid.at.Kind, laid.at.Name, laid.at.Rev); l != nil {
		if want := l.Component(folder, file); want != "" && want != digest && r.forHere(l) {
			return nil, &DeniedError{What: text, Why: fmt.Sprintf("its content is %s, but the lock file has %s", digest, want)}
		}
	}
	if laid.trust.Verify != nil {
		from := laid.packageFrom
		from.part = ""
		whole, err := r.layOut(from)
		if err != nil {
			return nil, r.damaged(err, from.content, from.at)
		}
		signed, keys, err := r.signed(whole, folder, text)
		if err != nil {
			return nil, err
		}
		laid, origin.SignedBy = signed, keys
	}
	found, err := r.Local.read(definition{path: filepath.Join(laid.root, filepath.FromSlash(folder), file)})
	if err != nil {
		return nil, err
	}
	component := *found
	component.Ref, component.Digest, component.Origin = text, digest, &origin
	return &component, nil
}

// signed finds the signature that covers a folder: its own, or that of a folder around it. The component then gets what is
// signed and nothing else of its package.
func (r *Resolver) signed(laid *laidOut, folder, text string) (*laidOut, []string, error) {
	var last error
	for dir := folder; ; dir = path.Dir(dir) {
		if dir == "." {
			dir = ""
		}
		envelope, err := os.ReadFile(filepath.Join(laid.root, filepath.FromSlash(dir), SignatureFile))
		if err == nil {
			keys, verr := laid.trust.Verify(envelope, laid.manifest.Digest(dir))
			if verr == nil {
				slices.Sort(keys)
				from := laid.packageFrom
				from.part = dir
				part, err := r.layOut(from)
				return part, keys, err
			}
			last = verr
		}
		if dir == "" {
			break
		}
	}
	why := "your sources demand a signature, and it has none"
	if last != nil {
		why = "your sources demand a signature, and the one it has will not do: " + last.Error()
	}
	return nil, nil, &DeniedError{What: text, Why: why, Hint: "sign its folder with step-runner sign, or change signed_by in sources.toml"}
}
