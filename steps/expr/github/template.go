package github

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rungci/rung/steps/value"
)

const (
	opening = "${{"
	closing = "}}"
)

// Template is parsed text that may hold expressions. It never changes, so several goroutines may evaluate it at once.
type Template struct {
	parts []Part
}

// Part is a piece of a template: literal text, or an expression when Expr is set.
type Part struct {
	Text string
	Expr *Expr
	// Offset is where the part begins in the template's text, in characters; for an expression that is its ${{.
	Offset int
}

// Has reports whether the text holds expressions. Text without them stands for itself.
func Has(text string) bool { return strings.Contains(text, opening) }

// ParseTemplate reads a template. available says what its expressions may use; nil is all there is. Errors are of type *Error.
func ParseTemplate(text string, available *Available) (*Template, error) {
	t, err := templates.get(text, func() (*Template, error) { return parseTemplate(text) })
	if err != nil {
		return nil, err
	}
	for _, part := range t.parts {
		if part.Expr != nil {
			if err := part.Expr.check(available); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

func parseTemplate(source string) (*Template, error) {
	t := &Template{}
	counted, offset, length := 0, 0, len("format('')")
	add := func(start int, part Part) {
		offset += utf8.RuneCountInString(source[counted:start])
		counted, part.Offset = start, offset
		t.parts = append(t.parts, part)
	}
	for pos := 0; pos < len(source); {
		found := strings.Index(source[pos:], opening)
		if found < 0 {
			add(pos, Part{Text: source[pos:]})
			length += formatLength(source[pos:])
			break
		}
		open := pos + found
		if found > 0 {
			add(pos, Part{Text: source[pos:open]})
			length += formatLength(source[pos:open])
		}
		end := closingAt(source, open+len(opening))
		if end < 0 {
			return nil, newError(source, open, open+len(opening), "a string in it may lack its second '; and GitHub has no way to write ${{ as text but ${{ '${{' }}",
				"the expression is not closed: its }} is missing")
		}
		e, err := parse(source, open+len(opening), end)
		if err != nil {
			return nil, err
		}
		add(open, Part{Expr: e})
		length += len("{0}, ") + utf8.RuneCountInString(strings.TrimSpace(source[open+len(opening):end]))
		pos = end + len(closing)
	}
	if len(t.parts) > 1 && length > MaxLength {
		return nil, &Error{Offset: t.firstExpr().Offset, Length: len(opening), Hint: "pass the values by `env`, and write the text without expressions",
			Message: fmt.Sprintf("a text with expressions has at most %d characters, and this one comes to %d", MaxLength, length)}
	}
	return t, nil
}

// formatLength is how long a text is in the one expression that GitHub makes of a text with expressions: format('text {0}', expression).
func formatLength(text string) int {
	length := utf8.RuneCountInString(text)
	for _, doubled := range []string{"'", "{", "}"} {
		length += strings.Count(text, doubled)
	}
	return length
}

// firstExpr is the first part that is an expression.
func (t *Template) firstExpr() Part {
	for _, part := range t.parts {
		if part.Expr != nil {
			return part
		}
	}
	return Part{}
}

// closingAt returns where the expression that begins at the given place ends: at the first }} outside of a string, -1 if there is none.
func closingAt(source string, from int) int {
	inString := false
	for i := from; i < len(source); i++ {
		switch {
		case source[i] == '\'':
			inString = !inString
		case !inString && strings.HasPrefix(source[i:], closing):
			return i
		}
	}
	return -1
}

// Parts returns the template's literal texts and expressions in order; none is empty. The caller must not change them.
func (t *Template) Parts() []Part { return t.parts }

// Whole returns the expression when the template is nothing but one: then it is a value of any kind, else a text.
func (t *Template) Whole() (*Expr, bool) {
	if len(t.parts) != 1 || t.parts[0].Expr == nil {
		return nil, false
	}
	return t.parts[0].Expr, true
}

// Eval evaluates the template. One that is nothing but an expression yields its value, any other a text. Errors are of type *Error.
func (t *Template) Eval(s Scope) (value.Value, error) {
	if e, ok := t.Whole(); ok {
		return e.Eval(s)
	}
	var b strings.Builder
	sensitive := false
	for _, part := range t.parts {
		b.WriteString(part.Text)
		if part.Expr == nil {
			continue
		}
		v, err := part.Expr.Eval(s)
		if err != nil {
			return value.Value{}, err
		}
		b.WriteString(Text(v))
		sensitive = sensitive || isScalar(v) && v.Marked()
		if b.Len() > MaxText {
			return value.Value{}, &Error{Offset: part.Offset, Length: 1, Message: "the text grows beyond what an evaluation may make"}
		}
	}
	return value.OfString(b.String()).Mark(sensitive), nil
}

// Condition is the value of `if`. The zero Condition is none.
type Condition struct {
	// Expr is nil when the text is empty: then nothing but success is asked.
	Expr *Expr
	// Around is what is to be said of text around ${{ }}, nil where there is none: such a condition is a text, and holds whatever it says.
	Around *Error
}

// ParseCondition reads an `if`, whose ${{ }} may be left out. available says what it may use; nil is all there is. Errors are of type *Error.
func ParseCondition(text string, available *Available) (Condition, error) {
	if strings.TrimSpace(text) == "" {
		return Condition{}, nil
	}
	if !Has(text) {
		e, err := Parse(text, available)
		return Condition{Expr: e}, err
	}
	t, err := ParseTemplate(text, available)
	if err != nil {
		return Condition{}, err
	}
	if e, ok := t.Whole(); ok {
		return Condition{Expr: e}, nil
	}
	around := t.parts[0]
	if around.Expr != nil {
		around = t.parts[1]
	}
	hint := "write all of the condition inside of one ${{ }}, or none of it"
	if strings.TrimSpace(around.Text) == "" && around.Expr == nil {
		hint = "take away the space and the line breaks around ${{ }} (`if: >-` leaves them out), or the ${{ }}"
	}
	e, err := Parse(t.formatted(), available)
	return Condition{Expr: e, Around: &Error{Offset: around.Offset, Length: 1, Hint: hint,
		Message: "the text around ${{ }} makes the condition one that always holds"}}, err
}

// formatted writes the template as one expression, as GitHub does.
func (t *Template) formatted() string {
	var text, args strings.Builder
	quote, n := strings.NewReplacer("'", "''", "{", "{{", "}", "}}"), 0
	for _, part := range t.parts {
		if part.Expr == nil {
			text.WriteString(quote.Replace(part.Text))
			continue
		}
		fmt.Fprintf(&text, "{%d}", n)
		args.WriteString(", " + part.Expr.String())
		n++
	}
	return "format('" + text.String() + "'" + args.String() + ")"
}

// CallsStatus reports whether the condition calls a status function. One that does not holds only after success.
func (c Condition) CallsStatus() bool { return c.Expr != nil && c.Expr.CallsStatus() }

// Holds evaluates the condition, including what GitHub adds to it: success() && (…), where it calls no status function.
func (c Condition) Holds(s Scope) (bool, error) {
	if !c.CallsStatus() {
		success, err := Parse("success()", nil)
		if err != nil {
			return false, err
		}
		if v, err := success.Eval(s); err != nil || !Truthy(v) || c.Expr == nil {
			return err == nil && Truthy(v), err
		}
	}
	v, err := c.Expr.Eval(s)
	return err == nil && Truthy(v), err
}

// Plain is a text with a word as long as itself in the place of every expression, so that places stay the same, for whoever reads what is
// around them; false where it is nothing but one, and where it is not a template.
func Plain(text string) (string, bool) {
	if !Has(text) {
		return text, true
	}
	t, err := ParseTemplate(text, nil)
	if err != nil {
		return "", false
	}
	if _, whole := t.Whole(); whole {
		return "", false
	}
	var b strings.Builder
	for i, part := range t.parts {
		end := utf8.RuneCountInString(text)
		if i+1 < len(t.parts) {
			end = t.parts[i+1].Offset
		}
		if part.Expr != nil {
			b.WriteString(strings.Repeat("x", end-part.Offset))
		}
		b.WriteString(part.Text)
	}
	return b.String(), true
}
