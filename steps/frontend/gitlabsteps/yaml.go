package gitlabsteps

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rungci/rung/steps/value"
)

// node is a piece of YAML that is to be written. Exactly one of its kinds is set; the zero node is null.
type node struct {
	scalar string // as it is written
	text   *string
	items  []node
	keys   []pair
	list   bool
	object bool
	// anchor is a name for others to repeat the map by, alias the name of the one that this map repeats, merge that of one whose
	// entries it has besides its own.
	anchor, alias, merge string
	env                  *sharedEnv
	// spaced puts empty lines between the items or entries.
	spaced bool
}

type pair struct {
	key   string
	value node
}

func textNode(text string) node      { return node{text: &text} }
func scalarNode(written string) node { return node{scalar: written} }
func boolNode(b bool) node           { return scalarNode(fmt.Sprint(b)) }

// add appends an entry to a map.
func (n *node) add(key string, v node) {
	n.object = true
	n.keys = append(n.keys, pair{key, v})
}

// addText appends an entry unless the text is empty.
func (n *node) addText(key, text string) {
	if text != "" {
		n.add(key, textNode(text))
	}
}

// valueNode is a value as YAML.
func valueNode(v value.Value) node {
	switch v.Kind() {
	case value.String:
		return textNode(v.Str())
	case value.Array:
		n := node{list: true}
		for _, item := range v.Items() {
			n.items = append(n.items, valueNode(item))
		}
		return n
	case value.Struct:
		n := node{object: true}
		for _, key := range slices.Sorted(maps.Keys(v.Fields())) {
			n.add(key, valueNode(v.Fields()[key]))
		}
		return n
	default:
		return scalarNode(string(v.AppendJSON(nil)))
	}
}

// indentStep is how far each level is indented.
const indentStep = 2

// printer writes nodes in block style.
type printer struct{ strings.Builder }

func (p *printer) indent(by int) { p.WriteString(strings.Repeat(" ", by)) }

// entries writes the entries of a map. The first one continues the line that is begun, if there is one.
func (p *printer) entries(n node, at int, begun bool) {
	if n.merge != "" {
		if !begun {
			p.indent(at)
		}
		p.WriteString("<<: *" + n.merge + "\n")
		begun = false
	}
	for i, e := range n.keys {
		if i > 0 && n.spaced {
			p.WriteByte('\n')
		}
		if i > 0 || !begun {
			p.indent(at)
		}
		p.WriteString(lineText(e.key) + ":")
		p.value(e.value, at)
	}
}

// value writes what follows the key of a map, or the dash of a list, whose lines are indented by at.
func (p *printer) value(n node, at int) {
	if n.anchor != "" {
		p.WriteString(" &" + n.anchor)
	}
	switch {
	case n.alias != "":
		p.WriteString(" *" + n.alias + "\n")
	case n.object && len(n.keys) == 0 && n.merge == "":
		p.WriteString(" {}\n")
	case n.list && len(n.items) == 0:
		p.WriteString(" []\n")
	case n.object:
		p.WriteByte('\n')
		p.entries(n, at+indentStep, false)
	case n.list:
		p.WriteByte('\n')
		for i, item := range n.items {
			if i > 0 && n.spaced {
				p.WriteByte('\n')
			}
			p.indent(at + indentStep)
			p.WriteByte('-')
			p.item(item, at+indentStep)
		}
	case n.text != nil && canBeBlock(*n.text):
		p.block(*n.text, at+indentStep)
	case n.text != nil:
		p.WriteString(" " + lineText(*n.text) + "\n")
	case n.scalar != "":
		p.WriteString(" " + n.scalar + "\n")
	default:
		p.WriteString(" null\n")
	}
}

// item writes an item of a list: a map begins on the line of the dash.
func (p *printer) item(n node, at int) {
	if n.object && n.anchor == "" && n.alias == "" && len(n.keys) > 0 {
		p.WriteByte(' ')
		p.entries(n, at+indentStep, true)
		return
	}
	p.value(n, at)
}

// block writes a text of several lines.
func (p *printer) block(text string, at int) {
	p.WriteString(" |")
	if strings.ContainsAny(text[:1], " \n\t") {
		fmt.Fprint(p, indentStep)
	}
	body, ends := strings.CutSuffix(text, "\n")
	if !ends {
		p.WriteByte('-')
	}
	p.WriteByte('\n')
	for line := range strings.SplitSeq(body, "\n") {
		if line != "" {
			p.indent(at)
			p.WriteString(line)
		}
		p.WriteByte('\n')
	}
}

// canBeBlock reports whether a text can be, and is better, written line by line.
func canBeBlock(text string) bool {
	body, _ := strings.CutSuffix(text, "\n")
	if !strings.Contains(text, "\n") || strings.TrimSpace(body[strings.LastIndexByte(body, '\n')+1:]) == "" {
		return false
	}
	for _, r := range text {
		if r != '\n' && r != '\t' && !printable(r) {
			return false
		}
	}
	return true
}

// printable reports whether a character can be used for itself.
func printable(r rune) bool { return unicode.IsPrint(r) && r != unicode.ReplacementChar }

// lineText writes a string on one line: without quotes where that is safe, else in those that need fewer escapes.
func lineText(text string) string {
	if plain(text) {
		return text
	}
	simple := true
	for _, r := range text {
		simple = simple && printable(r)
	}
	if simple && strings.ContainsAny(text, `"\`) {
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
	return doubleQuoted(text)
}

// plain reports whether a text is a string without quotes, whoever reads it.
func plain(text string) bool {
	if text == "" || strings.Contains(text, ": ") || strings.Contains(text, " #") || strings.HasSuffix(text, ":") || strings.HasSuffix(text, " ") {
		return false
	}
	switch strings.ToLower(text) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		return false
	}
	for _, r := range text {
		if !printable(r) {
			return false
		}
	}
	// "./steps", "../steps", ".go/" and "--prune", but not ".5", ".inf" and "---"
	body := strings.TrimLeft(text, "./-")
	switch before := text[:len(text)-len(body)]; {
	case before == "" || strings.HasSuffix(before, "/") && strings.Trim(before, "./") == "":
	case before != "." && before != "-" && before != "--":
		return false
	case strings.HasPrefix(strings.ToLower(body), "inf") || strings.HasPrefix(strings.ToLower(body), "nan"):
		return false
	}
	first, _ := utf8.DecodeRuneInString(body)
	return unicode.IsLetter(first) || first == '_' || first == '$'
}

func doubleQuoted(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case printable(r):
			b.WriteRune(r)
		case r <= 0xFF:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xFFFF:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
