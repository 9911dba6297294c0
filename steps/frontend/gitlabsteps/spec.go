package gitlabsteps

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// specReader reads specs.
type specReader struct{ *reader }

// spec reads the first document of a file. What is in it is data: nothing in it is evaluated.
func (p specReader) spec(doc *yamlsource.Node) plan.Spec {
	var spec plan.Spec
	if doc.Kind == yamlsource.Null || !p.object(doc, "the first document", mapKeys["document"]...) {
		return spec
	}
	n := doc.Get("spec")
	if n == nil || n.Kind == yamlsource.Null || !p.object(n, "the spec", mapKeys["spec"]...) {
		return spec
	}
	if any := n.Get("any_inputs"); any != nil {
		spec.AnyInputs = p.boolean(any, `"any_inputs"`)
		p.dashes = p.dashes || spec.AnyInputs
	}
	for _, e := range n.Entries {
		switch e.Key.Text {
		case "description":
			spec.Description, _ = p.text(e.Value, "the description")
		case "inputs":
			for _, in := range p.dashed(e, "an input") {
				put(&spec.Inputs, in.Key.Text, p.input(in))
			}
		case "outputs":
			if e.Value.Kind == yamlsource.String {
				spec.DelegateOutputs = p.word(e.Value, `"outputs"`, "delegate") != ""
				continue
			}
			for _, out := range p.dashed(e, "an output") {
				put(&spec.Outputs, out.Key.Text, p.output(out))
			}
		case "any_outputs":
			spec.AnyOutputs = p.boolean(e.Value, `"any_outputs"`)
		case "env":
			for _, v := range p.entries(e, p.variableName) {
				put(&spec.Env, v.Key.Text, p.envRequest(v))
			}
		case "exports":
			spec.Exports = p.variables(e.Value, `"exports"`, p.variableName)
		case "permissions":
			spec.Permissions = p.permissions(e.Value)
		case "home":
			spec.Home = p.word(e.Value, `"home"`, plan.HomeJob)
		case "access":
			spec.Access = p.accesses(e.Value, `"access"`)
		case "secrets":
			for _, s := range p.named(e, "a secret") {
				put(&spec.Secrets, s.Key.Text, p.secretRequest(s))
			}
		}
	}
	return spec
}

// word reads one of several words, "" when it is not one of them.
func (p *reader) word(n *yamlsource.Node, what string, words ...string) string {
	if n.Kind == yamlsource.String && slices.Contains(words, n.Text) {
		return n.Text
	}
	hint := ""
	if like := diag.Suggest(n.Text, words); like != "" && n.Kind == yamlsource.String {
		hint = fmt.Sprintf("did you mean %q?", like)
	}
	got := n.Kind.String()
	if n.Kind == yamlsource.String {
		got = fmt.Sprintf("%q", shorten(n.Text))
	}
	p.report(n.Span, hint, "%s must be %s, not %s", what, oneOf(words), got)
	return ""
}

// oneOf lists words as a sentence does.
func oneOf(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	if len(quoted) == 1 {
		return quoted[0]
	}
	return strings.Join(quoted[:len(quoted)-1], ", ") + " or " + quoted[len(quoted)-1]
}

func (p specReader) input(e yamlsource.Entry) plan.Input {
	in := plan.Input{Span: e.Key.Span}
	kind, ok := p.declaration(e, "input")
	if !ok {
		return in
	}
	in.Type = kind
	in.Default, in.Sensitive, in.Description = p.declared(e, kind)
	if n := e.Value.Get("computed"); n != nil {
		if in.Default != nil {
			p.report(keySpan(e.Value, "computed"), "keep one of them", "the input has a default or a computed one, not both")
		}
		p.checkTemplates(n)
		in.Computed = &plan.Field{Value: n.Value(), Span: n.Span}
	}
	if n := e.Value.Get("deprecated"); n != nil {
		in.Deprecated, _ = p.filled(n, `"deprecated"`)
	}
	if n := e.Value.Get("options"); n != nil {
		in.Options = p.options(n, kind)
		if d := e.Value.Get("default"); in.Default != nil && len(in.Options) > 0 && !contains(in.Options, *in.Default) {
			p.report(d.Span, "add it to the options", "the default is not one of the options")
		}
	}
	if n := e.Value.Get("match"); n != nil {
		in.Match = p.match(n, e, in)
	}
	return in
}

