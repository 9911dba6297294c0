package yamlsource

import (
	"sort"
	"unicode/utf8"

	"github.com/rungci/rung/steps/diag"
)

// At returns the place in the source of length characters of a scalar's text, from the one at offset on. Quotes, escapes,
// folding and indentation are accounted for; a range of several lines is cut at the end of its first.
//
// The source and the text have the same characters in the same order, white space apart, so the way to a character is to
// count those before it.
func (f *File) At(n *Node, offset, length int) diag.Span {
	runes := []rune(n.Text)
	offset = max(0, min(offset, len(runes)))
	end := max(offset+1, min(offset+length, len(runes)))
	before := 0
	for _, r := range runes[:offset] {
		if !isSpace(r) {
			before++
		}
	}
	w := walker{text: f.text, node: n, at: n.start}
	w.enter()
	if offset == len(runes) || isSpace(runes[offset]) { // no character to find: the place after the one before
		if before == 0 {
			return n.Span
		}
		w.skip(before - 1)
		_, after := w.next()
		return f.text.at(after)
	}
	w.skip(before)
	start, stop := w.next()
	line := f.text.at(start)
	for _, r := range runes[min(offset+1, len(runes)):min(end, len(runes))] {
		if isSpace(r) {
			continue
		}
		from, to := w.next()
		if _, lineEnd := f.text.bounds(line.Line); from >= lineEnd {
			break
		}
		stop = to
	}
	line.Length = max(1, utf8.RuneCount(f.text.data[start:stop]))
	return line
}

// at returns the place of the character at the offset in bytes.
func (t *text) at(offset int) diag.Span {
	line := sort.Search(len(t.starts), func(i int) bool { return t.starts[i] > offset })
	return diag.Span{File: t.name, Line: line, Column: utf8.RuneCount(t.data[t.starts[line-1]:offset]) + 1, Length: 1}
}

// walker goes through the characters of a scalar in its source that are not white space.
type walker struct {
	text *text
	node *Node
	at   int
}

// enter moves past what opens the scalar: a quote or a block's header line.
func (w *walker) enter() {
	switch w.node.style {
	case singleQuoted, doubleQuoted:
		w.at++
	case block:
		header := w.text.at(min(w.at, len(w.text.data))).Line
		if header < len(w.text.starts) {
			w.at = w.text.starts[header]
		}
	}
}

func (w *walker) skip(n int) {
	for range n {
		w.next()
	}
}

// next returns where the next character begins and ends, both the end of the data when there is none.
func (w *walker) next() (start, end int) {
	for w.at < len(w.text.data) {
		start = w.at
		r, size := utf8.DecodeRune(w.text.data[start:])
		w.at += size
		switch {
		case r == '\\' && w.node.style == doubleQuoted:
			if w.escape() {
				continue
			}
		case r == '\'' && w.node.style == singleQuoted:
			w.at++ // a doubled quote is one character
		case isSpace(r):
			continue
		}
		return start, min(w.at, len(w.text.data))
	}
	return len(w.text.data), len(w.text.data)
}

// escape moves past what follows a backslash and reports whether it stands for white space.
func (w *walker) escape() bool {
	if w.at >= len(w.text.data) {
		return false
	}
	r, size := utf8.DecodeRune(w.text.data[w.at:])
	w.at += size
	digits := map[rune]int{'x': 2, 'u': 4, 'U': 8}[r]
	var code rune
	for range digits {
		if w.at < len(w.text.data) {
			code = code<<4 | hexDigit(w.text.data[w.at])
			w.at++
		}
	}
	if digits > 0 {
		return isSpace(code)
	}
	return isSpace(r) || r == 'n' || r == 'r' || r == 't' || r == 'N' || r == 'L' || r == 'P'
}

func hexDigit(c byte) rune {
	switch {
	case c >= 'a':
		return rune(c-'a') + 10
	case c >= 'A':
		return rune(c-'A') + 10
	default:
		return rune(c - '0')
	}
}

// isSpace reports whether folding, indentation or line ends may add or remove the character.
func isSpace(r rune) bool {
	return r == ' ' || r == '\t' || r == '\n' || r == '\r' || r == 0x85 || r == 0x2028 || r == 0x2029
}
