// Package clone makes a Git repository with a work tree, without the git program: what git init, fetch, checkout --detach and submodule update would
// make in an empty folder. A git program that comes later accepts it.
//
// The folder belongs to the clone: it is empty at the beginning, and nobody else writes to it. What comes from a server is not trusted: a file is made
// where nothing is yet, links come after all files, so that nothing is written through one, and everything is written below an os.Root. Nothing of the
// repository is run: no hook, no filter, no merge driver; and of its attributes none has an effect (Attributes names those that would).
package clone

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/rungci/rung/steps/source/git"
)

// Options say what is cloned.
type Options struct {
	Folder string // absolute and empty: where the files go
	URL    string // of http or https, without credentials; it is written to the configuration
	Access
	Config string // text for the configuration, after what Git itself needs
	Branch string // that HEAD names until something is checked out
}

// Access is who asks a server, and how.
type Access struct {
	// User and Password are for the server of Base alone, which is scheme://host:port. They are written nowhere.
	User, Password, Base string
	UserAgent            string
	Client               *http.Client
}

// RefusedError is about what another attempt cannot mend: it is not possible without git, or it is an attack.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }
func (e *RefusedError) Unwrap() error { return e.Err }

// Refuse makes a *RefusedError that says what to do instead.
func Refuse(format string, args ...any) error {
	return &RefusedError{fmt.Errorf(format+"; use an image that has the program git", args...)}
}

// Clone is a repository that is being made. Close it.
type Clone struct {
	options  Options
	gitDir   string // absolute
	linked   string // what .git says where it is a file; "" where it is gitDir
	upstream *git.Upstream
	refs     map[string]plumbing.Hash
	shallow  map[plumbing.Hash]bool
	store    *git.Store // nil before something was fetched
	attrs    attributes
}

// Open makes the repository, and asks the server for its refs.
func Open(ctx context.Context, o Options) (*Clone, error) {
	return open(ctx, o, filepath.Join(o.Folder, ".git"), "", "")
}

func open(ctx context.Context, o Options, gitDir, linked, workTree string) (*Clone, error) {
	c := &Clone{options: o, gitDir: gitDir, linked: linked, refs: map[string]plumbing.Hash{}, shallow: map[plumbing.Hash]bool{}}
	if err := c.initialize(workTree); err != nil {
		return nil, err
	}
	up := git.UpstreamOptions{UserAgent: o.UserAgent, Client: o.Client}
	if o.Base != "" && (o.URL == o.Base || strings.HasPrefix(o.URL, o.Base+"/")) {
		up.User, up.Password = o.User, o.Password
	}
	var err error
	if c.upstream, err = git.OpenUpstream(ctx, o.URL, up); errors.Is(err, git.ErrScheme) {
		return nil, Refuse("%w", err)
	}
	return c, err
}

// Close closes the files of the repository.
func (c *Clone) Close() {
	if c.store != nil {
		c.store.Close()
		c.store = nil
	}
}

// Commit is what a ref of the server leads to in the end, "" where there is no such ref.
func (c *Clone) Commit(ref string) string {
	commit, ok := c.upstream.Commit(ref)
	if !ok {
		return ""
	}
	return commit.String()
}

// Empty reports whether the server's repository has no refs at all.
func (c *Clone) Empty() bool { return len(c.upstream.Refs()) == 0 }

// Fetch is what is fetched.
type Fetch struct {
	Refspecs []string // as git fetch takes them
	Depth    int      // how many commits of history; 0 is all
	Tags     Tags
}

// Tags are which tags come besides those that the refspecs name.
type Tags int

// Which tags come: those that are about what is fetched, none, or all.
const (
	TagsOfHistory Tags = iota
	NoTags
	AllTags
)

// Fetch fetches objects and writes refs.
func (c *Clone) Fetch(ctx context.Context, f Fetch) error {
	specs := f.Refspecs
	if f.Tags == AllTags {
		specs = append(slices.Clone(specs), "+refs/tags/*:refs/tags/*")
	}
	got, err := mapRefs(specs, c.upstream.Refs())
	if err != nil {
		return err
	}
	if len(got.wants) > 0 {
		want := git.Want{Objects: got.wants, Depth: f.Depth, Tags: f.Tags != NoTags}
		shallow, err := c.upstream.Fetch(ctx, want, c.gitDir)
		if errors.Is(err, git.ErrNotOffered) { // one that a refspec names by its hash may be in the history of a branch
			want.Objects, want.Depth = c.offered(), 0
			shallow, err = c.upstream.Fetch(ctx, want, c.gitDir)
		}
		if err := c.received(shallow, err); err != nil {
			return err
		}
		for _, h := range got.wants {
			if !c.store.Has(h) {
				return fmt.Errorf("the server did not send %s, which it was asked for", h)
			}
		}
	}
	for name, h := range got.refs {
		c.refs[name] = h
	}
	if f.Tags == TagsOfHistory && len(got.refs) > 0 {
		if err := c.followTags(ctx); err != nil {
			return err
		}
	}
	return c.writeRefs()
}

