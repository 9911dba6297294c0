package expr

import (
	"fmt"
	"math"
	"slices"

	"github.com/rungci/rung/steps/value"
)

// eval walks the path. It looks at nothing but the path: a container's own mark passes on to what is taken out of it, and
// the marks inside of it are found at their places.
func (n *path) eval(ev *evaluation) (value.Value, error) {
	v, err := n.root.eval(ev)
	if err != nil {
		return value.Value{}, err
	}
	for i, step := range n.steps {
		marked := v.Marked()
		if step.index == nil {
			v, err = ev.attribute(n, i, v, value.OfString(step.name))
		} else {
			var key value.Value
			if key, err = step.index.eval(ev); err == nil {
				marked = marked || key.Sensitive()
				v, err = ev.index(n, i, v, key)
			}
		}
		if err != nil {
			return value.Value{}, err
		}
		v = v.Mark(marked)
	}
	return v, nil
}

// index takes an item out of an array, or a field out of a struct.
func (ev *evaluation) index(n *path, i int, v, key value.Value) (value.Value, error) {
	if v.Kind() != value.Array {
		if v.Kind() == value.Struct && key.Kind() != value.String {
			return value.Value{}, ev.accessError(n, i, "str(value) makes a string", "a struct is indexed by a string, not %s", key.Kind().WithArticle())
		}
		return ev.attribute(n, i, v, key)
	}
	if key.Kind() != value.Number {
		return value.Value{}, ev.accessError(n, i, "", "an array is indexed by a number, not %s", key.Kind().WithArticle())
	}
	at, ok := key.Integer()
	switch {
	case !ok && key.Float() != math.Trunc(key.Float()):
		return value.Value{}, ev.accessError(n, i, "", "the index %s is not a whole number", quoteKey(key))
	case !ok || !at.IsInt64() || at.Sign() < 0 || at.Int64() >= int64(len(v.Items())):
		if v.Marked() {
			return value.Value{}, ev.accessError(n, i, "", "the index %s is out of range", quoteKey(key))
		}
		return value.Value{}, ev.accessError(n, i, "", "the index %s is out of range; %s has %s, counted from 0", quoteKey(key), ev.container(n, i), itemCount(len(v.Items())))
	}
	return v.Items()[at.Int64()], nil
}

// attribute takes a field out of a struct.
func (ev *evaluation) attribute(n *path, i int, v, key value.Value) (value.Value, error) {
	if field, ok := v.Fields()[key.Str()]; ok && key.Kind() == value.String {
		return field, nil
	}
	if i == 0 && v.Kind() == value.Struct && key.Kind() == value.String && ev.lenient(n) {
		return value.Value{}, nil
	}
	err := ev.missing(n, i, v, key)
	if key.Kind() == value.String && !key.Sensitive() {
		err.Missing = key.Str()
	}
	return value.Value{}, err
}

// missing is the error of a field that is not in v.
func (ev *evaluation) missing(n *path, i int, v, key value.Value) *Error {
	name := quoteKey(key)
	switch {
	case v.Kind() == value.Array:
		return ev.accessError(n, i, "the items of an array have numbers: a[0]", "%s was not found; %s is an array", name, ev.container(n, i))
	case v.Kind() != value.Struct:
		return ev.accessError(n, i, "", "%s was not found; %s is %s", name, ev.container(n, i), v.Kind().WithArticle())
	case v.Marked():
		return ev.accessError(n, i, "", "%s was not found", name) // the names it has are sensitive too
	case len(v.Fields()) == 0:
		return ev.accessError(n, i, "", "%s was not found; %s is empty", name, ev.container(n, i))
	}
	names := v.Keys()
	hint := ""
	if !key.Sensitive() {
		hint = didYouMean(key.Str(), names)
	}
	return ev.accessError(n, i, hint, "%s was not found; %s has %s", name, ev.container(n, i), listNames(names))
}

// lenient reports whether the scope takes a missing field of the path's root for null.
func (ev *evaluation) lenient(n *path) bool {
	root, ok := n.root.(*variable)
	scope, can := ev.scope.(LenientScope)
	return ok && can && scope.Lenient(root.name)
}

// container returns what the i-th step of the path goes into, as it was written.
func (ev *evaluation) container(n *path, i int) string {
	if i == 0 {
		return ev.excerpt(n.root)
	}
	return excerpt(ev.source[n.start:n.steps[i-1].end])
}

// accessError returns an error that points at the i-th step of the path and begins with the path up to there.
func (ev *evaluation) accessError(n *path, i int, hint, format string, args ...any) *Error {
	_, start := n.root.span()
	if i > 0 {
		start = n.steps[i-1].end
	}
	end := n.steps[i].end
	if n.steps[i].index == nil {
		start = end - len(n.steps[i].name) // not the dot, nor space around it
	}
	err := newError(ev.source, start, end, hint, format, args...)
	err.Message = excerpt(ev.source[n.start:end]) + ": " + err.Message
	return err
}

// unknownName returns an error about a top-level name that the scope does not have.
func (ev *evaluation) unknownName(n *variable) *Error {
	if slices.Contains(functions, n.name) {
		return ev.fail(n, "", "%s is a function: write %s(…)", n.name, n.name)
	}
	names := slices.Sorted(slices.Values(ev.scope.Names()))
	if len(names) == 0 {
		return ev.fail(n, "", "%s: %s was not found; no names are available here", excerpt(n.name), quote(n.name))
	}
	return ev.fail(n, didYouMean(n.name, names), "%s: %s was not found; available are %s", excerpt(n.name), quote(n.name), listNames(names))
}

// itemCount says how many items there are.
func itemCount(n int) string {
	if n == 1 {
		return "1 item"
	}
	return fmt.Sprintf("%d items", n)
}
