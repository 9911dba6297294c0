package ui

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rungci/rung/internal/cleantext"
)

// screen is a terminal that knows the sequences that the tty view sends, and no others. It wraps long lines, keeps what
// scrolls off, and wraps again when its width changes, as most terminals do.
type screen struct {
	width, height int
	rows          []screenRow // scrollback and screen
	y, x          int         // of the cursor; y counts from the first row ever
	hidden        bool        // the cursor
	noWrap        bool
	synced        bool
	writes        int
	problems      []string
}

type screenRow struct {
	cells   []rune // a wide character is followed by a zero
	wrapped bool   // goes on in the next row
}

func newScreen(width, height int) *screen {
	return &screen{width: width, height: height, rows: make([]screenRow, 1)}
}

func (s *screen) top() int { return max(0, len(s.rows)-s.height) }

func (s *screen) Write(p []byte) (int, error) {
	s.writes++
	for data := p; len(data) > 0; {
		if data[0] == 0x1b {
			data = data[s.sequence(data):]
			continue
		}
		r, n := utf8.DecodeRune(data)
		if r == utf8.RuneError && n == 1 {
			s.problem("not UTF-8: %q", data[:min(len(data), 8)])
		}
		s.put(r)
		data = data[n:]
	}
	return len(p), nil
}

func (s *screen) problem(format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

func (s *screen) put(r rune) {
	switch {
	case r == '\r':
		s.x = 0
	case r == '\n': // a terminal driver makes it \r\n
		s.down()
	case r == '\t':
		s.x = min(s.width-1, (s.x/8+1)*8)
	case r < ' ' || 0x7f <= r && r <= 0x9f:
		s.problem("control character %q", r)
	default:
		s.print(r)
	}
}

func (s *screen) down() {
	s.x = 0
	if s.y++; s.y == len(s.rows) {
		s.rows = append(s.rows, screenRow{})
	}
}

func (s *screen) print(r rune) {
	w := cellWidth(string(r))
	if w == 0 {
		return
	}
	if s.x+w > s.width {
		if s.noWrap {
			s.x = max(0, s.width-w)
		} else {
			s.rows[s.y].wrapped = true
			s.down()
		}
	}
	row := &s.rows[s.y]
	for len(row.cells) < s.x+w {
		row.cells = append(row.cells, ' ')
	}
	row.cells[s.x] = r
	if w == 2 {
		row.cells[s.x+1] = 0
	}
	s.x += w
}

// sequence obeys the escape sequence that data begins with and returns its length.
func (s *screen) sequence(data []byte) int {
	n := cleantext.EscapeLength(data)
	if n < 3 || data[1] != '[' {
		s.problem("unknown sequence %q", data[:n])
		return n
	}
	args, final := string(data[2:n-1]), data[n-1]
	switch {
	case final == 'm':
	case final == 'A':
		count, err := strconv.Atoi(args)
		if err != nil || count < 1 {
			s.problem("cursor up by %q", args)
		}
		s.y = max(s.top(), s.y-count)
	case final == 'J' && args == "":
		s.rows = s.rows[:s.y+1]
		s.rows[s.y].cells = s.rows[s.y].cells[:min(s.x, len(s.rows[s.y].cells))]
		s.rows[s.y].wrapped = false
	case final == 'h' || final == 'l':
		set := final == 'h'
		switch args {
		case "?25":
			s.hidden = !set
		case "?7":
			s.noWrap = !set
		case "?2026":
			s.synced = set
		default:
			s.problem("unknown mode %q", args)
		}
	default:
		s.problem("unknown sequence %q", data[:n])
	}
	return n
}

// resize wraps everything anew and keeps the cursor on its character.
func (s *screen) resize(width, height int) {
	old, cursor := s.rows, s.y
	s.rows, s.width, s.height = nil, width, height
	for i := 0; i < len(old); {
		var cells []rune
		at := -1
		for more := true; more; i++ {
			if i == cursor {
				at = len(cells) + s.x
			}
			cells = append(cells, old[i].cells...)
			more = old[i].wrapped && i+1 < len(old)
		}
		first := len(s.rows)
		for len(cells) > width {
			s.rows = append(s.rows, screenRow{cells[:width:width], true})
			cells = cells[width:]
		}
		s.rows = append(s.rows, screenRow{cells: cells})
		if at >= 0 {
			s.y, s.x = min(first+at/width, len(s.rows)-1), at%width
		}
	}
}

// text returns all there is to see, with what has scrolled off above the line of "~".
func (s *screen) text() string {
	var b strings.Builder
	for i, row := range s.rows {
		if top := s.top(); i == top && top > 0 {
			b.WriteString("~~~\n")
		}
		line := strings.ReplaceAll(string(row.cells), "\x00", "")
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}
