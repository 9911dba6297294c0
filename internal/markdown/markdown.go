// Package markdown renders GitHub's Markdown, as steps write it into their summaries, to HTML that is safe to show: nothing in it runs, nothing
// is fetched, and no tag or attribute is in it but those of a short list.
//
// It knows what summaries are made of: headings, paragraphs, lists, task lists, tables, quotes and alerts, code, emphasis, links, and the
// HTML that GitHub lets through. Images become links, unless they are part of the text (data:). It does not know link definitions and
// footnotes, which stay as they are written.
package markdown

import (
	"html"
	"strings"
	"unicode/utf8"
)

const (
	// maxNesting is how deep quotes, lists and links are in each other; what is deeper is text.
	maxNesting = 16
	// tabWidth is how many columns a tab stop has.
	tabWidth = 4
)

// HTML renders a text. The tags in the result are balanced, whatever the text is.
func HTML(source string) string {
	source = strings.ReplaceAll(strings.ToValidUTF8(source, "\uFFFD"), "\x00", "\uFFFD")
	source = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(source)
	lines := strings.Split(source, "\n")
	for i, line := range lines {
		lines[i] = expandTabs(line)
	}
	var r renderer
	r.blocks(lines, 0, false)
	return balance(r.out.String())
}

// expandTabs replaces the tabs that a line begins with.
func expandTabs(line string) string {
	column := 0
	for i := range len(line) {
		switch line[i] {
		case ' ':
			column++
		case '\t':
			column += tabWidth - column%tabWidth
		default:
			return strings.Repeat(" ", column) + line[i:]
		}
	}
	return ""
}

// renderer writes blocks.
type renderer struct{ out strings.Builder }

// blocks renders the lines of a document, a quote or an item. In a tight list, paragraphs have no tags.
func (r *renderer) blocks(lines []string, depth int, tight bool) {
	for i := 0; i < len(lines); {
		i += r.block(lines[i:], depth, tight)
	}
}

