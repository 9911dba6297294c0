package yamlsource

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/diag"
)

// Reporter collects what is wrong with a text. *File is one.
type Reporter interface {
	// Report adds a problem at a place.
	Report(place diag.Span, hint, format string, args ...any)
	// Full reports whether there are more problems than anybody will read.
	Full() bool
}

// CheckKeys checks that a node is a map with no keys but the given ones, and reports what is wrong. what names the map in messages
// ("the spec"). It reports false if the node is not a map.
func CheckKeys(r Reporter, n *Node, what string, keys ...string) bool {
	if n.Kind != Mapping {
		r.Report(n.Span, "valid keys: "+strings.Join(keys, ", "), "%s must be a map, not %s", what, n.Kind)
		return false
	}
	for _, e := range n.Entries {
		if !slices.Contains(keys, e.Key.Text) {
			UnknownKey(r, e.Key, keys)
		}
	}
	return true
}

// UnknownKey reports a key that is not one of the given ones.
func UnknownKey(r Reporter, key *Node, keys []string) {
	hint := ""
	if !r.Full() { // nobody reads further hints, and similar names are slow to find
		hint = "valid keys: " + strings.Join(keys, ", ")
		if like := diag.Suggest(key.Text, keys); like != "" {
			hint = fmt.Sprintf("did you mean %q?", like)
		}
	}
	r.Report(key.Span, hint, "unknown key %q", Shorten(key.Text))
}

// maxShown bounds how much of a text a message or a title repeats, in characters.
const maxShown = 60

// Shorten returns the first line of a text, cut to a length that a message or a title can hold.
func Shorten(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if r := []rune(line); len(r) > maxShown {
		return string(r[:maxShown-1]) + "…"
	}
	return line
}
