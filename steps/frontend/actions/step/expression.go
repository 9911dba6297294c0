package step

import (
	"errors"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	ghexpr "github.com/rungci/rung/steps/expr/github"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// opening begins an expression in a text.
const opening = "${{"

// HasExpression reports whether a text holds expressions.
func HasExpression(text string) bool { return ghexpr.Has(text) }

// Contexts are the contexts and functions that expressions of a key can use.
type Contexts = ghexpr.Available

// The contexts of keys of steps, as GitHub's table of context availability has them.
var (
	hashFiles = []string{"hashFiles"}

	// OfStep are those of the keys of a workflow's step, but for its condition.
	OfStep = &Contexts{
		Contexts:  []string{"github", "needs", "strategy", "matrix", "job", "runner", "env", "vars", "secrets", "steps", "inputs"},
		Functions: hashFiles,
	}
	// OfCondition are those of the condition of a workflow's step.
	OfCondition = &Contexts{
		Contexts:  []string{"github", "needs", "strategy", "matrix", "job", "runner", "env", "vars", "steps", "inputs"},
		Functions: append(hashFiles, ghexpr.StatusFunctions...),
	}
	ofComposite = &Contexts{
		Contexts:  []string{"github", "inputs", "strategy", "matrix", "steps", "job", "runner", "env"},
		Functions: hashFiles,
	}
	ofCompositeCondition = &Contexts{Contexts: ofComposite.Contexts, Functions: OfCondition.Functions}
)

func (r *Reader) contexts() *Contexts {
	if r.Composite {
		return ofComposite
	}
	return OfStep
}

func (r *Reader) conditionContexts() *Contexts {
	if r.Composite {
		return ofCompositeCondition
	}
	return OfCondition
}

// Template makes a field of a string that may hold expressions. Each of them becomes a call that yields its text.
func (t *Text) Template(n *yamlsource.Node, what string, c *Contexts) plan.Field {
	text, _ := t.Scalar(n, what)
	return t.field(n, text, func() (string, error) {
		parsed, err := ghexpr.ParseTemplate(text, c)
		if err != nil {
			return "", err
		}
		return parsed.Field(t.rename()), nil
	})
}

// Condition makes a field of an `if`, nil where it is empty, and says when the step is asked at all: whatever happened before, if the
// condition calls a function about that.
func (t *Text) Condition(n *yamlsource.Node, c *Contexts) (*plan.Field, plan.When) {
	if n.Kind == yamlsource.Boolean {
		return &plan.Field{Value: n.Value(), Span: n.Span}, ""
	}
	text, ok := t.Scalar(n, `"if"`)
	if !ok || strings.TrimSpace(text) == "" {
		return nil, ""
	}
	when := plan.When("")
	field := t.field(n, text, func() (string, error) {
		parsed, err := ghexpr.ParseCondition(text, c)
		if parsed.Around != nil && t.Strict {
			return "", parsed.Around
		}
		if parsed.CallsStatus() {
			when = plan.Always
		}
		return parsed.Field(t.rename()), err
	})
	return &field, when
}

// call makes a field of a text that must be nothing but an expression: a call of one of GitHub's functions in our language. edit, when it is
// not nil, changes the expression.
func (t *Text) call(function string, n *yamlsource.Node, what string, c *Contexts, edit func(source string) string) plan.Field {
	return t.field(n, n.Text, func() (string, error) {
		parsed, err := ghexpr.ParseTemplate(n.Text, c)
		if err != nil {
			return "", err
		}
		e, ok := parsed.Whole()
		if !ok {
			return "", &ghexpr.Error{Length: 1, Message: what + " must be one expression, without text around it"}
		}
		source := e.String()
		if rename := t.rename(); rename != nil {
			source = e.Rename(rename)
		}
		if edit != nil {
			source = edit(source)
		}
		return opening + " " + ghexpr.Quoted(function, source) + " }}", nil
	})
}

// field makes a field of a node's text, and reports why it cannot be made.
func (t *Text) field(n *yamlsource.Node, text string, write func() (string, error)) plan.Field {
	out := text
	if n.Kind.IsScalar() {
		made, err := write()
		if err == nil {
			out = made
		} else {
			t.wrong(n, err)
		}
	}
	return plan.Field{Value: value.OfString(out), Span: n.Span}
}

// wrong reports what is wrong with an expression in the text of a node, with its place.
func (t *Text) wrong(n *yamlsource.Node, err error) {
	e := &ghexpr.Error{Message: err.Error(), Length: 1}
	_ = errors.As(err, &e)
	place := n.Span
	if n.Kind == yamlsource.String {
		place = t.At(n, e.Offset, max(1, e.Length))
	}
	t.Report(place, e.Hint, "%s", e.Message)
}

// rename returns what makes expressions find the steps whose ids are not their names: steps.ID. It is nil where there are none.
func (t *Text) rename() func(path []string) {
	if len(t.renamed) == 0 {
		return nil
	}
	return func(path []string) {
		if len(path) < 2 || !strings.EqualFold(path[0], "steps") {
			return
		}
		if name, ok := t.renamed[strings.ToLower(path[1])]; ok {
			path[1] = name
		}
	}
}
