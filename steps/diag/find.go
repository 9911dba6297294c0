package diag

import (
	"strings"
	"unicode/utf8"
)

// Find narrows the span of a text to length characters of it from offset on, where the text stands as written: on the span's line, or in a
// literal block below it. line returns the text of the line that a span is on. A text that stands elsewhere keeps its span.
func Find(line func(Span) string, span Span, text string, offset, length int) Span {
	runes := []rune(text)
	if line == nil || offset < 0 || offset > len(runes) {
		return span
	}
	first := line(span)
	if start := strings.Index(first, text); start >= 0 {
		span.Column = utf8.RuneCountInString(first[:start]) + 1 + offset
		span.Length = max(1, length)
		return span
	}
	if head := []rune(first); span.Column < 1 || span.Column > len(head) || head[span.Column-1] != '|' {
		return span
	}
	rows := strings.Split(string(runes[:offset]), "\n")
	row := strings.Split(text, "\n")[len(rows)-1]
	found := span
	found.Line += len(rows)
	indent, ok := strings.CutSuffix(line(found), row)
	if !ok || strings.Trim(indent, " ") != "" {
		return span
	}
	found.Column = len(indent) + 1 + utf8.RuneCountInString(rows[len(rows)-1])
	found.Length = max(1, length)
	return found
}

// LineOf returns a line of a text without its line end, counted from 1; "" where there is none.
func LineOf(text []byte, number int) string {
	rest := string(text)
	for n := 1; n < number; n++ {
		_, after, ok := strings.Cut(rest, "\n")
		if !ok {
			return ""
		}
		rest = after
	}
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSuffix(line, "\r")
}
