package reference

import (
	"fmt"
	"strings"
)

// Table returns the keywords as a table in Markdown: supported, how, and by which test.
func Table(all []Keyword) string {
	var b strings.Builder
	b.WriteString("| keyword | in | supported | how | test |\n|---|---|---|---|---|\n")
	for _, k := range all {
		how := k.Text
		if k.Local != "" {
			how += " **Here:** " + k.Local
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | `%s` |\n", k.Name, strings.Join(k.Where, ", "), supportWords[k.Support], strings.ReplaceAll(how, "|", `\|`), k.Test)
	}
	return b.String()
}

// supportWords are how the table and `explain` call the ways of support.
var supportWords = map[Support]string{Full: "yes", Simulated: "simulated", Named: "named only"}

// Explain returns what there is to say of a keyword, and the names of those below it.
func Explain(k *Keyword, below []Keyword) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  %s\n\n", k.Name, k.Text)
	fmt.Fprintf(&b, "  where      %s\n  value      %s\n  supported  %s\n", strings.Join(k.Where, ", "), k.Form, supportWords[k.Support])
	if k.Local != "" {
		fmt.Fprintf(&b, "  here       %s\n", k.Local)
	}
	if k.Example != "" {
		b.WriteString("\n  example\n")
		for line := range strings.Lines(k.Example) {
			b.WriteString("    " + line)
		}
	}
	if len(below) > 0 {
		b.WriteString("\n  below it\n")
		width := 0
		for _, sub := range below {
			width = max(width, len(sub.Name))
		}
		for _, sub := range below {
			fmt.Fprintf(&b, "    %-*s  %s\n", width, sub.Name, sub.Text)
		}
	}
	return b.String()
}
