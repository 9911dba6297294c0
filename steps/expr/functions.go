package expr

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rungci/rung/steps/value"
)

// functions are the names of all functions of the language. The last four tell about the run, so the scope provides them,
// where they mean something.
var functions = []string{"str", "num", "bool", "always", "success", "failure", "cancelled"}

var functionList = strings.Join(functions, ", ")

func (n *call) eval(ev *evaluation) (value.Value, error) {
	args := make([]value.Value, len(n.args))
	for i, arg := range n.args {
		v, err := arg.eval(ev)
		if err != nil {
			return value.Value{}, err
		}
		args[i] = v
	}
	switch n.name {
	case "str", "num", "bool":
		if len(args) != 1 {
			return value.Value{}, ev.fail(n, "", "%s takes one value, not %d", n.name, len(args))
		}
		return n.convert(ev, args[0])
	}
	result, ok, err := ev.scope.Call(n.name, args)
	switch {
	case !ok && slices.Contains(functions, n.name):
		return value.Value{}, ev.fail(n, "", "the function %q cannot be used here: it tells about the steps of a run", n.name)
	case !ok:
		return value.Value{}, ev.fail(n, didYouMean(n.name, functions), "there is no function %s; the functions are %s", quote(n.name), functionList)
	case err != nil:
		failed := ev.fail(n, "", "%s: %s", n.name, err.Error())
		failed.cause = err
		var own *Error
		if errors.As(err, &own) { // written for the user as it is; only the place is missing
			failed.Message, failed.Hint = own.Message, own.Hint
		}
		return value.Value{}, failed
	}
	for _, arg := range args {
		if !result.Marked() { // else the function has said for what
			result = result.Mark(arg.Sensitive())
		}
	}
	return result, nil
}

// convert is str, num or bool.
func (n *call) convert(ev *evaluation, v value.Value) (value.Value, error) {
	switch n.name {
	case "bool":
		return value.OfBool(v.Truthy()).Mark(v.Marked()), nil
	case "str":
		var b textBuilder
		if !b.add(v) {
			return value.Value{}, ev.fail(n, "", tooMuchText, MaxText)
		}
		return b.value(), nil
	}
	switch v.Kind() {
	case value.Number:
		return v, nil
	case value.String:
		text := strings.TrimSpace(v.Str())
		if anyNumber().MatchString(text) {
			if result, err := value.ParseNumber(text); err == nil {
				return result.Mark(v.Marked()), nil
			}
		}
		return value.Value{}, ev.fail(n, "", "num: the text %s is not a number", quoteKey(v))
	default:
		return value.Value{}, ev.fail(n, "", "num takes a string or a number, not %s", v.Kind().WithArticle())
	}
}

// anyNumber is what num reads: as data come from programs it takes a sign, leading zeros and a bare point too, and
// convert drops the space and line breaks around it.
var anyNumber = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)
})
