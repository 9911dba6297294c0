package github

import (
	"strings"

	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/value"
)

// The functions of our language that GitHub's expressions become calls of. Each takes the expression's text.
const (
	TextFunction      = "github_text"  // the value as text, as GitHub puts it there
	ValueFunction     = "github_value" // the value itself
	ConditionFunction = "github_holds" // whether the value counts as true
)

// Call evaluates an expression for one of those functions.
func Call(function, source string, s Scope) (value.Value, error) {
	e, err := Parse(source, nil)
	if err != nil {
		return value.Value{}, err
	}
	v, err := e.Eval(s)
	switch {
	case err != nil:
		return value.Value{}, err
	case function == TextFunction:
		return value.OfString(Text(v)).Mark(isScalar(v) && v.Marked()), nil
	case function == ConditionFunction:
		return value.OfBool(Truthy(v)), nil
	default:
		return plain(v), nil
	}
}

// Quoted writes a call of one of those functions in our language.
func Quoted(function, source string) string { return function + "(" + quoted(source) + ")" }

// quoted writes a text as a string of our language.
func quoted(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}

// Field writes the template as one of our language: its texts, and a call for each of its expressions. renamed, when it is not nil,
// renames in paths of the expressions (see Expr.Rename).
func (t *Template) Field(renamed func(path []string)) string {
	var b strings.Builder
	for i, part := range t.parts {
		if part.Expr != nil {
			b.WriteString("${{ " + Quoted(TextFunction, part.Expr.renamed(renamed)) + " }}")
			continue
		}
		text := part.Text
		if rest := strings.TrimLeft(text, "}"); i > 0 && len(text)-len(rest) >= len(closing) { // our language takes it for a mistake
			b.WriteString("${{ " + quoted(text[:len(text)-len(rest)]) + " }}")
			text = rest
		}
		literal := strings.TrimRight(text, `\`)
		if i == len(t.parts)-1 {
			literal = text
		}
		b.WriteString(expr.Escape(literal))
		if literal != text { // before ${{ it would be an escape
			b.WriteString("${{ " + quoted(text[len(literal):]) + " }}")
		}
	}
	return b.String()
}

func (e *Expr) renamed(renamed func(path []string)) string {
	if renamed == nil {
		return e.String()
	}
	return e.Rename(renamed)
}

// ValueField is like Field, but that a template which is nothing but an expression keeps its value's kind.
func (t *Template) ValueField(renamed func(path []string)) string {
	if e, ok := t.Whole(); ok {
		return "${{ " + Quoted(ValueFunction, e.renamed(renamed)) + " }}"
	}
	return t.Field(renamed)
}

// Field writes the condition in our language, "" where there is none. It does not say that only success counts: see CallsStatus.
func (c Condition) Field(renamed func(path []string)) string {
	if c.Expr == nil {
		return ""
	}
	return Quoted(ConditionFunction, c.Expr.renamed(renamed))
}

// TemplateField reads a template and writes it as a template of our language that yields a text.
func TemplateField(text string, available *Available) (string, error) {
	t, err := ParseTemplate(text, available)
	if err != nil {
		return "", err
	}
	return t.Field(nil), nil
}

// ValueField reads a template and writes it as one of our language, which yields a value of any kind where it is nothing but an expression.
func ValueField(text string, available *Available) (string, error) {
	t, err := ParseTemplate(text, available)
	if err != nil {
		return "", err
	}
	return t.ValueField(nil), nil
}