func (p specReader) output(e yamlsource.Entry) plan.Output {
	out := plan.Output{Span: e.Key.Span}
	kind, ok := p.declaration(e, "output")
	if !ok {
		return out
	}
	out.Type = kind
	out.Default, out.Sensitive, out.Description = p.declared(e, kind)
	return out
}

// declaration checks the keys of an input or output, which what says, and reads its type. It returns false when the rest cannot be read.
func (p specReader) declaration(e yamlsource.Entry, what string) (value.Kind, bool) {
	types := "the types are " + strings.Join(value.KindNames, ", ")
	if e.Value.Kind == yamlsource.Null {
		p.report(e.Key.Span, "write `"+e.Key.Text+": {type: string}`; "+types, "the %s %q has no type", what, e.Key.Text)
		return value.Null, false
	}
	if !p.object(e.Value, fmt.Sprintf("the %s %q", what, e.Key.Text), mapKeys[what]...) {
		return value.Null, false
	}
	n := e.Value.Get("type")
	if n == nil {
		p.report(e.Key.Span, types, "the %s %q has no type", what, e.Key.Text)
		return value.Null, true
	}
	kind, ok := value.ParseKind(n.Text)
	if n.Kind != yamlsource.String {
		p.report(n.Span, types, "the type must be a string, not %s", n.Kind)
	} else if !ok {
		hint := types
		if like := diag.Suggest(n.Text, value.KindNames); like != "" {
			hint = fmt.Sprintf("did you mean %q? %s", like, types)
		}
		p.report(n.Span, hint, "%q is not a type", shorten(n.Text))
	}
	return kind, true
}

// declared reads what inputs and outputs have in common. A kind of null stands for one that is not known.
func (p specReader) declared(e yamlsource.Entry, kind value.Kind) (def *value.Value, sensitive bool, description string) {
	for _, e := range e.Value.Entries {
		switch e.Key.Text {
		case "default":
			if e.Value.Kind != yamlsource.Null && p.fits(e.Value, kind, "the default") {
				v := e.Value.Value()
				def = &v
			}
		case "sensitive":
			sensitive = p.boolean(e.Value, `"sensitive"`)
		case "description":
			description, _ = p.text(e.Value, "the description")
		}
	}
	return def, sensitive, description
}

// fits checks that a value is of the kind. There is no conversion: "5" is not a number.
func (p specReader) fits(n *yamlsource.Node, kind value.Kind, what string) bool {
	got := n.Value().Kind()
	if got == kind || kind == value.Null {
		return true
	}
	hint := ""
	switch {
	case kind == value.String:
		hint = quoteHint(n)
	case got == value.String && !n.IsPlain() && kind <= value.Number:
		hint = "write it without quotes"
	case got == value.String && kind == value.Boolean:
		hint = "write true or false"
	}
	p.report(n.Span, hint, "%s is %s, and the type is %s", what, got.WithArticle(), kind)
	return false
}

func (p specReader) options(n *yamlsource.Node, kind value.Kind) []value.Value {
	if n.Kind != yamlsource.Sequence {
		p.report(n.Span, "write [one, two]", `"options" must be a list, not %s`, n.Kind)
		return nil
	}
	if len(n.Items) == 0 {
		p.report(n.Span, "list the allowed values, or delete it to allow all", `"options" is empty`)
	}
	var options []value.Value
	for _, item := range n.Items {
		if !p.fits(item, kind, "the option") {
			continue
		}
		options = append(options, item.Value())
	}
	return options
}

func contains(list []value.Value, v value.Value) bool {
	return slices.ContainsFunc(list, func(o value.Value) bool { return value.Equal(o, v) })
}

// match reads the regular expression of a string input, which its default must match as a whole.
func (p specReader) match(n *yamlsource.Node, e yamlsource.Entry, in plan.Input) string {
	text, ok := p.text(n, `"match"`)
	if !ok {
		return ""
	}
	if in.Type != value.String && in.Type != value.Null {
		p.report(n.Span, "", `"match" is for strings, and the type is %s`, in.Type)
		return ""
	}
	re, err := regexp.Compile(`^(?:` + text + `)$`)
	if _, bare := regexp.Compile(text); err != nil || bare != nil {
		p.report(n.Span, "the syntax is RE2: https://github.com/google/re2/wiki/Syntax", "%q is not a regular expression: %s", shorten(text), reason(bare, err))
		return ""
	}
	if in.Default != nil && in.Default.Kind() == value.String && !re.MatchString(in.Default.Str()) {
		p.report(e.Value.Get("default").Span, "the whole text must match", "the default does not match %q", shorten(text))
	}
	return text
}

