package workflow

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	ghexpr "github.com/rungci/rung/steps/expr/github"
	"github.com/rungci/rung/steps/value"
)

func hasExpression(text string) bool { return ghexpr.Has(text) }

// isExpression reports whether a node is nothing but one expression, which can come to a value of any kind.
func isExpression(n *yamlsource.Node) bool {
	if n == nil || n.Kind != yamlsource.String || !hasExpression(n.Text) {
		return false
	}
	t, err := ghexpr.ParseTemplate(n.Text, nil)
	if err != nil {
		return true // which is reported where it is read
	}
	_, whole := t.Whole()
	return whole
}

// template checks the expressions of a value, also inside of lists and maps. It reports true, so that it can be used in a condition.
func (r *nodes) template(n *yamlsource.Node, a available) bool {
	switch {
	case n == nil:
	case n.Kind == yamlsource.String:
		if hasExpression(n.Text) {
			_, err := ghexpr.ParseTemplate(n.Text, a)
			r.mistake(n, err)
		}
	default:
		for _, item := range n.Items {
			r.template(item, a)
		}
		for _, e := range n.Entries {
			if hasExpression(e.Key.Text) {
				r.report(e.Key.Span, "write the name out, or make the whole map one expression with fromJSON()", "a key cannot be computed")
			}
			r.template(e.Value, a)
		}
	}
	return true
}

// text checks a string that may hold expressions.
func (r *nodes) text(n *yamlsource.Node, what string, a available) {
	if n == nil {
		return
	}
	if _, ok := r.scalar(n, what); ok {
		r.template(n, a)
	}
}

// condition checks an `if`.
func (r *nodes) condition(n *yamlsource.Node, a available) {
	if n == nil || n.Kind == yamlsource.Boolean || n.Kind == yamlsource.Number || n.Kind == yamlsource.Null {
		return
	}
	if text, ok := r.scalar(n, `"if"`); ok {
		_, err := ghexpr.ParseCondition(text, a)
		r.mistake(n, err)
	}
}

// mistake reports what is wrong with the text of a node.
func (r *nodes) mistake(n *yamlsource.Node, err error) {
	var wrong *ghexpr.Error
	switch {
	case err == nil:
	case errors.As(err, &wrong):
		r.report(r.source.At(n, wrong.Offset, wrong.Length), wrong.Hint, "%s", wrong.Message)
	default:
		r.report(n.Span, "", "%s", err)
	}
}

var (
	leadingZero = lazyregexp.New(`^[-+]?0[0-9]+$`)
)

// literal returns a node without expressions as GitHub reads it: 010 is ten, and 1_0 a string.
func literal(n *yamlsource.Node) value.Value {
	if n.Kind == yamlsource.Number {
		switch {
		case strings.Contains(n.Text, "_"):
			return value.OfString(n.Text)
		case leadingZero.MatchString(n.Text):
			digits := strings.TrimLeft(strings.TrimLeft(n.Text, "+-"), "0")
			if digits == "" {
				digits = "0"
			}
			if n.Text[0] == '-' {
				digits = "-" + digits
			}
			if v, err := value.ParseNumber(digits); err == nil {
				return v
			}
		}
	}
	return n.Value()
}

// formatText is how GitHub writes a value into text.
func formatText(v value.Value) string { return ghexpr.Text(v) }

// evaluation computes nodes with contexts, and collects what goes wrong.
type evaluation struct {
	w     *Workflow
	scope ghexpr.Scope
	list  diag.List
}

// evaluate begins an evaluation with contexts and no status functions.
func (w *Workflow) evaluate(c Contexts) *evaluation {
	return &evaluation{w: w, scope: ghexpr.Values(c)}
}

// evaluate begins an evaluation for a leg of the job.
func (j *Job) evaluate(leg *Leg, c Contexts) *evaluation { return j.workflow.evaluate(c.withLeg(leg)) }

// withLeg adds what a leg makes of the contexts.
func (c Contexts) withLeg(leg *Leg) Contexts {
	out := make(Contexts, len(c)+2)
	for name, v := range c {
		out[name] = v
	}
	if leg != nil {
		out["matrix"], out["strategy"] = leg.Matrix, leg.Strategy
	}
	return out
}

