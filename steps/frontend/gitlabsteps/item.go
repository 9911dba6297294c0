package gitlabsteps

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"

	"github.com/rungci/rung/internal/lazyregexp"
)

// kinds are the keys that say what a step does. A step has exactly one of them.
var kinds = []string{"step", "func", "script", "exec", "run", "action", "parallel", "wait", "cancel"}

// commonKeys are allowed in every step.
var commonKeys = []string{"name", "title", "env", "if", "when", "timeout", "time_limit", "retry", "allow_failure"}

// ownKey are allowed in steps of some kinds only. The hint is for those who write it in another.
type ownKey struct {
	key   string
	kinds []string
	hint  string
}

var ownKeys = []ownKey{
	{"inputs", []string{"step", "func", "action"}, "only step, func and action take inputs; elsewhere write ${{ inputs.name }} where the value is needed"},
	{"secrets", []string{"step", "func", "script", "exec", "run", "action"}, "grant the secrets to the steps of the group that need them"},
	{"inherit_env", []string{"step", "func", "action"}, "a step without a component has the environment around it"},
	{"allow_exports", []string{"step", "func", "action"}, "a step without a component exports what it likes"},
	{"permissions", []string{"step", "func", "action"}, "a step without a component may do what the list may that it is in"},
	{"confine", []string{"step", "func", "action", "script", "exec"}, "confine the steps of the list that run something"},
	{"allow_access", []string{"step", "func", "action", "script", "exec"}, "allow it to the steps of the list that need it"},
	{"shell", []string{"script"}, "only script has a shell; an exec names its own program"},
	{"log_file", []string{"script"}, "an exec has its own log file: `exec: {log_file: …}`"},
	{"toolkit", []string{"script"}, "an exec has its own toolkit: `exec: {toolkit: …}`"},
	{"background", []string{"step", "func", "script", "exec", "run", "action"}, "only a step that runs something can be in the background"},
	{"outputs", []string{"run"}, "only run lists its outputs; a command writes them to the output file"},
	{"delegate", []string{"run"}, "only run passes on the outputs of a step in it"},
	{"max_parallel", []string{"parallel"}, ""},
}

// allowedKeys returns the keys that a step of the given kinds may have. Without a kind every key may yet be right.
func allowedKeys(present []string) []string {
	keys := slices.Concat(commonKeys, present)
	if len(present) == 0 {
		keys = append(keys, kinds...)
	}
	for _, own := range ownKeys {
		if len(present) == 0 || slices.ContainsFunc(own.kinds, func(k string) bool { return slices.Contains(present, k) }) {
			keys = append(keys, own.key)
		}
	}
	return keys
}

// stepReader reads definitions and their lists of steps.
type stepReader struct {
	*reader
	controls   controlReader
	references referenceReader
	processes  processReader
}

// steps reads a list of steps that share a namespace of their own.
func (p stepReader) list(n *yamlsource.Node) []plan.Step {
	steps := p.items(n)
	p.nameSteps(n, steps)
	p.checkWaits(n, steps)
	return steps
}

// items reads a list of steps, one for each item. Those without a name do not have one yet.
func (p stepReader) items(n *yamlsource.Node) []plan.Step {
	if n.Kind != yamlsource.Sequence {
		p.report(n.Span, "begin each step with `- `", "steps must be a list, not %s", n.Kind)
		return nil
	}
	if len(n.Items) == 0 {
		p.report(n.Span, "", "the list has no steps")
	}
	steps := make([]plan.Step, len(n.Items))
	for i, item := range n.Items {
		steps[i] = p.item(item)
	}
	return steps
}

func (p stepReader) item(n *yamlsource.Node) plan.Step {
	s := plan.Step{Span: n.Span}
	if n.Kind != yamlsource.Mapping {
		p.report(n.Span, "write `- script: …` for a command, `- step: …` for a component", "a step must be a map, not %s", n.Kind)
		return s
	}
	present := p.checkKeys(n)
	for _, e := range n.Entries {
		p.stepKey(&s, n, e)
	}
	if s.Inline != nil {
		for name := range s.Secrets {
			put(&s.Inline.Spec.Secrets, name, plan.SecretRequest{Span: keySpan(n, "secrets")})
		}
		if slices.Contains(present, "run") {
			p.checkDelegate(&s.Inline.Definition, n)
		}
	}
	return s
}

