package workflow

import (
	"slices"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/rules"
	"github.com/rungci/rung/steps/value"
)

// MaxDispatchInputs is how many inputs workflow_dispatch may have.
const MaxDispatchInputs = 25

// Input is an input of workflow_dispatch or workflow_call.
type Input struct {
	Name        string
	Description string
	Type        string // string, number, boolean; of workflow_dispatch choice and environment as well
	Required    bool
	Options     []string    // of a choice
	Default     value.Value // null is none. One of workflow_call that is computed is null here
	computed    *yamlsource.Node
	span        diag.Span
}

// Secret is a secret of workflow_call.
type Secret struct {
	Name        string
	Description string
	Required    bool
}

// callOutput is an output of workflow_call.
type callOutput struct {
	name  string
	value *yamlsource.Node
}

// DispatchInputs returns the inputs of workflow_dispatch, in the order of the text.
func (w *Workflow) DispatchInputs() []Input { return w.On.dispatch }

// CallInputs returns the inputs of workflow_call, in the order of the text.
func (w *Workflow) CallInputs() []Input { return w.On.inputs }

// idPattern is what names look like: of jobs, steps, inputs and outputs.
var idPattern = lazyregexp.New(`^[a-zA-Z_][a-zA-Z0-9_-]*$`)

// idHint says it.
const idHint = "use letters, digits, - and _, and no digit or - at the start"

// inputs reads the inputs of workflow_dispatch or workflow_call.
func (r *triggers) inputs(n *yamlsource.Node, dispatch bool) []Input {
	var all []Input
	for _, e := range r.entries(n, `"inputs"`) {
		if !idPattern.MatchString(e.Key.Text) {
			r.report(e.Key.Span, idHint, "%q cannot be the name of an input", shorten(e.Key.Text))
		}
		if slices.ContainsFunc(all, func(i Input) bool { return strings.EqualFold(i.Name, e.Key.Text) }) {
			r.report(e.Key.Span, "names are case-insensitive", "the input %q is declared twice", e.Key.Text)
		}
		all = append(all, r.input(e, dispatch))
	}
	if dispatch && len(all) > MaxDispatchInputs {
		r.report(n.Span, "put several values into one, as JSON", "workflow_dispatch has %d inputs, and can have %d", len(all), MaxDispatchInputs)
	}
	return all
}

func (r *triggers) input(e yamlsource.Entry, dispatch bool) Input {
	in := Input{Name: e.Key.Text, Type: "string", span: e.Key.Span}
	keys, types := []string{"description", "type", "required", "default", "deprecationMessage"}, []string{"string", "number", "boolean"}
	if dispatch {
		keys, types = append(keys, "options"), append(types, "choice", "environment")
	}
	n := e.Value
	if n.Kind == yamlsource.Null && dispatch {
		return in
	}
	if !r.keys(n, "the input "+in.Name, keys...) {
		return in
	}
	in.Description, _ = r.scalar(n.Get("description"), "the description")
	in.Required = r.boolean(n.Get("required"), `"required"`)
	switch kind := n.Get("type"); {
	case kind == nil && !dispatch:
		r.report(e.Key.Span, "the types are "+strings.Join(types, ", "), "the input %q has no type", in.Name)
	case kind != nil && dispatch && kind.Kind.IsScalar() && !slices.Contains(types, kind.Text):
		r.note(rules.IgnoredKey, kind.Span, r.suggest(kind.Text, types, "the types are "), "%s is not an input type: GitHub treats it as a string", r.shown(kind))
	case kind != nil && !slices.Contains(types, kind.Text):
		r.report(kind.Span, r.suggest(kind.Text, types, "the types are "), "%s is not an input type", r.shown(kind))
	case kind != nil:
		in.Type = kind.Text
	}
	options := n.Get("options")
	if options != nil {
		in.Options = r.strings(options, "an option")
	}
	switch {
	case in.Type == "choice" && len(in.Options) == 0:
		r.report(e.Key.Span, "add `options:` with a list", "the choice %q has no options", in.Name)
	case in.Type != "choice" && options != nil:
		r.report(options.Span, "write `type: choice`", `"options" is for choices`)
	}
	if d := n.Get("default"); d != nil {
		r.inputDefault(&in, d, dispatch)
	}
	return in
}

