package actions

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// usings are what an action can run on.
var usings = []string{"node12", "node16", "node20", "node24", "composite"}

func (p *parser) runs(c *plan.Component, n *yamlsource.Node) {
	using := n.Get("using")
	if n.Kind != yamlsource.Mapping || using == nil {
		p.report(n.Span, "write `using: node20` or `using: composite`", "the action does not say what it runs on")
		return
	}
	kind := strings.ToLower(using.Text)
	switch {
	case kind == "docker":
		p.report(using.Span, "run its program in a script, or use a JavaScript or composite action",
			"the action runs in a container (using: docker), and this version has no containers to run actions in")
	case kind == "composite":
		if p.object(n, `"runs"`, "using", "steps") {
			p.composite(c, n)
		}
	case regexp.MustCompile(`^node(12|16|20|24)$`).MatchString(kind):
		p.node(c, n)
	default:
		hint := "write one of " + strings.Join(usings, ", ")
		if like := diag.Suggest(kind, usings); like != "" {
			hint = "did you mean " + strconv.Quote(like) + "?"
		}
		p.report(using.Span, hint, "%q is nothing that an action can run on", shorten(using.Text))
	}
}

// node makes the process of a JavaScript action. It is given its inputs, and no others.
func (p *parser) node(c *plan.Component, n *yamlsource.Node) {
	for _, e := range n.Entries {
		switch e.Key.Text {
		case "pre", "post", "pre-if", "post-if":
			p.report(e.Key.Span, "this version runs `main` only", "the action has %q, which would not run", e.Key.Text)
		}
	}
	p.object(n, `"runs"`, "using", "main", "pre", "pre-if", "post", "post-if")
	main := n.Get("main")
	c.Spec.AnyOutputs = true
	c.Definition.Exec = &plan.Exec{Toolkit: plan.ToolkitGitHub}
	if main == nil {
		p.report(n.Span, "write `main: index.js`", "the action has no main")
		return
	}
	file, ok := p.filled(main, `"main"`)
	if !ok {
		return
	}
	c.Definition.Exec.Command = []plan.Field{
		{Value: value.OfString("node"), Span: n.Get("using").Span},
		{Value: value.OfString("${{ func_dir }}/" + expr.Escape(file)), Span: main.Span},
	}
	for name, in := range c.Spec.Inputs {
		variable := "INPUT_" + strings.ToUpper(strings.ReplaceAll(name, " ", "_"))
		put(&c.Definition.Env, variable, plan.Field{Value: value.OfString("${{ " + member("inputs", name) + " }}"), Span: in.Span})
	}
}

func (p *parser) composite(c *plan.Component, n *yamlsource.Node) {
	steps := n.Get("steps")
	switch {
	case steps == nil:
		p.report(n.Span, "write `steps:` with a list of them", "the action has no steps")
	case steps.Kind != yamlsource.Sequence || len(steps.Items) == 0:
		p.report(steps.Span, "begin each step with `- `", "the steps must be a list with at least one step")
	default:
		p.claimNames(steps)
		for i, item := range steps.Items {
			c.Definition.Steps = append(c.Definition.Steps, p.step(i, item))
		}
	}
}

// idPattern is what the id of a step looks like.
var idPattern = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_-]*$`)

// stepName is what expressions need to know of a step that is before them.
type stepName struct {
	name      string // in the plan
	forgiving bool   // its failure does not count
	line      int
	reached   bool // it stands before what is being read
}

// claimNames finds a name in the plan for every id. Names in a plan have no dashes.
func (p *parser) claimNames(steps *yamlsource.Node) {
	taken := map[string]bool{}
	for _, item := range steps.Items {
		id := item.Get("id")
		if id == nil {
			continue
		}
		key := strings.ToLower(id.Text)
		if first, again := p.names.steps[key]; again {
			p.report(id.Span, "give one of them another id", "the id %q is already taken by the step on line %d", shorten(id.Text), first.line)
			continue
		}
		if id.Kind != yamlsource.String || !idPattern.MatchString(id.Text) {
			p.report(id.Span, "use letters, digits, dashes and underscores, and no digit at the start", "%q cannot be the id of a step", shorten(id.Text))
			continue
		}
		p.names.steps[key] = stepName{name: free(taken, strings.ReplaceAll(id.Text, "-", "_")), line: id.Span.Line}
	}
	p.names.taken = taken
}

// free returns the name, with a number when it is taken, and takes it.
func free(taken map[string]bool, base string) string {
	name := base
	for i := 2; taken[name]; i++ {
		name = base + "_" + strconv.Itoa(i)
	}
	taken[name] = true
	return name
}