// reason returns the message of the first error without its prefix.
func reason(errs ...error) string {
	for _, err := range errs {
		if err != nil {
			return strings.TrimPrefix(err.Error(), "error parsing regexp: ")
		}
	}
	return ""
}

func (p specReader) envRequest(e yamlsource.Entry) plan.EnvRequest {
	req := plan.EnvRequest{Span: e.Key.Span}
	if e.Value.Kind == yamlsource.Null || !p.object(e.Value, "the variable "+e.Key.Text, mapKeys["envRequest"]...) {
		return req
	}
	for _, e := range e.Value.Entries {
		switch e.Key.Text {
		case "default":
			if e.Value.Kind == yamlsource.Null {
				continue
			}
			if text, ok := p.text(e.Value, "the default"); ok {
				req.Default = &text
			}
		case "optional":
			req.Optional = p.boolean(e.Value, `"optional"`)
		case "description":
			req.Description, _ = p.text(e.Value, "the description")
		}
	}
	if req.Default != nil && plan.IsPattern(e.Key.Text) {
		p.report(keySpan(e.Value, "default"), "request the variable by its name to give it a default", "a pattern cannot have a default")
	}
	return req
}

// variableName checks the name of a variable, or a pattern of names.
func (p specReader) variableName(key *yamlsource.Node) bool {
	if key.Kind != yamlsource.String || !plan.IsPattern(key.Text) {
		return p.name(key, "a variable")
	}
	ok := variablesPattern.MatchString(key.Text)
	if !ok {
		p.report(key.Span, "use letters, digits, underscores and *", "%q cannot be a pattern of variables", shorten(key.Text))
	}
	return ok
}

// variablesPattern is what a pattern of variables looks like.
var variablesPattern = lazyregexp.New(`^[a-zA-Z_*][a-zA-Z0-9_*]*$`)

// accesses reads a list of what a confined step has beyond its own.
func (p *reader) accesses(n *yamlsource.Node, what string) []string {
	return p.texts(n, what, "[/one, /two:rw]", func(item *yamlsource.Node) bool {
		if item.Kind != yamlsource.String {
			p.report(item.Span, "", "what %s names must be a path, not %s", what, item.Kind)
			return false
		}
		if _, err := plan.ParseAccess(item.Text); err != nil {
			p.report(item.Span, "write PATH for reading, or PATH:rw", "%q in %s: %v", shorten(item.Text), what, err)
			return false
		}
		return true
	})
}

// variables reads a list of names of variables.
func (p *reader) variables(n *yamlsource.Node, what string, valid func(*yamlsource.Node) bool) []string {
	return p.texts(n, what, "[ONE, TWO]", valid)
}

// texts reads a list of texts, none of which is there twice.
func (p *reader) texts(n *yamlsource.Node, what, example string, valid func(*yamlsource.Node) bool) []string {
	if n.Kind != yamlsource.Sequence {
		p.report(n.Span, "write "+example, "%s must be a list, not %s", what, n.Kind)
		return nil
	}
	var names []string
	for _, item := range n.Items {
		if !valid(item) {
			continue
		}
		if slices.Contains(names, item.Text) {
			p.report(item.Span, "delete one of them", "%s names %s twice", what, item.Text)
			continue
		}
		names = append(names, item.Text)
	}
	return names
}

func (p specReader) secretRequest(e yamlsource.Entry) plan.SecretRequest {
	req := plan.SecretRequest{Span: e.Key.Span}
	if e.Value.Kind == yamlsource.Null || !p.object(e.Value, "the secret "+e.Key.Text, mapKeys["secretRequest"]...) {
		return req
	}
	for _, e := range e.Value.Entries {
		switch e.Key.Text {
		case "optional":
			req.Optional = p.boolean(e.Value, `"optional"`)
		case "description":
			req.Description, _ = p.text(e.Value, "the description")
		}
	}
	return req
}