// inputDefault reads a default; that of workflow_call may be computed.
func (r *triggers) inputDefault(in *Input, n *yamlsource.Node, dispatch bool) {
	if !n.Kind.IsScalar() {
		r.report(n.Span, "", "the default of an input must be a string, a number or a boolean, not %s", n.Kind)
		return
	}
	if n.Kind == yamlsource.Null {
		return
	}
	if !dispatch && hasExpression(n.Text) {
		r.template(n, availableCallDefault)
		in.computed = n
		return
	}
	v, problem := in.convert(literal(n))
	if problem != "" {
		r.report(n.Span, "", "the default of the input %q %s", in.Name, problem)
		return
	}
	in.Default = v
}

// convert returns what is given for the input as its type, or says what is wrong with it.
func (in *Input) convert(v value.Value) (out value.Value, problem string) {
	text := formatText(v)
	switch in.Type {
	case "boolean":
		if v.Kind() == value.Boolean {
			return v, ""
		}
		if strings.EqualFold(text, "true") || strings.EqualFold(text, "false") {
			return value.OfBool(strings.EqualFold(text, "true")).Mark(v.Sensitive()), ""
		}
		return v, "must be true or false"
	case "number":
		if v.Kind() == value.Number {
			return v, ""
		}
		n, err := value.ParseNumber(strings.TrimSpace(text))
		if err != nil || v.Kind() == value.Boolean {
			return v, "must be a number"
		}
		return n.Mark(v.Sensitive()), ""
	case "choice":
		if !slices.Contains(in.Options, text) {
			return v, "must be one of " + strings.Join(in.Options, ", ")
		}
	}
	if v.Kind() == value.Array || v.Kind() == value.Struct {
		return v, "must be a string, not " + v.Kind().WithArticle()
	}
	return value.OfString(text).Mark(v.Sensitive()), ""
}

// empty is the value of an input that nobody gives.
func (in *Input) empty() value.Value {
	switch {
	case in.Type == "boolean":
		return value.OfBool(false)
	case in.Type == "number":
		return value.OfInt(0)
	case in.Type == "choice" && len(in.Options) > 0:
		return value.OfString(in.Options[0])
	}
	return value.OfString("")
}

// callSecrets reads the secrets of workflow_call.
func (r *triggers) callSecrets(n *yamlsource.Node) {
	for _, e := range r.entries(n, `"secrets"`) {
		s := Secret{Name: e.Key.Text}
		if !idPattern.MatchString(s.Name) || strings.HasPrefix(strings.ToUpper(s.Name), "GITHUB_") {
			r.report(e.Key.Span, idHint+"; GITHUB_ is GitHub's own", "%q cannot be the name of a secret", shorten(s.Name))
		}
		if e.Value.Kind != yamlsource.Null && r.keys(e.Value, "the secret "+s.Name, "description", "required") {
			s.Description, _ = r.scalar(e.Value.Get("description"), "the description")
			s.Required = r.boolean(e.Value.Get("required"), `"required"`)
		}
		r.on.secrets = append(r.on.secrets, s)
	}
}

// callOutputs reads the outputs of workflow_call.
func (r *triggers) callOutputs(n *yamlsource.Node) {
	for _, e := range r.entries(n, `"outputs"`) {
		if !idPattern.MatchString(e.Key.Text) {
			r.report(e.Key.Span, idHint, "%q cannot be the name of an output", shorten(e.Key.Text))
		}
		if !r.keys(e.Value, "the output "+e.Key.Text, "description", "value") {
			continue
		}
		v := e.Value.Get("value")
		if v == nil {
			r.report(e.Key.Span, "write `value: ${{ jobs.ID.outputs.NAME }}`", "the output %q has no value", e.Key.Text)
			continue
		}
		r.template(v, availableCallOutput)
		r.on.outputs = append(r.on.outputs, callOutput{e.Key.Text, v})
	}
}
