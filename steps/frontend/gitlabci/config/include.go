package config

import (
	"crypto/sha256"
	"encoding/base64"
	"path"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
)

// inclusion is one file that an `include` names.
type inclusion struct {
	at        Node // what names it
	place     Place
	integrity Node
	inputs    map[string]item
}

// The keys of an include. Exactly one of sourceKeys must be there.
var (
	sourceKeys = []string{"local", "remote", "template", "component", "project", "artifact"}
	otherKeys  = []string{"file", "ref", "inputs", "rules", "integrity", "job", "cache"}
)

// inclusions reads an `include`. The files that its rules keep out are left out.
func (r *resolver) inclusions(s *Source, include Node) []inclusion {
	if include.Kind() != yamlsource.Sequence {
		if include.IsNull() {
			return nil
		}
		return r.inclusion(s, include)
	}
	var out []inclusion
	for _, it := range include.Items() {
		if it.Kind() == yamlsource.Null {
			continue
		}
		out = append(out, r.inclusion(s, it)...)
	}
	return out
}

func (r *resolver) inclusion(s *Source, n Node) []inclusion {
	if n.tree.refers {
		r.report(n, "write the include out", "`include` cannot hold a !reference: files are included before references are looked up")
		return nil
	}
	switch n.Kind() {
	case yamlsource.String:
		text, ok := r.location(n, "include")
		if !ok {
			r.partial = true
			return nil
		}
		if isURL(text) {
			return []inclusion{{at: n, place: Place{Kind: Remote, Path: text}}}
		}
		return r.local(s, inclusion{at: n}, text)
	case yamlsource.Mapping:
		return r.includeMap(s, n)
	default:
		r.report(n, "write a path, or a map with `local:`, `project:`, `remote:`, `template:` or `component:`", "`include` must be a string or a map, not %s", n.Kind())
		return nil
	}
}

func isURL(text string) bool {
	return strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://")
}

// includeMap reads an include that is a map.
func (r *resolver) includeMap(s *Source, n Node) []inclusion {
	sources := 0
	for key := range n.Entries() {
		known := false
		for _, k := range sourceKeys {
			if key.Text() == k {
				known = true
				sources++
			}
		}
		for _, k := range otherKeys {
			known = known || key.Text() == k
		}
		if !known {
			r.report(key, r.suggest(key.Text(), append(append([]string{}, sourceKeys...), otherKeys...), "delete it"), "an include has no key %q", shorten(key.Text()))
		}
	}
	if sources != 1 {
		r.report(n, "write exactly one of `local:`, `project:`, `remote:`, `template:` and `component:`", "the include names %d sources", sources)
		r.partial = true
		return nil
	}
	if !r.included(n.Get("rules")) {
		return nil
	}
	inc := inclusion{at: n, integrity: n.Get("integrity")}
	inc.inputs = r.inputReader().given(n.Get("inputs"))
	if !r.checkPartners(n, inc.integrity) {
		r.partial = true
		return nil
	}
	switch {
	case n.Get("local").Exists():
		if text, ok := r.location(n.Get("local"), "local"); ok {
			inc.at = n.Get("local")
			return r.local(s, inc, text)
		}
	case n.Get("remote").Exists():
		if text, ok := r.location(n.Get("remote"), "remote"); ok {
			inc.at, inc.place = n.Get("remote"), Place{Kind: Remote, Path: text}
			if isURL(text) {
				return []inclusion{inc}
			}
			r.report(inc.at, "write a URL that begins with https://, or `local:` for a file of the project", "%q is not a URL", shorten(withoutUser(text)))
		}
	case n.Get("template").Exists():
		if text, ok := r.location(n.Get("template"), "template"); ok {
			inc.at, inc.place = n.Get("template"), Place{Kind: Template, Path: text}
			return []inclusion{inc}
		}
	case n.Get("component").Exists():
		if text, ok := r.location(n.Get("component"), "component"); ok {
			inc.at, inc.place = n.Get("component"), Place{Kind: CatalogComponent, Path: text}
			if strings.Contains(text, "@") {
				return []inclusion{inc}
			}
			r.report(inc.at, "write host/project/component@version", "the component %q has no version", shorten(text))
		}
	case n.Get("project").Exists():
		return r.projectFiles(n, inc)
	default:
		key, _ := n.Entry("artifact")
		r.report(key, "include it in a `trigger:`", "an artifact can be included only by a job that triggers a child pipeline")
	}
	r.partial = true
	return nil
}

