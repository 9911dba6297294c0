package provenance

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/signature"
	"github.com/rungci/rung/steps/trace"
)

// Names in the sets of digests of a component, besides in-toto's own and signature.ContentDigest.
const (
	// packageDigest is the content digest of all that was fetched, of which the component is a part.
	packageDigest = "rungPackage"
	// pinDigest is what a revision was where in-toto has no name for it.
	pinDigest = "rungPin"
)

// dependencies returns every component that the run's references turned out to be, each once, in an order that does not
// depend on that of the steps.
func dependencies(t *trace.Trace) []signature.Resource {
	var all []signature.Resource
	known := map[string]bool{}
	t.Walk(func(s *trace.Step, _ int) {
		if s.Resolved == nil {
			return
		}
		r := component(s.Resolved)
		if key := identity(r); !known[key] {
			known[key] = true
			all = append(all, r)
		}
	})
	slices.SortStableFunc(all, func(a, b signature.Resource) int {
		return cmp.Or(cmp.Compare(a.URI, b.URI), cmp.Compare(a.Name, b.Name), cmp.Compare(identity(a), identity(b)))
	})
	return all
}

// identity tells components apart. What a fetched component was called does not.
func identity(r signature.Resource) string {
	if r.URI != "" {
		r.Name = ""
	}
	text, _ := json.Marshal(r) // strings, lists of strings and maps of them always encode
	return string(text)
}

func component(resolved *trace.Resolved) signature.Resource {
	r := signature.Resource{Name: resolved.Ref, Digest: map[string]string{}, Annotations: map[string]any{"file": resolved.File}}
	if sum, ok := strings.CutPrefix(resolved.Digest, "sha256:"); ok {
		r.Digest[signature.ContentDigest] = sum
	}
	o := resolved.Origin
	if o == nil {
		return r
	}
	r.URI = uri(o)
	if name, sum := pin(o); sum != "" {
		r.Digest[name] = sum
	}
	if sum, ok := strings.CutPrefix(o.Package, "sha256:"); ok {
		r.Digest[packageDigest] = sum
	}
	if o.Path != "" {
		r.Annotations["path"] = o.Path
	}
	if len(o.SignedBy) > 0 {
		r.Annotations["signedBy"] = o.SignedBy
	}
	return r
}

// uri returns where the component was fetched, with the revision that was asked for.
func uri(o *plan.Origin) string {
	switch {
	case o.Kind == plan.RefGit && strings.Contains(o.URL, "://") && !strings.HasPrefix(o.URL, "git+"):
		return "git+" + o.URL + at("@", o.Rev)
	case o.Kind == plan.RefOCI && strings.HasPrefix(o.Rev, "sha256:"):
		return o.URL + at("@", o.Rev)
	case o.Kind == plan.RefOCI:
		return o.URL + at(":", o.Rev)
	}
	return o.URL + at("@", o.Rev)
}

func at(mark, rev string) string {
	if rev == "" {
		return ""
	}
	return mark + rev
}

// pin returns in-toto's name for what the revision was, and its value.
func pin(o *plan.Origin) (name, sum string) {
	raw, err := hex.DecodeString(o.Pin)
	if o.Kind == plan.RefGit && err == nil && len(raw) == 20 {
		return "gitCommit", o.Pin
	}
	if sum, ok := strings.CutPrefix(o.Pin, "sha256:"); ok && (o.Kind == plan.RefOCI || o.Kind == plan.RefArchive) {
		return "sha256", sum
	}
	return pinDigest, o.Pin
}
