package yamlsource

import (
	"bytes"
	"unicode/utf8"

	"github.com/rungci/rung/steps/diag"
)

// text is the source with the beginnings of its lines. Lines end where the YAML library ends them.
type text struct {
	name   string
	data   []byte
	starts []int
	ascii  bool
	// The last place that was looked up: places mostly come in the order of the text, so that even a file of one long line
	// is walked once.
	last place
}

type place struct{ line, column, offset int }

func newText(name string, data []byte) *text {
	t := &text{name: name, data: data, starts: []int{0}, ascii: true}
	for i := 0; i < len(data); {
		c := data[i]
		if c >= utf8.RuneSelf {
			t.ascii = false
		}
		if n := breakLength(data[i:]); n > 0 {
			i += n
			t.starts = append(t.starts, i)
			continue
		}
		i++
	}
	return t
}

// breakLength returns how many bytes the line break at the beginning of b has, 0 when there is none.
func breakLength(b []byte) int {
	switch b[0] {
	case '\n':
		return 1
	case '\r':
		if len(b) > 1 && b[1] == '\n' {
			return 2
		}
		return 1
	case 0xC2: // next line
		if bytes.HasPrefix(b, []byte("\u0085")) {
			return 2
		}
	case 0xE2: // line separator, paragraph separator
		if bytes.HasPrefix(b, []byte("\u2028")) || bytes.HasPrefix(b, []byte("\u2029")) {
			return 3
		}
	}
	return 0
}

// line returns the text of a line without its break, "" when there is no such line.
func (t *text) line(number int) string {
	start, end := t.bounds(number)
	return string(t.data[start:end])
}

// bounds returns where a line begins and ends, its break not counted.
func (t *text) bounds(number int) (start, end int) {
	if number < 1 || number > len(t.starts) {
		return len(t.data), len(t.data)
	}
	start, end = t.starts[number-1], len(t.data)
	if number < len(t.starts) {
		end = t.starts[number]
	}
	for _, suffix := range []string{"\r\n", "\n", "\r", "\u0085", "\u2028", "\u2029"} {
		if bytes.HasSuffix(t.data[start:end], []byte(suffix)) {
			return start, end - len(suffix)
		}
	}
	return start, end
}

// offset returns where the character at line and column begins; a column past the end of the line is the end of the line.
func (t *text) offset(line, column int) int {
	start, end := t.bounds(line)
	if t.ascii {
		return min(start+column-1, end)
	}
	at := place{line, 1, start}
	if t.last.line == line && t.last.column <= column {
		at = t.last
	}
	for at.column < column && at.offset < end {
		_, size := utf8.DecodeRune(t.data[at.offset:])
		at.offset += size
		at.column++
	}
	t.last = at
	return at.offset
}

// node returns where the content of the node that the parser found at line and column begins, past its tag and anchor, and
// the place of as much of it as is on its first line.
func (t *text) node(n *Node, line, column int) (start int, span diag.Span) {
	span = diag.Span{File: t.name, Line: line, Column: column, Length: 1}
	start = t.offset(line, column)
	first := start
	_, limit := t.bounds(line)
	for start < limit && (t.data[start] == '!' || t.data[start] == '&') {
		for start < limit && t.data[start] != ' ' && t.data[start] != '\t' {
			start++
		}
		for start < len(t.data) && isBlank(t.data[start]) {
			start++
		}
	}
	if start >= limit { // what follows the tag or anchor is on another line, or there is nothing
		if n.Kind == Null {
			start = first
		}
		return start, span
	}
	span.Column += utf8.RuneCount(t.data[first:start])
	if n.Kind.IsScalar() {
		span.Length = max(1, utf8.RuneCount(t.data[start:t.scalarEnd(n, start, limit)]))
	}
	return start, span
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// scalarEnd returns where the scalar that begins at start ends on its first line. limit is the end of that line.
func (t *text) scalarEnd(n *Node, start, limit int) int {
	rest := t.data[start:limit]
	switch n.style {
	case doubleQuoted:
		for i := 1; i < len(rest); i++ {
			switch rest[i] {
			case '\\':
				i++
			case '"':
				return start + i + 1
			}
		}
	case singleQuoted:
		for i := 1; i < len(rest); i++ {
			if rest[i] != '\'' {
				continue
			}
			if i+1 < len(rest) && rest[i+1] == '\'' {
				i++
				continue
			}
			return start + i + 1
		}
	case block: // the header
		if i := bytes.IndexAny(rest, " \t"); i >= 0 {
			return start + i
		}
	case plain:
		// A plain scalar of one line is in the source as it is.
		if len(n.Text) <= len(rest) && string(rest[:len(n.Text)]) == n.Text {
			return start + len(n.Text)
		}
	}
	return start + len(bytes.TrimRight(rest, " \t"))
}
