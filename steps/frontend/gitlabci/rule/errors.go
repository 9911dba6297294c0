package rule

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Error is what is wrong with an expression: with its text, or with what it was evaluated for. It shows no variable's value.
type Error struct {
	// Offset is where the mistake begins and Length how long it is, at least 1, in characters (Unicode code points).
	Offset, Length int
	// Message says what is wrong, in lower case, without a full stop.
	Message string
	// Hint says what to do next; it may be empty.
	Hint string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

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

// quote returns the text in quotes, on one line, cut to a length that a message can hold.
func quote(text string) string {
	shown, cut := shorten(text)
	if cut {
		return fmt.Sprintf("%q…", shown)
	}
	return fmt.Sprintf("%q", shown)
}

// excerpt returns source text, cut to a length that a message can hold.
func excerpt(text string) string {
	shown, cut := shorten(strings.Join(strings.Fields(text[:min(len(text), 8*maxShown)]), " "))
	if cut || len(text) > 8*maxShown {
		return shown + "…"
	}
	return shown
}

func shorten(text string) (shown string, cut bool) {
	runes := []rune(text[:min(len(text), 4*maxShown)])
	if len(runes) <= maxShown {
		return string(runes), len(text) > 4*maxShown
	}
	return string(runes[:maxShown]), true
}
