package workflow

import (
	"strings"

	ghexpr "github.com/rungci/rung/steps/expr/github"
	"github.com/rungci/rung/steps/value"
)

// unknown is the text of Unknown. No name of an image, and no text of YAML or JSON that means anything, has it in it.
const unknown = "\x00unknown\x00"

// Unknown stands in contexts for what only a run knows. A text whose expressions read it, or something that holds it, is Unknown as a
// whole, whatever they would make of it: a comparison or an || would hide it. So it passes through matrices and inputs, and takes the
// place of a number or a boolean too.
var Unknown = value.OfString(unknown)

// IsUnknown reports whether a text that was computed is only known to a run.
func IsUnknown(text string) bool { return strings.Contains(text, unknown) }

// holdsUnknown reports whether a value is Unknown, or has it in it.
func holdsUnknown(v value.Value) bool {
	if IsUnknown(v.Str()) {
		return true
	}
	for _, item := range v.Items() {
		if holdsUnknown(item) {
			return true
		}
	}
	for _, field := range v.Fields() {
		if holdsUnknown(field) {
			return true
		}
	}
	return false
}

// readsUnknown reports whether an expression of a template refers to what is not known, also in a branch that is not reached.
func readsUnknown(t *ghexpr.Template, s ghexpr.Scope) bool {
	for _, part := range t.Parts() {
		if part.Expr == nil {
			continue
		}
		for _, ref := range part.Expr.References() {
			v, _ := s.Lookup(ref.Path[0])
			for _, name := range ref.Path[1:] {
				if v.Kind() != value.Struct {
					break // of an array any item; what is below Unknown is not known either
				}
				v, _ = ghexpr.Field(v, name)
			}
			if holdsUnknown(v) {
				return true
			}
		}
	}
	return false
}
