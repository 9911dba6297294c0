package expr

import (
	"errors"

	"github.com/rungci/rung/steps/value"
)

// evaluation is one run of an expression.
type evaluation struct {
	scope  Scope
	source string
}

// fail returns an error about a node.
func (ev *evaluation) fail(n node, hint, format string, args ...any) *Error {
	start, end := n.span()
	return newError(ev.source, start, end, hint, format, args...)
}

// excerpt returns a node as it was written.
func (ev *evaluation) excerpt(n node) string {
	start, end := n.span()
	return excerpt(ev.source[start:end])
}

func (n *literal) eval(*evaluation) (value.Value, error) { return n.value, nil }

func (n *group) eval(ev *evaluation) (value.Value, error) { return n.inner.eval(ev) }

func (n *interpolation) eval(ev *evaluation) (value.Value, error) {
	var b textBuilder
	for _, p := range n.pieces {
		v := value.OfString(p.text)
		if p.inner != nil {
			var err error
			if v, err = p.inner.eval(ev); err != nil {
				return value.Value{}, err
			}
		}
		if !b.add(v) {
			return value.Value{}, ev.fail(n, "", tooMuchText, MaxText)
		}
	}
	return b.value(), nil
}

func (n *variable) eval(ev *evaluation) (value.Value, error) {
	if v, ok := ev.scope.Lookup(n.name); ok {
		return v, nil
	}
	return value.Value{}, ev.unknownName(n)
}

func (n *array) eval(ev *evaluation) (value.Value, error) {
	items := make([]value.Value, len(n.items))
	for i, item := range n.items {
		v, err := item.eval(ev)
		if err != nil {
			return value.Value{}, err
		}
		items[i] = v
	}
	return value.OfArray(items), nil
}

func (n *object) eval(ev *evaluation) (value.Value, error) {
	fields := make(map[string]value.Value, len(n.fields))
	marked := false
	for _, f := range n.fields {
		key, err := f.key.eval(ev)
		if err != nil {
			return value.Value{}, err
		}
		if key.Kind() != value.String {
			return value.Value{}, ev.fail(f.key, "str(value) makes a string", "object keys must be strings, not %s", key.Kind().WithArticle())
		}
		if _, ok := fields[key.Str()]; ok {
			return value.Value{}, ev.fail(f.key, "", "the key %s is given twice", quoteKey(key))
		}
		marked = marked || key.Marked()
		if fields[key.Str()], err = f.value.eval(ev); err != nil {
			return value.Value{}, err
		}
	}
	return value.OfStruct(fields).Mark(marked), nil
}

// quoteKey returns a key as a message may show it.
func quoteKey(key value.Value) string {
	if key.Sensitive() {
		return "(sensitive)"
	}
	if key.Kind() == value.String {
		return quote(key.Str())
	}
	return excerpt(key.Text())
}

func (n *unary) eval(ev *evaluation) (value.Value, error) {
	v, err := n.operand.eval(ev)
	if err != nil {
		return value.Value{}, err
	}
	if n.operator == "!" {
		return value.OfBool(!v.Truthy()).Mark(v.Marked()), nil
	}
	if v.Kind() != value.Number {
		hint := ""
		if v.Kind() == value.String {
			hint = "num(text) makes a number"
		}
		return value.Value{}, ev.fail(n, hint, "%q takes a number, not %s", n.operator, v.Kind().WithArticle())
	}
	if n.operator == "-" {
		return negate(v).Mark(v.Marked()), nil
	}
	return v, nil
}

