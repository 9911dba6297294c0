package git

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/cache"
	"github.com/rungci/rung/steps/source/tree"
)

// Credentials know how to get into a host over HTTP.
type Credentials interface {
	// Git returns the user and the password for a repository's URL, which may say who the user is; ok is false where it knows
	// of none.
	Git(ctx context.Context, url string) (user, password string, ok bool, err error)
}

// Fetcher is the source.Fetcher of Git repositories.
type Fetcher struct {
	Cache       *cache.Cache
	Credentials Credentials // asked when a server wants to know who it is, and nothing was configured; may be nil

	// For tests; 0 is retryDelay and idleTimeout.
	delay, idle time.Duration
}

// Time limits.
const (
	// idleTimeout is how long a server may send nothing at all. Git's servers send something every five seconds.
	idleTimeout = 60 * time.Second
	// retryDelay is how long to wait before a second attempt; every further one waits twice as long.
	retryDelay = 500 * time.Millisecond
	attempts   = 3
)

// Variant implements source.Fetcher: a commit is the same everywhere.
func (f *Fetcher) Variant() string { return "" }

// Resolve implements source.Fetcher: it returns a commit's full name. It asks for the list of refs, once.
func (f *Fetcher) Resolve(ctx context.Context, at *source.Location) (string, error) {
	a, err := addressOf(at)
	if err != nil {
		return "", err
	}
	if full := strings.ToLower(at.Rev); isCommitName(full) {
		return full, nil
	}
	if err := checkRevision(at.Rev); err != nil {
		return "", &source.NotFoundError{Ref: place(at), Err: err}
	}
	var commit plumbing.Hash
	if a.scheme == "file" {
		commit, err = resolveLocal(at, a)
	} else {
		commit, err = f.resolveRemote(ctx, at, a)
	}
	if err != nil {
		return "", explain(ctx, at, a, err)
	}
	return commit.String(), nil
}

func (f *Fetcher) resolveRemote(ctx context.Context, at *source.Location, a *address) (plumbing.Hash, error) {
	var offered *refs
	err := f.retry(ctx, func() error {
		r, err := f.connect(ctx, at, a)
		if err != nil {
			return err
		}
		defer r.close()
		offered, err = r.refs(ctx)
		return err
	})
	if errors.Is(err, errNoCommits) {
		return plumbing.ZeroHash, &source.NotFoundError{Ref: place(at), Err: errNoCommits}
	}
	if err != nil {
		return plumbing.ZeroHash, err
	}
	commit, ok, err := offered.find(at.Rev)
	if err == nil && !ok && isShortCommit(at.Rev) {
		commit, ok, err = f.searchHistory(ctx, at, a)
	}
	if err != nil {
		return plumbing.ZeroHash, err
	}
	if !ok {
		return plumbing.ZeroHash, offered.notFound(at)
	}
	return commit, nil
}

func resolveLocal(at *source.Location, a *address) (plumbing.Hash, error) {
	l, err := openLocal(a.path)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	defer l.close()
	commit, ok, err := l.refs.find(at.Rev)
	if err == nil && !ok && isShortCommit(at.Rev) {
		var found []plumbing.Hash
		if found, err = l.commits(at.Rev); err == nil {
			commit, ok, err = candidates(at, found)
		}
	}
	if err != nil {
		return plumbing.ZeroHash, err
	}
	if !ok {
		return plumbing.ZeroHash, l.refs.notFound(at)
	}
	return commit, nil
}

// candidates is onlyOne with the error of a Fetcher.
func candidates(at *source.Location, found []plumbing.Hash) (plumbing.Hash, bool, error) {
	commit, ok, err := onlyOne(at.Rev, found)
	if err != nil {
		err = &source.NotFoundError{Ref: place(at), Err: err}
	}
	return commit, ok, err
}

// searchHistory looks for a short commit among all commits, which have to be fetched for that; without their files, where the
// server can leave those out.
func (f *Fetcher) searchHistory(ctx context.Context, at *source.Location, a *address) (plumbing.Hash, bool, error) {
	const history = "history"
	unlock, err := f.Cache.Lock(ctx, "git", a.url(), history)
	if err != nil {
		return plumbing.ZeroHash, false, err
	}
	defer unlock()
	dir, err := f.Cache.Mirror(a.url() + " " + history)
	if err != nil {
		return plumbing.ZeroHash, false, err
	}
	m := &mirror{dir: dir}
	if err := m.remove(); err != nil { // what a process left that was killed
		return plumbing.ZeroHash, false, err
	}
	defer m.remove()
	if m, err = openMirror(dir); err != nil {
		return plumbing.ZeroHash, false, err
	}
	err = f.retry(ctx, func() error {
		r, err := f.connect(ctx, at, a)
		if err != nil {
			return err
		}
		defer r.close()
		offered, err := r.refs(ctx)
		if err != nil {
			return err
		}
		o := &order{wants: offered.all(), filter: "tree:0"}
		return f.receive(ctx, at, r, offered, o, m)
	})
	if err != nil {
		return plumbing.ZeroHash, false, err
	}
	have, err := m.objects()
	if err != nil {
		return plumbing.ZeroHash, false, err
	}
	defer have.close()
	found, err := have.commits(at.Rev)
	if err != nil {
		return plumbing.ZeroHash, false, err
	}
	return candidates(at, found)
}

