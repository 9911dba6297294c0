package github

import (
	"fmt"
	"math"
	"strings"

	"github.com/rungci/rung/steps/value"
)

// signature says how a function may be called.
type signature struct {
	name        string // as GitHub's documentation spells it; upper and lower case are the same
	least, most int    // parameters
	odd         bool   // their number is
	run         bool   // it knows the run: a Scope provides it
}

// maxParameters is how many parameters a function takes that takes any number.
const maxParameters = 255

var signatures = []signature{
	{name: "case", least: 3, most: maxParameters, odd: true},
	{name: "contains", least: 2, most: 2},
	{name: "endsWith", least: 2, most: 2},
	{name: "format", least: 1, most: maxParameters},
	{name: "fromJSON", least: 1, most: 1},
	{name: "join", least: 1, most: 2},
	{name: "startsWith", least: 2, most: 2},
	{name: "toJSON", least: 1, most: 1},
	{name: "always", run: true},
	{name: "cancelled", run: true},
	{name: "failure", most: maxParameters, run: true}, // the condition of a job can name jobs
	{name: "success", most: maxParameters, run: true},
	{name: "hashFiles", least: 1, most: maxParameters, run: true},
}

var functionNames = func() (names []string) {
	for _, s := range signatures {
		names = append(names, s.name)
	}
	return names
}()

func signatureOf(name string) (signature, bool) {
	for _, s := range signatures {
		if strings.EqualFold(s.name, name) {
			return s, true
		}
	}
	return signature{}, false
}

// counts says how many parameters it takes.
func (s signature) counts() string {
	switch {
	case s.least == s.most:
		return fmt.Sprint(s.most)
	case s.most == maxParameters && s.least > 0:
		return fmt.Sprintf("%d or more", s.least)
	default:
		return fmt.Sprintf("%d to %d", s.least, s.most)
	}
}

func (ev *evaluation) call(n *node) (result, error) {
	switch n.text {
	case "case":
		return ev.choose(n)
	case "format":
		return ev.format(n)
	}
	args := make([]value.Value, len(n.args))
	for i, arg := range n.args {
		r, err := ev.eval(arg)
		if err != nil {
			return result{}, err
		}
		args[i] = r.Value
	}
	switch n.text {
	case "contains":
		return of(value.OfBool(contains(args[0], args[1]))), nil
	case "startsWith":
		return of(value.OfBool(isScalar(args[0]) && isScalar(args[1]) && strings.HasPrefix(fold(Text(args[0])), fold(Text(args[1]))))), nil
	case "endsWith":
		return of(value.OfBool(isScalar(args[0]) && isScalar(args[1]) && strings.HasSuffix(fold(Text(args[0])), fold(Text(args[1]))))), nil
	case "join":
		return ev.join(n, args)
	case "toJSON":
		var b strings.Builder
		writeJSON(&b, args[0], 0)
		return of(value.OfString(b.String()).Mark(args[0].Sensitive())), ev.grow(n, b.Len())
	case "fromJSON":
		return ev.fromJSON(n, args[0])
	}
	v, ok, err := ev.scope.Call(n.text, args)
	switch {
	case !ok:
		return result{}, ev.fail(n, "it tells about the steps of a job that runs", "the function %s cannot be used here", n.text)
	case err != nil:
		return result{}, ev.fail(n, "", "%s: %v", n.text, err)
	}
	return of(v), nil
}

// contains is a search in a text, or for an item of an array. An object contains nothing.
func contains(in, wanted value.Value) bool {
	if isScalar(in) {
		return isScalar(wanted) && strings.Contains(fold(Text(in)), fold(Text(wanted)))
	}
	for _, item := range in.Items() {
		if equal(wanted, item) {
			return true
		}
	}
	return false
}

// choose is case(condition, value, …, else). Only what is chosen is evaluated.
func (ev *evaluation) choose(n *node) (result, error) {
	last := len(n.args) - 1
	for i := 0; i < last; i += 2 {
		condition, err := ev.eval(n.args[i])
		switch {
		case err != nil:
			return result{}, err
		case condition.Kind() != value.Boolean:
			return result{}, ev.fail(n.args[i], "compare it, as in inputs.x == 'y'", "a condition of case must be true or false, not %s", kindName(condition.Value))
		case condition.Bool():
			return ev.eval(n.args[i+1])
		}
	}
	return ev.eval(n.args[last])
}

// kindName names the kind of a value in a sentence.
func kindName(v value.Value) string {
	if v.Kind() == value.Struct {
		return "an object"
	}
	return v.Kind().WithArticle()
}

// join puts a separator, by default a comma, between the items of an array. An object is nothing.
func (ev *evaluation) join(n *node, args []value.Value) (result, error) {
	list, separator := args[0], value.OfString(",")
	switch {
	case isScalar(list):
		return of(value.OfString(Text(list)).Mark(list.Marked())), nil
	case len(args) > 1 && isScalar(args[1]):
		separator = args[1]
	}
	var b strings.Builder
	sensitive := list.Marked() || separator.Marked()
	for i, item := range list.Items() {
		if i > 0 {
			b.WriteString(Text(separator))
		}
		b.WriteString(Text(item))
		sensitive = sensitive || isScalar(item) && item.Marked()
		if ev.made+b.Len() > MaxText {
			break
		}
	}
	return of(value.OfString(b.String()).Mark(sensitive)), ev.grow(n, b.Len())
}

func (ev *evaluation) fromJSON(n *node, text value.Value) (result, error) {
	v, err := value.ParseJSON([]byte(Text(text)))
	if err != nil {
		hint := ""
		switch {
		case text.IsNull() || text.Str() == "" && text.Kind() == value.String:
			hint = "what it reads is empty: the output or input may not be set"
		case !isScalar(text):
			hint = "it needs text, not " + kindName(text) + " already"
		}
		if text.Sensitive() {
			return result{}, ev.fail(n, hint, "fromJSON: the text is not JSON")
		}
		return result{}, ev.fail(n, hint, "fromJSON: the text is not JSON: %v", err)
	}
	return of(v.Mark(text.Marked())), nil
}

const jsonIndent = "  "

// writeJSON writes a value as GitHub does, with line breaks and spaces.
func writeJSON(b *strings.Builder, v value.Value, level int) {
	line := func(level int) { b.WriteString("\n" + strings.Repeat(jsonIndent, level)) }
	switch {
	case v.Kind() == value.Array && len(v.Items()) > 0:
		b.WriteByte('[')
		for i, item := range v.Items() {
			if i > 0 {
				b.WriteByte(',')
			}
			line(level + 1)
			writeJSON(b, item, level+1)
		}
		line(level)
		b.WriteByte(']')
	case v.Kind() == value.Struct && len(v.Fields()) > 0:
		b.WriteByte('{')
		for i, name := range v.Keys() {
			if i > 0 {
				b.WriteByte(',')
			}
			line(level + 1)
			b.Write(value.OfString(name).AppendJSON(nil))
			b.WriteString(": ")
			writeJSON(b, v.Fields()[name], level+1)
		}
		line(level)
		b.WriteByte('}')
	case v.Kind() == value.Number:
		b.WriteString(formatNumber(v.Float()))
	case v.Kind() == value.Array:
		b.WriteString("[]")
	case v.Kind() == value.Struct:
		b.WriteString("{}")
	default:
		b.Write(v.AppendJSON(nil))
	}
}

// plain returns the value without what no value of a step can be: infinity and NaN become text.
func plain(v value.Value) value.Value {
	if v.Kind() == value.Number && (math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0)) {
		return value.OfString(Text(v)).Mark(v.Marked())
	}
	return v
}