// err returns what went wrong as a diag.List.
func (ev *evaluation) err() error {
	ev.list.Sort()
	return ev.list.Err()
}

func (ev *evaluation) fail(place diag.Span, format string, args ...any) {
	ev.list = append(ev.list, ev.w.parsed.source.Diagnostic(place, "", fmt.Sprintf(format, args...)))
}

// value computes a node: what is nothing but an expression keeps its kind.
func (ev *evaluation) value(n *yamlsource.Node) value.Value {
	switch {
	case n == nil:
		return value.Value{}
	case n.Kind == yamlsource.String && hasExpression(n.Text):
		return ev.template(n)
	case n.Kind == yamlsource.Sequence:
		items := make([]value.Value, len(n.Items))
		for i, item := range n.Items {
			items[i] = ev.value(item)
		}
		return value.OfArray(items)
	case n.Kind == yamlsource.Mapping:
		fields := make(map[string]value.Value, len(n.Entries))
		for _, e := range n.Entries {
			fields[e.Key.Text] = ev.value(e.Value)
		}
		return value.OfStruct(fields)
	}
	return literal(n)
}

func (ev *evaluation) template(n *yamlsource.Node) value.Value {
	t, err := ghexpr.ParseTemplate(n.Text, nil)
	var v value.Value
	switch {
	case err != nil:
	case readsUnknown(t, ev.scope):
		return Unknown
	default:
		v, err = t.Eval(ev.scope)
	}
	var wrong *ghexpr.Error
	if errors.As(err, &wrong) {
		d := ev.w.parsed.source.Diagnostic(ev.w.parsed.source.At(n, wrong.Offset, wrong.Length), wrong.Hint, wrong.Message)
		ev.list = append(ev.list, d)
	} else if err != nil {
		ev.fail(n.Span, "%s", err)
	}
	return v
}

// text computes a string; it keeps the mark of one that is sensitive.
func (ev *evaluation) text(n *yamlsource.Node) value.Value {
	return textOf(ev.value(n))
}

// textOf is a value as a string, still sensitive when it was.
func textOf(v value.Value) value.Value { return value.OfString(formatText(v)).Mark(v.Sensitive()) }

// string computes a string that is shown to people, or names something.
func (ev *evaluation) string(n *yamlsource.Node) string { return ev.text(n).Str() }

// boolean computes true or false.
func (ev *evaluation) boolean(n *yamlsource.Node, what string) bool {
	v := ev.value(n)
	switch {
	case n == nil || v.Kind() == value.Boolean || IsUnknown(v.Str()):
		return v.Bool()
	case v.Kind() == value.String && (strings.EqualFold(v.Str(), "true") || strings.EqualFold(v.Str(), "false")):
		return strings.EqualFold(v.Str(), "true")
	}
	ev.unless(n, "%s must be true or false, not %s", what, shownValue(v))
	return false
}

// number computes a number above 0.
func (ev *evaluation) number(n *yamlsource.Node, what string) float64 {
	v := ev.value(n)
	number := v.Float()
	if v.Kind() == value.String {
		if f, err := strconv.ParseFloat(strings.TrimSpace(v.Str()), 64); err == nil {
			number = f
		}
	}
	if !(number > 0) && !IsUnknown(v.Str()) {
		ev.unless(n, "%s must be a number above 0, not %s", what, shownValue(v))
		return 0
	}
	return number
}

// unless fails where nothing else failed: what cannot be computed is wrong already.
func (ev *evaluation) unless(n *yamlsource.Node, format string, args ...any) {
	if len(ev.list) == 0 {
		ev.fail(n.Span, format, args...)
	}
}

// shownValue is a value for messages.
func shownValue(v value.Value) string {
	switch {
	case v.Sensitive():
		return "a secret"
	case IsUnknown(v.Str()):
		return "what only a run knows"
	case v.Kind() == value.String:
		return strconv.Quote(shorten(v.Str()))
	case v.Kind() == value.Number || v.Kind() == value.Boolean:
		return formatText(v)
	}
	return v.Kind().WithArticle()
}
