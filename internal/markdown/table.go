package markdown

import "strings"

// tableColumns returns how the columns of the table that the lines begin with are aligned ("", "left", "center" or "right"); nil when
// it is not a table.
func tableColumns(lines []string) []string {
	if len(lines) < 2 || !strings.Contains(lines[0], "|") || !strings.Contains(lines[1], "-") || strings.Trim(lines[1], " |:-") != "" {
		return nil
	}
	columns := cells(lines[1])
	for i, cell := range columns {
		dashes := strings.TrimSuffix(strings.TrimPrefix(cell, ":"), ":")
		if dashes == "" || strings.Trim(dashes, "-") != "" {
			return nil
		}
		left, right := cell[0] == ':', cell[len(cell)-1] == ':'
		switch {
		case left && right:
			columns[i] = "center"
		case left:
			columns[i] = "left"
		case right:
			columns[i] = "right"
		default:
			columns[i] = ""
		}
	}
	if len(columns) != len(cells(lines[0])) {
		return nil
	}
	return columns
}

// cells returns the texts of a row. A bar behind a backslash is part of the text.
func cells(row string) []string {
	row = strings.TrimPrefix(strings.TrimSpace(row), "|")
	var all []string
	var cell strings.Builder
	for i := 0; i < len(row); i++ {
		switch {
		case row[i] == '\\' && i+1 < len(row) && row[i+1] == '|':
			cell.WriteByte('|')
			i++
		case row[i] == '|':
			all = append(all, strings.TrimSpace(cell.String()))
			cell.Reset()
		default:
			cell.WriteByte(row[i])
		}
	}
	if rest := strings.TrimSpace(cell.String()); rest != "" || len(all) == 0 {
		all = append(all, rest)
	}
	return all
}

// table renders the table that the lines begin with, and returns how many lines it takes; 0 when there is none.
func (r *renderer) table(lines []string) int {
	columns := tableColumns(lines)
	if columns == nil {
		return 0
	}
	r.out.WriteString("<table>\n<thead>\n")
	r.row("th", columns, cells(lines[0]))
	r.out.WriteString("</thead>\n<tbody>\n")
	n := 2
	for ; n < len(lines) && !interrupts(lines[n]); n++ {
		r.row("td", columns, cells(lines[n]))
	}
	r.out.WriteString("</tbody>\n</table>\n")
	return n
}

// row writes as many cells as there are columns.
func (r *renderer) row(tag string, columns, texts []string) {
	r.out.WriteString("<tr>")
	for i, align := range columns {
		r.out.WriteString("<" + tag)
		if align != "" {
			r.out.WriteString(` align="` + align + `"`)
		}
		r.out.WriteString(">")
		if i < len(texts) {
			r.out.WriteString(inline(texts[i], 0))
		}
		r.out.WriteString("</" + tag + ">")
	}
	r.out.WriteString("</tr>\n")
}
