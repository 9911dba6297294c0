package github

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Reference is a context that an expression uses, and the names that it follows from there.
type Reference struct {
	// Path begins with the name of the context, in lower case. Names after it are as written, and end where a name is not known before
	// the evaluation: that of `steps.a.outputs[matrix.name]` is steps, a, outputs.
	Path []string
	// Offset is where it begins and Length how long it is, in characters; the offset counts as in an Error.
	Offset, Length int

	places []place
}

// place is where a name is in the source, in bytes: with its point or its brackets, where it is a field.
type place struct {
	start, end int
	field      bool
}

// References returns every context that the expression uses, in the order in which they are written, also in branches that an evaluation
// may not reach.
func (e *Expr) References() []Reference {
	refs := slices.Clone(e.uses)
	for i := range refs {
		start, end := refs[i].places[0].start, refs[i].places[len(refs[i].places)-1].end
		refs[i].Offset, refs[i].Length = utf8.RuneCountInString(e.source[:start]), utf8.RuneCountInString(e.source[start:end])
	}
	return refs
}

// Calls reports whether the expression calls the function anywhere. The name is spelled as in GitHub's documentation.
func (e *Expr) Calls(function string) bool {
	return slices.ContainsFunc(e.calls, func(c name) bool { return c.text == function })
}

// CallsStatus reports whether the expression calls a status function anywhere.
func (e *Expr) CallsStatus() bool { return slices.ContainsFunc(StatusFunctions, e.Calls) }

// String returns the expression as it was written, without ${{ }} and the space around it.
func (e *Expr) String() string { return strings.TrimSpace(e.source[e.start:e.end]) }

// Rename returns the expression's text with the fields of references renamed: renamed gets a path, and changes the names in it that should
// become others, but for the first.
func (e *Expr) Rename(renamed func(path []string)) string {
	var b strings.Builder
	at := e.start
	uses := slices.Clone(e.uses)
	slices.SortFunc(uses, func(a, b Reference) int { return a.places[0].start - b.places[0].start })
	type edit struct {
		place place
		text  string
	}
	var edits []edit
	for _, u := range uses {
		path := slices.Clone(u.Path)
		renamed(path)
		for i, p := range u.places {
			if p.field && path[i] != u.Path[i] {
				edits = append(edits, edit{p, fieldText(path[i])})
			}
		}
	}
	// A reference can be used in an index of another one, between two of its fields.
	slices.SortFunc(edits, func(a, b edit) int { return a.place.start - b.place.start })
	for _, ed := range edits {
		b.WriteString(e.source[at:ed.place.start] + ed.text)
		at = ed.place.end
	}
	b.WriteString(e.source[at:e.end])
	return strings.TrimSpace(b.String())
}

// fieldText writes the access to a field.
func fieldText(field string) string {
	if isName(field) {
		return "." + field
	}
	return "['" + strings.ReplaceAll(field, "'", "''") + "']"
}