// checkPartners reports keys that go only with some sources, and whether the integrity can be one.
func (r *resolver) checkPartners(n, integrity Node) bool {
	for _, pair := range [][2]string{{"file", "project"}, {"ref", "project"}, {"integrity", "remote"}, {"cache", "remote"}, {"job", "artifact"}} {
		if key, _ := n.Entry(pair[0]); key.Exists() && !n.Get(pair[1]).Exists() {
			r.report(key, "delete it", "`%s` goes only with `%s`", pair[0], pair[1])
		}
	}
	if cache := n.Get("cache"); !cache.IsNull() && cache.Kind() != yamlsource.Boolean && cache.Kind() != yamlsource.String {
		r.report(cache, "write true, false or a duration, such as '1 day'", "`cache` must be a boolean or a duration, not %s", cache.Kind())
		return false
	}
	if !integrity.Exists() {
		return true
	}
	const hint = "write sha256- and the base64 of the file's SHA-256"
	hash, ok := strings.CutPrefix(integrity.Text(), "sha256-")
	sum, err := base64.StdEncoding.Strict().DecodeString(hash)
	if ok && err == nil && len(sum) == sha256.Size {
		return true
	}
	r.report(integrity, hint, "%q is not the integrity of a file", shorten(integrity.Text()))
	return false
}

const setVariables = "set the variables that it is made of; those defined in the configuration itself are unknown here"

// location is the text that names a file, its variables expanded.
func (r *resolver) location(n Node, key string) (string, bool) {
	if n.Kind() != yamlsource.String {
		r.report(n, "write a string", "`%s` must be a string, not %s", key, n.Kind())
		return "", false
	}
	text := strings.TrimSpace(r.options.Expand(n.Text()))
	if text == "" {
		hint := "name a file"
		if n.Text() != "" {
			hint = setVariables
		}
		r.report(n, hint, "`%s` is empty", key)
		return "", false
	}
	return text, true
}

// projectFiles reads an include of files of another project.
func (r *resolver) projectFiles(n Node, inc inclusion) []inclusion {
	project, ok := r.location(n.Get("project"), "project")
	if !ok {
		r.partial = true
		return nil
	}
	ref := ""
	if given := n.Get("ref"); !given.IsNull() {
		if !given.Kind().IsScalar() {
			r.report(given, "write a branch, tag or commit", "`ref` must be a string, not %s", given.Kind())
		}
		ref = strings.TrimSpace(r.options.Expand(given.Text()))
	}
	files := n.Get("file")
	if files.IsNull() {
		key, _ := n.Entry("project")
		r.report(key, "add `file:` with a path or a list of paths", "the include does not say which file of the project")
		r.partial = true
		return nil
	}
	var out []inclusion
	for _, f := range files.Flat() {
		text, ok := r.location(f, "file")
		if !ok {
			r.partial = true
			continue
		}
		inc.at = f
		inc.place = Place{Kind: Project, Project: strings.Trim(project, "/"), Ref: ref, Path: cleanPath(text)}
		if r.checkPath(f, text) {
			out = append(out, inc)
		}
	}
	return out
}

