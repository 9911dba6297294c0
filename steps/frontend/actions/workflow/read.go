package workflow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/rules"
)

// nodes reads what any node of a text can be. What is wrong is reported to source; the methods then return what they could make of the rest.
type nodes struct {
	source *yamlsource.File
	notes  *diag.List
}

// reader reads a workflow and its jobs.
type reader struct {
	*nodes
	w *Workflow
}

func (r *nodes) report(place diag.Span, hint, format string, args ...any) {
	r.source.Report(place, hint, format, args...)
}

// note tells of what the file asks for and is not done here, and of what is hardly meant, by the ID of a rule.
func (r *nodes) note(rule string, place diag.Span, hint, format string, args ...any) {
	d := r.source.Diagnostic(place, hint, fmt.Sprintf(format, args...))
	d.Code = rule
	*r.notes = append(*r.notes, d)
}

// keys checks that a node is a map with no keys but the given ones. what names the map in messages.
func (r *nodes) keys(n *yamlsource.Node, what string, keys ...string) bool {
	if n.Kind != yamlsource.Mapping {
		r.report(n.Span, "valid keys: "+strings.Join(keys, ", "), "%s must be a map, not %s", what, n.Kind)
		return false
	}
	for _, e := range n.Entries {
		if !slices.Contains(keys, e.Key.Text) {
			r.report(e.Key.Span, r.suggest(e.Key.Text, keys, "valid keys: "), "unknown key %q", shorten(e.Key.Text))
		}
	}
	return true
}

// ignored notes keys of a map that GitHub passes over.
func (r *nodes) ignored(n *yamlsource.Node, what string, keys []string) {
	for _, e := range n.Entries {
		if !slices.Contains(keys, e.Key.Text) {
			r.note(rules.IgnoredKey, e.Key.Span, r.suggest(e.Key.Text, keys, "valid keys: "), "%s has no key %q, which GitHub ignores", what, shorten(e.Key.Text))
		}
	}
}

// suggest is a hint: the candidate that is meant, or all of them.
func (r *nodes) suggest(text string, candidates []string, all string) string {
	if r.source.Full() {
		return ""
	}
	if like := diag.Suggest(text, candidates); like != "" {
		return "did you mean " + strconv.Quote(like) + "?"
	}
	return all + strings.Join(candidates, ", ")
}

// entries reads a map with any keys. A null map is empty.
func (r *nodes) entries(n *yamlsource.Node, what string) []yamlsource.Entry {
	if n == nil {
		return nil
	}
	if n.Kind != yamlsource.Mapping && n.Kind != yamlsource.Null {
		r.report(n.Span, "", "%s must be a map, not %s", what, n.Kind)
	}
	return n.Entries
}

// scalar reads a string, or the text of what would be one on GitHub: true, 5.
func (r *nodes) scalar(n *yamlsource.Node, what string) (string, bool) {
	switch {
	case n == nil:
		return "", false
	case !n.Kind.IsScalar():
		r.report(n.Span, "", "%s must be a string, not %s", what, n.Kind)
		return "", false
	case n.Kind == yamlsource.Null:
		return "", true
	default:
		return n.Text, true
	}
}

// filled reads a string that is not empty.
func (r *nodes) filled(n *yamlsource.Node, what string) (string, bool) {
	text, ok := r.scalar(n, what)
	if ok && strings.TrimSpace(text) == "" {
		r.report(n.Span, "", "%s is empty", what)
		return "", false
	}
	return text, ok
}

// strings reads a string or a list of strings.
func (r *nodes) strings(n *yamlsource.Node, what string) []string {
	if n == nil {
		return nil
	}
	items := []*yamlsource.Node{n}
	if n.Kind == yamlsource.Sequence {
		items = n.Items
	}
	var out []string
	for _, item := range items {
		if text, ok := r.filled(item, what); ok {
			out = append(out, text)
		}
	}
	return out
}

// boolean reads true or false.
func (r *nodes) boolean(n *yamlsource.Node, what string) bool {
	if n == nil {
		return false
	}
	if n.Kind != yamlsource.Boolean {
		r.report(n.Span, "", "%s must be true or false, not %s", what, r.shown(n))
	}
	return n.Kind == yamlsource.Boolean && strings.EqualFold(n.Text, "true")
}

// shown is a node as messages show it: its text, or its kind.
func (r *nodes) shown(n *yamlsource.Node) string {
	if n.Kind.IsScalar() && n.Kind != yamlsource.Null {
		return strconv.Quote(shorten(n.Text))
	}
	return n.Kind.String()
}

// shorten returns the first line of a text, cut to a length that a message or title can hold.
func shorten(text string) string {
	const most = 60
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if runes := []rune(line); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return line
}

// get is a key of a node that may be nil.
func get(n *yamlsource.Node, key string) *yamlsource.Node {
	if n == nil {
		return nil
	}
	return n.Get(key)
}

// entries are those of a node that may be nil.
func entries(n *yamlsource.Node) []yamlsource.Entry {
	if n == nil {
		return nil
	}
	return n.Entries
}
