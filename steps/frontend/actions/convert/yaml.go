package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// The pieces of YAML that are written: a string, and these.
type (
	// raw is a scalar that is not a string, such as true.
	raw string
	// list holds items; an item that is a remark is a comment in the place of one.
	list   []any
	remark string
	// mapping holds its entries in the order in which they are written.
	mapping []entry
)

type entry struct {
	comments []string // above it
	key      string   // "" is the comments alone
	value    any
}

func (m *mapping) add(key string, value any, comments ...string) {
	*m = append(*m, entry{comments, key, value})
}

// remark adds comments without an entry.
func (m *mapping) remark(comments ...string) {
	if len(comments) > 0 {
		*m = append(*m, entry{comments: comments})
	}
}

// has reports whether there is an entry.
func (m mapping) has(key string) bool {
	return slices.ContainsFunc(m, func(e entry) bool { return e.key == key })
}

// empty reports whether there are no entries.
func (m mapping) empty() bool {
	return !slices.ContainsFunc(m, func(e entry) bool { return e.key != "" })
}

// maxFlow is how long a list on one line may be, in bytes.
const maxFlow = 100

// printer writes pieces in block style.
type printer struct{ strings.Builder }

func (p *printer) comment(text string, at int) {
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.Map(func(r rune) rune {
			if unicode.IsPrint(r) {
				return r
			}
			return ' '
		}, line)
		p.WriteString(strings.Repeat(" ", at) + strings.TrimRight("# "+line, " ") + "\n")
	}
}

// entries writes a map. Its first entry goes on with the line that is begun, if there is one.
func (p *printer) entries(m mapping, at int, begun bool) {
	for i, e := range m {
		if i > 0 && at == 0 {
			p.WriteByte('\n')
		}
		for _, c := range e.comments {
			p.comment(c, at)
		}
		if e.key == "" {
			continue
		}
		if i > 0 || !begun {
			p.WriteString(strings.Repeat(" ", at))
		}
		p.WriteString(line(e.key, false) + ":")
		p.value(e.value, at)
	}
}

// value writes what follows a key or a dash whose line is indented by at.
func (p *printer) value(v any, at int) {
	switch v := v.(type) {
	case raw:
		p.WriteString(" " + string(v) + "\n")
	case string:
		if !strings.Contains(v, "\n") || !canBeBlock(v) {
			p.WriteString(" " + line(v, false) + "\n")
			return
		}
		p.block(v, at+2)
	case list:
		p.list(v, at)
	case mapping:
		if v.empty() {
			p.WriteString(" {}\n")
			return
		}
		p.WriteByte('\n')
		p.entries(v, at+2, false)
	}
}

func (p *printer) list(l list, at int) {
	if flow, ok := flowOf(l); ok {
		p.WriteString(" " + flow + "\n")
		return
	}
	p.WriteByte('\n')
	for _, item := range l {
		if text, ok := item.(remark); ok {
			p.comment(string(text), at+2)
			continue
		}
		m, isMap := item.(mapping)
		if isMap && len(m) > 0 { // above the dash
			for _, c := range m[0].comments {
				p.comment(c, at+2)
			}
			m = slices.Clone(m)
			m[0].comments = nil
		}
		p.WriteString(strings.Repeat(" ", at+2) + "-")
		if isMap && !m.empty() {
			p.WriteByte(' ')
			p.entries(m, at+4, true)
			continue
		}
		p.value(item, at+2)
	}
}

// flowOf writes a short list of strings on one line.
func flowOf(l list) (string, bool) {
	parts := make([]string, 0, len(l))
	length := 0
	for _, item := range l {
		text, ok := item.(string)
		if !ok || strings.Contains(text, "\n") || strings.Contains(text, "${{") {
			return "", false
		}
		parts = append(parts, line(text, true))
		length += len(text) + 2
	}
	return "[" + strings.Join(parts, ", ") + "]", length <= maxFlow
}

func (p *printer) block(text string, at int) {
	p.WriteString(" |")
	if strings.ContainsAny(text[:1], " \n\t") {
		p.WriteByte('2')
	}
	body, ends := strings.CutSuffix(text, "\n")
	if !ends {
		p.WriteByte('-')
	}
	p.WriteByte('\n')
	for l := range strings.SplitSeq(body, "\n") {
		if l != "" {
			p.WriteString(strings.Repeat(" ", at) + l)
		}
		p.WriteByte('\n')
	}
}

// canBeBlock reports whether a text can be written line by line.
func canBeBlock(text string) bool {
	body, _ := strings.CutSuffix(text, "\n")
	return strings.TrimSpace(body[strings.LastIndexByte(body, '\n')+1:]) != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return r != '\n' && r != '\t' && (!unicode.IsPrint(r) || r == unicode.ReplacementChar)
	})
}

// line writes a string on one line: without quotes where every reader takes it for a string, else in those that need fewer escapes.
func line(text string, flow bool) string {
	if plain(text) && !(flow && strings.ContainsAny(text, ",[]{}")) {
		return text
	}
	if strings.ContainsAny(text, `"\`) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b) // a string of JSON is one of YAML
	e.SetEscapeHTML(false)
	_ = e.Encode(text)
	var out strings.Builder
	for _, r := range strings.TrimSuffix(b.String(), "\n") {
		switch {
		case unicode.IsPrint(r) && r != unicode.ReplacementChar:
			out.WriteRune(r)
		case r <= 0xFFFF:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			fmt.Fprintf(&out, `\U%08x`, r)
		}
	}
	return out.String()
}

// words are what some readers of YAML take for something else than a string.
var words = []string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}

func plain(text string) bool {
	if text == "" || strings.Contains(text, ": ") || strings.Contains(text, " #") || strings.HasSuffix(text, ":") || strings.HasSuffix(text, " ") ||
		slices.Contains(words, strings.ToLower(text)) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return false
	}
	if amount, unit, ok := strings.Cut(text, " "); ok && strings.Trim(amount, "0123456789") == "" && strings.Trim(unit, "adehinotuysm") == "" {
		return unit != ""
	}
	for _, prefix := range []string{"./", "../"} {
		text = strings.TrimPrefix(text, prefix)
	}
	return text != "" && (unicode.IsLetter([]rune(text)[0]) || text[0] == '_' || text[0] == '$')
}