// block renders the block that the lines begin with, and returns how many lines it takes.
func (r *renderer) block(lines []string, depth int, tight bool) int {
	line := lines[0]
	deep := depth >= maxNesting
	switch {
	case line == "":
		return 1
	case indentOf(line) >= tabWidth:
		return r.indentedCode(lines)
	case isRule(line):
		r.out.WriteString("<hr>\n")
		return 1
	case heading(line) > 0:
		return r.heading(line)
	case fence(line) != "":
		return r.fencedCode(lines)
	case isQuote(line) && !deep:
		return r.quote(lines, depth)
	case markerOf(line).width > 0 && !deep:
		return r.list(lines, depth)
	case startsHTML(line):
		return r.html(lines)
	}
	if n := r.table(lines); n > 0 {
		return n
	}
	return r.paragraph(lines, tight)
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// interrupts reports whether a line ends the paragraph before it.
func interrupts(line string) bool {
	if line == "" || isRule(line) || heading(line) > 0 || fence(line) != "" || isQuote(line) || startsHTML(line) {
		return true
	}
	m := markerOf(line)
	return m.width > 0 && indentOf(line) < tabWidth && m.start <= 1 && len(line) > m.width
}

// isRule reports whether a line is at least three of "-", "*" or "_", and spaces.
func isRule(line string) bool {
	plain := strings.ReplaceAll(line, " ", "")
	return indentOf(line) < tabWidth && len(plain) >= 3 && strings.Contains("-*_", plain[:1]) && strings.Trim(plain, plain[:1]) == ""
}

// heading returns the level of a heading, 0 for any other line.
func heading(line string) int {
	text := strings.TrimLeft(line, " ")
	level := len(text) - len(strings.TrimLeft(text, "#"))
	if level > 6 || indentOf(line) >= tabWidth || level < len(text) && text[level] != ' ' && text[level] != '\t' {
		return 0
	}
	return level
}

func (r *renderer) heading(line string) int {
	level := heading(line)
	text := strings.TrimSpace(strings.TrimLeft(line, " ")[level:])
	if bare := strings.TrimRight(text, "#"); bare == "" || strings.HasSuffix(bare, " ") {
		text = strings.TrimSpace(bare)
	}
	r.element("h"+string(rune('0'+level)), inline(text, 0))
	return 1
}

// element writes one with content that is HTML already.
func (r *renderer) element(name, content string) {
	r.out.WriteString("<" + name + ">" + content + "</" + name + ">\n")
}

// fence returns the characters that a block of code begins with, "" for any other line.
func fence(line string) string {
	text := strings.TrimLeft(line, " ")
	if indentOf(line) >= tabWidth || !strings.HasPrefix(text, "```") && !strings.HasPrefix(text, "~~~") {
		return ""
	}
	rest := strings.TrimLeft(text, text[:1])
	if text[0] == '`' && strings.Contains(rest, "`") {
		return ""
	}
	return text[:len(text)-len(rest)]
}

func (r *renderer) fencedCode(lines []string) int {
	open, indent := fence(lines[0]), indentOf(lines[0])
	n := 1
	var code strings.Builder
	for ; n < len(lines); n++ {
		if end := fence(lines[n]); strings.HasPrefix(end, open) && strings.TrimSpace(lines[n]) == end {
			n++
			break
		}
		code.WriteString(lines[n][min(indent, indentOf(lines[n])):] + "\n")
	}
	r.element("pre", "<code>"+escape(code.String())+"</code>")
	return n
}

func (r *renderer) indentedCode(lines []string) int {
	n, end := 0, 0
	for ; n < len(lines) && (lines[n] == "" || indentOf(lines[n]) >= tabWidth); n++ {
		if lines[n] != "" {
			end = n + 1
		}
	}
	var code strings.Builder
	for _, line := range lines[:end] {
		code.WriteString(line[min(tabWidth, len(line)):] + "\n")
	}
	r.element("pre", "<code>"+escape(code.String())+"</code>")
	return end
}

func isQuote(line string) bool {
	return indentOf(line) < tabWidth && strings.HasPrefix(strings.TrimLeft(line, " "), ">")
}

// alerts are quotes of which the first line says what they are.
var alerts = map[string]string{"[!NOTE]": "Note", "[!TIP]": "Tip", "[!IMPORTANT]": "Important", "[!WARNING]": "Warning", "[!CAUTION]": "Caution"}

func (r *renderer) quote(lines []string, depth int) int {
	var inner []string
	n := 0
	for ; n < len(lines); n++ {
		line := lines[n]
		if isQuote(line) {
			text := strings.TrimLeft(line, " ")[1:]
			inner = append(inner, expandTabs(strings.TrimPrefix(text, " ")))
			continue
		}
		if interrupts(line) || inner[len(inner)-1] == "" { // else the paragraph goes on without its mark
			break
		}
		inner = append(inner, line)
	}
	r.out.WriteString("<blockquote>\n")
	if title := alerts[strings.ToUpper(strings.TrimSpace(inner[0]))]; title != "" {
		r.element("p", "<strong>"+title+"</strong>")
		inner = inner[1:]
	}
	r.blocks(inner, depth+1, false)
	r.out.WriteString("</blockquote>\n")
	return n
}

// paragraph takes the lines up to a blank one, or one that begins another block. A line below it may make it a heading.
func (r *renderer) paragraph(lines []string, tight bool) int {
	n := 1
	for ; n < len(lines); n++ {
		under := strings.TrimSpace(lines[n])
		if under != "" && indentOf(lines[n]) < tabWidth && (strings.Trim(under, "=") == "" || strings.Trim(under, "-") == "") {
			level := "h1"
			if under[0] == '-' {
				level = "h2"
			}
			r.element(level, inline(joined(lines[:n]), 0))
			return n + 1
		}
		if interrupts(lines[n]) || tableColumns(lines[n:]) != nil {
			break
		}
	}
	if text := inline(joined(lines[:n]), 0); tight {
		r.out.WriteString(text)
	} else {
		r.element("p", text)
	}
	return n
}

// joined is the text of a paragraph, with the spaces at its ends gone. Two spaces before a line end stay: they break the line.
func joined(lines []string) string {
	texts := make([]string, len(lines))
	for i, line := range lines {
		texts[i] = strings.TrimLeft(line, " ")
	}
	return strings.TrimRight(strings.Join(texts, "\n"), " ")
}

// escape makes HTML of text.
func escape(text string) string { return html.EscapeString(text) }

// lastRune and firstRune are what is on both sides of a delimiter; a space at the ends of the text.
func lastRune(text string) rune {
	if text == "" {
		return ' '
	}
	c, _ := utf8.DecodeLastRuneInString(text)
	return c
}

func firstRune(text string) rune {
	if text == "" {
		return ' '
	}
	c, _ := utf8.DecodeRuneInString(text)
	return c
}
