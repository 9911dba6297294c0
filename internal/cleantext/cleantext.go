// Package cleantext makes untrusted text safe to show on a terminal: a character that would do anything but appear is shown as its code
// point, so that it neither acts nor hides.
package cleantext

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Line makes text fit for one line: line ends and tabs become spaces, and the rest is as Text makes it.
func Line(s string) string {
	if isPlain(s) {
		return s
	}
	return Text(lineEnds.Replace(s))
}

var lineEnds = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\t", " ")

// Text keeps line ends and tabs. Control characters (C0, C1, DEL), what turns the direction of text around, what has no width, and
// bytes that are not UTF-8 are shown as \x1b or \u202e.
func Text(s string) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r == utf8.RuneError && n == 1, r < ' ', r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case Harmful(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// Harmful reports the characters that do more than show themselves: controls, line ends of Unicode, what turns the direction of text
// around, and what is not seen.
func Harmful(r rune) bool {
	switch {
	case r < ' ', 0x7f <= r && r <= 0x9f:
		return true
	case r == 0xad, r == 0x61c, r == 0x180e, r == 0xfeff:
		return true
	case 0x200b <= r && r <= 0x200f, 0x2028 <= r && r <= 0x202e, 0x2060 <= r && r <= 0x206f:
		return true
	case 0xfff9 <= r && r <= 0xfffb, 0xe0000 <= r && r <= 0xe007f:
		return true
	}
	return false
}

// JSON escapes what is Harmful in the strings of a JSON text, which means the same then. Controls of ASCII are escaped in JSON already.
func JSON(text []byte) []byte {
	return escaped(text, func(b *bytes.Buffer, r rune) {
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(b, `\u%04x`, unit)
		}
	})
}

// YAML does the same with a YAML text in which strings that hold any of it are in double quotes.
func YAML(text []byte) []byte {
	return escaped(text, func(b *bytes.Buffer, r rune) {
		if r <= math.MaxUint16 {
			fmt.Fprintf(b, `\u%04x`, r)
		} else {
			fmt.Fprintf(b, `\U%08X`, r)
		}
	})
}

// escaped is the text with what is Harmful in it written by escape.
func escaped(text []byte, escape func(*bytes.Buffer, rune)) []byte {
	if !bytes.ContainsFunc(text, isHarmfulInJSON) {
		return text
	}
	var b bytes.Buffer
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if isHarmfulInJSON(r) {
			escape(&b, r)
		} else {
			b.Write(text[:n])
		}
		text = text[n:]
	}
	return b.Bytes()
}

// JSONWriter writes a JSON text as JSON makes it.
type JSONWriter struct {
	W    io.Writer
	rest []byte // the beginning of a character
}

// Write implements io.Writer.
func (w *JSONWriter) Write(p []byte) (int, error) {
	text := append(w.rest, p...)
	end := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if at := len(text) - back; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				end = at
			}
			break
		}
	}
	_, err := w.W.Write(JSON(text[:end]))
	w.rest = append([]byte(nil), text[end:]...)
	return len(p), err
}

func isHarmfulInJSON(r rune) bool { return r >= 0x7f && Harmful(r) }

// isPlain reports whether s is printable ASCII all through, which is nearly always so.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