// Fetch implements source.Fetcher: it packs the files of a commit.
func (f *Fetcher) Fetch(ctx context.Context, at *source.Location, pin string, to *tree.Writer) error {
	a, err := addressOf(at)
	if err != nil {
		return err
	}
	return f.fetch(ctx, at, a, pin, &export{to: to}, 0)
}

// fetch packs the files of a commit, and those of its submodules if they are wanted.
func (f *Fetcher) fetch(ctx context.Context, at *source.Location, a *address, pin string, x *export, depth int) error {
	if !isCommitName(pin) {
		return &source.DeniedError{What: place(at), Why: fmt.Sprintf("%q is not the full name of a commit", clean(pin))}
	}
	var err error
	if a.scheme == "file" {
		err = f.exportLocal(ctx, a, plumbing.NewHash(pin), x)
	} else {
		err = f.exportMirror(ctx, at, a, plumbing.NewHash(pin), x)
	}
	if err != nil {
		return explain(ctx, at, a, err)
	}
	if len(x.leftOut) > 0 {
		title := fmt.Sprintf("left out of %s, because they lead outside: %s", place(at), strings.Join(x.leftOut, ", "))
		source.Progress(ctx, event.Progress{ID: progressID(at) + " links", Title: title, Current: int64(len(x.leftOut)), Unit: "links", Done: true})
	}
	if !at.Access.Submodules {
		return nil
	}
	return f.submodules(ctx, at, a, x, depth)
}

func (f *Fetcher) exportLocal(ctx context.Context, a *address, pin plumbing.Hash, x *export) error {
	l, err := openLocal(a.path)
	if err != nil {
		return err
	}
	defer l.close()
	if l.has(pin) != nil {
		return &noCommitError{pin, "the repository has no such commit"}
	}
	root, err := l.root(pin)
	if err != nil {
		return err
	}
	x.objects = l.objects
	return x.tree(ctx, root)
}

// exportMirror packs a commit from the repository's mirror, into which it is fetched if it is not there.
func (f *Fetcher) exportMirror(ctx context.Context, at *source.Location, a *address, pin plumbing.Hash, x *export) error {
	unlock, err := f.Cache.Lock(ctx, "git", a.url())
	if err != nil {
		return err
	}
	defer unlock()
	dir, err := f.Cache.Mirror(a.url())
	if err != nil {
		return err
	}
	for second := false; ; second = true {
		err := f.exportOnce(ctx, at, a, dir, pin, x)
		var damaged *damagedError
		if !errors.As(err, &damaged) {
			return err
		}
		// Nothing was given to the writer yet: see exportOnce.
		if rerr := (&mirror{dir: dir}).remove(); rerr != nil {
			return rerr
		}
		if second {
			return fmt.Errorf("what the server sent is not the commit %s: %w", pin, err)
		}
	}
}

// exportOnce returns a *damagedError, before it writes anything, where the mirror is not what it should be.
func (f *Fetcher) exportOnce(ctx context.Context, at *source.Location, a *address, dir string, pin plumbing.Hash, x *export) error {
	m, err := openMirror(dir)
	if err != nil {
		return err
	}
	fresh := len(m.commits) == 0
	if !m.has(pin) {
		if err := f.download(ctx, at, a, m, pin); err != nil {
			return err
		}
	}
	have, err := m.objects()
	if err != nil {
		return &damagedError{pin, "cannot be read: " + err.Error()}
	}
	defer have.close()
	root, err := have.root(pin)
	if err != nil {
		return err
	}
	if err := have.verify(ctx, root, fresh); err != nil {
		return err
	}
	x.objects = have
	err = x.tree(ctx, root)
	var damaged *damagedError
	if errors.As(err, &damaged) { // since it was verified
		return fmt.Errorf("the mirror in %s changes while it is read: %w", dir, err)
	}
	return err
}

// root returns the tree of a commit.
func (o *objects) root(commit plumbing.Hash) (plumbing.Hash, error) {
	typ, root, err := o.target(commit)
	if err == nil && typ != plumbing.CommitObject {
		err = &noCommitError{commit, "it is not a commit, but a " + typ.String()}
	}
	return root, err
}

// noCommitError says that a repository does not have a commit.
type noCommitError struct {
	commit plumbing.Hash
	why    string
}

func (e *noCommitError) Error() string { return e.why }

// retry calls try again where it may help.
func (f *Fetcher) retry(ctx context.Context, try func() error) error {
	delay := f.delay
	if delay == 0 {
		delay = retryDelay
	}
	for attempt := 1; ; attempt++ {
		err := try()
		if err == nil || attempt == attempts || !mayPass(err) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(delay):
		}
		delay *= 2
	}
}

// connect begins a conversation.
func (f *Fetcher) connect(ctx context.Context, at *source.Location, a *address) (remote, error) {
	idle := f.idle
	if idle == 0 {
		idle = idleTimeout
	}
	if a.scheme == "ssh" {
		return connectSSH(ctx, a, &at.Access, idle)
	}
	return newHTTPRemote(a, &at.Access, f.Credentials, idle), nil
}
