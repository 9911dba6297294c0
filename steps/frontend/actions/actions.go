// Package actions compiles GitHub Actions to the baseline definition: the action.yml of JavaScript, composite and container actions.
//
// Mistakes in a file are reported all at once, each with its place. Where GitHub lets keys pass that it does not know, they pass here, but
// for one in a local action that looks like a misspelled one. The package runs nothing, and reads no files but the text it is given.
//
// docs/actions.md says what is understood. Source of the format: GitHub's metadata syntax reference for actions, and what its runner takes.
package actions

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/actions/step"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// Parse compiles the metadata file of an action that is the user's own. name is what diagnostics call the file; a Dockerfile stands for an
// action that is nothing else. The error is a diag.List of all that is wrong with it.
func Parse(name string, data []byte) (*plan.Component, error) { return parse(name, data, false) }

// ParseFetched compiles that of an action that was fetched: what its author got away with on GitHub passes here.
func ParseFetched(name string, data []byte) (*plan.Component, error) { return parse(name, data, true) }

func parse(name string, data []byte, fetched bool) (*plan.Component, error) {
	if base := path.Base(filepath.ToSlash(name)); strings.EqualFold(base, dockerfile) {
		data = []byte("runs: {using: docker, image: " + base + "}")
	}
	source, err := yamlsource.Parse(name, data)
	if err != nil {
		return nil, err
	}
	p := &parser{Text: step.NewText(source), fetched: fetched, inputs: map[string]string{}}
	p.Strict = !fetched
	component := p.file()
	if err := source.Err(); err != nil {
		return nil, err
	}
	return component, nil
}

// parser compiles one text.
type parser struct {
	*step.Text
	fetched bool
	inputs  map[string]string // as declared, by their names in lower case
}

func (p *parser) file() *plan.Component {
	if len(p.Documents) != 1 {
		p.Report(diag.Span{File: p.Name, Line: 1, Column: 1, Length: 1}, "", "an action's file has one document, not %d", len(p.Documents))
		return nil
	}
	doc := p.Documents[0]
	if !p.object(doc, "the action", "name", "author", "description", "inputs", "outputs", "runs", "branding") {
		return nil
	}
	c := &plan.Component{Spec: plan.Spec{
		AnyInputs: true, Env: map[string]plan.EnvRequest{"*": {Optional: true}}, Exports: []string{"*"}, Home: plan.HomeJob, // as on GitHub
	}, Definition: plan.Definition{Span: doc.Span}}
	if n := doc.Get("description"); n != nil {
		c.Spec.Description, _ = p.Scalar(n, "the description")
	}
	if n := doc.Get("inputs"); n != nil {
		for _, e := range p.Entries(n, `"inputs"`) {
			p.input(&c.Spec, e)
		}
	}
	runs := doc.Get("runs")
	if runs == nil {
		p.Report(doc.Span, "write `runs:` with `using: node24` and `main:`, or `using: composite` and `steps:`", "the action has no `runs`")
		return nil
	}
	p.runs(c, runs)
	if n := doc.Get("outputs"); n != nil {
		for _, e := range p.Entries(n, `"outputs"`) {
			p.output(c, e)
		}
	}
	return c
}

// object checks that a node is a map, in which GitHub lets pass what it does not know. A key that looks like a misspelled one is a mistake
// where the author can mend it.
func (p *parser) object(n *yamlsource.Node, what string, keys ...string) bool {
	if n.Kind != yamlsource.Mapping {
		return p.Object(n, what, keys...)
	}
	for _, e := range n.Entries {
		if !p.fetched && !slices.Contains(keys, e.Key.Text) && diag.Suggest(e.Key.Text, keys) != "" {
			p.UnknownKey(e.Key, keys)
		}
	}
	return true
}

// inputPattern is what the name of an input looks like. Spaces are older than the rule against them.
var inputPattern = lazyregexp.New(`^[a-zA-Z_][a-zA-Z0-9_. -]*$`)

// input reads an input. All of them are strings.
func (p *parser) input(spec *plan.Spec, e yamlsource.Entry) {
	name := e.Key.Text
	if !inputPattern.MatchString(name) {
		p.Report(e.Key.Span, "use letters, digits, dashes and underscores", "%q cannot be the name of an input", step.Shorten(name))
		return
	}
	if _, again := p.inputs[strings.ToLower(name)]; again {
		p.Report(e.Key.Span, "names are case-insensitive", "the input %q is declared twice", name)
		return
	}
	p.inputs[strings.ToLower(name)] = name
	empty := value.OfString("")
	in := plan.Input{Type: value.String, Default: &empty, Span: e.Key.Span}
	defer func() { put(&spec.Inputs, name, in) }()
	if e.Value.Kind == yamlsource.Null || !p.object(e.Value, "the input "+name, "description", "required", "default", "deprecationMessage") {
		return
	}
	// GitHub leaves it to the action to ask for what it needs.
	if n := e.Value.Get("required"); n != nil && !p.fetched && p.Boolean(n, `"required"`) {
		in.Default = nil
	}
	if n := e.Value.Get("default"); n != nil && n.Kind != yamlsource.Null {
		field := p.Template(n, "the default", defaultContexts)
		if text, _ := p.Scalar(n, ""); step.HasExpression(text) {
			in.Default, in.Computed = nil, &field
		} else {
			v := value.OfString(text)
			in.Default = &v
		}
	}
	if n := e.Value.Get("description"); n != nil {
		in.Description, _ = p.Scalar(n, "the description")
	}
	if n := e.Value.Get("deprecationMessage"); n != nil {
		in.Deprecated, _ = p.Scalar(n, "the message")
	}
}

// output reads an output: a string, empty when it is not set.
func (p *parser) output(c *plan.Component, e yamlsource.Entry) {
	name, composite := e.Key.Text, c.Definition.Exec == nil
	empty := value.OfString("")
	out := plan.Output{Type: value.String, Default: &empty, Span: e.Key.Span}
	defer func() { put(&c.Spec.Outputs, name, out) }()
	keys := []string{"description"}
	if composite {
		keys = append(keys, "value")
	}
	if e.Value.Kind == yamlsource.Null && !composite || !p.object(e.Value, "the output "+name, keys...) {
		return
	}
	if n := e.Value.Get("description"); n != nil {
		out.Description, _ = p.Scalar(n, "the description")
	}
	if !composite {
		return
	}
	if n := e.Value.Get("value"); n != nil {
		put(&c.Definition.Outputs, name, p.Template(n, "the value", outputContexts))
	} else if !p.fetched {
		p.Report(e.Key.Span, "write `value: ${{ steps.ID.outputs.NAME }}`", "the output %q of a composite action has no value", name)
	}
}

// The contexts of what a metadata file has besides steps, as GitHub's runner has them.
var (
	defaultContexts   = &step.Contexts{Contexts: []string{"github", "strategy", "matrix", "job", "runner"}, Functions: []string{"hashFiles"}}
	containerContexts = &step.Contexts{Contexts: []string{"github", "inputs", "strategy", "matrix", "job", "runner", "env"}}
	outputContexts    = &step.Contexts{Contexts: []string{"github", "strategy", "matrix", "steps", "inputs", "job", "runner", "env"}}
	hookContexts      = &step.Contexts{
		Contexts:  outputContexts.Contexts,
		Functions: []string{"success", "failure", "always", "cancelled", "hashFiles"},
	}
)

// put sets a key of a map that is made when it is needed: an empty map and none are the same plan.
func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}
