package actions

import (
	"path"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/frontend/actions/step"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// usings are what an action can run on. Every version of Node is the one that is there.
var usings = []string{"node12", "node16", "node20", "node24", "composite", "docker"}

// nodePattern is a version of Node, also one that is newer than this program.
var nodePattern = lazyregexp.New(`^node[1-9][0-9]$`)

// UsingContext is the name in the context of a JavaScript action of what it runs on: "node20". A toolkit can tell when the Node that is there
// is older.
const UsingContext = "using"

func (p *parser) runs(c *plan.Component, n *yamlsource.Node) {
	using := n.Get("using")
	if n.Kind != yamlsource.Mapping || using == nil {
		p.Report(n.Span, "write `using: node24`, `using: composite` or `using: docker`", "the action has no `using`")
		return
	}
	kind := strings.ToLower(using.Text)
	switch {
	case kind == "composite":
		p.composite(c, n)
	case kind == "docker":
		p.docker(c, n)
	case nodePattern.MatchString(kind):
		p.node(c, n, kind)
	default:
		hint := "write one of " + strings.Join(usings, ", ")
		if like := diag.Suggest(kind, usings); like != "" {
			hint = "did you mean " + strconv.Quote(like) + "?"
		}
		p.Report(using.Span, hint, "%q is nothing that an action can run on", step.Shorten(using.Text))
	}
}

func (p *parser) composite(c *plan.Component, n *yamlsource.Node) {
	p.Object(n, `"runs"`, "using", "steps")
	if steps := n.Get("steps"); steps != nil {
		reader := step.Reader{Text: p.Text, Composite: true}
		c.Definition.Steps = reader.Steps(steps)
		return
	}
	p.Report(n.Span, "write `steps:` with a list of them", "the action has no steps")
}

// node makes the processes of a JavaScript action.
func (p *parser) node(c *plan.Component, n *yamlsource.Node, kind string) {
	p.Object(n, `"runs"`, "using", "main", "pre", "pre-if", "post", "post-if")
	c.Spec.AnyOutputs = true
	c.Definition.InputPrefix = step.InputPrefix
	put(&c.Definition.Context, UsingContext, plan.Field{Value: value.OfString(kind)})
	c.Definition.Exec = &plan.Exec{Toolkit: plan.ToolkitGitHubAction}
	main := n.Get("main")
	if main == nil {
		p.Report(n.Span, "write `main: index.js`", "the action has no main")
		return
	}
	c.Definition.Exec = p.nodeExec(n, main, "main")
	c.Definition.Pre = p.hook(n, "pre", "pre", p.nodeExec)
	c.Definition.Post = p.hook(n, "post", "post", p.nodeExec)
}

// nodeExec makes the process that runs the file which a key names.
func (p *parser) nodeExec(runs, file *yamlsource.Node, key string) *plan.Exec {
	text, ok := p.Filled(file, strconv.Quote(key))
	if !ok {
		return nil
	}
	return &plan.Exec{
		Command: []plan.Field{
			{Value: value.OfString("node"), Span: runs.Get("using").Span},
			inActionFolder(text, file.Span),
		},
		Toolkit: plan.ToolkitGitHubAction,
	}
}

// inActionFolder is the path of a file that the action's metadata names.
func inActionFolder(file string, place diag.Span) plan.Field {
	return plan.Field{Value: value.OfString("${{ func_dir }}/" + expr.Escape(strings.TrimPrefix(file, "./"))), Span: place}
}

// hook reads what runs before or after all steps, and its condition: without one it runs whatever happened. A condition is taken as it
// is: GitHub does not add success() to it.
func (p *parser) hook(runs *yamlsource.Node, key, conditionOf string, exec func(runs, n *yamlsource.Node, key string) *plan.Exec) *plan.Hook {
	n, condition := runs.Get(key), runs.Get(conditionOf+"-if")
	if n == nil {
		if condition != nil && !p.fetched {
			p.Report(condition.Span, "write `"+key+":` as well", "the condition is for %q, which does not exist", key)
		}
		return nil
	}
	h := &plan.Hook{Exec: exec(runs, n, key)}
	if h.Exec == nil {
		return nil
	}
	if condition != nil {
		h.If, _ = p.Condition(condition, hookContexts)
	}
	return h
}

// dockerfile is what a container action is built from.
const dockerfile = "Dockerfile"

// docker makes the processes of a container action.
func (p *parser) docker(c *plan.Component, n *yamlsource.Node) {
	p.Object(n, `"runs"`, "using", "image", "entrypoint", "args", "env", "pre-entrypoint", "pre-if", "post-entrypoint", "post-if")
	c.Spec.AnyOutputs = true
	c.Definition.InputPrefix = step.InputPrefix
	c.Definition.Exec = step.DockerExec(nil)
	image := n.Get("image")
	if image == nil {
		p.Report(n.Span, "write `image: Dockerfile` or `image: docker://alpine:3`", "the action has no image")
		return
	}
	options := p.image(image)
	if env := n.Get("env"); env != nil {
		options = append(options, p.variables(c, env)...)
	}
	arguments := p.arguments(c, n.Get("args"))
	run := func(_, program *yamlsource.Node, key string) *plan.Exec {
		name, ok := p.Filled(program, strconv.Quote(key))
		if !ok {
			return nil
		}
		own := append(options[:len(options):len(options)], text("--entrypoint"), plan.Field{Value: value.OfString(expr.Escape(name)), Span: program.Span})
		return step.DockerExec(append(own, arguments...))
	}
	if entrypoint := n.Get("entrypoint"); entrypoint != nil {
		c.Definition.Exec = run(n, entrypoint, "entrypoint")
	} else {
		given := append(options[:len(options):len(options)], text("--entrypoint"), text("${{ "+p.given(c, "entrypoint")+" }}"))
		c.Definition.Exec = step.DockerExec(append(given, arguments...))
	}
	c.Definition.Pre = p.hook(n, "pre-entrypoint", "pre", run)
	c.Definition.Post = p.hook(n, "post-entrypoint", "post", run)
}

func text(s string) plan.Field { return plan.Field{Value: value.OfString(s)} }

// image reads what a container action runs: an image, or a file to build one from.
func (p *parser) image(n *yamlsource.Node) []plan.Field {
	name, ok := p.Filled(n, `"image"`)
	if !ok {
		return nil
	}
	if len(name) > len("docker://") && strings.EqualFold(name[:len("docker://")], "docker://") {
		return []plan.Field{text("--image"), {Value: value.OfString(expr.Escape(name[len("docker://"):])), Span: n.Span}}
	}
	base := strings.ToLower(path.Base(name))
	if file := strings.ToLower(dockerfile); base != file && !strings.HasPrefix(base, file+".") && !strings.HasSuffix(base, "."+file) {
		p.Report(n.Span, "write `image: Dockerfile` or `image: docker://alpine:3`", "%q is neither a Dockerfile nor an image", step.Shorten(name))
		return nil
	}
	return []plan.Field{text("--dockerfile"), inActionFolder(name, n.Span)}
}

// variables reads those of the container. A value that is computed may be a secret, which a list of processes must not show: it is in the
// environment. The others are arguments, as PATH, say, is not meant for the program that starts the container.
func (p *parser) variables(c *plan.Component, n *yamlsource.Node) (options []plan.Field) {
	fields := p.Fields(n, `"env"`, "the variable ", containerContexts)
	for _, e := range n.Entries {
		name := e.Key.Text
		field, ok := fields[name]
		switch literal := field.Value.Str(); {
		case !ok:
		case step.HasExpression(literal):
			put(&c.Definition.Env, name, field)
		default:
			options = append(options, text("--env"), plan.Field{Value: value.OfString(expr.Escape(name) + "=" + literal), Span: field.Span})
		}
	}
	return options
}

// arguments reads those of the container. Without any in the metadata they are what `with.args` says.
func (p *parser) arguments(c *plan.Component, n *yamlsource.Node) []plan.Field {
	if n == nil || n.Kind == yamlsource.Null {
		return []plan.Field{text("--args"), text("${{ " + p.given(c, "args") + " }}")}
	}
	if n.Kind != yamlsource.Sequence {
		p.Report(n.Span, "begin each with `- `", "the arguments must be a list, not %s", n.Kind)
		return nil
	}
	fields := []plan.Field{text("--")}
	for _, item := range n.Items {
		fields = append(fields, p.Template(item, "an argument", containerContexts))
	}
	return fields
}

// given returns the expression of our language for an input that every container action has, whether it declares it or not.
func (p *parser) given(c *plan.Component, name string) string {
	declared, ok := p.inputs[name]
	if !ok {
		declared = name
		empty := value.OfString("")
		put(&c.Spec.Inputs, name, plan.Input{Type: value.String, Default: &empty})
		p.inputs[name] = name
	}
	return "inputs['" + declared + "']"
}
