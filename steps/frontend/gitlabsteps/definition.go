package gitlabsteps

import (
	"fmt"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/plan"
)

// definition reads the second document of a file, or the only one of a job.
func (p stepReader) definition(doc *yamlsource.Node) plan.Definition {
	d := plan.Definition{Span: doc.Span}
	if doc.Kind == yamlsource.Null {
		p.report(doc.Span, "write `run:` with a list of steps, or `exec:` with a command", "the definition is empty")
		return d
	}
	if doc.Kind == yamlsource.Sequence {
		p.report(doc.Span, "write `run:` before the list", "the definition must be a map, not a list")
		p.list(doc)
		return d
	}
	if isStep(doc) && !looksLikeDefinition(doc) {
		p.report(doc.Span, "write `run:` and begin the step with `- `", "the definition must have run or exec, not a single step")
		return d
	}
	if !p.object(doc, "the definition", mapKeys["definition"]...) {
		return d
	}
	p.dashes = p.dashes || doc.Get("context") != nil
	run, isList := p.either(doc, "run", "steps")
	exec := doc.Get("exec")
	switch {
	case isList && exec != nil:
		p.report(keySpan(doc, "exec"), "keep one of them", "a definition has exec or %s, not both", run.Key.Text)
	case !isList && exec == nil:
		p.report(doc.Span, "write `run:` with a list of steps, or `exec:` with a command", "the definition has neither run nor exec")
	}
	if isList {
		d.Steps = p.list(run.Value)
	}
	if exec != nil {
		d.Exec = p.processes.exec(exec)
	}
	for _, e := range doc.Entries {
		switch e.Key.Text {
		case "env":
			d.Env = p.env(e)
		case "context":
			d.Context = p.data(p.named(e, "a value"))
		case "pre":
			d.Pre = p.processes.hook(e)
		case "post":
			d.Post = p.processes.hook(e)
		case "input_prefix":
			d.InputPrefix, _ = p.filled(e.Value, "the prefix")
		case "type":
			p.checkType(e.Value, isList, exec != nil)
		case "outputs", "delegate":
			if exec != nil && !isList {
				p.report(e.Key.Span, "a command writes its outputs to the output file", "%q is for a list of steps, not for exec", e.Key.Text)
				continue
			}
			p.results(e, &d)
		}
	}
	return d
}

// results reads the outputs or the delegate of a list of steps.
func (p stepReader) results(e yamlsource.Entry, d *plan.Definition) {
	if e.Key.Text == "outputs" {
		d.Outputs = p.data(p.dashed(e, "an output"))
		return
	}
	if text, ok := p.filled(e.Value, `"delegate"`); ok {
		d.Delegate = text
	}
}

// checkType checks that the type, which older files have, says what the definition shows anyway.
func (p stepReader) checkType(n *yamlsource.Node, isList, isExec bool) {
	switch word := p.word(n, `"type"`, "exec", "steps"); {
	case word == "exec" && isList && !isExec:
		p.report(n.Span, "delete the type, or write steps", `the type is exec, and the definition is a list of steps`)
	case word == "steps" && isExec && !isList:
		p.report(n.Span, "delete the type, or write exec", `the type is steps, and the definition is an exec`)
	}
}

// processReader reads what a process runs.
type processReader struct{ *reader }

func (p processReader) exec(n *yamlsource.Node) *plan.Exec {
	x := &plan.Exec{}
	if n.Kind == yamlsource.Null {
		p.report(n.Span, "write `command: [program, argument]` below it", "exec has no command")
		return x
	}
	if !p.object(n, "exec", mapKeys["exec"]...) {
		return x
	}
	command, script := n.Get("command"), n.Get("script")
	switch {
	case command != nil && script != nil:
		p.report(keySpan(n, "script"), "keep one of them", "exec has command or script, not both")
	case script != nil:
		x.Script = p.shellText(n, script)
	case command != nil:
		x.Command = p.command(command)
	default:
		p.report(n.Span, "write `command: [program, argument]`", "exec has no command")
	}
	if n.Get("shell") != nil && script == nil {
		p.report(keySpan(n, "shell"), "only script has a shell; a command names its own program", "exec has a shell, and no script")
	}
	if dir, ok := p.either(n, "work_dir", "workdir", "working_dir"); ok {
		if _, ok := p.filled(dir.Value, "the work directory"); ok {
			field := p.template(dir.Value)
			x.WorkDir = &field
		}
	}
	if timeout := n.Get("timeout"); timeout != nil {
		x.Timeout = p.duration(timeout, "the timeout", false)
	}
	x.LogFile, x.Toolkit = p.logFile(n), p.toolkit(n)
	return x
}

// hook reads a process that runs before or after all steps.
func (p processReader) hook(e yamlsource.Entry) *plan.Hook {
	n := e.Value
	if !p.object(n, fmt.Sprintf("%q", e.Key.Text), mapKeys["hook"]...) {
		return nil
	}
	h := &plan.Hook{Exec: &plan.Exec{}}
	if exec := n.Get("exec"); exec != nil {
		h.Exec = p.exec(exec)
	} else {
		p.report(n.Span, "write `exec: {command: [program, argument]}`, or `exec: {script: …}`", "%q has no exec", e.Key.Text)
	}
	if condition := n.Get("if"); condition != nil {
		h.If = p.condition(condition, `"if"`)
	}
	return h
}

// logFile reads where the log of a process is kept as well.
func (p processReader) logFile(n *yamlsource.Node) *plan.Field {
	file := n.Get("log_file")
	if file == nil {
		return nil
	}
	if _, ok := p.filled(file, "the log file"); !ok {
		return nil
	}
	field := p.template(file)
	return &field
}

func (p processReader) command(n *yamlsource.Node) []plan.Field {
	if n.Kind != yamlsource.Sequence {
		p.report(n.Span, "write [program, argument], or use `script` for a shell's text", "the command must be a list, not %s", n.Kind)
		return nil
	}
	if len(n.Items) == 0 {
		p.report(n.Span, "write [program, argument]", "the command is empty")
	}
	var command []plan.Field
	for _, item := range n.Items {
		if _, ok := p.text(item, "an argument"); ok {
			command = append(command, p.template(item))
		}
	}
	if len(command) > 0 && command[0].Value.Str() == "" {
		p.report(n.Items[0].Span, "", "the program's name is empty")
	}
	return command
}

// keySpan is the place of a key of a map that has it.
func keySpan(n *yamlsource.Node, key string) diag.Span {
	for _, e := range n.Entries {
		if e.Key.Text == key {
			return e.Key.Span
		}
	}
	return n.Span
}
