// Package shellword writes texts as words of a command that a person copies into a shell.
package shellword

import (
	"runtime"
	"strings"
	"unicode"
)

// plain are the characters that mean nothing to any shell, beside letters and digits.
const plain = "_-./+:@,="

// Of is a text, such as a path, as one word: as it is, or in quotes where a shell would read something else.
func Of(text string) string { return of(text, runtime.GOOS == "windows") }

func of(text string, windows bool) string {
	special := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(plain, r) && (!windows || r != '\\')
	}
	switch {
	case text != "" && strings.IndexFunc(text, special) < 0:
		return text
	case windows: // no path has such a quote
		return `"` + text + `"`
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
