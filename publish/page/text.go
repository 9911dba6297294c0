package page

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
)

// Text writes the page for a terminal.
func (p *Page) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", plain(p.Name))
	if p.Description != "" {
		for line := range strings.SplitSeq(p.Description, "\n") {
			fmt.Fprintf(&b, "  %s\n", plain(line))
		}
	}
	fmt.Fprintf(&b, "\n%s", indent(p.example()))
	section := func(title string, rows [][]string) {
		if len(rows) == 0 {
			return
		}
		fmt.Fprintf(&b, "\n%s\n", title)
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, row := range rows {
			for i := range row {
				row[i] = plain(row[i])
			}
			fmt.Fprintf(table, "  %s\n", strings.TrimRight(strings.Join(row, "\t"), "\t "))
		}
		_ = table.Flush()
	}
	var rows [][]string
	for _, in := range p.Inputs {
		rows = append(rows, []string{in.Name, kind(in.Type, in.Sensitive), strings.Trim(in.defaultCell(), "*`"), in.about()})
	}
	section("inputs", rows)
	rows = nil
	for _, out := range p.Outputs {
		rows = append(rows, []string{out.Name, kind(out.Type, out.Sensitive), out.Description})
	}
	if p.Delegates {
		rows = [][]string{{"those of another step, whatever they are"}}
	}
	section("outputs", rows)
	rows = nil
	for _, e := range p.Env {
		rows = append(rows, []string{"variable", e.Name, strings.ReplaceAll(e.need(), "`", ""), e.Description})
	}
	for _, s := range p.Secrets {
		rows = append(rows, []string{"secret", s.Name, s.need(), s.Description})
	}
	section("asks for", rows)
	rows = nil
	for _, ref := range p.Uses {
		rows = append(rows, []string{ref})
	}
	section("uses", rows)
	rows = nil
	for _, line := range p.identity() {
		rows = append(rows, []string{line[0], line[1]})
	}
	section("which one this is", rows)
	_, err := io.WriteString(w, b.String())
	return err
}

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n  ") + "\n"
}

// plain makes text of strangers safe to print: nothing in it can move the cursor.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}
