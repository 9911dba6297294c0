package git

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/source/git/clone"
)

// gitless does the work of a checkout where the environment has no program git. Whatever cannot be done without it is refused.
type gitless struct {
	*checkout
	cloned *clone.Clone
}

// bring makes one attempt. The folder is always cleared first: there is nothing that would compare what is in it.
func (g *gitless) bring(ctx context.Context, _ bool) (sha string, err error) {
	in := &g.in
	g.reused = false
	fetch := clone.Fetch{Depth: int(in.Depth)}
	if fetch.Tags, err = g.flags(); err != nil {
		return "", err
	}
	if in.ObjectFormat == "sha256" {
		return "", clone.Refuse("object_format: repositories of the format sha256 cannot be read without git")
	}
	client, err := g.client()
	if err != nil {
		return "", err
	}
	if err := clearFolder(g.folder); err != nil {
		return "", err
	}
	if g.cloned, err = clone.Open(ctx, clone.Options{
		Folder: g.folder, URL: g.remote.url, Config: g.template(), Branch: in.branch(),
		Access: clone.Access{User: g.remote.user, Password: g.remote.password, Base: g.remote.base, UserAgent: in.UserAgent, Client: client},
	}); err != nil {
		return "", fmt.Errorf("asking %s for its branches: %w", g.remote.url, err)
	}
	defer g.cloned.Close()
	sha, fetch.Refspecs, err = g.target(ctx)
	if err != nil || len(fetch.Refspecs) == 0 {
		return "", err
	}
	g.say("%s", in.fetching())
	if err := g.cloned.Fetch(ctx, fetch); err != nil {
		return "", fmt.Errorf("fetching %s: %w", g.remote.url, err)
	}
	if !in.Checkout {
		g.say("Skipping Git checkout")
		return "", nil
	}
	commit, err := g.cloned.Complete(ctx, sha, int(in.Depth))
	switch {
	case errors.Is(err, clone.ErrNoCommit) && len(sha) < sha1Digits:
		return "", g.remote.noCommit(sha)
	case err != nil:
		return "", g.remote.noWholeCommit(sha, err)
	}
	g.say("%s", in.checkingOut(commit))
	if err := g.cloned.CheckOut(ctx, commit); err != nil {
		return "", fmt.Errorf("checking out %s: %w", short(commit), err)
	}
	if err := g.submodules(ctx, commit); err != nil {
		return "", err
	}
	g.sayAttributes()
	return commit, nil
}

// refs is remoteRefs of what the server offered.
func (g *gitless) refs(names []string) map[string]string {
	found := map[string]string{}
	if len(names) == 0 && !g.cloned.Empty() {
		found["HEAD"] = "" // that there are any is what is asked
	}
	for _, name := range names {
		if commit := g.cloned.Commit(name); commit != "" {
			found[name] = commit
		}
	}
	return found
}

// announce says what is different without git, before anything is removed.
func (g *gitless) announce() {
	g.say("There is no program git here: the sources are fetched without it")
	if g.reused {
		g.say("WARNING: without git, nothing of an earlier job can be updated: the folder is emptied, and everything fetched again")
	}
}

// sayAttributes says which files differ from those that git would have made.
func (g *gitless) sayAttributes() {
	const large = "filter=lfs"
	names := g.cloned.Attributes()
	if slices.Contains(names, large) && !g.in.LFSSkipSmudge {
		g.say("WARNING: files of Git LFS stay pointers: they are fetched only where the environment has git and git-lfs")
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == large })
	if len(names) > 0 {
		g.say("WARNING: without git, files are as the commit has them: .gitattributes has no effect (%s)", strings.Join(names, ", "))
	}
}

// Arguments of git that change nothing here: how much is said, what goes from a folder that is empty, what is done at the same time.
var (
	withoutEffect = []string{"--quiet", "-q", "--verbose", "-v", "--progress", "--no-progress", "--prune", "-p", "--no-prune", "--prune-tags", "-P", "--force", "-f",
		"--no-recurse-submodules", "--update-head-ok", "-u", "--no-auto-maintenance", "--no-auto-gc", "--no-write-fetch-head", "--single-branch", "--no-single-branch",
		"--recommend-shallow", "--no-recommend-shallow", "--init", "--checkout", "--no-checkout"}
	withNumber = []string{"--jobs", "-j"}
)

