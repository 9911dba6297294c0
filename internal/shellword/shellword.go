// Package shellword writes texts as words of a command that a person copies into a shell.
package shellword

import (
	"runtime"
	"strings"
	"unicode"
)

// plain are the characters that mean nothing to a shell within a word, beside letters and digits; cmd and PowerShell give a meaning to the others.
const (
	plain        = "_-./+:@,="
	plainWindows = `_-./+:\`
)

// Of is a text, such as a path, as one word: as it is, or in quotes where a shell would read something else.
func Of(text string) string { return of(text, runtime.GOOS == "windows") }

func of(text string, windows bool) string {
	means := plain
	if windows {
		means = plainWindows
	}
	special := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(means, r)
	}
	switch {
	case text != "" && !strings.ContainsRune("=@", rune(text[0])) && strings.IndexFunc(text, special) < 0:
		return text
	case windows: // no path has such a quote; a backslash before one would be its own
		if strings.HasSuffix(text, `\`) {
			text += `\`
		}
		return `"` + text + `"`
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
