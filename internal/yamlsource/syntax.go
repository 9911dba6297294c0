package yamlsource

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/rungci/rung/steps/diag"
)

// checkCharacters finds the first character that YAML does not allow. The library would find it too, without its place.
func (f *File) checkCharacters() (diag.Diagnostic, bool) {
	data := f.text.data
	if bytes.HasPrefix(data, []byte{0xFE, 0xFF}) || bytes.HasPrefix(data, []byte{0xFF, 0xFE}) {
		return f.Diagnostic(diag.Span{File: f.Name}, "save it as UTF-8", "the file is in UTF-16"), true
	}
	for i := 0; i < len(data); {
		c := data[i]
		if c >= ' ' && c < 0x7F || c == '\n' || c == '\t' || c == '\r' {
			i++
			continue
		}
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return f.Diagnostic(f.text.at(i), "save the file as UTF-8", fmt.Sprintf("the byte 0x%02X is not valid UTF-8", c)), true
		}
		if r < ' ' || r >= 0x7F && r < 0xA0 && r != 0x85 || r == 0xFEFF || r == 0xFFFE || r == 0xFFFF {
			hint := fmt.Sprintf(`delete it, or write it as "\u%04X" in a double-quoted string`, r)
			return f.Diagnostic(f.text.at(i), hint, fmt.Sprintf("the control character U+%04X is not allowed in YAML", r)), true
		}
		i += size
	}
	return diag.Diagnostic{}, false
}

// rewording says in plain words what the parser says in terms of its grammar.
var rewording = []struct{ problem, context, message, hint string }{
	{"mapping values are not allowed", "", "a : is not allowed here", "quote text that contains \": \", and indent the keys of a map equally"},
	{"block sequence entries are not allowed", "", "a list cannot begin here", "begin it on a line of its own"},
	{"cannot start any token", "tab", "a tab cannot indent", "indent with spaces"},
	{"found a tab character", "", "a tab cannot indent", "indent with spaces"},
	{"cannot start any token", "", "a value cannot begin with this character", "quote it"},
	{"unexpected end of stream", "quoted scalar", "the quoted text is never closed", "close the quote"},
	{"unexpected document indicator", "quoted scalar", "the quoted text is never closed", "close the quote"},
	{"unknown escape character", "", `no such escape in a double-quoted string`, `write \\ for a backslash, or use single quotes`},
	{"expected ',' or ']'", "", "expected , or ] here", "quote text that contains { } [ ] or ,"},
	{"expected ',' or '}'", "", "expected , or } here", "quote text that contains { } [ ] or ,"},
	{"expected '-' indicator", "", "expected a list item that begins with -", "indent what belongs to the item above further than its -"},
	{"did not find expected key", "", "expected a key here", "indent the keys of a map equally, and quote text that begins with a quote or bracket"},
	{"could not find expected ':'", "", "expected : after the key", "end the key with : and a space"},
	{"incompatible YAML document", "", "a %YAML line can only name YAML 1.1", "delete the line"},
	{"exceeded max depth", "", fmt.Sprintf("values nest deeper than %d levels, which is the limit", MaxDepth), ""},
}

// syntaxError returns the diagnostic for what the library reported.
func (f *File) syntaxError(err error) diag.Diagnostic {
	var load *yaml.LoadError
	if !errors.As(err, &load) {
		return f.Diagnostic(diag.Span{File: f.Name}, "", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	place := diag.Span{File: f.Name, Line: max(load.Mark.Line, 1), Column: max(load.Mark.Column, 1), Length: 1}
	offset := f.text.offset(place.Line, place.Column)
	context := load.ContextMsg
	if offset < len(f.text.data) && f.text.data[offset] == '\t' {
		context = "tab"
	}
	if rest := bytes.TrimSpace(f.text.data[offset:]); len(rest) == 0 && load.ContextMark.Line > 0 {
		// At the end of the text nothing can be seen: what is not finished began at the context.
		place.Line, place.Column = load.ContextMark.Line, load.ContextMark.Column
		if strings.Contains(context, "flow sequence") {
			return f.Diagnostic(place, "add the missing ]", "the [ is never closed")
		}
		if strings.Contains(context, "flow mapping") {
			return f.Diagnostic(place, "add the missing }", "the { is never closed")
		}
	}
	source := f.text.line(place.Line)
	if name, ok := strings.CutPrefix(load.Message, "unknown anchor '"); ok {
		name = strings.TrimSuffix(name, "' referenced")
		place.Length = utf8.RuneCountInString(name) + 1
		return f.Diagnostic(place, "quote text that begins with *", fmt.Sprintf("*%s has no anchor: there is no &%s above it", name, name))
	}
	message, hint := load.Message, ""
	for _, r := range rewording {
		if strings.Contains(load.Message, r.problem) && strings.Contains(context, r.context) {
			message, hint = r.message, r.hint
			break
		}
	}
	if strings.Contains(source, "${{") && strings.Contains(hint, "quote text") {
		hint = "quote text that contains ${{ }}"
	}
	if message == load.Message && load.ContextMsg != "" {
		message = load.ContextMsg + ": " + message
	}
	return f.Diagnostic(place, hint, "invalid YAML: "+message)
}
