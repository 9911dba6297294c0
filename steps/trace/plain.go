package trace

import (
	"unicode/utf8"

	"github.com/rungci/rung/internal/cleantext"
)

// plainer takes out of a log what would do more to a terminal than show text: all control characters but line ends and
// tabs, and all escape sequences but, when colors is set, those that set colours. It works across calls.
type plainer struct {
	colors bool
	state  byte   // 0 text, 'e' behind ESC, '[' in a control sequence, ']' in a string, 's' in a string behind ESC, '(' in a charset
	seq    []byte // the control sequence so far
	lead   bool   // a byte that may begin a C1 control character was held back
}

// maxSequence bounds a control sequence, in bytes. What is longer is garbage.
const maxSequence = 64

// c1Lead is the first byte of the C1 control characters in UTF-8, and of the printable ones of Latin-1.
const c1Lead = 0xc2

// append appends the plain form of data to b.
func (p *plainer) append(b, data []byte) []byte {
	for _, c := range data {
		switch p.state {
		case 'e':
			p.state = 0
			switch c {
			case '[':
				p.state, p.seq = '[', p.seq[:0]
			case ']', 'P', 'X', '^', '_':
				p.state = ']'
			case '(', ')', '*', '+', '#', '%', ' ':
				p.state = '('
			}
		case '(':
			p.state = 0
		case '[':
			p.seq = append(p.seq, c)
			switch {
			case c >= '@' && c <= '~':
				p.state = 0
				if p.colors && c == 'm' {
					b = append(append(b, "\x1b["...), p.seq...)
				}
			case c < ' ' || c > '~' || len(p.seq) > maxSequence:
				p.state = 0
			}
		case ']':
			switch c {
			case 0x1b:
				p.state = 's'
			case 0x07, '\n':
				p.state = 0
			}
		case 's':
			p.state = ']'
			if c == '\\' {
				p.state = 0
			}
		default:
			if p.lead {
				p.lead = false
				if c >= 0x80 && c < 0xa0 { // C1: some terminals take U+009B for the beginning of a sequence
					continue
				}
				b = append(b, c1Lead)
			}
			switch {
			case c == c1Lead:
				p.lead = true
			case c == 0x1b:
				p.state = 'e'
			case c == '\n' || c == '\t' || c >= ' ' && c != 0x7f:
				b = append(b, c)
			}
		}
	}
	return b
}

// oneLine makes text safe to be in a line of a terminal.
func oneLine(s string) string { return cleantext.Line(s) }

// cut shortens text to a number of characters. A width of 0 is any.
func cut(s string, width int) string {
	if width <= 0 || utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:max(width-1, 0)]) + "…"
}
