package git

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// maxUpstreamPack bounds one pack of a repository that is cloned, in bytes. It is written to a file, and never held in memory.
const maxUpstreamPack = 16 << 30

// Upstream is a repository behind HTTP or HTTPS that is cloned: with its history and its refs, into a repository of the caller's.
type Upstream struct {
	address *address
	remote  *httpRemote
	offered *refs
	agent   string
}

// UpstreamOptions say who asks, and how.
type UpstreamOptions struct {
	User, Password string       // HTTP basic authentication; sent to the server of the address alone
	UserAgent      string       // "" is our own
	Client         *http.Client // nil is the default
}

// ErrNotOffered says that a server gives out only what its refs lead to, or does not have what it was asked for.
var ErrNotOffered = errors.New("the server does not give out this object by its name")

// ErrTooLarge is what errors about limits of a clone wrap.
var ErrTooLarge = errors.New("larger than what can be fetched without the program git")

// ErrScheme says that a repository is neither behind HTTP nor behind HTTPS.
var ErrScheme = errors.New("only repositories behind http and https can be fetched without the program git")

// OpenUpstream asks a repository for its refs. One without commits has none.
func OpenUpstream(ctx context.Context, url string, o UpstreamOptions) (*Upstream, error) {
	a, err := parseAddress(url)
	if err != nil {
		return nil, err
	}
	if a.scheme != "http" && a.scheme != "https" {
		return nil, fmt.Errorf("%w, and %s is neither", ErrScheme, a.url())
	}
	r := &httpRemote{base: a.url(), idle: idleTimeout, agent: userAgent, client: uploadClient(o.Client)}
	if o.UserAgent != "" {
		r.agent = o.UserAgent
	}
	if o.Password != "" {
		r.user, r.password, r.whence = o.User, o.Password, "the job"
	}
	u := &Upstream{address: a, remote: r, agent: o.UserAgent}
	if u.offered, err = r.refs(ctx); errors.Is(err, errNoCommits) {
		return u, nil
	}
	if err != nil {
		return nil, upstreamError(ctx, err)
	}
	return u, nil
}

// upstreamError returns why a context ended where that is what an error is about.
func upstreamError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// Refs are all refs by their full names, with HEAD, as they are offered: an annotated tag is the object of the tag.
func (u *Upstream) Refs() map[string]plumbing.Hash { return maps.Clone(u.offered.names) }

// Commit is what a ref leads to in the end; ok is false where there is no such ref.
func (u *Upstream) Commit(ref string) (commit plumbing.Hash, ok bool) { return u.offered.commit(ref) }

// Want is what to fetch.
type Want struct {
	Objects []plumbing.Hash // commits and tags, with their history
	Have    []plumbing.Hash // commits that are here
	Shallow []plumbing.Hash // of which the history is not here
	Depth   int             // how many commits of the history; 0 is all
	Tags    bool            // also the annotated tags that are about what comes, where the server can do that
}

// Fetch stores objects as a pack in the repository in dir, whose folder objects/pack exists. Shallow are the commits that came without their
// history. An error that is ErrNotOffered says that the server does not give them out.
func (u *Upstream) Fetch(ctx context.Context, w Want, dir string) (shallow []plumbing.Hash, err error) {
	if !u.offered.caps["allow-reachable-sha1-in-want"] && !u.offered.caps["allow-tip-sha1-in-want"] {
		offered := slices.Collect(maps.Values(u.offered.names))
		for _, h := range w.Objects {
			if !slices.Contains(offered, h) {
				return nil, fmt.Errorf("%w: %s", ErrNotOffered, h)
			}
		}
	}
	if w.Depth > 0 && !u.offered.caps["shallow"] {
		return nil, errors.New("the server cannot leave out history; set the depth to 0")
	}
	o := &order{wants: w.Objects, haves: w.Have, shallow: w.Shallow, depth: w.Depth, tags: w.Tags, agent: u.agent}
	err = fetchPack(ctx, u.remote, u.offered, o, func(a *answer) error {
		got, err := receivePack(filepath.Join(dir, packsDir), a, packLimit{maxUpstreamPack, ErrTooLarge}, func(int64) {})
		if err != nil {
			return err
		}
		shallow = a.shallow
		if got.objects == 0 {
			got.discard()
			return nil
		}
		return got.store(dir)
	})
	var said *remoteError
	if errors.As(err, &said) && said.notOurs() {
		return nil, fmt.Errorf("%w: %w", ErrNotOffered, err)
	}
	if err != nil {
		return nil, upstreamError(ctx, err)
	}
	return shallow, nil
}

// JoinURL resolves the address of a submodule, which may be relative to that of its repository.
func JoinURL(base, url string) (string, error) {
	if !strings.HasPrefix(url, "./") && !strings.HasPrefix(url, "../") {
		return url, nil
	}
	a, err := parseAddress(base)
	if err != nil {
		return "", err
	}
	joined, err := a.join(url)
	if err != nil {
		return "", err
	}
	return joined.url(), nil
}
