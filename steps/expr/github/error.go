package github

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/expr"
)

// Error is what is wrong with an expression. Its offset counts from the start of the text that was parsed, in characters: of the whole
// template, when the expression is in one. No Error shows a sensitive value.
type Error = expr.Error

// newError returns an error about source[start:end], in bytes.
func newError(source string, start, end int, hint, format string, args ...any) *Error {
	return &Error{
		Offset:  utf8.RuneCountInString(source[:start]),
		Length:  max(1, utf8.RuneCountInString(source[start:end])),
		Message: fmt.Sprintf(format, args...),
		Hint:    hint,
	}
}

// maxShown is how many characters of a text a message shows.
const maxShown = 60

// quote returns the text in quotes, cut to a length that a message can hold.
func quote(text string) string {
	if runes := []rune(text[:min(len(text), 4*maxShown)]); len(runes) > maxShown {
		return fmt.Sprintf("%q…", string(runes[:maxShown]))
	}
	return fmt.Sprintf("%q", text)
}

// unknown returns the hint about a name that is not one of the given ones.
func unknown(name, what string, names []string) string {
	i := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
	switch like := diag.Suggest(name, names); {
	case i >= 0:
		return "did you mean " + names[i] + "?"
	case like != "":
		return "did you mean " + like + "?"
	case len(names) == 0:
		return "there are no " + what + " here"
	default:
		return "the " + what + " here are " + strings.Join(names, ", ")
	}
}
