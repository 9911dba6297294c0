package cleantext

import (
	"bytes"
	"unicode/utf8"
)

const esc = 0x1b

// Plain makes text of a program fit for one line: line ends and tabs become spaces, and what Text shows as numbers is left out, with the escape
// sequences that it begins. It is for names and messages in a view of a run, which come from programs that colour what they say.
func Plain(s string) string {
	if isPlain(s) {
		return s
	}
	return string(AppendLine(nil, []byte(lineEnds.Replace(s)), false))
}

// AppendLine appends a line of a program's output without what Harmful reports and without escape sequences; tabs stay. With keepSGR the
// sequences that only set colours stay too, and are undone at the end of the line. A program's output is full of them, so that they are left out and not
// shown as numbers.
func AppendLine(dst, line []byte, keepSGR bool) []byte {
	colored := false
	for i := 0; i < len(line); {
		c := line[i]
		switch {
		case c == esc:
			n := EscapeLength(line[i:])
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
			if !Harmful(r) {
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

// EscapeLength returns the length of the escape sequence that b begins with; one that does not end takes all of b.
func EscapeLength(b []byte) int {
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
