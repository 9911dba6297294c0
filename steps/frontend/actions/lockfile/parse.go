package lockfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
)

// parser reads one text. What is wrong is reported to source.
type parser struct {
	source *yamlsource.File
	file   *File
	old    bool    // version 0.0.1: the commit is in the keys, and the ref is a tag or a branch
	named  []entry // the keys of dependencies, in order
	used   []entry // the keys that must be among them
}

// entry is a key and where it is.
type entry struct {
	key  string
	span diag.Span
}

// Parse reads a lock file. name is what diagnostics call it. The error is a diag.List of all that is wrong: a lock that is wrong somewhere is
// not to be trusted anywhere.
func Parse(name string, data []byte) (*File, error) {
	whole := diag.Span{File: name, Line: 1, Column: 1, Length: 1}
	if len(data) > MaxSize {
		return nil, diag.List{{Span: whole, Message: fmt.Sprintf("the lock file is longer than %d bytes", MaxSize)}}
	}
	source, err := yamlsource.Parse(name, data)
	if err != nil {
		return nil, err
	}
	p := &parser{source: source, file: New()}
	if len(source.Documents) != 1 || source.Documents[0].Kind != yamlsource.Mapping {
		source.Report(whole, "", "a lock file is one map")
		return nil, source.Err()
	}
	p.root(source.Documents[0])
	if err := source.Err(); err != nil {
		return nil, err
	}
	return p.file, nil
}

func (p *parser) root(n *yamlsource.Node) {
	p.keys(n, "version", "workflows", "dependencies")
	version := n.Get("version")
	if version == nil {
		p.source.Report(n.Span, "", "the lock file has no version")
		return
	}
	switch p.file.Version = version.Text; version.Text {
	case "v0.0.1":
		p.old = true
	case "v0.0.2", "v0.0.3":
	default:
		p.source.Report(version.Span, "the versions v0.0.1 to v0.0.3 are known", "the lock file's version %q is not known", version.Text)
		return
	}
	for _, e := range p.entries(n.Get("dependencies"), "dependencies") {
		if key, ok := p.key(e.Key); ok {
			if _, again := p.file.Dependencies[key]; again {
				p.source.Report(e.Key.Span, "", "%s is defined twice", key)
			}
			p.file.Dependencies[key] = p.dependency(key, e.Value)
			p.named = append(p.named, entry{key, e.Key.Span})
		}
	}
	for _, e := range p.entries(n.Get("workflows"), "workflows") {
		if p.path(e.Key) {
			p.file.Workflows[e.Key.Text] = p.list(e.Value, "the dependencies of a workflow")
		}
	}
	for _, u := range p.used {
		if _, known := p.file.Dependencies[u.key]; !known {
			p.source.Report(u.span, "lock the workflows again", "%s is not among the dependencies", u.key)
		}
	}
	p.cycles()
}

// dependency reads what a key stands for.
func (p *parser) dependency(key string, n *yamlsource.Node) Dependency {
	var d Dependency
	if n.Kind != yamlsource.Mapping {
		p.source.Report(n.Span, "", "a dependency must be a map, not %s", n.Kind)
		return d
	}
	refs := []string{"ref"}
	if p.old {
		refs = []string{"tag", "branch"}
	}
	p.keys(n, append(slices.Clone(refs), "commit", "owner_id", "repo_id", "uses")...)
	_, ref, _ := strings.Cut(key, "@")
	for _, name := range refs {
		if v := n.Get(name); v != nil && d.Ref == "" {
			d.Ref = v.Text
		}
	}
	commit := n.Get("commit")
	switch {
	case commit == nil || !commitPattern.MatchString(commit.Text):
		p.source.Report(n.Span, `write sha1- or sha256- and the whole commit`, "%s has no commit", key)
	default:
		_, d.Commit, _ = strings.Cut(strings.ToLower(commit.Text), "-")
		if fullCommit.MatchString(ref) && !strings.EqualFold(ref, d.Commit) {
			p.source.Report(commit.Span, "", "%s names a commit, and is locked to another one", key)
		}
	}
	if !p.old && (d.Ref == "" || d.Ref != ref && !fullCommit.MatchString(ref)) {
		p.source.Report(n.Span, "", "%s is locked as the ref %q", key, d.Ref)
	}
	for name, id := range map[string]*int64{"owner_id": &d.OwnerID, "repo_id": &d.RepoID} {
		v := n.Get(name)
		var err error
		if v != nil {
			*id, err = strconv.ParseInt(v.Text, 10, 64)
		}
		if v == nil || err != nil || *id < 1 {
			p.source.Report(n.Span, "", "%s has no %s, which is a number above 0", key, name)
		}
	}
	if uses := n.Get("uses"); uses != nil {
		d.Uses = p.list(uses, `"uses"`)
	}
	return d
}

// list reads keys that must all be dependencies.
func (p *parser) list(n *yamlsource.Node, what string) []string {
	out := []string{}
	if n.Kind != yamlsource.Sequence && n.Kind != yamlsource.Null {
		p.source.Report(n.Span, "", "%s must be a list, not %s", what, n.Kind)
	}
	for _, item := range n.Items {
		if key, ok := p.key(item); ok {
			p.used = append(p.used, entry{key, item.Span})
			out = append(out, key)
		}
	}
	return out
}

// key reads OWNER/NAME@REF, of version 0.0.1 with :sha1-COMMIT behind it.
func (p *parser) key(n *yamlsource.Node) (string, bool) {
	text := n.Text
	if p.old {
		text, _, _ = strings.Cut(text, ":")
	}
	if !n.Kind.IsScalar() || !keyPattern.MatchString(text) {
		p.source.Report(n.Span, "", "a dependency is written OWNER/NAME@REF, not %q", n.Text)
		return "", false
	}
	repository, ref, _ := strings.Cut(text, "@")
	return Key(repository, ref), true
}

// path checks the path of a workflow: below the repository's root, with slashes.
func (p *parser) path(n *yamlsource.Node) bool {
	odd := strings.ContainsFunc(n.Text, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\\' || c == ':' })
	if !n.Kind.IsScalar() || n.Text == "" || n.Text[0] == '/' || odd || slices.Contains(strings.Split(n.Text, "/"), "..") {
		p.source.Report(n.Span, "", "%q is not the path of a workflow in the repository", n.Text)
		return false
	}
	return true
}

// cycles reports dependencies that use themselves through others.
func (p *parser) cycles() {
	const begun, done = 1, 2
	state := map[string]int{}
	var visit func(key string) bool
	visit = func(key string) bool {
		if state[key] == begun {
			return true
		}
		if state[key] == done {
			return false
		}
		state[key] = begun
		found := slices.ContainsFunc(p.file.Dependencies[key].Uses, visit)
		state[key] = done
		return found
	}
	for _, e := range p.named {
		if visit(e.key) {
			p.source.Report(e.span, "", "%s uses itself, through others", e.key)
			return
		}
	}
}

func (p *parser) entries(n *yamlsource.Node, what string) []yamlsource.Entry {
	if n == nil {
		return nil
	}
	if n.Kind != yamlsource.Mapping && n.Kind != yamlsource.Null {
		p.source.Report(n.Span, "", "%q must be a map, not %s", what, n.Kind)
	}
	return n.Entries
}

func (p *parser) keys(n *yamlsource.Node, keys ...string) {
	for _, e := range n.Entries {
		if !slices.Contains(keys, e.Key.Text) {
			p.source.Report(e.Key.Span, "valid keys: "+strings.Join(keys, ", "), "unknown key %q", e.Key.Text)
		}
	}
}
