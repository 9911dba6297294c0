package include

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/cache"
	"github.com/rungci/rung/steps/source/tree"
)

// head is the revision of a project whose ref nobody names.
const head = "HEAD"

// projectFile reads a file of another project.
func (l *Loader) projectFile(ctx context.Context, place config.Place) (config.File, error) {
	if l.isOwn(place.Project, place.Ref) {
		file, err := l.local(place.Path)
		return file, err
	}
	f, err := l.projectFiles(ctx, l.homeOf(place.Project, place.Ref), place.Project, place.Ref)
	if err != nil {
		return config.File{}, err
	}
	data, err := f.load(place.Path)
	return config.File{Data: data}, err
}

// projectFiles finds what a project holds at a ref.
func (l *Loader) projectFiles(ctx context.Context, host, project, ref string) (*files, error) {
	project = strings.Trim(project, "/")
	if err := checkProject(project); err != nil {
		return nil, err
	}
	if dir, ok := l.override(host, project); ok {
		return l.folder(ctx, project, dir)
	}
	locations := l.locations(host, project, cmp.Or(ref, head))
	var first error
	for _, at := range locations {
		f, err := l.fetched(ctx, at)
		if err == nil {
			return f, nil
		}
		if first == nil {
			first = err
		}
		var missing *source.NotFoundError
		if errors.As(err, &missing) || ctx.Err() != nil || l.o.Offline {
			break
		}
	}
	return nil, explain(first, fmt.Sprintf("--project %s=FOLDER takes it from a folder", project))
}

// checkProject refuses what cannot be the path of a project.
func checkProject(project string) error {
	for part := range strings.SplitSeq(project, "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "\\?#%:@ \t\r\n\x00") {
			return fmt.Errorf("%q is not the path of a project", project)
		}
	}
	return nil
}

// locations are where a project may be fetched, in the order to try. The pipeline's own server is asked as the remote is, because
// that is known to let the user in; over SSH, where that does not work, also over HTTPS, as everybody else.
func (l *Loader) locations(host, project, rev string) []*source.Location {
	r := l.o.Repository
	own := strings.EqualFold(host, r.Server.FQDN())
	protocol := "https"
	if own {
		protocol = r.Server.Protocol
	}
	web := &source.Location{Kind: plan.RefGit, Name: protocol + "://" + host + "/" + project, Rev: rev}
	web.URL = web.Name + ".git"
	if own && r.Git && strings.EqualFold(project, string(r.Project)) && (r.RemoteURL == "" || !isAddress(r.RemoteURL)) {
		web.URL = "file://" + filepath.ToSlash(r.Root) // there is no server: the repository itself is all there is
		return []*source.Location{web}
	}
	if !own || !overSSH(r.RemoteURL) {
		return []*source.Location{web}
	}
	shell := *web
	user := "git"
	if before, _, ok := strings.Cut(strings.TrimPrefix(r.RemoteURL, "ssh://"), "@"); ok && before != "" && !strings.ContainsAny(before, "/:") {
		user = before
	}
	shell.URL = fmt.Sprintf("ssh://%s@%s:%s/%s.git", user, r.Server.SSHHost, r.Server.SSHPort, project)
	return []*source.Location{&shell, web}
}

// isAddress reports whether a remote is on a server.
func isAddress(remote string) bool {
	return strings.Contains(remote, "://") && !strings.HasPrefix(remote, "file:") || overSSH(remote)
}

