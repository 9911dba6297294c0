package source

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source/tree"
)

// Location is where a package is to be fetched.
type Location struct {
	Kind plan.RefKind // git, oci or archive; an action is in a Git repository
	// Name is the location as its reference names it, without credentials: "https://host/project", "oci://registry/repository".
	Name string
	// URL is where to go: Name, or what the user's sources map it to. Of an image it is "registry/repository". A local
	// archive or repository is a file:// URL. It may hold the credentials that its author wrote into it: never show it.
	URL string
	Rev string // git: tag, branch or commit; oci: tag or digest; archive: "sha256:…" that is expected, or ""
	// Access is how to get in.
	Access Access
}

// LocationOf returns where a reference of a definition in the folder from says that it leads, before anybody's rules are applied:
// nil for one that is not fetched from anywhere. Local archives are named as seen from workDir.
func LocationOf(ref *plan.Reference, from, workDir string) *Location {
	at := &Location{Kind: ref.Kind}
	switch ref.Kind {
	case plan.RefGit:
		at.URL, at.Rev = ref.URL, ref.Rev
		if !strings.Contains(at.URL, "://") && !strings.Contains(at.URL, "@") { // what an expression gave
			at.URL = "https://" + at.URL
		}
		at.Name = WithoutUserinfo(at.URL)
	case plan.RefOCI:
		at.URL, at.Rev = ref.Registry+"/"+ref.Repository, ref.Tag
		at.Name = "oci://" + at.URL
	case plan.RefArchive:
		at.Name, at.URL = WithoutUserinfo(ref.URL), ref.URL
		if ref.SHA256 != "" {
			at.Rev = "sha256:" + ref.SHA256
		}
		switch {
		case strings.Contains(ref.URL, "://"):
		case strings.HasPrefix(ref.URL, ".") || filepath.IsAbs(ref.URL) || strings.HasPrefix(ref.URL, "/"):
			at.localArchive(ref.URL, from, workDir)
		default: // what an expression gave
			at.URL = "https://" + ref.URL
			at.Name = WithoutUserinfo(at.URL)
		}
	case plan.RefAction:
		action, err := plan.ParseAction(ref.Action)
		if err != nil || action.URL == "" {
			return nil
		}
		*at = Location{Kind: plan.RefGit, Name: action.URL, URL: action.URL, Rev: action.Rev}
	case plan.RefBuiltin:
		at.Name = "builtin://" + strings.Join(ref.Path, "/")
		at.URL = at.Name
	default:
		return nil
	}
	return at
}

// localArchive completes the location of an archive that is named by a path. Its name is seen from the work directory, so that it
// is the same on every machine.
func (at *Location) localArchive(file, from, workDir string) {
	full := filepath.FromSlash(file)
	if !filepath.IsAbs(full) {
		full = filepath.Join(from, full)
	}
	at.URL = "file://" + filepath.ToSlash(full)
	at.Name = at.URL
	if rel, err := filepath.Rel(workDir, full); err == nil && filepath.IsLocal(rel) {
		at.Name = "./" + filepath.ToSlash(rel)
	}
}

// Access is what a source's owner configured for a host. The zero value is what everybody has.
type Access struct {
	Username, Password string   // for HTTP basic authentication and registries; "" asks the usual places
	SSHKey             string   // path of a private key; "" asks the agent and the usual places
	KnownHosts         []string // paths of known_hosts files; nil is the user's
	PlainHTTP          bool     // a registry that speaks no TLS
	Submodules         bool     // fetch the submodules of a repository too
	// HTTP is for requests to the host: it has the proxy, the certificates and the timeouts. Never nil when a Resolver made it.
	HTTP *http.Client
}

// A Fetcher gets packages from one kind of source. It is safe for concurrent use. Errors name the location, say whether
// something is not there (*NotFoundError), not allowed (*DeniedError), or did not work, and hold no credentials.
type Fetcher interface {
	// Resolve asks what the location's revision points to now, and returns that as a pin: something that always names the
	// same bytes. A revision that is a pin already is returned as it is, without asking anybody.
	Resolve(ctx context.Context, at *Location) (pin string, err error)
	// Fetch packs what the pin holds. The pin comes from Resolve, a lock file or a trace. Servers are not trusted: what does
	// not belong to the pin is an error.
	Fetch(ctx context.Context, at *Location, pin string, to *tree.Writer) error
	// Variant says on what besides the pin the package depends: the platform for images, "" for most.
	Variant() string
}

// progressKey is the key of the function that ctx carries for Progress.
type progressKey struct{}

// WithProgress returns a context in which Progress calls report. Report is called from one goroutine at a time.
func WithProgress(ctx context.Context, report func(event.Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// stepKey is the key of the ID of the step that ctx is for.
type stepKey struct{}

// WithStep returns a context in which StepOf is the ID of the step whose reference is loaded.
func WithStep(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, stepKey{}, id)
}

// StepOf is the ID of the step whose reference is loaded; "" for a load that is not for one step alone.
func StepOf(ctx context.Context) string {
	id, _ := ctx.Value(stepKey{}).(string)
	return id
}

// Progress says how far a fetch is, to whoever wants to know.
func Progress(ctx context.Context, p event.Progress) {
	if report, ok := ctx.Value(progressKey{}).(func(event.Progress)); ok {
		report(p)
	}
}