// local reads an include of files of the project that the including file is in.
func (r *resolver) local(s *Source, inc inclusion, text string) []inclusion {
	place := Place{Kind: s.Place.Kind, Project: s.Place.Project, Ref: s.Place.Ref, Path: cleanPath(text)}
	if place.Kind == CatalogComponent {
		place.Kind = Project
	}
	if place.Kind == Remote || place.Kind == Template || place.Kind == Project && place.Project == "" {
		r.report(inc.at, "include it by `remote:` or `project:`", "%q cannot be a local file: the file that includes it is not in a project", shorten(text))
		r.partial = true
		return nil
	}
	inc.place = place
	if !strings.Contains(text, "*") {
		if !r.checkPath(inc.at, text) {
			return nil
		}
		return []inclusion{inc}
	}
	if leaves(text) {
		r.checkPath(inc.at, text)
		return nil
	}
	if r.options.Loader == nil {
		r.report(inc.at, "", "%q cannot be included: files cannot be loaded here", shorten(text))
		r.partial = true
		return nil
	}
	paths, err := r.options.Loader.Glob(r.ctx, place)
	if err != nil {
		r.report(inc.at, "", "looking for %s: %v", shorten(text), err)
		r.partial = true
		return nil
	}
	return r.globbed(inc, text, paths)
}

// cleanPath is a path from the root of a project without what has no meaning in it.
func cleanPath(text string) string { return strings.TrimLeft(path.Clean("/"+text), "/") }

func isYAML(name string) bool {
	lower := strings.ToLower(name)
	return strings.HasSuffix(lower, ".yml") || strings.HasSuffix(lower, ".yaml")
}

// checkPath reports a path that is not a YAML file's, or that leads out of the project.
func (r *resolver) checkPath(n Node, text string) bool {
	switch {
	case leaves(text):
		r.report(n, "include it by `project:`", "%q leads out of the project", shorten(text))
	case !isYAML(text) && strings.Contains(text, "$"): // what is unknown stays
		r.report(n, setVariables, "%q is not the name of a YAML file", shorten(text))
	case !isYAML(text):
		r.report(n, "end the file's name with .yml or .yaml", "%q is not the name of a YAML file", shorten(text))
	default:
		return true
	}
	r.partial = true
	return false
}

// leaves reports whether a path goes up.
func leaves(text string) bool {
	for part := range strings.SplitSeq(strings.ReplaceAll(text, "\\", "/"), "/") {
		if part == ".." {
			return true
		}
	}
	return false
}

// included reports whether the rules of an include let it in: the first one that holds decides.
func (r *resolver) included(rules Node) bool {
	if rules.IsNull() {
		return true
	}
	if rules.Kind() != yamlsource.Sequence {
		r.report(rules, "write a list of rules", "the `rules` of an include must be a list, not %s", rules.Kind())
		return true
	}
	for _, rule := range rules.Items() { // also those behind the one that decides
		if when := rule.Get("when"); !when.IsNull() && when.Text() != "never" && when.Text() != "always" {
			r.report(when, "write always or never", "the rule of an include cannot be %q", shorten(when.Text()))
		}
	}
	for _, rule := range rules.Items() {
		if rule.Kind() != yamlsource.Mapping {
			r.report(rule, "write `if:`, `exists:` or `changes:`", "a rule must be a map, not %s", rule.Kind())
			continue
		}
		for key := range rule.Entries() {
			switch key.Text() {
			case "if", "exists", "changes", "when":
			default:
				r.report(key, r.suggest(key.Text(), []string{"if", "exists", "changes", "when"}, "delete it"), "a rule of an include has no key %q", shorten(key.Text()))
			}
		}
		if r.options.Rule == nil {
			r.report(rule, "", "rules of includes cannot be evaluated here")
			return true
		}
		holds, err := r.options.Rule(rule)
		if err != nil {
			r.ruleError(rule, err)
			continue
		}
		if !holds {
			continue
		}
		if rule.Get("when").Text() == "never" {
			break
		}
		return true
	}
	r.skipped = true
	return false
}
