package expr

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rungci/rung/steps/diag"
)

// Error is what is wrong with an expression: with its text, or with what it evaluates to. No Error shows a sensitive value.
type Error struct {
	// Offset is where the mistake begins and Length how long it is, at least 1, in characters (Unicode code points). Offset
	// counts from the start of the text that was parsed: the whole template, when the expression is in one.
	Offset, Length int
	// Message says what is wrong, in lower case, without a full stop.
	Message string
	// Hint says what to do next; it may be empty.
	Hint string
	// Path is where in an array or struct the text stands, such as ".foods[0]". It is set by Check and Expand only, and
	// empty when the value is the text itself.
	Path string
	// Missing is the name that was not found, where that is what is wrong and the name is not sensitive.
	Missing string

	cause error
}

// Error returns the message, with the path before it when there is one.
func (e *Error) Error() string {
	if e.Path != "" {
		return "in " + e.Path + ": " + e.Message
	}
	return e.Message
}

// Unwrap returns the error of a function that the scope provides, if that is the cause.
func (e *Error) Unwrap() error { return e.cause }

// newError returns an error about source[start:end], in bytes.
func newError(source string, start, end int, hint, format string, args ...any) *Error {
	return &Error{
		Offset:  utf8.RuneCountInString(source[:start]),
		Length:  max(1, utf8.RuneCountInString(source[start:end])),
		Message: fmt.Sprintf(format, args...),
		Hint:    hint,
	}
}

// How much of a text, and how many names, an error message shows.
const (
	maxExcerpt      = 60    // characters
	maxListedNames  = 8     // of a struct or scope
	maxSuggestNames = 1_000 // that a suggestion is looked for in
)

// excerpt returns the text on one line, cut to a length that a message can hold.
func excerpt(text string) string {
	cut := false
	if limit := 4 * maxExcerpt; len(text) > limit {
		text, cut = text[:limit], true
	}
	runes := []rune(strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " "))
	if len(runes) > maxExcerpt {
		runes, cut = runes[:maxExcerpt], true
	}
	if cut {
		return string(runes) + "…"
	}
	return string(runes)
}

// quote returns the text in quotes, cut to a length that a message can hold.
func quote(text string) string {
	runes := []rune(text[:min(len(text), 4*maxExcerpt)])
	if len(runes) > maxExcerpt || len(text) > 4*maxExcerpt {
		return fmt.Sprintf("%q…", string(runes[:min(len(runes), maxExcerpt)]))
	}
	return fmt.Sprintf("%q", text)
}

// listNames returns the first few names in quotes, and how many more there are.
func listNames(names []string) string {
	shown := make([]string, 0, maxListedNames)
	for _, name := range names[:min(len(names), maxListedNames)] {
		shown = append(shown, quote(name))
	}
	text := strings.Join(shown, ", ")
	if more := len(names) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// didYouMean returns a hint when one of the names is close to the given one.
func didYouMean(name string, names []string) string {
	i := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
	found := ""
	if i >= 0 {
		found = names[i]
	} else {
		found = diag.Suggest(name, names[:min(len(names), maxSuggestNames)])
	}
	if found == "" {
		return ""
	}
	return "did you mean " + quote(found) + "?"
}
