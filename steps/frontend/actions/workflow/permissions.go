package workflow

import (
	"maps"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
)

// Level is what a token may do in one scope.
type Level string

// The values of Level, each of which holds those before it.
const (
	None  Level = "none"
	Read  Level = "read"
	Write Level = "write"
)

// rank orders levels; what is no level is below all of them.
func (l Level) rank() int { return slices.Index([]Level{None, Read, Write}, l) }

// scopes are what permissions can be given for, each with its levels above none.
var scopes = map[string][]Level{
	"actions": {Read, Write}, "artifact-metadata": {Read, Write}, "attestations": {Read, Write}, "checks": {Read, Write},
	"code-quality": {Read, Write}, "contents": {Read, Write}, "copilot-requests": {Write}, "deployments": {Read, Write},
	"discussions": {Read, Write}, "drives": {Read, Write}, "id-token": {Write}, "issues": {Read, Write}, "models": {Read},
	"packages": {Read, Write}, "pages": {Read, Write}, "pull-requests": {Read, Write}, "repository-projects": {Read, Write},
	"security-events": {Read, Write}, "statuses": {Read, Write}, "vulnerability-alerts": {Read},
}

// Permissions are what the token of a job may do. They never change.
type Permissions struct{ levels map[string]Level }

// DefaultPermissions are those of a workflow that says none, with GitHub's restricted settings: reading the repository and packages.
func DefaultPermissions() *Permissions {
	return &Permissions{levels: map[string]Level{"contents": Read, "packages": Read}}
}

// AllPermissions are read-all (Read), or write-all (Write).
func AllPermissions(l Level) *Permissions {
	p := &Permissions{levels: map[string]Level{}}
	for name, levels := range scopes {
		for _, can := range levels {
			if can.rank() <= l.rank() {
				p.levels[name] = can
			}
		}
	}
	return p
}

// Level returns what is allowed in a scope ("contents", "id-token"). Reading "metadata" always is.
func (p *Permissions) Level(scope string) Level {
	if scope == "metadata" {
		return Read
	}
	if l, ok := p.levels[scope]; ok {
		return l
	}
	return None
}

// Allows reports whether the token may do that much in the scope.
func (p *Permissions) Allows(scope string, l Level) bool { return p.Level(scope).rank() >= l.rank() }

// Within returns what both allow: a called workflow is never allowed more than the job that calls it.
func (p *Permissions) Within(most *Permissions) *Permissions {
	out := &Permissions{levels: map[string]Level{}}
	for name, l := range p.levels {
		if limit := most.Level(name); limit.rank() < l.rank() {
			l = limit
		}
		if l != None {
			out.levels[name] = l
		}
	}
	return out
}

// Beyond names what is asked for beyond a limit, as String does; "" is nothing.
func (p *Permissions) Beyond(most *Permissions) string {
	out := &Permissions{levels: map[string]Level{}}
	for name, l := range p.levels {
		if most.Level(name).rank() < l.rank() {
			out.levels[name] = l
		}
	}
	if len(out.levels) == 0 {
		return ""
	}
	return out.String()
}

// Map returns the level of every scope in which something is allowed.
func (p *Permissions) Map() map[string]string {
	out := map[string]string{}
	for name, l := range p.levels {
		if l != None {
			out[name] = string(l)
		}
	}
	return out
}

// String writes the permissions for people: "contents: read, id-token: write"; "none" where nothing is allowed.
func (p *Permissions) String() string {
	var parts []string
	all := p.Map()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, name+": "+all[name])
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// permissions reads read-all, write-all, or a map of scopes.
func (r *reader) permissions(n *yamlsource.Node) *Permissions {
	if n == nil {
		return nil
	}
	if n.Kind == yamlsource.String {
		switch n.Text {
		case "read-all":
			return AllPermissions(Read)
		case "write-all":
			return AllPermissions(Write)
		}
		r.report(n.Span, "write read-all, write-all, {} or a map of scopes", "%q is not a permission for all scopes", shorten(n.Text))
		return nil
	}
	p := &Permissions{levels: map[string]Level{}}
	r.keys(n, `"permissions"`, slices.Sorted(maps.Keys(scopes))...)
	for _, e := range n.Entries {
		levels, known := scopes[e.Key.Text]
		if !known {
			continue
		}
		if l := Level(e.Value.Text); e.Value.Kind.IsScalar() && (l == None || slices.Contains(levels, l)) {
			p.levels[e.Key.Text] = l
			continue
		}
		words := []string{}
		for _, l := range slices.Backward(levels) {
			words = append(words, string(l))
		}
		r.report(e.Value.Span, "", "the permission %q can be %s or none, not %s", e.Key.Text, strings.Join(words, ", "), r.shown(e.Value))
	}
	return p
}
