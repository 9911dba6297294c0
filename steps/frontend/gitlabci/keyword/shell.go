package keyword

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rungci/rung/internal/shellscript"
	"github.com/rungci/rung/steps/diag/rules"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

// scripts warns of scripts that a shell cannot read, and of predefined variables that are misspelled in scripts and rules. Which shell runs a
// script is not known for sure, so nothing is said of what may be for another one.
func (l *linter) scripts() {
	own := l.assigned()
	for i := range l.definition.Workflow.Rules {
		l.condition(&l.definition.Workflow.Rules[i], own)
	}
	for _, j := range l.definition.Jobs {
		for i := range j.Rules {
			l.condition(&j.Rules[i], own)
		}
		if isForWindows(j) {
			continue
		}
		l.script(slices.Concat(j.BeforeScript, j.Script), own)
		l.script(j.AfterScript, own)
	}
}

// assigned are the variables that something in the configuration sets.
func (l *linter) assigned() map[string]bool {
	own := map[string]bool{}
	add := func(all []Variable) {
		for _, v := range all {
			own[v.Name] = true
		}
	}
	add(l.definition.Variables)
	for _, r := range l.definition.Workflow.Rules {
		add(r.Variables)
	}
	for _, j := range l.definition.Jobs {
		add(j.Variables)
		for _, r := range j.Rules {
			add(r.Variables)
		}
		if j.Parallel != nil {
			for _, entry := range j.Parallel.Matrix {
				for _, v := range entry {
					own[v.Name] = true
				}
			}
		}
	}
	return own
}

// isOwnVariable reports whether something sets a variable: a keyword, or a script, which may write it into a dotenv report.
func (l *linter) isOwnVariable(name string, own map[string]bool) bool {
	sets := func(line Line) bool { return strings.Contains(line.Text, name+"=") }
	return own[name] || slices.ContainsFunc(l.definition.Jobs, func(j *Job) bool {
		return slices.ContainsFunc(j.BeforeScript, sets) || slices.ContainsFunc(j.Script, sets) || slices.ContainsFunc(j.AfterScript, sets)
	})
}

// script checks lines that one shell reads together.
func (l *linter) script(lines []Line, own map[string]bool) {
	if len(lines) == 0 {
		return
	}
	texts := make([]string, len(lines))
	for i, line := range lines {
		texts[i] = line.Text
	}
	text := strings.Join(texts, "\n")
	// find tells which line an offset is in.
	find := func(offset int) (line Line, at int) {
		for _, line := range lines[:len(lines)-1] {
			if offset <= len(line.Text) {
				return line, offset
			}
			offset -= len(line.Text) + 1
		}
		return lines[len(lines)-1], offset
	}
	if offset, message, found := shellscript.Unclosed(text); found && !l.config.Partial {
		line, at := find(offset)
		l.warnAt(rules.ShellSyntax, line.Node, line.Node.At(characters(line.Text, at), 1), shellscript.UnclosedHint, "%s", shellscript.UnclosedMessage+message)
		return
	}
	for _, use := range shellscript.Uses(text) {
		if meant := variable.Misspelled(use.Name); meant != "" && !l.isOwnVariable(use.Name, own) {
			line, at := find(use.Offset)
			l.misspelled(line, characters(line.Text, at), use.Name, meant)
		}
	}
}

// condition checks the variables of a rule.
func (l *linter) condition(r *Rule, own map[string]bool) {
	if r.If == nil {
		return
	}
	for _, name := range r.If.Variables() {
		meant := variable.Misspelled(name)
		if meant == "" || l.isOwnVariable(name, own) {
			continue
		}
		n := r.Node.Get("if")
		l.misspelled(Line{n.Text(), n}, characters(n.Text(), max(0, strings.Index(n.Text(), name))), name, meant)
	}
}

func (l *linter) misspelled(line Line, at int, name, meant string) {
	l.warnAt(rules.MisspelledVariable, line.Node, line.Node.At(at, len(name)), "did you mean "+meant+"?", "nothing here sets %s, and GitLab has no variable of that name", shorten(name))
}

// characters is an offset in bytes as one in characters.
func characters(text string, offset int) int {
	return utf8.RuneCountInString(text[:min(offset, len(text))])
}

// windowsWords tell that a script is for PowerShell or cmd.
var windowsWords = []string{"$env:", "write-host", "write-output", ".ps1", "pwsh", "powershell", "invoke-", "get-item", "get-content", "get-child", "set-executionpolicy", "%ci_"}

// isForWindows reports whether the shell of a job may not be a POSIX one.
func isForWindows(j *Job) bool {
	has := func(text string, words ...string) bool {
		text = strings.ToLower(text)
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
	}
	if slices.ContainsFunc(j.Tags, func(tag string) bool { return has(tag, "win", "pwsh", "powershell", "$") }) {
		return true
	}
	if j.Image != nil && has(j.Image.Name, "windows", "nanoserver", "powershell", "servercore") {
		return true
	}
	foreign := func(line Line) bool { return has(line.Text, windowsWords...) }
	return slices.ContainsFunc(j.BeforeScript, foreign) || slices.ContainsFunc(j.Script, foreign) || slices.ContainsFunc(j.AfterScript, foreign)
}
