package ui

import (
	"bytes"

	"github.com/rungci/rung/internal/cleantext"
)

const (
	// tailBytes bounds what is kept of a running step's output. At least half of it is always the very end.
	tailBytes = 64 << 10
	// tailLines bounds how many lines of it are ever shown.
	tailLines = 200
	// tailLineBytes bounds how much of one kept line is shown.
	tailLineBytes = 1000
)

// tail keeps the end of a stream. It copies no more than its own size of each piece it is given.
type tail struct {
	buf  []byte
	lost bool // something before buf is gone
}

func (t *tail) write(data []byte) {
	const keep = tailBytes / 2
	if len(t.buf)+len(data) > tailBytes {
		t.lost = true
		if len(data) >= keep {
			t.buf, data = t.buf[:0], data[len(data)-keep:]
		} else if len(t.buf) > keep {
			t.buf = t.buf[:copy(t.buf, t.buf[len(t.buf)-keep:])]
		}
	}
	t.buf = append(t.buf, data...)
}

// last returns at most n lines from the end, cleaned, and whether these are all lines there were.
func (t *tail) last(n int) (lines []string, all bool) {
	rest := bytes.TrimSuffix(t.buf, []byte("\n"))
	if len(rest) == 0 {
		return nil, !t.lost
	}
	for len(lines) < n {
		cut := bytes.LastIndexByte(rest, '\n')
		if cut < 0 && t.lost && len(lines) > 0 {
			break // only the end of this line is left
		}
		lines = append(lines, cleanTailLine(rest[cut+1:]))
		if cut < 0 {
			rest = nil
			break
		}
		rest = rest[:cut]
	}
	for i, j := 0, len(lines)-1; i < j; i, j = i+1, j-1 {
		lines[i], lines[j] = lines[j], lines[i]
	}
	return lines, !t.lost && rest == nil
}

func cleanTailLine(line []byte) string {
	line = lastOverwrite(line)
	if len(line) > tailLineBytes {
		return string(cleantext.AppendLine(nil, line[:tailLineBytes], false)) + "..."
	}
	return string(cleantext.AppendLine(nil, line, false))
}

// lastLine returns the last line that has anything in it, cleaned, looking at the very end only.
func (t *tail) lastLine() string {
	end := t.buf[max(0, len(t.buf)-4096):]
	for len(end) > 0 {
		end = bytes.TrimRight(end, "\r\n")
		cut := max(bytes.LastIndexByte(end, '\n'), bytes.LastIndexByte(end, '\r'))
		if text := cleanText(string(end[cut+1:])); text != "" {
			return text
		}
		end = end[:cut+1]
	}
	return ""
}
