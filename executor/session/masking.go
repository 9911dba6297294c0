package session

import (
	"strings"

	"github.com/rungci/rung/internal/mask"
)

// Hiding hides the masked values of a job in what is said of it here: what its steps say is masked where it is made.
func Hiding(values []string) func(string) string {
	set := mask.NewSet(values...)
	return func(text string) string {
		if set.Len() == 0 {
			return text
		}
		return set.String(text)
	}
}

// OneLine makes a text of several lines one.
func OneLine(text string) string {
	line, rest, more := strings.Cut(strings.TrimSpace(text), "\n")
	if more && strings.TrimSpace(rest) != "" {
		line += " …"
	}
	return line
}
