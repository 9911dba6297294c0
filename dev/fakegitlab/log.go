package fakegitlab

import (
	"bytes"
	"html"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

var (
	// stamp begins the lines of a log with timestamps: when, of which stream, and whether it goes on with the line before.
	stamp = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z) [0-9a-f]{2}[OE][ +]`)
	// marker is what begins or ends a part of a log that folds.
	marker = regexp.MustCompile(`section_(start|end):\d+:([A-Za-z0-9_.-]+)(\[[^\]\r]*\])?\r\x1b\[0K`)
	// escape is a sequence that controls a terminal.
	escape = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])`)
)

// line is a line of a log.
type line struct {
	time  string // as it is written; empty where there are no timestamps
	text  string // with its colours
	marks []mark
}

// mark is the begin or the end of a section.
type mark struct {
	begins    bool
	name      string
	collapsed bool
}

// parseLine reads a line without its end.
func parseLine(text string) line {
	var l line
	if m := stamp.FindStringSubmatch(text); m != nil {
		l.time, text = m[1], text[len(m[0]):]
	}
	for _, m := range marker.FindAllStringSubmatch(text, -1) {
		l.marks = append(l.marks, mark{begins: m[1] == "start", name: m[2], collapsed: strings.Contains(m[3], "collapsed=true")})
	}
	text = strings.TrimSuffix(marker.ReplaceAllString(text, ""), "\r")
	if at := strings.LastIndexByte(text, '\r'); at >= 0 { // a terminal would show this much of it
		text = text[at+1:]
	}
	if len(l.marks) == 0 || escape.ReplaceAllString(text, "") != "" {
		l.text = text
	}
	return l
}

// Lines takes complete lines out of a log for a terminal: without timestamps, sections and anything but colours, and without those unless color
// is set. It returns how much of the log they are, in bytes.
func Lines(log []byte, color bool) (lines []string, read int) {
	for {
		end := bytes.IndexByte(log[read:], '\n')
		if end < 0 {
			return lines, read
		}
		l := parseLine(string(log[read : read+end]))
		read += end + 1
		if l.text == "" && len(l.marks) > 0 {
			continue
		}
		text := escape.ReplaceAllStringFunc(l.text, func(sequence string) string {
			if color && strings.HasSuffix(sequence, "m") && strings.HasPrefix(sequence, "\x1b[") {
				return sequence
			}
			return ""
		})
		lines = append(lines, strings.Map(func(r rune) rune {
			if unicode.IsControl(r) && r != '\t' && r != '\x1b' {
				return -1
			}
			return r
		}, text))
	}
}

// logHTML is a log as HTML, whose classes are those of style.css.
func logHTML(log []byte) string {
	var b strings.Builder
	var open []string
	var p painter
	headline := false // the next text is that of a section
	endHeadline := func() {
		if headline {
			b.WriteString("</summary>")
		}
		headline = false
	}
	for text := range strings.Lines(string(log)) {
		l := parseLine(strings.TrimSuffix(text, "\n"))
		for _, m := range l.marks {
			endHeadline()
			switch {
			case m.begins:
				b.WriteString("<details")
				if !m.collapsed {
					b.WriteString(" open")
				}
				b.WriteString("><summary>")
				open, headline = append(open, m.name), true
			case len(open) > 0 && open[len(open)-1] == m.name:
				open = open[:len(open)-1]
				b.WriteString("</details>")
			}
		}
		if l.text == "" && len(l.marks) > 0 {
			continue
		}
		b.WriteString(`<span class="line">`)
		if l.time != "" {
			b.WriteString(`<time datetime="` + l.time + `">` + l.time[len("2006-01-02T"):len("2006-01-02T15:04:05")] + `</time> `)
		}
		p.write(&b, l.text)
		b.WriteString("</span>\n")
		endHeadline()
	}
	endHeadline()
	for range open {
		b.WriteString("</details>")
	}
	return b.String()
}

// painter knows the colours that are on. A line begins with those that the line before ended with.
type painter struct {
	bold, faint, italic, underline bool
	color                          int // as in SGR, 30 to 37 and 90 to 97; 0 is none
}

// write writes text with its colours as spans.
func (p *painter) write(b *strings.Builder, text string) {
	for text != "" {
		at := escape.FindStringIndex(text)
		end := len(text)
		if at != nil {
			end = at[0]
		}
		if end > 0 {
			shown := html.EscapeString(strings.Map(func(r rune) rune {
				if unicode.IsControl(r) && r != '\t' {
					return unicode.ReplacementChar
				}
				return r
			}, text[:end]))
			if class := p.class(); class != "" {
				shown = `<span class="` + class + `">` + shown + `</span>`
			}
			b.WriteString(shown)
		}
		if at == nil {
			return
		}
		p.apply(text[at[0]:at[1]])
		text = text[at[1]:]
	}
}

func (p *painter) class() string {
	var out []string
	for _, c := range []struct {
		on   bool
		name string
	}{{p.bold, "b"}, {p.faint, "f"}, {p.italic, "i"}, {p.underline, "u"}, {p.color != 0, "c" + strconv.Itoa(p.color)}} {
		if c.on {
			out = append(out, c.name)
		}
	}
	return strings.Join(out, " ")
}

// apply changes the colours as a sequence says, if it is one for that.
func (p *painter) apply(sequence string) {
	body, ok := strings.CutSuffix(strings.TrimPrefix(sequence, "\x1b["), "m")
	if !ok {
		return
	}
	codes := strings.Split(body, ";")
	for i := 0; i < len(codes); i++ {
		n, _ := strconv.Atoi(codes[i]) // empty is 0
		switch {
		case n == 0:
			*p = painter{}
		case n == 1:
			p.bold = true
		case n == 2:
			p.faint = true
		case n == 3:
			p.italic = true
		case n == 4:
			p.underline = true
		case n == 22:
			p.bold, p.faint = false, false
		case n == 23:
			p.italic = false
		case n == 24:
			p.underline = false
		case n >= 30 && n <= 37 || n >= 90 && n <= 97:
			p.color = n
		case n == 39:
			p.color = 0
		case n == 38 || n == 48: // of 256 colours, or of all
			if i+1 < len(codes) && codes[i+1] == "5" {
				i += 2
			} else {
				i += 4
			}
		}
	}
}
