package actions

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

var stepKeys = []string{"name", "id", "if", "continue-on-error", "env", "run", "shell", "working-directory", "uses", "with"}

// step reads the i-th step of a composite action.
func (p *parser) step(i int, n *yamlsource.Node) plan.Step {
	s := plan.Step{Span: n.Span}
	if !p.object(n, "a step", stepKeys...) {
		return s
	}
	run, uses := n.Get("run"), n.Get("uses")
	switch {
	case run != nil && uses != nil:
		p.report(uses.Span, "make two steps of it", "a step has run or uses, not both")
	case run != nil:
		p.run(&s, n, run)
	case uses != nil:
		p.uses(&s, n, uses)
	default:
		p.report(n.Span, "give it `run` or `uses`", "the step has nothing to do")
	}
	known := stepName{}
	for _, e := range n.Entries {
		switch e.Key.Text {
		case "name":
			s.Title, _ = p.scalar(e.Value, "the name")
		case "if":
			s.If = p.condition(e.Value)
		case "env":
			s.Env = p.fields(e.Value, `"env"`, "the variable ", variablePattern)
		case "continue-on-error":
			if known.forgiving = p.boolean(e.Value, `"continue-on-error"`); known.forgiving {
				s.AllowFailure = &plan.AllowFailure{}
			}
		}
	}
	key := ""
	if id := n.Get("id"); id != nil {
		key = strings.ToLower(id.Text)
	}
	named, ok := p.names.steps[key]
	if !ok {
		s.Name = free(p.names.taken, "step_"+strconv.Itoa(i+1))
		return s
	}
	s.Name = named.name
	named.reached, named.forgiving = true, known.forgiving
	p.names.steps[key] = named
	return s
}

// prologues make a shell end at the first command that fails, as it does on GitHub. They stand on the script's first line, so
// that the lines keep their numbers.
var prologues = map[string]string{
	plan.ShellBash:       "set -eo pipefail; ",
	plan.ShellSh:         "set -e; ",
	plan.ShellPwsh:       "$ErrorActionPreference = 'stop'; ",
	plan.ShellPowershell: "$ErrorActionPreference = 'stop'; ",
	plan.ShellCmd:        "",
}

// epilogue makes PowerShell end with the exit code of the last program it ran, as it does on GitHub.
const epilogue = "\nif (Test-Path -LiteralPath variable:\\LASTEXITCODE) { exit $LASTEXITCODE }\n"

func (p *parser) run(s *plan.Step, n, run *yamlsource.Node) {
	text, ok := p.filled(run, `"run"`)
	if !ok {
		return
	}
	script := &plan.Script{Text: p.template(run, `"run"`), Shell: p.shell(n)}
	translated := script.Text.Value.Str()
	if tmpl, err := expr.ParseTemplate(translated); err == nil && (script.Shell == plan.ShellBash || script.Shell == plan.ShellSh) {
		if _, whole := tmpl.Whole(); whole { // a script that is nothing but one expression is code, as in `script`
			translated = `eval "` + strings.TrimRight(translated, "\r\n") + `"`
		}
	}
	translated = prologues[script.Shell] + translated
	if strings.Contains(prologues[script.Shell], "ErrorAction") {
		translated += epilogue
	}
	script.Text.Value = value.OfString(translated)
	exec := &plan.Exec{Script: script, Toolkit: plan.ToolkitGitHub}
	if dir := n.Get("working-directory"); dir != nil {
		if _, ok := p.filled(dir, `"working-directory"`); ok {
			field := p.template(dir, `"working-directory"`)
			exec.WorkDir = &field
		}
	}
	if with := n.Get("with"); with != nil {
		p.report(with.Span, "give the values in `env`", `"with" is for actions, not for run`)
	}
	s.Title = "Run " + shorten(text)
	s.Inline = &plan.Component{Spec: plan.Spec{AnyOutputs: true}, Definition: plan.Definition{Exec: exec, Span: run.Span}}
}

func (p *parser) shell(n *yamlsource.Node) string {
	shell := n.Get("shell")
	if shell == nil {
		p.report(n.Span, "add `shell: bash`", "a step with run in an action must name its shell")
		return ""
	}
	text, ok := p.filled(shell, `"shell"`)
	if _, known := prologues[text]; ok && !known {
		hint := "the shells are bash, sh, pwsh, powershell and cmd"
		if strings.Contains(text, "{0}") {
			hint = "write `shell: bash`, and call the program in the script"
		}
		p.report(shell.Span, hint, "this version has no shell %q", shorten(text))
	}
	return text
}

// uses reads which action a step runs. GitHub finds local ones from the workspace, wherever the action stands that uses them.
func (p *parser) uses(s *plan.Step, n, uses *yamlsource.Node) {
	text, ok := p.filled(uses, `"uses"`)
	switch {
	case !ok:
		return
	case expr.Has(text):
		p.report(uses.Span, "write the action out", `"uses" cannot hold expressions`)
		return
	case strings.HasPrefix(text, "docker://"):
		p.report(uses.Span, "run its program in a script", "the step runs a container image, and this version has no containers to run actions in")
		return
	case !strings.HasPrefix(text, "./"):
		p.report(uses.Span, "put the action into the repository, and write ./ and its folder", "this version runs actions from local directories (./folder), not from repositories")
		return
	}
	for _, key := range []string{"shell", "working-directory"} {
		if wrong := n.Get(key); wrong != nil {
			p.report(wrong.Span, "", "%q is for run, not for uses", key)
		}
	}
	s.Ref = &plan.Reference{Kind: plan.RefAction, Text: text, Action: "${{ work_dir }}/" + strings.TrimPrefix(text, "./"), Span: uses.Span}
	s.Title = text
	if with := n.Get("with"); with != nil {
		s.Inputs = p.fields(with, `"with"`, "the input ", inputPattern)
	}
}

// variablePattern is what an environment variable is called.
var variablePattern = regexp.MustCompile(`^[^=\x00]+$`)

// fields reads a map of strings with expressions.
func (p *parser) fields(n *yamlsource.Node, what, item string, names *regexp.Regexp) map[string]plan.Field {
	var fields map[string]plan.Field
	for _, e := range p.entries(n, what) {
		if !names.MatchString(e.Key.Text) || expr.Has(e.Key.Text) {
			p.report(e.Key.Span, "", "%q cannot be the name of %s", shorten(e.Key.Text), strings.TrimSpace(item))
			continue
		}
		put(&fields, e.Key.Text, p.template(e.Value, item+e.Key.Text))
	}
	return fields
}

// condition reads true, false, or an expression with or without ${{ }} around it.
func (p *parser) condition(n *yamlsource.Node) *plan.Field {
	if n.Kind == yamlsource.Boolean {
		return &plan.Field{Value: n.Value(), Span: n.Span}
	}
	text, ok := p.filled(n, `"if"`)
	if !ok {
		return nil
	}
	translated, wrong := p.names.condition(text)
	p.mistake(n, wrong)
	return &plan.Field{Value: value.OfString(translated), Span: n.Span}
}
