// Package actions compiles GitHub Actions to the baseline definition: action.yml files of JavaScript and composite actions.
//
// Reading is strict: every unknown key, wrong type and broken expression of a file is reported at once, each with its place.
// What this version cannot do (containers, pre and post, parts of the expression language) is reported too, so that nothing
// is silently left out. The package runs nothing, and reads no files but the text it is given.
//
// docs/actions.md says what is understood. Source of the format: GitHub's metadata syntax reference for actions.
package actions

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// Parse compiles the metadata file of an action. name is what diagnostics call the file. The error is a diag.List of all that
// is wrong with it.
func Parse(name string, data []byte) (*plan.Component, error) {
	source, err := yamlsource.Parse(name, data)
	if err != nil {
		return nil, err
	}
	p := &parser{source: source, names: names{inputs: map[string]string{}, steps: map[string]stepName{}}}
	component := p.file()
	if err := source.Err(); err != nil {
		return nil, err
	}
	return component, nil
}

// parser compiles one text. What is wrong is reported to source; the methods then return what they could make of the rest.
type parser struct {
	source *yamlsource.File
	names  names // what expressions can refer to, as far as it is read
}

func (p *parser) file() *plan.Component {
	if len(p.source.Documents) != 1 {
		p.report(diag.Span{File: p.source.Name, Line: 1, Column: 1, Length: 1}, "", "an action's file has one document, not %d", len(p.source.Documents))
		return nil
	}
	doc := p.source.Documents[0]
	if !p.object(doc, "the action", "name", "author", "description", "inputs", "outputs", "runs", "branding") {
		return nil
	}
	c := &plan.Component{Definition: plan.Definition{Span: doc.Span}}
	if n := doc.Get("description"); n != nil {
		c.Spec.Description, _ = p.scalar(n, "the description")
	}
	if n := doc.Get("inputs"); n != nil {
		for _, e := range p.entries(n, `"inputs"`) {
			p.input(&c.Spec, e)
		}
	}
	runs := doc.Get("runs")
	if runs == nil {
		p.report(doc.Span, "write `runs:` with `using: node20` and `main:`, or `using: composite` and `steps:`", "the action does not say what it runs")
		return nil
	}
	p.runs(c, runs)
	if n := doc.Get("outputs"); n != nil {
		for _, e := range p.entries(n, `"outputs"`) {
			p.output(c, e)
		}
	}
	return c
}

