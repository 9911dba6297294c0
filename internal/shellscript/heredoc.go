package shellscript

import (
	"errors"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxOpen bounds the here-documents that a text ends in.
const maxOpen = 10

// ended returns a text with the here-documents ended that its end ends: shells run such a script, bash with a warning.
func ended(text string) string {
	out := text
	for range maxOpen {
		_, _, err := parseText(out)
		word, ok := openHeredoc(err)
		if !ok {
			break
		}
		if !strings.HasSuffix(out, "\n") {
			out += "\n"
		}
		out += word + "\n"
	}
	if _, _, err := parseText(out); err != nil {
		return text
	}
	return out
}

// openHeredoc returns the delimiter of a here-document, if the error of the parser is that the text ends before it. It is plain, and no expression.
func openHeredoc(err error) (delimiter string, ok bool) {
	var parse syntax.ParseError
	if !errors.As(err, &parse) {
		return "", false
	}
	quoted, ok := strings.CutPrefix(parse.Text, "unclosed here-document ")
	if !ok {
		return "", false
	}
	delimiter, err = strconv.Unquote(quoted)
	return delimiter, err == nil && plainDelimiter.MatchString(delimiter)
}
