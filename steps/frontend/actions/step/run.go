package step

import (
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/expr"
	ghexpr "github.com/rungci/rung/steps/expr/github"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// shell is how GitHub runs scripts in a shell that it knows.
type shell struct {
	plan string // plan.Script.Shell
	// prologue makes the shell end at the first command that fails. It is on the script's first line, so that lines keep their numbers.
	prologue string
	template string // the same as a command, for a shell that only a run knows
}

// shells are those that GitHub knows. The one of a step that names none is bash, or sh where there is no bash.
var shells = map[string]shell{
	"":           {"", "set -e; ", ""},
	"bash":       {plan.ShellBash, "set -eo pipefail; ", "bash --noprofile --norc -e -o pipefail {0}"},
	"sh":         {plan.ShellSh, "set -e; ", "sh -e {0}"},
	"pwsh":       {plan.ShellPwsh, "$ErrorActionPreference = 'stop'; ", `pwsh -command "$ErrorActionPreference = 'stop'; . '{0}'"`},
	"powershell": {plan.ShellPowershell, "$ErrorActionPreference = 'stop'; ", `powershell -command "$ErrorActionPreference = 'stop'; . '{0}'"`},
	"python":     {"python {0}", "", "python {0}"},
	"cmd":        {plan.ShellCmd, "", "cmd"},
}

// epilogue makes PowerShell end with the exit code of the last program it ran.
const epilogue = "\nif (Test-Path -LiteralPath variable:\\LASTEXITCODE) { exit $LASTEXITCODE }\n"

// scriptFile stands for the script in the command of a shell.
const scriptFile = "{0}"

func (r *Reader) run(s *plan.Step, n, run *yamlsource.Node) {
	text, ok := r.Filled(run, `"run"`)
	if !ok {
		return
	}
	shell := r.shell(n)
	field := r.Template(run, `"run"`, r.contexts())
	script := field.Value.Str()
	if tmpl, err := expr.ParseTemplate(script); err == nil && shell.prologue != "" && !shell.isPowerShell() {
		if _, whole := tmpl.Whole(); whole { // a script that is nothing but one expression is code, as in `script`
			script = `eval "` + strings.TrimRight(script, "\r\n") + `"`
		}
	}
	if script = shell.prologue + script; shell.isPowerShell() {
		script += epilogue
	}
	field.Value = value.OfString(script)
	field.Lines = [][]diag.SourceLine{r.Lines(run)}
	exec := &plan.Exec{Script: &plan.Script{Text: field, Shell: shell.plan}, Toolkit: plan.ToolkitGitHub}
	dir := n.Get("working-directory")
	if dir == nil {
		dir = r.WorkDir
	}
	if dir != nil {
		if _, ok := r.Filled(dir, `"working-directory"`); ok {
			field := r.Template(dir, `"working-directory"`, r.contexts())
			exec.WorkDir = &field
		}
	}
	s.Title = "Run " + Shorten(text)
	s.Inline = &plan.Component{Spec: plan.Spec{AnyOutputs: true}, Definition: plan.Definition{Exec: exec, Span: run.Span}}
}

func (s shell) isPowerShell() bool { return s.plan == plan.ShellPwsh || s.plan == plan.ShellPowershell }

// shell reads which shell runs a step's script.
func (r *Reader) shell(n *yamlsource.Node) shell {
	node := n.Get("shell")
	switch {
	case node != nil:
	case r.Composite:
		r.Report(n.Span, "add `shell: bash`", "a step with run in an action must name its shell")
		return shell{}
	case r.Shell == nil:
		return shells[""]
	default:
		node = r.Shell
	}
	text, ok := r.Filled(node, `"shell"`)
	known, is := shells[strings.ToLower(text)] // GitHub does not ask for the case of names
	switch {
	case !ok:
		return shell{}
	case is:
		return known
	case HasExpression(text):
		return shell{plan: r.computedShell(node)}
	case !strings.Contains(text, scriptFile):
		r.Report(node.Span, "the shells are bash, sh, pwsh, powershell, python and cmd, or a command with {0} in place of the script's file", "there is no shell %q", Shorten(text))
	}
	return shell{plan: expr.Escape(text)}
}

// computedShell makes the shell of an expression: a name stands for its command. A text with expressions in it can only be a command.
func (r *Reader) computedShell(n *yamlsource.Node) string {
	if !wholePattern.MatchString(n.Text) {
		return r.Template(n, `"shell"`, r.contexts()).Value.Str()
	}
	return r.call(ghexpr.TextFunction, n, `"shell"`, r.contexts(), func(source string) string {
		var b strings.Builder
		for _, name := range []string{"bash", "sh", "pwsh", "powershell", "python"} {
			b.WriteString("(" + source + ") == '" + name + "' && '" + strings.ReplaceAll(shells[name].template, "'", "''") + "' || ")
		}
		return b.String() + "(" + source + ")"
	}).Value.Str()
}

// wholePattern is a text that is one expression.
var wholePattern = lazyregexp.New(`^\$\{\{[^{}]*\}\}$`)