func (n *chain) eval(ev *evaluation) (value.Value, error) {
	v, err := n.first.eval(ev)
	if err != nil {
		return value.Value{}, ev.dashHint(n, 0, err)
	}
	for i, t := range n.rest {
		switch t.operator {
		case "&&", "||":
			if v.Truthy() == (t.operator == "||") {
				return v, nil // the other operands of the chain cannot change it
			}
			right, err := t.operand.eval(ev)
			if err != nil {
				return value.Value{}, err
			}
			// Which operand comes out tells something about the left one, so its mark passes on. Whether a container is
			// empty tells nothing about the values in it: only its own mark counts.
			v = right.Mark(v.Marked())
			continue
		case "+":
			if v.Kind() == value.String {
				return n.concatenate(ev, v, i)
			}
		}
		right, err := t.operand.eval(ev)
		if err != nil {
			return value.Value{}, ev.dashHint(n, i, err)
		}
		if v, err = ev.binary(n, t, v, right); err != nil {
			return value.Value{}, err
		}
	}
	return v, nil
}

// concatenate joins v and the operands from the i-th on, all of which must be strings: nothing else can follow a string. It
// builds the text once, as a long chain would otherwise copy it for every operand.
func (n *chain) concatenate(ev *evaluation, v value.Value, i int) (value.Value, error) {
	var b textBuilder
	b.add(v)
	for ; i < len(n.rest); i++ {
		t := n.rest[i]
		right, err := t.operand.eval(ev)
		if err != nil {
			return value.Value{}, ev.dashHint(n, i, err)
		}
		if t.operator != "+" || right.Kind() != value.String {
			return value.Value{}, ev.mismatch(n, t, value.String, right.Kind())
		}
		if !b.add(right) {
			return value.Value{}, ev.fail(n, "", tooMuchText, MaxText)
		}
	}
	return b.value(), nil
}

// binary applies an arithmetic or comparison operator.
func (ev *evaluation) binary(n *chain, t term, a, b value.Value) (value.Value, error) {
	if precedence[t.operator] == precedence["=="] {
		return value.OfBool(compare(t.operator, a, b)).Mark(a.Sensitive() || b.Sensitive()), nil
	}
	if a.Kind() != value.Number || b.Kind() != value.Number {
		return value.Value{}, ev.mismatch(n, t, a.Kind(), b.Kind())
	}
	result, err := calculate(t.operator, a, b)
	if err != nil {
		start, _ := n.span()
		_, end := t.operand.span()
		return value.Value{}, newError(ev.source, start, end, "", "%s: %s", excerpt(ev.source[start:end]), err.Error())
	}
	return result.Mark(a.Marked() || b.Marked()), nil
}

// compare applies a comparison operator. Values of different kinds are never equal, and are ordered by kind.
func compare(operator string, a, b value.Value) bool {
	switch operator {
	case "==":
		return value.Equal(a, b)
	case "!=":
		return !value.Equal(a, b)
	}
	order := value.Compare(a, b)
	switch operator {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	default:
		return order >= 0
	}
}

// mismatch returns an error about operands of the wrong kinds.
func (ev *evaluation) mismatch(n *chain, t term, a, b value.Kind) *Error {
	start, _ := n.span()
	_, end := t.operand.span()
	hint := ""
	switch {
	case t.operator == "+" && (a == value.String || b == value.String):
		hint = "str(value) makes a string, num(text) a number"
	case a == value.String || b == value.String:
		hint = "num(text) makes a number"
	}
	takes := "two numbers"
	if t.operator == "+" {
		takes = "two numbers or two strings"
	}
	return newError(ev.source, start, end, hint, "%q takes %s, not %s and %s", t.operator, takes, a.WithArticle(), b.WithArticle())
}

// dashHint helps with names that hold a dash: a.b-c is a subtraction. It looks at the i-th operator of the chain, an operand
// of which could not be evaluated.
func (ev *evaluation) dashHint(n *chain, i int, err error) error {
	var e *Error
	position := n.rest[i].position
	start, _ := n.rest[i].operand.span()
	tight := position > 0 && nameLength("_"+ev.source[position-1:position]) == 2 && start == position+1
	if tight && n.rest[i].operator == "-" && nameLength(ev.source[start:]) > 0 && errors.As(err, &e) && e.Hint == "" {
		e.Hint = `"-" subtracts; write a key with a dash in brackets: a["b-c"]`
	}
	return err
}
