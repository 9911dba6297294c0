package markdown

import (
	"strconv"
	"strings"
)

// marker is what an item of a list begins with.
type marker struct {
	kind  byte // '-', '+', '*', '.' or ')': items of one list have the same
	width int  // up to where the text of the item begins, in bytes; 0 is not a marker
	start int  // the number
}

// markerOf reads the marker at the beginning of a line.
func markerOf(line string) marker {
	indent := indentOf(line)
	text := line[indent:]
	if indent >= tabWidth || text == "" {
		return marker{}
	}
	m := marker{kind: text[0]}
	size := 1
	if !strings.ContainsRune("-+*", rune(text[0])) {
		digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
		if digits == 0 || digits > 9 || digits == len(text) || text[digits] != '.' && text[digits] != ')' {
			return marker{}
		}
		m.kind, size = text[digits], digits+1
		m.start, _ = strconv.Atoi(text[:digits])
	}
	rest := text[size:]
	spaces := indentOf(rest)
	switch {
	case rest != "" && rest[0] != ' ':
		return marker{}
	case spaces == len(rest):
		m.width = indent + size
	case spaces > tabWidth: // the text is code
		m.width = indent + size + 1
	default:
		m.width = indent + size + spaces
	}
	return m
}

// list takes the items that have the same kind of marker.
func (r *renderer) list(lines []string, depth int) int {
	first := markerOf(lines[0])
	var items [][]string
	n, loose := 0, false
	for n < len(lines) {
		m := markerOf(lines[n])
		if m.kind != first.kind || m.width == 0 || isRule(lines[n]) {
			break
		}
		item, size := itemOf(lines[n:], m.width)
		items = append(items, item)
		n += size
		blank := 0
		for n+blank < len(lines) && lines[n+blank] == "" {
			blank++
		}
		loose = loose || isLoose(item) || blank > 0 && n+blank < len(lines) && markerOf(lines[n+blank]).kind == first.kind
		n += blank
	}
	open, end := "<ul>", "</ul>"
	if first.kind == '.' || first.kind == ')' {
		open, end = "<ol>", "</ol>"
		if first.start != 1 {
			open = `<ol start="` + strconv.Itoa(first.start) + `">`
		}
	}
	r.out.WriteString(open + "\n")
	for _, item := range items {
		r.out.WriteString("<li>" + taskBox(item))
		r.blocks(item, depth+1, !loose)
		r.out.WriteString("</li>\n")
	}
	r.out.WriteString(end + "\n")
	return n
}

// itemOf returns the lines of an item without their indentation, and how many there are, blank ones at the end not counted.
func itemOf(lines []string, width int) (item []string, size int) {
	item = []string{lines[0][min(width, len(lines[0])):]}
	size = 1
	for n := 1; n < len(lines); n++ {
		line := lines[n]
		switch {
		case line == "":
			item = append(item, "")
			continue
		case indentOf(line) >= width:
			line = line[width:]
		case lines[n-1] == "" || interrupts(line) || markerOf(line).width > 0:
			return item[:size], size
		default: // the paragraph goes on without indentation
			line = strings.TrimLeft(line, " ")
		}
		item = append(item, line)
		size = n + 1
	}
	return item[:size], size
}

// isLoose reports whether there is a blank line between the blocks of an item.
func isLoose(item []string) bool {
	code := ""
	for i, line := range item {
		switch f := fence(line); {
		case code == "" && f != "":
			code = f
		case code != "" && strings.HasPrefix(f, code):
			code = ""
		case code == "" && line == "" && i+1 < len(item):
			return true
		}
	}
	return false
}

// taskBox takes the box of a task out of the first line of an item, and returns it as HTML.
func taskBox(item []string) string {
	for box, html := range map[string]string{"[ ] ": `<input type="checkbox" disabled> `, "[x] ": `<input type="checkbox" disabled checked> `} {
		if len(item[0]) > len(box) && strings.EqualFold(item[0][:len(box)], box) {
			item[0] = item[0][len(box):]
			return html
		}
	}
	return ""
}