// checkKeys reports keys that a step cannot have, and returns what kinds of step it is: one, when all is well.
func (p stepReader) checkKeys(n *yamlsource.Node) (present []string) {
	var first yamlsource.Entry
	for _, e := range n.Entries {
		if !slices.Contains(kinds, e.Key.Text) {
			continue
		}
		if present = append(present, e.Key.Text); len(present) == 1 {
			first = e
			continue
		}
		p.report(e.Key.Span, fmt.Sprintf("%q is on line %d; split it into two steps", first.Key.Text, first.Key.Span.Line),
			"a step has %s or %s, not both", first.Key.Text, e.Key.Text)
	}
	allowed := allowedKeys(present)
	misspelt := false
	for _, e := range n.Entries {
		key := e.Key.Text
		if slices.Contains(allowed, key) {
			continue
		}
		if own := slices.IndexFunc(ownKeys, func(o ownKey) bool { return o.key == key }); own >= 0 {
			p.report(e.Key.Span, ownKeys[own].hint, "%q does not belong to a step with %s", key, present[0])
			continue
		}
		misspelt = misspelt || len(present) == 0 && slices.Contains(kinds, diag.Suggest(key, allowed))
		p.unknown(e.Key, allowed)
	}
	if len(present) == 0 && !misspelt {
		p.report(n.Span, "give it one of "+strings.Join(kinds, ", "), "the step has nothing to do")
	}
	return present
}

// stepKey reads one key of a step. Keys that mean nothing are reported elsewhere.
func (p stepReader) stepKey(s *plan.Step, n *yamlsource.Node, e yamlsource.Entry) {
	switch e.Key.Text {
	case "name":
		s.Name = e.Value.Text
		p.name(e.Value, "a step")
	case "title":
		s.Title, _ = p.filled(e.Value, "the title")
	case "wait", "cancel":
		s.Await = p.controls.await(e)
	case "step", "func":
		s.Ref = p.references.reference(e.Value)
	case "action":
		s.Ref = p.references.action(e.Value)
	case "script":
		s.Inline = p.processes.script(n, e.Value)
	case "exec":
		s.Inline = inline(plan.Definition{Exec: p.processes.exec(e.Value), Span: e.Value.Span})
	case "run":
		s.Inline = p.nested(n, e.Value)
	case "parallel":
		s.Parallel = p.items(e.Value)
		p.refuseNestedGroups(e.Value)
	case "max_parallel":
		s.Limit, _ = p.integer(e.Value, `"max_parallel"`, 1, MaxParallel)
	case "inputs":
		s.Inputs = p.inputs(n, e)
	case "env":
		s.Env = p.env(e)
	case "secrets":
		s.Secrets = p.secrets(e)
	case "inherit_env":
		s.InheritEnv = p.boolean(e.Value, `"inherit_env"`)
	case "permissions":
		s.Permissions = p.permissions(e.Value)
	case "allow_exports":
		s.AllowExports = p.variables(e.Value, `"allow_exports"`, func(n *yamlsource.Node) bool { return p.name(n, "a variable") })
	case "confine":
		confine := p.boolean(e.Value, `"confine"`)
		s.Confine = &confine
	case "allow_access":
		s.AllowAccess = p.accesses(e.Value, `"allow_access"`)
	default:
		p.controls.controlKey(s, e)
	}
}

// inline makes the component of a step that has no spec of its own.
func inline(d plan.Definition) *plan.Component {
	return &plan.Component{Spec: plan.Spec{AnyOutputs: true}, Definition: d}
}

// shells are those that a script can name.
var shells = []string{plan.ShellBash, plan.ShellSh, plan.ShellPwsh, plan.ShellPowershell, plan.ShellCmd}

// scriptSlot stands for the script's file in a shell that is a command.
const scriptSlot = "{0}"