// overSSH reports whether a remote is reached over SSH: by a URL that says so, or in the form that scp has.
func overSSH(remote string) bool {
	scheme, _, isURL := strings.Cut(remote, "://")
	if isURL {
		return strings.Contains(strings.ToLower(scheme), "ssh")
	}
	host, _, ok := strings.Cut(remote, ":")
	return ok && len(host) > 1 && !strings.ContainsAny(host, `/\`)
}

// fetched gets the tree of a location's commit.
func (l *Loader) fetched(ctx context.Context, at *source.Location) (*files, error) {
	trust, err := l.apply(at)
	if err != nil {
		return nil, err
	}
	key := entryKey{Kind: kindProject, Place: strings.TrimPrefix(at.Name, "https://"), Ref: at.Rev}
	locked := l.lock.find(key)
	if l.o.Refresh {
		locked = nil
	}
	if trust.Pinned && locked == nil && !isCommit(at.Rev) {
		return nil, &source.DeniedError{What: at.Name + "@" + at.Rev, Why: "sources.toml requires immutable references, and this one can change",
			Hint: "use a full commit"}
	}
	pin, err := l.pin(ctx, at, key, locked, trust.Refresh)
	if err != nil {
		return nil, err
	}
	f, content, err := l.tree(ctx, at, pin)
	if err != nil {
		return nil, err
	}
	if locked != nil && locked.Content != content {
		return nil, l.differs(key, locked.Content, content)
	}
	l.decided[key.String()] = pin
	if l.homes[homeKey(at, pin)] == "" { // else it is a part of a component, which is noted
		l.lock.set(entry{entryKey: key, Pin: pin, Content: content})
	}
	return f, nil
}

// homeKey is the name under which a component's project is known by its commit.
func homeKey(at *source.Location, pin string) string {
	_, rest, _ := strings.Cut(at.Name, "://")
	_, project, _ := strings.Cut(rest, "/")
	if at.Rev != pin {
		return ""
	}
	return project + "@" + pin
}

// apply lets the user's rules say where a location is.
func (l *Loader) apply(at *source.Location) (source.Trust, error) {
	if l.o.Rules == nil {
		return source.Trust{}, nil
	}
	trust, err := l.o.Rules.Apply(at)
	if err == nil && trust.Verify != nil {
		err = &source.DeniedError{What: at.Name, Why: "sources.toml requires signatures, and included files have none", Hint: "use --project to take trusted files from a folder"}
	}
	return trust, err
}

// pin finds out which commit a revision stands for: what was decided in this run, what the lock file says, what was lately found
// out, or what the server says now.
func (l *Loader) pin(ctx context.Context, at *source.Location, key entryKey, locked *entry, believed time.Duration) (string, error) {
	if pin := l.decided[key.String()]; pin != "" {
		return pin, nil
	}
	switch {
	case locked != nil:
		return locked.Pin, nil
	case isCommit(at.Rev):
		return strings.ToLower(at.Rev), nil
	}
	name := []string{kindProject, at.Name, source.WithoutUserinfo(at.URL), at.Rev}
	if pin, ok := l.known(cmp.Or(believed, source.DefaultRefresh), name...); ok {
		return pin, nil
	}
	if l.o.Offline && !strings.HasPrefix(at.URL, "file://") {
		return "", &offlineError{at.Name + "@" + at.Rev}
	}
	pin, err := l.o.Git.Resolve(ctx, at)
	if err != nil {
		return "", err
	}
	return pin, l.o.Cache.SetName(pin, name...)
}

// known returns what was found out about a name, if that is to be believed.
func (l *Loader) known(believed time.Duration, name ...string) (string, bool) {
	found, ok := l.o.Cache.Name(name...)
	age := time.Since(found.Time)
	return found.Pin, ok && (l.o.Offline || !l.o.Refresh && age >= 0 && age < believed)
}

// isCommit reports whether a revision is the full name of a commit.
func isCommit(rev string) bool {
	return len(rev) == 40 && strings.Trim(strings.ToLower(rev), "0123456789abcdef") == ""
}

// tree returns the files of a commit, and their content digest.
func (l *Loader) tree(ctx context.Context, at *source.Location, pin string) (*files, string, error) {
	parts := []string{string(plan.RefGit), pin, l.o.Git.Variant()} // as the resolver of steps names it: they share packages
	if at.Access.Submodules {
		parts = append(parts, "submodules")
	}
	content := l.o.Cache.Pinned(parts...)
	if f := l.trees[content]; f != nil {
		return f, content, nil
	}
	if content != "" {
		if f, err := l.open(content, pin); !errors.Is(err, fs.ErrNotExist) {
			return f, content, err
		}
	}
	if l.o.Offline && !strings.HasPrefix(at.URL, "file://") {
		return nil, "", &offlineError{at.Name + "@" + at.Rev}
	}
	content, err := l.o.Cache.Put(func(w *tree.Writer) error { return l.o.Git.Fetch(ctx, at, pin, w) })
	if err == nil {
		err = l.o.Cache.SetPinned(content, parts...)
	}
	if err != nil {
		return nil, "", err
	}
	f, err := l.open(content, pin)
	return f, content, err
}

// open makes a package readable, every file of it verified. The error wraps fs.ErrNotExist where it is not in the cache.
func (l *Loader) open(content, pin string) (*files, error) {
	dir, manifest, err := l.o.Cache.Tree(content)
	var corrupt *tree.CorruptError
	switch {
	case errors.As(err, &corrupt):
		_ = l.o.Cache.Remove(content)
		return nil, fmt.Errorf("%w; it was removed from the cache and will be fetched again", err)
	case errors.Is(err, cache.ErrChanged):
		return nil, fmt.Errorf("%w: `step-runner cache verify --repair` repairs it", err)
	case err != nil:
		return nil, err
	}
	f := &files{dir: dir, names: manifest.Paths(), sha: pin, read: func(name string) ([]byte, error) { return readBelow(dir, name) }}
	l.trees[content] = f
	return f, nil
}

// differs says that something is not what the lock file says.
func (l *Loader) differs(key entryKey, want, got string) error {
	return &source.DeniedError{
		What: key.String(),
		Why:  fmt.Sprintf("it has changed: %s has %s, now it is %s", filepath.Base(l.o.LockFile), want, got),
		Hint: "check what changed; --refresh accepts the new content",
	}
}
