package keyword

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

// variableKind is what a variable may be in its place: where it is one for a person to choose, where a map, where only a text.
type variableKind uint8

const (
	globalVariable variableKind = iota
	jobVariable
	plainVariable // of rules, services
)

// keys are those of a variable that is written as a map.
func (k variableKind) keys() []string {
	if k == globalVariable {
		return []string{"value", "description", "options", "expand"}
	}
	return []string{"value", "expand"}
}

// variableReader reads `variables:`.
type variableReader struct {
	*values
}

// variables reads `variables:`. null is an empty value, as in GitLab.
func (r variableReader) variables(n config.Node, name string, kind variableKind) []Variable {
	if n.IsNull() {
		return nil
	}
	out := make([]Variable, 0, n.Len())
	for key, v := range r.named(n, name, "write NAME: value under it") {
		of := Variable{Variable: variable.Variable{Name: key.Text()}, Node: v}
		switch {
		case v.Kind() == yamlsource.Mapping && kind == plainVariable:
			r.report(v, "write its value alone: `expand` and `description` are for the variables of jobs and of the file", "`%s:%s` must be a string, not a map", name, shorten(key.Text()))
			continue
		case v.Kind() == yamlsource.Mapping:
			r.variableMap(v, name+":"+shorten(key.Text()), kind, &of)
		case v.Kind() == yamlsource.Sequence:
			r.report(v, "a variable is a single string: join the items", "`%s:%s` must be a string, not a list", name, shorten(key.Text()))
			continue
		default:
			of.Value = scalar(v)
		}
		if len(of.Value) > variable.MaxValue {
			r.report(v, "shorten it", "`%s:%s` is longer than %d bytes, which is the limit", name, shorten(key.Text()), variable.MaxValue)
		}
		out = append(out, of)
	}
	return out
}

func (r variableReader) variableMap(n config.Node, name string, kind variableKind, out *Variable) {
	var value, options config.Node
	for key, v := range r.fields(n, name, kind.keys()) {
		switch key {
		case "value":
			value = v
			if !v.Kind().IsScalar() {
				r.report(v, "write a string", "`%s:value` must be a string, not %s", name, v.Kind())
			}
			out.Value = scalar(v)
		case "description":
			out.Description = r.text(v, name+":description")
		case "options":
			options = v
			out.Options = r.texts(v, name+":options")
			if v.Kind() == yamlsource.Sequence && v.Len() == 0 {
				r.report(v, "list the values, or delete it", "`%s:options` is empty", name)
			}
		case "expand":
			if expand := r.flag(v, name+":expand"); expand != nil {
				out.Raw = !*expand
			}
		}
	}
	out.Variable.Description, out.Variable.Options = out.Description, out.Options
	if len(out.Options) == 0 || slices.Contains(out.Options, out.Value) && value.Exists() {
		return
	}
	if !value.Exists() {
		r.report(options, "add `value:` with the default choice", "`%s` has options and no value", name)
		return
	}
	r.report(value, "choose one of them, or add it to `options:`", "`%s:value` is %q, and that is not among the options", name, shorten(out.Value))
}

// scalar is the text of a value that becomes a string, as GitLab has it: a number is the decimal one in whatever way it is written, so that 3.10 is
// 3.1, and null is empty.
func scalar(n config.Node) string {
	switch n.Kind() {
	case yamlsource.Null:
		return ""
	case yamlsource.Number:
		if strings.ContainsAny(n.Text(), "eE") {
			break
		}
		if !strings.Contains(n.Text(), ".") {
			if i, ok := n.Value().Integer(); ok {
				return i.String()
			}
			break
		}
		// Beyond that, Ruby writes an exponent.
		const largest, smallest = 1e16, 1e-4
		if f := n.Value().Float(); math.Abs(f) < largest && (f == 0 || math.Abs(f) >= smallest) {
			text := strconv.FormatFloat(f, 'f', -1, 64)
			if !strings.Contains(text, ".") {
				text += ".0"
			}
			return text
		}
	}
	return n.Text()
}

// plain are the variables without their places.
func plain(of []Variable) []variable.Variable {
	if of == nil {
		return nil
	}
	out := make([]variable.Variable, len(of))
	for i, v := range of {
		out[i] = v.Variable
	}
	return out
}
