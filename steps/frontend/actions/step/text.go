package step

import (
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
)

// Text is YAML of GitHub's that is being read. What is wrong is reported to its file; methods then return what they could make of the rest.
type Text struct {
	*yamlsource.File
	// Strict refuses what GitHub takes and nobody intends: a condition that always holds because of text around its ${{ }}.
	Strict  bool
	renamed map[string]string // ids of steps in lower case, to names in the plan that an expression cannot guess
}

// NewText begins to read a file.
func NewText(file *yamlsource.File) *Text { return &Text{File: file} }

// Object checks that a node is a map with no keys but the given ones. What names the map in messages ("a step").
func (t *Text) Object(n *yamlsource.Node, what string, keys ...string) bool {
	return yamlsource.CheckKeys(t.File, n, what, keys...)
}

// UnknownKey reports a key that is not one of the given ones.
func (t *Text) UnknownKey(key *yamlsource.Node, keys []string) {
	yamlsource.UnknownKey(t.File, key, keys)
}

// Entries reads a map with any keys. Null is an empty map.
func (t *Text) Entries(n *yamlsource.Node, what string) []yamlsource.Entry {
	switch {
	case n.Kind == yamlsource.String && HasExpression(n.Text):
		t.Report(n.Span, "write the keys out, and an expression as the value of each", "%s cannot be one expression here", what)
	case n.Kind != yamlsource.Mapping && n.Kind != yamlsource.Null:
		t.Report(n.Span, "", "%s must be a map, not %s", what, n.Kind)
	}
	return n.Entries
}

// Scalar reads a string, or the text of what would be one on GitHub: true, 5, nothing.
func (t *Text) Scalar(n *yamlsource.Node, what string) (string, bool) {
	switch {
	case !n.Kind.IsScalar():
		t.Report(n.Span, "", "%s must be a string, not %s", what, n.Kind)
		return "", false
	case n.Kind == yamlsource.Null:
		return "", true
	default:
		return n.Value().Text(), true
	}
}

// Filled reads a string that is not empty.
func (t *Text) Filled(n *yamlsource.Node, what string) (string, bool) {
	text, ok := t.Scalar(n, what)
	if ok && strings.TrimSpace(text) == "" {
		t.Report(n.Span, "", "%s is empty", what)
		return "", false
	}
	return text, ok
}

// Boolean reads true or false.
func (t *Text) Boolean(n *yamlsource.Node, what string) bool {
	text := strings.ToLower(n.Text)
	if !n.Kind.IsScalar() || text != "true" && text != "false" {
		t.Report(n.Span, "", "%s must be true or false", what)
	}
	return text == "true"
}

// Shorten returns the first line of a text, cut to a length that a message or a title can hold.
func Shorten(text string) string { return yamlsource.Shorten(text) }