// inputPattern is what the name of an input looks like. Spaces are older than the rule against them.
var inputPattern = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_ -]*$`)

// input reads an input. All of them are strings.
func (p *parser) input(spec *plan.Spec, e yamlsource.Entry) {
	name := e.Key.Text
	if !inputPattern.MatchString(name) {
		p.report(e.Key.Span, "use letters, digits, dashes and underscores", "%q cannot be the name of an input", shorten(name))
		return
	}
	if _, again := p.names.inputs[strings.ToLower(name)]; again {
		p.report(e.Key.Span, "upper and lower case are the same here", "the input %q is declared twice", name)
		return
	}
	p.names.inputs[strings.ToLower(name)] = name
	in := plan.Input{Type: value.String, Span: e.Key.Span}
	empty := value.OfString("")
	in.Default = &empty
	put(&spec.Inputs, name, in)
	if e.Value.Kind == yamlsource.Null || !p.object(e.Value, "the input "+name, "description", "required", "default", "deprecationMessage") {
		return
	}
	if n := e.Value.Get("required"); n != nil && p.boolean(n, `"required"`) {
		in.Default = nil
	}
	if n := e.Value.Get("default"); n != nil && n.Kind != yamlsource.Null {
		if text, ok := p.scalar(n, "the default"); ok {
			if expr.Has(text) {
				p.report(n.Span, "leave the default out, and evaluate the expression where the action is used", "this version evaluates no expressions in defaults")
			}
			v := value.OfString(text)
			in.Default = &v
		}
	}
	if n := e.Value.Get("description"); n != nil {
		in.Description, _ = p.scalar(n, "the description")
	}
	if n := e.Value.Get("deprecationMessage"); n != nil {
		if text, ok := p.scalar(n, "the message"); ok {
			in.Description = strings.TrimSpace(in.Description + " (deprecated: " + text + ")")
		}
	}
	spec.Inputs[name] = in
}

// output reads an output: a string, empty when it is not set.
func (p *parser) output(c *plan.Component, e yamlsource.Entry) {
	name, composite := e.Key.Text, c.Definition.Exec == nil
	empty := value.OfString("")
	out := plan.Output{Type: value.String, Default: &empty, Span: e.Key.Span}
	keys := []string{"description"}
	if composite {
		keys = append(keys, "value")
	}
	switch {
	case e.Value.Kind == yamlsource.Null && !composite:
	case p.object(e.Value, "the output "+name, keys...):
		if n := e.Value.Get("description"); n != nil {
			out.Description, _ = p.scalar(n, "the description")
		}
		if n := e.Value.Get("value"); n != nil {
			f := p.template(n, "the value")
			if tmpl, err := expr.ParseTemplate(f.Value.Str()); err == nil {
				if e, whole := tmpl.Whole(); whole { // a comparison, say, which gives no string
					f.Value = value.OfString("${{ str(" + e.String() + ") }}")
				}
			}
			put(&c.Definition.Outputs, name, f)
		} else if composite {
			p.report(e.Key.Span, "write `value: ${{ steps.ID.outputs.NAME }}`", "the output %q of a composite action has no value", name)
		}
	}
	put(&c.Spec.Outputs, name, out)
}

func (p *parser) report(place diag.Span, hint, format string, args ...any) {
	p.source.Report(place, hint, format, args...)
}

// object checks that a node is a map with no keys but the given ones. what names the map in messages ("the action").
func (p *parser) object(n *yamlsource.Node, what string, keys ...string) bool {
	hint := "the keys here are " + strings.Join(keys, ", ")
	if n.Kind != yamlsource.Mapping {
		p.report(n.Span, hint, "%s must be a map, not %s", what, n.Kind)
		return false
	}
	for _, e := range n.Entries {
		if slices.Contains(keys, e.Key.Text) {
			continue
		}
		if like := diag.Suggest(e.Key.Text, keys); like != "" {
			p.report(e.Key.Span, fmt.Sprintf("did you mean %q?", like), "unknown key %q", shorten(e.Key.Text))
		} else {
			p.report(e.Key.Span, hint, "unknown key %q", shorten(e.Key.Text))
		}
	}
	return true
}

// entries reads a map with any keys. A null map is empty.
func (p *parser) entries(n *yamlsource.Node, what string) []yamlsource.Entry {
	if n.Kind != yamlsource.Mapping && n.Kind != yamlsource.Null {
		p.report(n.Span, "", "%s must be a map, not %s", what, n.Kind)
	}
	return n.Entries
}

// scalar reads a string, or the text of what would be one on GitHub: true, 5, nothing.
func (p *parser) scalar(n *yamlsource.Node, what string) (string, bool) {
	switch {
	case !n.Kind.IsScalar():
		p.report(n.Span, "", "%s must be a string, not %s", what, n.Kind)
		return "", false
	case n.Kind == yamlsource.Null:
		return "", true
	default:
		return n.Value().Text(), true
	}
}

// filled reads a string that is not empty.
func (p *parser) filled(n *yamlsource.Node, what string) (string, bool) {
	text, ok := p.scalar(n, what)
	if ok && strings.TrimSpace(text) == "" {
		p.report(n.Span, "", "%s is empty", what)
		return "", false
	}
	return text, ok
}

func (p *parser) boolean(n *yamlsource.Node, what string) bool {
	text := strings.ToLower(n.Text)
	if !n.Kind.IsScalar() || text != "true" && text != "false" {
		p.report(n.Span, "", "%s must be true or false, not an expression or anything else", what)
	}
	return text == "true"
}

// template makes a field of a string that may hold GitHub's expressions.
func (p *parser) template(n *yamlsource.Node, what string) plan.Field {
	text, _ := p.scalar(n, what)
	translated, wrong := p.names.template(text)
	p.mistake(n, wrong)
	return plan.Field{Value: value.OfString(translated), Span: n.Span}
}

func (p *parser) mistake(n *yamlsource.Node, wrong *mistake) {
	if wrong != nil {
		p.report(p.source.At(n, wrong.offset, wrong.length), wrong.hint, "%s", wrong.message)
	}
}

// put sets a key of a map that is made when it is needed: an empty map and none are the same plan.
func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

// shorten returns the first line of a text, cut to a length that a message or title can hold.
func shorten(text string) string {
	const most = 60
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if r := []rune(line); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return line
}
