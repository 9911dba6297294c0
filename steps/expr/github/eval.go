package github

import (
	"math"

	"github.com/rungci/rung/steps/value"
)

// Eval evaluates the expression. A nil scope has no contexts and no functions. Errors are of type *Error.
func (e *Expr) Eval(s Scope) (value.Value, error) {
	if s == nil {
		s = Values(nil)
	}
	r, err := (&evaluation{scope: s, source: e.source}).eval(e.root)
	return r.Value, err
}

// evaluation is one evaluation of one expression.
type evaluation struct {
	scope  Scope
	source string
	made   int // bytes of text
}

// result is a value on its way through an expression.
type result struct {
	value.Value
	// filtered is set when the value is what a filter found: an index of it is one of all its items.
	filtered bool
}

func of(v value.Value) result { return result{Value: v} }

// grow counts text that was made.
func (ev *evaluation) grow(n *node, bytes int) error {
	if ev.made += bytes; ev.made > MaxText {
		return ev.fail(n, "", "the expression makes more than %d bytes of text", MaxText)
	}
	return nil
}

func (ev *evaluation) fail(n *node, hint, format string, args ...any) error {
	return newError(ev.source, n.start, n.end, hint, format, args...)
}

func (ev *evaluation) eval(n *node) (result, error) {
	switch n.kind {
	case literalNode:
		return of(n.value), nil
	case contextNode:
		v, _ := ev.scope.Lookup(n.text)
		return of(v), nil
	case indexNode:
		return ev.index(n)
	case callNode:
		return ev.call(n)
	case notNode:
		r, err := ev.eval(n.args[0])
		return of(value.OfBool(!Truthy(r.Value))), err
	case compareNode:
		return ev.compare(n)
	default:
		return ev.chain(n)
	}
}

// chain is && or ||: the operand that decides it.
func (ev *evaluation) chain(n *node) (r result, err error) {
	for _, arg := range n.args {
		if r, err = ev.eval(arg); err != nil || Truthy(r.Value) == (n.kind == orNode) {
			break
		}
	}
	return r, err
}

func (ev *evaluation) compare(n *node) (result, error) {
	a, err := ev.eval(n.args[0])
	if err != nil {
		return result{}, err
	}
	b, err := ev.eval(n.args[1])
	if err != nil {
		return result{}, err
	}
	order, comparable := compare(a.Value, b.Value)
	ordered := comparable && a.Kind() != value.Array && a.Kind() != value.Struct
	holds := false
	switch n.text {
	case "==":
		holds = comparable && order == 0
	case "!=":
		holds = !comparable || order != 0
	case "<":
		holds = ordered && order < 0
	case "<=":
		holds = comparable && order <= 0
	case ">":
		holds = ordered && order > 0
	case ">=":
		holds = comparable && order >= 0
	}
	return of(value.OfBool(holds)), nil
}

// index is a field of an object, an item of an array, or all of them.
func (ev *evaluation) index(n *node) (result, error) {
	all := len(n.args) == 1
	var key value.Value
	if !all {
		r, err := ev.eval(n.args[1])
		if err != nil {
			return result{}, err
		}
		key = r.Value
		if finder, ok := ev.scope.(Finder); ok && n.args[0].kind == contextNode && isScalar(key) {
			if v, ok := finder.Find(n.args[0].text, Text(key)); ok {
				return of(v), nil
			}
		}
	}
	base, err := ev.eval(n.args[0])
	if err != nil {
		return result{}, err
	}
	if isScalar(base.Value) {
		if all {
			return result{value.OfArray(nil), true}, nil
		}
		return result{}, nil
	}
	switch {
	case base.filtered:
		var found []value.Value
		for _, item := range base.Items() {
			if all {
				found = append(found, items(item)...)
			} else if v, ok := child(item, key); ok {
				found = append(found, v)
			}
		}
		return result{value.OfArray(found).Mark(base.Marked()), true}, nil
	case all:
		return result{value.OfArray(items(base.Value)), true}, nil
	default:
		v, _ := child(base.Value, key)
		return of(v), nil
	}
}

// items are the items of an array or the fields of an object. A mark of the whole is one of each of them.
func items(v value.Value) []value.Value {
	found := append([]value.Value(nil), v.Items()...)
	for _, name := range v.Keys() {
		found = append(found, v.Fields()[name])
	}
	for i := range found {
		found[i] = found[i].Mark(v.Marked())
	}
	return found
}

// child is what an index finds in an array or an object.
func child(v, key value.Value) (found value.Value, ok bool) {
	switch {
	case v.Kind() == value.Struct && isScalar(key):
		found, ok = Field(v, Text(key))
	case v.Kind() == value.Array:
		if i := math.Floor(toNumber(key)); i >= 0 && i < float64(len(v.Items())) {
			found, ok = v.Items()[int(i)], true
		}
	}
	return found.Mark(v.Marked()), ok
}

// Field returns the field of an object with the name, without regard to case. It does not pass a mark of the whole on.
func Field(v value.Value, name string) (value.Value, bool) {
	if found, ok := v.Fields()[name]; ok {
		return found, true
	}
	folded, best := fold(name), ""
	var found value.Value
	for key, field := range v.Fields() {
		if len(key) <= 3*len(name) && (best == "" || key < best) && fold(key) == folded {
			best, found = key, field
		}
	}
	return found, best != ""
}

func isScalar(v value.Value) bool { return v.Kind() != value.Array && v.Kind() != value.Struct }
