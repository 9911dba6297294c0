// Package placed makes errors that show their place in a text: file, line, column, and the line itself.
package placed

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/rungci/rung/steps/diag"
)

// Text is a file that errors are about.
type Text struct {
	Name string
	Text []byte
}

// Errors are several errors of texts.
type Errors = diag.List

// At is an error about a place; lines and columns count from 1, columns in bytes. A line of 0 is the file as a whole.
func (t Text) At(line, column int, hint, format string, args ...any) Errors {
	d := diag.Diagnostic{Span: diag.Span{File: t.Name}, Hint: hint, Message: fmt.Sprintf(format, args...)}
	if line > 0 {
		source := strings.ToValidUTF8(strings.TrimSuffix(diag.LineOf(t.Text, line), "\r"), "?")
		before := source[:min(max(column-1, 0), len(source))]
		d.Source = source
		d.Span = diag.Span{File: t.Name, Line: line, Column: utf8.RuneCountInString(before) + 1, Length: 1}
	}
	return Errors{d}
}

// TOML decodes a text into a struct, strictly: all keys that the struct does not have are errors. A value that its type does not accept is an error,
// too: types check theirs in UnmarshalTOML, and answer with a Refusal. The error is Errors.
func (t Text) TOML(into any) error {
	t.Text = bytes.TrimPrefix(t.Text, []byte("\ufeff")) // the mark of some editors
	decoder := toml.NewDecoder(strings.NewReader(string(t.Text))).DisallowUnknownFields().EnableUnmarshalerInterface()
	err := decoder.Decode(into)
	var unknown *toml.StrictMissingError
	var one *toml.DecodeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unknown):
		var all Errors
		for _, e := range unknown.Errors {
			line, column := e.Position()
			key := e.Key()
			all = append(all, t.At(line, column, "", "unknown key %q", key[len(key)-1])...)
		}
		return all
	case errors.As(err, &one):
		line, column := one.Position()
		return t.At(line, column, "", "%s", strings.TrimPrefix(one.Error(), "toml: "))
	}
	return t.At(0, 0, "", "%s", strings.TrimPrefix(err.Error(), "toml: "))
}

// Refusal is what UnmarshalTOML returns for a value, so that the error has the value's place.
func Refusal(value []byte, format string, args ...any) error {
	return unstable.NewParserError(value, format, args...)
}

// String is the text of a value of TOML that is in quotes, or false.
func String(value []byte) (string, bool) {
	text := string(value)
	if len(text) < 2 || text[0] != text[len(text)-1] || text[0] != '"' && text[0] != '\'' {
		return "", false
	}
	return text[1 : len(text)-1], true
}

// Table is an error about the n-th table [[NAME]] of a text, from 0.
func (t Text) Table(name string, n int, hint, format string, args ...any) Errors {
	for i, line := range strings.Split(string(t.Text), "\n") {
		heading, _, _ := strings.Cut(line, "#")
		heading = strings.TrimSpace(heading)
		if strings.HasPrefix(heading, "[[") && strings.TrimSpace(strings.Trim(heading, "[]")) == name {
			if n == 0 {
				return t.At(i+1, strings.Index(line, "[")+1, hint, format, args...)
			}
			n--
		}
	}
	return t.At(0, 0, hint, format, args...)
}