// flags reads the arguments of git fetch and git clone.
func (g *gitless) flags() (clone.Tags, error) {
	tags := clone.TagsOfHistory
	rest, err := slices.Clone(g.in.FetchFlags), error(nil)
	if g.in.Strategy == strategyClone {
		rest = append(rest, g.in.CloneFlags...)
	}
	rest = slices.DeleteFunc(rest, func(flag string) bool {
		switch flag {
		case "--no-tags":
			tags = clone.NoTags
		case "--tags", "-t":
			tags = clone.AllTags
		default:
			return false
		}
		return true
	})
	if err = onlyWithoutEffect("fetch_flags or clone_flags", rest); err == nil {
		err = onlyWithoutEffect("submodule_update_flags", g.in.SubmoduleUpdateFlags)
	}
	return tags, err
}

func onlyWithoutEffect(input string, flags []string) error {
	for i := 0; i < len(flags); i++ {
		name, _, has := strings.Cut(flags[i], "=")
		switch {
		case slices.Contains(withoutEffect, flags[i]), has && slices.Contains(withNumber, name):
		case slices.Contains(withNumber, name):
			i++
		default:
			return clone.Refuse("%s: %q means nothing without git", input, flags[i])
		}
	}
	return nil
}

func (g *gitless) submodules(ctx context.Context, commit string) error {
	recursive := g.in.Submodules == "recursive"
	if g.in.Submodules != "normal" && !recursive {
		return nil
	}
	if _, err := os.Lstat(path.Join(g.folder, ".gitmodules")); err != nil {
		return nil
	}
	wanted, err := wantedPaths(g.in.SubmodulePaths)
	if err != nil {
		return err
	}
	g.say("Updating submodules...")
	o := clone.SubmoduleOptions{Recursive: recursive, Depth: int(g.in.SubmoduleDepth), Wanted: wanted, Rewrite: g.overHTTPS}
	if err := g.cloned.Submodules(ctx, commit, o); err != nil {
		return fmt.Errorf("updating the submodules: %w", err)
	}
	return nil
}

// overHTTPS is the address that a submodule is fetched from.
func (g *gitless) overHTTPS(url string) string {
	if g.in.SubmoduleForceHTTPS {
		for _, ssh := range g.remote.sshForms() {
			if rest, ok := strings.CutPrefix(url, ssh); ok {
				return g.remote.base + "/" + rest
			}
		}
	}
	return url
}

// wantedPaths reads pathspecs: paths of submodules or folders, and such that are excluded. Others are git's to understand.
func wantedPaths(specs []string) (func(string) bool, error) {
	var in, out []string
	for _, spec := range specs {
		list, at := &in, spec
		for _, exclude := range []string{":(exclude)", ":!", ":^"} {
			if rest, ok := strings.CutPrefix(spec, exclude); ok {
				list, at = &out, rest
				break
			}
		}
		if at == "" || strings.HasPrefix(at, ":") || strings.ContainsAny(at, `*?[\`) {
			return nil, clone.Refuse("submodule_paths: %q cannot be understood without git: only paths can, and :(exclude) before one", spec)
		}
		*list = append(*list, path.Clean(at))
	}
	within := func(list []string, name string) bool {
		return slices.ContainsFunc(list, func(at string) bool { return at == "." || name == at || strings.HasPrefix(name, at+"/") })
	}
	return func(name string) bool { return (len(in) == 0 || within(in, name)) && !within(out, name) }, nil
}

// client speaks to the server: through the proxies of the environment, and trusting whom git would.
func (g *gitless) client() (*http.Client, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: tlsTimeout, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	for _, name := range []string{"GIT_SSL_CAINFO", "SSL_CERT_FILE"} {
		file := g.call.Getenv(name)
		if file == "" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: %s has no certificates in PEM", name, file)
		}
		transport.TLSClientConfig.RootCAs = pool
		break
	}
	// As for git it is enough that the variable is there, whatever it says.
	transport.TLSClientConfig.InsecureSkipVerify = g.call.Getenv("GIT_SSL_NO_VERIFY") != "" //nolint:gosec // the author of the job asks for it
	certified, err := g.certified(transport)
	return &http.Client{Transport: certified}, err
}
