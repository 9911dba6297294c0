// Package diag holds diagnostics: what is wrong with an input, where, and how to fix it.
//
// A diagnostic is data. It crosses package and process borders as it is; text is rendered from it at the edge, so that the
// caret under a mistake looks the same in a terminal, a job log and a gRPC client.
package diag

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Span is a range in a source file. Lines and columns count from 1, columns in characters (Unicode code points).
// A zero Line means that the position is not known.
type Span struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	// Length is how many characters of the line are meant, at least 1 when the position is known.
	Length int `json:"length,omitempty"`
}

// String returns file:line:column, as editors and terminals understand it.
func (s Span) String() string {
	if s.Line == 0 {
		return s.File
	}
	file := s.File
	if file == "" {
		file = "-"
	}
	return fmt.Sprintf("%s:%d:%d", file, s.Line, s.Column)
}

// IsZero reports whether the span names no place at all.
func (s Span) IsZero() bool { return s == Span{} }

// Shift returns the span moved right by n characters on its line, with the given length.
func (s Span) Shift(n, length int) Span {
	s.Column += n
	s.Length = length
	return s
}

// SourceLine is a place with the line of the source that it is on.
type SourceLine struct {
	Span
	// Source is the text of the line, without its line end.
	Source string `json:"source,omitempty"`
}

// Diagnostic is one thing that is wrong with an input.
type Diagnostic struct {
	Span
	// Message says what is wrong, in lower case, without a full stop.
	Message string `json:"message"`
	// Hint says what to do next; it may be empty.
	Hint string `json:"hint,omitempty"`
	// Source is the text of the line that Span points at, without its line end.
	Source string `json:"source,omitempty"`
	// Note marks a place that explains the diagnostic before it, and is not wrong itself.
	Note bool `json:"note,omitempty"`
	// Code names the mistake for programs, where one has to know it; mostly it is empty.
	Code string `json:"code,omitempty"`
}

// Error makes a single diagnostic usable as an error.
func (d Diagnostic) Error() string {
	if place := d.Span.String(); place != "" {
		return place + ": " + d.Message
	}
	return d.Message
}

// maxSourceWidth bounds how much of a source line is shown, in characters: a line of a minified file may have megabytes.
const maxSourceWidth = 160

// Render returns the diagnostic as a person reads it, ending in a newline:
//
//	error: unknown key "scirpt"
//	  --> steps.yml:3:5
//	   |
//	 3 |     scirpt: echo hello
//	   |     ^^^^^^
//	hint: did you mean "script"?
func (d Diagnostic) Render() string {
	var b strings.Builder
	level := "error: "
	if d.Note {
		level = "note: "
	}
	b.WriteString(level + d.Message + "\n")
	if place := d.Span.String(); place != "" {
		b.WriteString("  --> " + place + "\n")
	}
	b.WriteString(d.Snippet())
	if d.Hint != "" {
		b.WriteString("hint: " + d.Hint + "\n")
	}
	return b.String()
}

// Snippet returns the source line with carets under the span, or nothing when the source is not known.
func (d Diagnostic) Snippet() string {
	if d.Source == "" || d.Line == 0 {
		return ""
	}
	source := []rune(strings.ToValidUTF8(d.Source, "\uFFFD"))
	column := min(max(d.Column, 1), len(source)+1)
	length := max(d.Length, 1)
	prefix := ""
	if len(source) > maxSourceWidth {
		start := max(0, column-1-maxSourceWidth/2)
		end := min(len(source), start+maxSourceWidth)
		if start > 0 {
			prefix = "…"
		}
		source, column = source[start:end], column-start+utf8.RuneCountInString(prefix)
	}
	text := []rune(prefix + string(source))
	length = max(1, min(length, len(text)-column+1))
	// Tabs are kept in the indentation of the caret line, so that carets stand right whatever the tab width.
	indent := make([]rune, 0, column)
	for i := 0; i < column-1 && i < len(text); i++ {
		if text[i] == '\t' {
			indent = append(indent, '\t')
		} else if indent = append(indent, ' '); isWide(text[i]) {
			indent = append(indent, ' ')
		}
	}
	carets := length
	for _, r := range text[min(column-1, len(text)):min(column-1+length, len(text))] {
		if isWide(r) {
			carets++
		}
	}
	for i, r := range text {
		if r != '\t' && unicode.IsControl(r) {
			text[i] = '\uFFFD' // a control character in a source line must not reach the terminal
		}
	}
	number := fmt.Sprint(d.Line)
	gutter := strings.Repeat(" ", len(number))
	return fmt.Sprintf(" %s |\n %s | %s\n %s | %s%s\n", gutter, number, string(text), gutter, string(indent), strings.Repeat("^", carets))
}

// isWide reports whether a terminal shows the character two columns wide. It knows the scripts of East Asia, not emoji, whose
// width terminals do not agree on.
func isWide(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana) && (r < 0xFF61 || r > 0xFFDC) ||
		r >= 0xFF01 && r <= 0xFF60
}

// List is every diagnostic of an input. As an error it stands for a bad configuration or definition.
type List []Diagnostic

// Error returns all diagnostics, a line each.
func (l List) Error() string {
	lines := make([]string, len(l))
	for i, d := range l {
		lines[i] = d.Error()
	}
	return strings.Join(lines, "\n")
}

// Render returns all diagnostics as a person reads them.
func (l List) Render() string {
	parts := make([]string, len(l))
	for i, d := range l {
		parts[i] = d.Render()
	}
	return strings.Join(parts, "\n")
}

// Err returns the list as an error, nil when it is empty.
func (l List) Err() error {
	if len(l) == 0 {
		return nil
	}
	return l
}

// Sort orders the list by place.
func (l List) Sort() {
	sort.SliceStable(l, func(i, j int) bool {
		a, b := l[i].Span, l[j].Span
		if a.File != b.File {
			return a.File < b.File
		}
		if a.Line != b.Line {
			return a.Line < b.Line
		}
		return a.Column < b.Column
	})
}

// Of returns the diagnostics that err carries, nil when it carries none.
func Of(err error) List {
	var list List
	if errors.As(err, &list) {
		return list
	}
	var one Diagnostic
	if errors.As(err, &one) {
		return List{one}
	}
	return nil
}

// Suggest returns the candidate closest to name when one is close enough to be meant, else "".
func Suggest(name string, candidates []string) string {
	best, bestDistance := "", max(1, len(name)/3)+1
	for _, c := range candidates {
		if d := distance(name, c, bestDistance); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance is the Damerau-Levenshtein distance (adjacent swaps count once), cut off at limit.
func distance(a, b string, limit int) int {
	if abs(len(a)-len(b)) >= limit || len(a) > 64 || len(b) > 64 {
		return limit
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}
