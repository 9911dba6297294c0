package page

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/value"
)

// Markdown writes the page as a document: a title, an example of a call, and a table for each kind of thing.
func (p *Page) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", text(p.Name))
	if p.Description != "" {
		fmt.Fprintf(&b, "\n%s\n", text(p.Description))
	}
	fmt.Fprintf(&b, "\n```yaml\n%s```\n", p.example())
	p.tables(&b)
	if len(p.Uses) > 0 {
		b.WriteString("\n## Uses\n\n")
		for _, ref := range p.Uses {
			fmt.Fprintf(&b, "- %s\n", code(ref))
		}
	}
	b.WriteString("\n## Which one this is\n\n")
	for _, line := range p.identity() {
		shown := code(line[1])
		if line[1] == p.Does || line[1] == unsigned {
			shown = line[1]
		}
		fmt.Fprintf(&b, "- %s: %s\n", line[0], shown)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *Page) tables(b *strings.Builder) {
	if len(p.Inputs) > 0 {
		b.WriteString("\n## Inputs\n\n| name | type | default | |\n|---|---|---|---|\n")
		for _, in := range p.Inputs {
			fmt.Fprintf(b, "| %s | %s | %s | %s |\n", code(in.Name), kind(in.Type, in.Sensitive), in.defaultCell(), cell(in.about()))
		}
	}
	switch {
	case p.Delegates:
		b.WriteString("\n## Outputs\n\nThose of another step, whatever they are.\n")
	case len(p.Outputs) > 0:
		b.WriteString("\n## Outputs\n\n| name | type | |\n|---|---|---|\n")
		for _, out := range p.Outputs {
			fmt.Fprintf(b, "| %s | %s | %s |\n", code(out.Name), kind(out.Type, out.Sensitive), cell(out.Description))
		}
	}
	if len(p.Env)+len(p.Secrets) > 0 {
		b.WriteString("\n## Asks for\n\n| | name | | |\n|---|---|---|---|\n")
		for _, e := range p.Env {
			fmt.Fprintf(b, "| variable | %s | %s | %s |\n", code(e.Name), e.need(), cell(e.Description))
		}
		for _, s := range p.Secrets {
			fmt.Fprintf(b, "| secret | %s | %s | %s |\n", code(s.Name), s.need(), cell(s.Description))
		}
	}
}

func kind(k value.Kind, sensitive bool) string {
	if sensitive {
		return k.String() + ", sensitive"
	}
	return k.String()
}

func (in Input) defaultCell() string {
	switch {
	case in.Required:
		return "**required**"
	case in.Default == nil:
		return "(hidden)"
	default:
		return code(string(in.Default.AppendJSON(nil)))
	}
}

// about is the description, and what the value must be.
func (in Input) about() string {
	parts := []string{}
	if in.Description != "" {
		parts = append(parts, strings.TrimSuffix(strings.TrimSpace(in.Description), "."))
	}
	if len(in.Options) > 0 {
		options := []string{}
		for _, o := range in.Options {
			options = append(options, string(o.AppendJSON(nil)))
		}
		parts = append(parts, "One of "+strings.Join(options, ", "))
	}
	if in.Match != "" {
		parts = append(parts, "Matches "+in.Match)
	}
	return strings.Join(parts, ". ")
}

func (e EnvRequest) need() string {
	if e.Default != nil {
		return "default " + code(*e.Default)
	}
	return "required"
}

func (s Secret) need() string {
	if s.Optional {
		return "optional"
	}
	return "required"
}

// example is a call with everything that must be given.
func (p *Page) example() string {
	var b strings.Builder
	if action, ok := strings.CutPrefix(p.Reference, "action:"); ok {
		fmt.Fprintf(&b, "- action: %s\n", yamlText(action))
	} else {
		fmt.Fprintf(&b, "- step: %s\n", yamlText(p.Reference))
	}
	first := true
	for _, in := range p.Inputs {
		if in.Required {
			if first {
				b.WriteString("  inputs:\n")
				first = false
			}
			fmt.Fprintf(&b, "    %s: %s\n", in.Name, in.sample())
		}
	}
	names := []string{}
	for _, s := range p.Secrets {
		if !s.Optional {
			names = append(names, s.Name)
		}
	}
	if len(names) > 0 {
		fmt.Fprintf(&b, "  secrets: [%s]\n", strings.Join(names, ", "))
	}
	return b.String()
}

// sample is a value that the input would take.
func (in Input) sample() string {
	if len(in.Options) > 0 {
		return string(in.Options[0].AppendJSON(nil))
	}
	switch in.Type {
	case value.Number:
		return "0"
	case value.Boolean:
		return "false"
	case value.Array:
		return "[]"
	case value.Struct:
		return "{}"
	default:
		return "…"
	}
}

// unsigned is what is in the place of a signature where there is none.
const unsigned = "none"

// identity says exactly which component this is.
func (p *Page) identity() [][2]string {
	lines := [][2]string{{"definition", p.File}, {"does its work by", p.Does}, {"content digest", p.Digest}}
	if o := p.Origin; o != nil {
		from := o.URL
		if o.Rev != "" {
			from += "@" + o.Rev
		}
		lines = append(lines, [2]string{"from", from}, [2]string{"which is", o.Pin})
		if o.Path != "" {
			lines = append(lines, [2]string{"folder", o.Path})
		}
	}
	for _, s := range p.Signed {
		lines = append(lines, [2]string{"signature", s.Key + " (" + s.Status + ")"})
	}
	if len(p.Signed) == 0 {
		lines = append(lines, [2]string{"signature", unsigned})
	}
	return lines
}

// yamlText quotes what YAML could take for something else.
func yamlText(s string) string {
	if strings.ContainsAny(s, "#:'\"{}[]&*!|>%`,") || strings.Contains(s, " ") {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return s
}

// text is a description in Markdown: it cannot begin HTML, and lines keep their ends.
func text(s string) string { return strings.NewReplacer("<", "&lt;", "\r", "").Replace(s) }

// cell is a text in one cell of a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(text(strings.TrimSpace(s)))
}

// code is a text as it is, also in a cell.
func code(s string) string {
	s = strings.NewReplacer("|", `\|`, "\n", " ").Replace(s)
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}

// Catalog writes a list of pages that links to each: title, and by name where its page is.
func Catalog(w io.Writer, title string, pages []*Page, link func(*Page) string) error {
	sorted := slices.SortedFunc(slices.Values(pages), func(a, b *Page) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n| step | |\n|---|---|\n", text(title))
	for _, p := range sorted {
		summary, _, _ := strings.Cut(p.Description, "\n")
		fmt.Fprintf(&b, "| [%s](%s) | %s |\n", cell(p.Name), link(p), cell(summary))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