func (p processReader) script(item, n *yamlsource.Node) *plan.Component {
	x := &plan.Exec{Script: p.shellText(item, n), LogFile: p.logFile(item), Toolkit: p.toolkit(item)}
	return inline(plan.Definition{Exec: x, Span: n.Span})
}

// shellText reads the text of a script, and the shell of the map that it is in.
func (p processReader) shellText(item, n *yamlsource.Node) *plan.Script {
	script := &plan.Script{}
	if n.Kind == yamlsource.Sequence {
		p.report(n.Span, "write `script: |` and the lines below it", "the script must be a string, not a list")
	} else if _, ok := p.filled(n, "the script"); ok {
		script.Text = p.template(n)
		script.Text.Lines = [][]diag.SourceLine{p.source.Lines(n)}
	}
	shell := item.Get("shell")
	switch {
	case shell == nil:
	case expr.Has(shell.Text) || strings.Contains(shell.Text, scriptSlot):
		script.Shell = p.template(shell).Value.Text()
	default:
		script.Shell = p.word(shell, "the shell", shells...)
	}
	return script
}

// toolkits are those that a process can speak.
var toolkits = []string{plan.ToolkitGitHub, plan.ToolkitGitHubAction}

// toolkit reads the protocol that a process speaks with its runner.
func (p processReader) toolkit(n *yamlsource.Node) string {
	if toolkit := n.Get("toolkit"); toolkit != nil {
		return p.word(toolkit, "the toolkit", toolkits...)
	}
	return ""
}

// nested reads a list of steps that is in a step, with the outputs that the step gives.
func (p stepReader) nested(item, n *yamlsource.Node) *plan.Component {
	d := plan.Definition{Steps: p.list(n), Span: n.Span}
	for _, e := range item.Entries {
		if e.Key.Text == "outputs" || e.Key.Text == "delegate" {
			p.results(e, &d)
		}
	}
	return inline(d)
}

// secrets reads a list of names, or a map from the name that the step uses to the name that its caller uses.
func (p stepReader) secrets(e yamlsource.Entry) map[string]string {
	var secrets map[string]string
	if e.Value.Kind != yamlsource.Sequence {
		for _, entry := range p.named(e, "a secret") {
			if p.name(entry.Value, "a secret") {
				put(&secrets, entry.Key.Text, entry.Value.Text)
			}
		}
		return secrets
	}
	for _, item := range e.Value.Items {
		if !p.name(item, "a secret") {
			continue
		}
		if _, again := secrets[item.Text]; again {
			p.report(item.Span, "delete one of them", "the secret %s is granted twice", item.Text)
		}
		put(&secrets, item.Text, item.Text)
	}
	return secrets
}

// inputs reads what a step is given. Actions name their inputs with dashes too.
func (p stepReader) inputs(item *yamlsource.Node, e yamlsource.Entry) map[string]plan.Field {
	if !isAction(item) {
		return p.data(p.addressed(e, "an input"))
	}
	return p.data(p.entries(e, func(key *yamlsource.Node) bool {
		ok := actionInputPattern.MatchString(key.Text)
		if !ok {
			p.report(key.Span, "use letters, digits, dashes and underscores", "%q cannot be the name of an action's input", shorten(key.Text))
		}
		return ok
	}))
}

// isAction reports whether a step runs an action: by the key, or by a reference that says so.
func isAction(item *yamlsource.Node) bool {
	for _, key := range []string{"step", "func"} {
		if n := item.Get(key); n != nil && strings.HasPrefix(n.Text, "action:") {
			return true
		}
	}
	return item.Get("action") != nil
}

// actionInputPattern is what GitHub allows as the name of an input.
var actionInputPattern = lazyregexp.New(`^[a-zA-Z_][a-zA-Z0-9_. -]*$`)

// refuseNestedGroups reports parallel groups that are members of one: all of it would run at the same time anyway.
func (p stepReader) refuseNestedGroups(group *yamlsource.Node) {
	for _, member := range group.Items {
		if nested := member.Get("parallel"); nested != nil {
			p.report(nested.Span, "move its steps into the group around it; steps that follow each other go into a `run`", "parallel groups cannot be nested")
		}
	}
}
