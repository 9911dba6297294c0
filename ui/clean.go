package ui

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

const esc = 0x1b

// cleanText makes text that others chose (names, titles, messages) safe for one line of ours: no control characters, no
// escape sequences, nothing that turns the direction of writing around.
func cleanText(s string) string {
	if isPlainText(s) {
		return s
	}
	s = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\t", " ").Replace(s)
	return string(appendClean(nil, []byte(s), false))
}

// cleanLabel is cleanText for names, of which a bounded part is shown.
func cleanLabel(s string) string {
	return truncate(strings.TrimSpace(cleanText(shortened(s, maxLabelWidth*utf8.UTFMax))), maxLabelWidth, "...")
}

// maxLabelWidth bounds how much of one name or title is shown, in cells.
const maxLabelWidth = 80

// shortened cuts s to n bytes, so that huge text costs nothing; a rune that is cut in two is cleaned away later.
func shortened(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}

// isPlainText reports whether s is printable ASCII all through, which is nearly always so.
func isPlainText(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// lastOverwrite returns what is left of a line when carriage returns in it have overwritten what stood before them.
func lastOverwrite(line []byte) []byte {
	line = bytes.TrimRight(line, "\r")
	return line[bytes.LastIndexByte(line, '\r')+1:]
}

// appendClean appends a line without control characters and escape sequences; tabs stay. With keepSGR the sequences that
// only set colours stay too, and are undone at the end of the line.
func appendClean(dst, line []byte, keepSGR bool) []byte {
	colored := false
	for i := 0; i < len(line); {
		c := line[i]
		switch {
		case c == esc:
			n := escapeLength(line[i:])
			if keepSGR && isSGR(line[i:i+n]) {
				dst, colored = append(dst, line[i:i+n]...), true
			}
			i += n
		case c == '\t' || ' ' <= c && c < 0x7f:
			dst = append(dst, c)
			i++
		case c < ' ' || c == 0x7f:
			i++
		default:
			r, n := utf8.DecodeRune(line[i:])
			if !isHarmful(r) {
				dst = utf8.AppendRune(dst, r) // U+FFFD where it is not UTF-8
			}
			i += n
		}
	}
	if colored {
		dst = append(dst, "\x1b[0m"...)
	}
	return dst
}

// isHarmful reports the characters beyond ASCII that control a terminal, break lines or turn the direction of text.
func isHarmful(r rune) bool {
	return 0x80 <= r && r <= 0x9f || 0x2028 <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069
}

// escapeLength returns the length of the escape sequence that b begins with; one that does not end takes all of b.
func escapeLength(b []byte) int {
	if len(b) < 2 {
		return len(b)
	}
	switch c := b[1]; {
	case c == '[':
		for i := 2; i < len(b); i++ {
			if b[i] >= 0x40 && b[i] <= 0x7e {
				return i + 1
			}
			if b[i] < ' ' {
				return i // broken off by a control character
			}
		}
		return len(b)
	case c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_':
		for i := 2; i < len(b); i++ {
			if b[i] == 0x07 {
				return i + 1
			}
			if b[i] == esc && i+1 < len(b) && b[i+1] == '\\' {
				return i + 2
			}
		}
		return len(b)
	case ' ' <= c && c <= '/':
		i := 2
		for i < len(b) && ' ' <= b[i] && b[i] <= '/' {
			i++
		}
		return min(i+1, len(b))
	case c < ' ' || c >= 0x7f:
		return 1
	}
	return 2
}

func isSGR(seq []byte) bool {
	return len(seq) >= 3 && seq[1] == '[' && seq[len(seq)-1] == 'm' &&
		len(bytes.Trim(seq[2:len(seq)-1], "0123456789;:")) == 0
}

// hasControl reports whether a line needs cleaning at all.
func hasControl(line []byte) bool {
	for _, c := range line {
		if c < ' ' && c != '\t' || c >= 0x7f {
			return true
		}
	}
	return false
}
