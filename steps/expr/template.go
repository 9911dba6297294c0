package expr

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rungci/rung/steps/value"
)

// Template is parsed text that may hold expressions. It never changes, so several goroutines may evaluate it at once.
type Template struct {
	parts []Part
}

// Part is a piece of a template: literal text, or an expression when Expr is set.
type Part struct {
	// Text is the literal text, with escapes undone.
	Text string
	Expr *Expr
	// Offset is where the part begins in the template's text, in characters; for an expression that is its ${{.
	Offset int
}

// Has reports whether the text contains "${{", escaped or not. Text without it stands for itself.
func Has(text string) bool { return strings.Contains(text, opening) }

// Escape returns the text that, as a template, yields exactly the given text.
func Escape(text string) string { return strings.ReplaceAll(text, opening, `\`+opening) }

// ParseTemplate reads a template. Its errors are of type *Error.
func ParseTemplate(text string) (*Template, error) {
	if !Has(text) {
		return &Template{parts: literalParts(text)}, nil
	}
	if t := parsed.get(text); t != nil {
		return t, nil
	}
	t, err := parseTemplate(text)
	if err != nil {
		return nil, err
	}
	parsed.put(text, t)
	return t, nil
}

func literalParts(text string) []Part {
	if text == "" {
		return nil
	}
	return []Part{{Text: text}}
}

// templateParser cuts a template into parts.
type templateParser struct {
	source  string
	parts   []Part
	text    strings.Builder // the literal text since the last expression
	from    int             // where that begins, in bytes
	counted int             // how far offset is counted, in bytes
	offset  int             // in characters
	braces  int             // opened in the literal text, and not closed
}

func parseTemplate(source string) (*Template, error) {
	p := &templateParser{source: source}
	for pos := 0; ; {
		found := strings.Index(source[pos:], opening)
		if found < 0 {
			p.literal(source[pos:])
			p.flush()
			return &Template{parts: p.parts}, nil
		}
		open := pos + found
		if open > pos && source[open-1] == '\\' {
			p.literal(source[pos : open-1])
			p.literal(opening)
			pos = open + len(opening)
			continue
		}
		p.literal(source[pos:open])
		p.flush()
		e, after, err := parseEmbedded(source, open)
		if err != nil {
			return nil, err
		}
		if p.braces == 0 && strings.HasPrefix(source[after:], closing) {
			return nil, newError(source, after, after+len(closing), `write ${{ "}}" }} for a literal }}`, "%s has an extra %q",
				excerpt(source[open:after+len(closing)]), closing)
		}
		p.parts = append(p.parts, Part{Expr: e, Offset: p.offsetOf(open)})
		p.from, pos = after, after
	}
}

func (p *templateParser) literal(text string) {
	p.text.WriteString(text)
	for i := range len(text) {
		switch text[i] {
		case '{':
			p.braces++
		case '}':
			p.braces = max(0, p.braces-1)
		}
	}
}

func (p *templateParser) flush() {
	if p.text.Len() > 0 {
		p.parts = append(p.parts, Part{Text: p.text.String(), Offset: p.offsetOf(p.from)})
		p.text.Reset()
	}
}

// offsetOf returns a position in characters. Positions only grow, so every character is counted once.
func (p *templateParser) offsetOf(position int) int {
	p.offset += utf8.RuneCountInString(p.source[p.counted:position])
	p.counted = position
	return p.offset
}

// Parts returns the template's literal texts and expressions in order; none is empty. The caller must not change them.
func (t *Template) Parts() []Part { return t.parts }

// Literal returns the text, with escapes undone, when the template holds no expression.
func (t *Template) Literal() (string, bool) {
	switch {
	case len(t.parts) == 0:
		return "", true
	case len(t.parts) == 1 && t.parts[0].Expr == nil:
		return t.parts[0].Text, true
	default:
		return "", false
	}
}

// Whole returns the expression when the template is nothing but one. Line breaks at its end do not count: YAML's block
// style (key: |) adds one.
func (t *Template) Whole() (*Expr, bool) {
	if len(t.parts) == 0 || t.parts[0].Expr == nil {
		return nil, false
	}
	if len(t.parts) == 1 || len(t.parts) == 2 && strings.Trim(t.parts[1].Text, "\r\n") == "" && t.parts[1].Expr == nil {
		return t.parts[0].Expr, true
	}
	return nil, false
}

// Eval evaluates the template. One that is nothing but an expression yields its value, of any kind; any other yields text.
// The line breaks that Whole passes over are kept behind a string and dropped behind any other value. Errors are of type
// *Error.
func (t *Template) Eval(s Scope) (value.Value, error) {
	if text, ok := t.Literal(); ok {
		return value.OfString(text), nil
	}
	if e, ok := t.Whole(); ok {
		v, err := e.Eval(s)
		if err != nil || len(t.parts) == 1 || v.Kind() != value.String {
			return v, err
		}
	}
	var b textBuilder
	for _, part := range t.parts {
		v := value.OfString(part.Text)
		if part.Expr != nil {
			var err error
			if v, err = part.Expr.Eval(s); err != nil {
				return value.Value{}, err
			}
		}
		if !b.add(v) {
			return value.Value{}, &Error{Offset: part.Offset, Length: 1, Message: fmt.Sprintf(tooMuchText, MaxText)}
		}
	}
	return b.value(), nil
}

// Literal is a text with a plain word in the place of every expression, for whoever reads what is around them; false where it is nothing but one.
func Literal(text string) (string, bool) {
	if !Has(text) {
		return text, true
	}
	tmpl, err := ParseTemplate(text)
	if err != nil {
		return "", false
	}
	if _, whole := tmpl.Whole(); whole {
		return "", false
	}
	var b strings.Builder
	for _, part := range tmpl.Parts() {
		if part.Expr != nil {
			b.WriteString("value")
		}
		b.WriteString(part.Text)
	}
	return b.String(), true
}
