package variable

import (
	"fmt"
	"strings"
)

// piece is a part of a value: text that stays, or a reference to a variable.
type piece struct {
	text string // as it is written
	name string // of the variable, "" for text that stays
}

// hasReferences reports whether the value can refer to variables at all.
func hasReferences(value string) bool { return strings.ContainsAny(value, "$%") }

// scan calls yield for the pieces of a value as GitLab reads it: $NAME, ${NAME} and %NAME% are references. With escapes, $$ and
// %% are text that stays, and what follows them is not looked at together with them.
func scan(value string, escapes bool, yield func(piece)) {
	start := 0 // of the text that stays
	for at := 0; at < len(value); {
		size, name := reference(value[at:], escapes)
		switch {
		case size == 0:
			at++
		case name == "":
			at += size
		default:
			if start < at {
				yield(piece{text: value[start:at]})
			}
			yield(piece{text: value[at : at+size], name: name})
			at += size
			start = at
		}
	}
	if start < len(value) {
		yield(piece{text: value[start:]})
	}
}

// reference returns how long the reference or escape is that the text begins with, 0 when it begins with none, and the name of
// the variable, "" for an escape.
func reference(text string, escapes bool) (size int, name string) {
	switch mark := text[0]; {
	case mark != '$' && mark != '%' || len(text) < 2:
		return 0, ""
	case escapes && text[1] == mark:
		return 2, ""
	case mark == '%':
		if n := nameLength(text[1:]); n > 0 && n+1 < len(text) && text[n+1] == '%' {
			return n + 2, text[1 : n+1]
		}
	case text[1] == '{':
		if n := nameLength(text[2:]); n > 0 && n+2 < len(text) && text[n+2] == '}' {
			return n + 3, text[2 : n+2]
		}
	default:
		if n := nameLength(text[1:]); n > 0 {
			return n + 1, text[1 : n+1]
		}
	}
	return 0, ""
}

// nameLength returns how long the name is that the text begins with.
func nameLength(text string) int {
	for i := range len(text) {
		c := text[i]
		if !(c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9') {
			return i
		}
	}
	return len(text)
}

// References returns the names of the variables that GitLab sees in a value, in order.
func References(value string) []string {
	var names []string
	if hasReferences(value) {
		scan(value, true, func(p piece) {
			if p.name != "" {
				names = append(names, p.name)
			}
		})
	}
	return names
}

// SizeError says that a value became too large.
type SizeError struct {
	// Name is the variable's, "" for another text.
	Name string
	// Limit is in bytes.
	Limit int
	// All says that the limit is one for all values together.
	All bool
}

// Error says what became too large, and shows no value.
func (e *SizeError) Error() string {
	switch {
	case e.All:
		return fmt.Sprintf("the values of all variables together become larger than %d bytes when they are expanded, at %s: do they refer to each other many times?", e.Limit, e.Name)
	case e.Name != "":
		return fmt.Sprintf("the value of %s is larger than %d bytes when it is expanded: does it refer to a large variable many times?", e.Name, e.Limit)
	default:
		return fmt.Sprintf("the text becomes larger than %d bytes when its variables are expanded", e.Limit)
	}
}

// builder collects text up to a limit.
type builder struct {
	strings.Builder
	full bool
}

func (b *builder) add(text string) {
	if b.full || b.Len()+len(text) > MaxValue {
		b.full = true
		return
	}
	b.WriteString(text)
}

// ExpandText expands the variables of a text as GitLab does in single values of a definition; those that are not set are
// removed. There are no escapes.
func ExpandText(text string, lookup func(name string) (string, bool)) (string, error) {
	return expandText(text, lookup, false)
}

// ExpandKnown is like ExpandText, but leaves references to variables that are not set as they are. GitLab expands paths in
// `rules: changes` and `rules: exists`, and tags, in this way.
func ExpandKnown(text string, lookup func(name string) (string, bool)) (string, error) {
	return expandText(text, lookup, true)
}

func expandText(text string, lookup func(name string) (string, bool), keep bool) (string, error) {
	if !hasReferences(text) {
		return text, nil
	}
	var b builder
	scan(text, false, func(p piece) {
		if p.name == "" {
			b.add(p.text)
		} else if value, ok := lookup(p.name); ok {
			b.add(value)
		} else if keep {
			b.add(p.text)
		}
	})
	if b.full {
		return "", &SizeError{Limit: MaxValue}
	}
	return b.String(), nil
}