// offered are the objects of all branches and tags.
func (c *Clone) offered() []plumbing.Hash {
	var out []plumbing.Hash
	for name, h := range c.upstream.Refs() {
		if strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/tags/") {
			out = append(out, h)
		}
	}
	plumbing.HashesSort(out)
	return slices.Compact(out)
}

// received notes what came, and opens it.
func (c *Clone) received(shallow []plumbing.Hash, err error) error {
	if errors.Is(err, git.ErrTooLarge) {
		return Refuse("%w", err)
	}
	if err != nil {
		return err
	}
	for _, h := range shallow {
		c.shallow[h] = true
	}
	if err := c.writeShallow(); err != nil {
		return err
	}
	c.Close()
	c.store, err = git.OpenStore(c.gitDir)
	return err
}

// followTags makes the tags that are about something that is here, as git fetch does.
func (c *Clone) followTags(ctx context.Context) error {
	var missing []plumbing.Hash
	found := map[string]plumbing.Hash{}
	for name, h := range c.upstream.Refs() {
		if _, has := c.refs[name]; has || !strings.HasPrefix(name, "refs/tags/") || !validRef(name) {
			continue
		}
		if commit, _ := c.upstream.Commit(name); c.store == nil || !c.store.Has(commit) {
			continue
		}
		if found[name] = h; !c.store.Has(h) {
			missing = append(missing, h)
		}
	}
	if len(missing) > 0 {
		plumbing.HashesSort(missing)
		want := git.Want{Objects: slices.Compact(missing)}
		for _, h := range c.refs {
			want.Have = append(want.Have, h)
		}
		plumbing.HashesSort(want.Have)
		for h := range c.shallow {
			want.Shallow = append(want.Shallow, h)
		}
		shallow, err := c.upstream.Fetch(ctx, want, c.gitDir)
		if err := c.received(shallow, err); err != nil {
			return fmt.Errorf("fetching tags: %w", err)
		}
	}
	for name, h := range found {
		if c.store.Has(h) {
			c.refs[name] = h
		}
	}
	return nil
}

// ErrNoCommit says that a commit is not in what was fetched, and the server does not give it out.
var ErrNoCommit = errors.New("there is no such commit")

// Complete returns the full name of a commit, of which the beginning may be given, and fetches it where the refs did not bring it.
func (c *Clone) Complete(ctx context.Context, name string, depth int) (string, error) {
	name = strings.ToLower(name)
	const sha1Digits = 40
	if len(name) < sha1Digits {
		if c.store == nil {
			return "", ErrNoCommit
		}
		h, ok, err := c.store.Find(name)
		if err == nil && !ok {
			err = ErrNoCommit
		}
		return h.String(), err
	}
	h := plumbing.NewHash(name)
	if len(name) != sha1Digits {
		return "", fmt.Errorf("%w: %s is not the name of an object of the format sha1", ErrNoCommit, name)
	}
	if c.store == nil || !c.store.Has(h) {
		if err := c.fetchCommit(ctx, h, depth); err != nil {
			return "", err
		}
	}
	commit, _, err := c.store.Commit(h)
	return commit.String(), err
}

// fetchCommit fetches one commit; where the server does not give it out, with the history of everything.
func (c *Clone) fetchCommit(ctx context.Context, h plumbing.Hash, depth int) error {
	shallow, err := c.upstream.Fetch(ctx, git.Want{Objects: []plumbing.Hash{h}, Depth: depth}, c.gitDir)
	if !errors.Is(err, git.ErrNotOffered) {
		return c.received(shallow, err)
	}
	refused := err
	all := c.offered()
	if len(all) == 0 || depth == 0 && len(c.shallow) == 0 && c.store != nil && !slices.ContainsFunc(all, func(h plumbing.Hash) bool { return !c.store.Has(h) }) {
		return fmt.Errorf("%w: %w", ErrNoCommit, refused) // all of it is here
	}
	shallow, err = c.upstream.Fetch(ctx, git.Want{Objects: all}, c.gitDir)
	if err == nil {
		clear(c.shallow)
	}
	if err := c.received(shallow, err); err != nil {
		return err
	}
	if !c.store.Has(h) {
		return fmt.Errorf("%w: %w", ErrNoCommit, refused)
	}
	return nil
}

// remove removes a file that may not be there.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
