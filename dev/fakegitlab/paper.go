package fakegitlab

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rungci/rung/internal/cleantext"
)

// columns is how wide terminals are: runners cannot be told, and make them as wide as this.
const columns = 80

// paper shows what is written for a terminal as a printer would: line after line. Within the last line the cursor moves and characters are erased, which is what
// shells do with what is typed. Colours, and what draws on the whole screen, are left out.
type paper struct {
	line  []rune // the last one, without its end
	at    int    // where the next character is written
	state state
	given string // the parameters of a control sequence
	cut   []byte // the beginning of a character
}

// state is what the next character belongs to.
type state int

const (
	text     state = iota
	escaped        // what follows ESC
	sequence       // a control sequence: ESC [ …
	message        // a text for the terminal itself, such as the title of its window: ESC ] …
	selector       // the one character that selects a character set: ESC ( …
)

// printed is what has changed on the paper.
type printed struct {
	Lines string `json:"lines"` // those that are complete, with their ends
	Last  string `json:"last"`  // all of the last one
}

// write writes a part of what is shown, which may end anywhere.
func (p *paper) write(data []byte) printed {
	var out strings.Builder
	data = append(p.cut, data...)
	for len(data) > 0 {
		if !utf8.FullRune(data) {
			break
		}
		r, size := utf8.DecodeRune(data)
		data = data[size:]
		p.next(&out, r)
	}
	p.cut = append([]byte(nil), data...)
	return printed{Lines: out.String(), Last: string(p.line)}
}

// next takes one character.
func (p *paper) next(out *strings.Builder, r rune) {
	switch {
	case r == '\x1b':
		p.state, p.given = escaped, ""
	case p.state == text:
		p.character(out, r)
	case r == '\n': // what is not ended hides no more than its line
		p.state = text
		p.character(out, r)
	case p.state == escaped:
		p.state = text
		switch {
		case r == '[':
			p.state = sequence
		case strings.ContainsRune("]PX^_", r):
			p.state = message
		case strings.ContainsRune("()*+-./#%", r):
			p.state = selector
		}
	case p.state == message && r != '\a':
	case p.state == sequence && r >= ' ' && r < '@':
		if len(p.given) < columns {
			p.given += string(r)
		}
	case p.state == sequence:
		p.state = text
		p.control(r)
	default:
		p.state = text
	}
}

// character writes a character, or does what it stands for.
func (p *paper) character(out *strings.Builder, r rune) {
	switch {
	case r == '\n':
		p.newLine(out)
	case r == '\r':
		p.at = 0
	case r == '\b':
		p.at = max(0, p.at-1)
	case r == '\t':
		p.at = min(p.at/8*8+8, columns-1)
		p.fill(p.at)
	case cleantext.Harmful(r):
	default:
		if p.at == columns {
			p.newLine(out)
		}
		p.fill(p.at + 1)
		p.line[p.at] = r
		p.at++
	}
}

func (p *paper) newLine(out *strings.Builder) {
	out.WriteString(strings.TrimRight(string(p.line), " ") + "\n")
	p.line, p.at = p.line[:0], 0
}

// fill makes the line at least n characters long.
func (p *paper) fill(n int) {
	for len(p.line) < n {
		p.line = append(p.line, ' ')
	}
}

// control does what a control sequence says, if that is about the last line.
func (p *paper) control(r rune) {
	given, _, _ := strings.Cut(p.given, ";")
	n, err := strconv.Atoi(given)
	if given != "" && err != nil && !errors.Is(err, strconv.ErrRange) { // one of a terminal's own
		return
	}
	some := min(max(n, 1), columns)
	end := min(p.at+some, max(p.at, len(p.line)))
	p.fill(p.at)
	switch r {
	case 'C':
		p.at = min(p.at+some, columns-1)
		p.fill(p.at)
	case 'D':
		p.at = max(0, p.at-some)
	case 'G':
		p.at = some - 1
		p.fill(p.at)
	case 'K', 'J':
		p.erase(r, n)
	case 'P':
		p.line = append(p.line[:p.at], p.line[end:]...)
	case 'X':
		for i := p.at; i < end; i++ {
			p.line[i] = ' '
		}
	case '@':
		moved := append([]rune(strings.Repeat(" ", some)), p.line[p.at:]...)
		p.line = append(p.line[:p.at], moved...)
		p.line = p.line[:min(len(p.line), columns)]
	}
}

// erase erases a part of the line: to its end, its beginning, or all of it.
func (p *paper) erase(r rune, part int) {
	switch {
	case part == 0:
		p.line = p.line[:p.at]
	case part == 1:
		for i := range min(p.at+1, len(p.line)) {
			p.line[i] = ' '
		}
	case r == 'J': // of the whole screen, before something else is drawn from its first line on
		p.line, p.at = p.line[:0], 0
	default:
		p.line = p.line[:0]
		p.fill(p.at)
	}
}
