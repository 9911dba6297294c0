package keyword

import (
	"net/url"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// Limits of caches.
const (
	// MaxCaches is how many caches a job may have.
	MaxCaches = 4
	// MaxCacheKeyFiles is how many files a key may be made of.
	MaxCacheKeyFiles = 2
	// MaxFallbackKeys is how many keys may be tried after the own one.
	MaxFallbackKeys = 5
)

var cacheKeys = []string{"key", "paths", "untracked", "unprotect", "when", "policy", "fallback_keys"}

// cacheReader reads `cache:`.
type cacheReader struct {
	*values
}

// caches reads `cache:`: a map, or a list of maps.
func (r cacheReader) caches(n config.Node) []Cache {
	switch n.Kind() {
	case yamlsource.Mapping:
		if n.Len() == 0 {
			return nil // no cache, in spite of the default
		}
		return []Cache{r.cache(n)}
	case yamlsource.Sequence:
		if n.Len() > MaxCaches {
			r.report(n, "merge some of them", "a job can have at most %d caches, not %d", MaxCaches, n.Len())
			return nil
		}
		out := make([]Cache, 0, n.Len())
		for _, it := range n.Items() {
			out = append(out, r.cache(it))
		}
		return out
	default:
		r.report(n, "write `paths:` and `key:` under it; `cache: {}` means no cache", "`cache` must be a map or a list of maps, not %s", n.Kind())
		return nil
	}
}

func (r cacheReader) cache(n config.Node) Cache {
	out := Cache{When: when.OnSuccess, Policy: "pull-push", Node: n}
	for key, v := range r.fields(n, "cache", cacheKeys) {
		name := "cache:" + key
		switch key {
		case "key":
			out.Key = r.cacheKey(v)
		case "paths":
			out.Paths = r.texts(v, name)
		case "untracked":
			out.Untracked = r.boolean(v, name)
		case "unprotect":
			out.Unprotect = r.boolean(v, name)
		case "when":
			out.When = r.outcome(v, name)
		case "policy":
			out.Policy = r.cachePolicy(v)
		case "fallback_keys":
			out.FallbackKeys = r.atMost(v, name, MaxFallbackKeys)
			for _, it := range v.Items() {
				r.keyText(it, name)
			}
		}
	}
	return out
}

// outcome reads a `when:` about how a job ended.
func (r *values) outcome(n config.Node, name string) when.When {
	if w := r.choice(n, name, words(when.OnSuccess, when.OnFailure, when.Always)...); w != "" {
		return when.When(w)
	}
	return when.OnSuccess
}

func (r cacheReader) cachePolicy(n config.Node) string {
	if text := n.Text(); n.Kind() == yamlsource.String && len(variable.References(text)) > 0 {
		return text
	}
	return r.choice(n, "cache:policy", "pull-push", "pull", "push")
}

func (r cacheReader) cacheKey(n config.Node) CacheKey {
	out := CacheKey{}
	if n.Kind() != yamlsource.Mapping {
		if n.Kind() == yamlsource.Sequence {
			r.report(n, "write a string, or `files:` under it", "`cache:key` must be a string or a map, not %s", n.Kind())
			return out
		}
		out.Text = r.text(n, "cache:key")
		r.keyText(n, "cache:key")
		return out
	}
	for key, v := range r.fields(n, "cache:key", []string{"files", "files_commits", "prefix"}) {
		name := "cache:key:" + key
		switch key {
		case "files":
			out.Files = r.keyFiles(v, name)
		case "files_commits":
			out.FilesCommits = r.keyFiles(v, name)
		case "prefix":
			out.Prefix = r.text(v, name)
			r.keyText(v, name)
		}
	}
	_, files := n.Entry("files")
	commitsKey, commits := n.Entry("files_commits")
	switch {
	case files.IsNull() && commits.IsNull():
		r.report(n, "add `files:`, or write the key as a string", "`cache:key` has neither files nor files_commits")
	case !files.IsNull() && !commits.IsNull():
		r.report(commitsKey, "keep one of them", "`cache:key:files` and `cache:key:files_commits` exclude each other")
	}
	return out
}

func (r cacheReader) keyFiles(n config.Node, name string) []string {
	out := r.atMost(n, name, MaxCacheKeyFiles)
	if n.Kind() == yamlsource.Sequence && n.Len() == 0 {
		r.report(n, "name a file", "`%s` is empty", name)
	}
	return out
}

// keyText refuses keys that would be another place in a cache. Those that variables make are the runner's to clean.
func (r cacheReader) keyText(n config.Node, name string) {
	text := n.Text()
	if decoded, err := url.PathUnescape(text); err == nil {
		text = decoded
	}
	switch {
	case n.Kind() != yamlsource.String:
	case strings.Contains(text, "/"):
		r.report(n, "use - instead", "`%s` cannot have a slash", name)
	case text != "" && strings.Trim(text, ".") == "" && len(text) <= 2:
		r.report(n, "choose another one", "`%s` cannot be %q", name, text)
	}
}
