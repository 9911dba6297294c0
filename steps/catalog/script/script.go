// Package script turns the lines of a classic job into shell text: what `script:` in .gitlab-ci.yml means.
//
// As with gitlab-runner, one shell runs all lines, so that what a line sets (a folder, a variable, a function) is there for the
// next. Before each line the shell is told to show it, as `$ line` in green. The first line that fails ends the script with its exit
// code. The lines are in the text as they are written: a here-document or a quote that a line leaves open goes on in the next one.
package script

import (
	"errors"
	"strings"

	"github.com/rungci/rung/internal/shellscript"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// Functions are what the func.yml of builtin://script calls.
var Functions = map[string]func(args []value.Value) (value.Value, error){
	"script_text": text,
}

// errArguments says how script_text is called.
var errArguments = errors.New("script_text(script, lines, shell, trace, sections) takes a text, a list, a text and two truth values")

// text is script_text(script, lines, shell, trace, sections): the script as it is, or else the lines as Text makes them.
func text(args []value.Value) (value.Value, error) {
	kinds := []value.Kind{value.String, value.Array, value.String, value.Boolean, value.Boolean}
	if len(args) != len(kinds) {
		return value.Value{}, errArguments
	}
	for i, arg := range args {
		if arg.Kind() != kinds[i] {
			return value.Value{}, errArguments
		}
	}
	if args[0].Str() != "" {
		return args[0], nil
	}
	var lines []string
	for _, item := range args[1].Items() {
		lines = append(lines, item.Text())
	}
	out := Text(lines, Options{Shell: args[2].Str(), Trace: args[3].Bool(), Sections: args[4].Bool()})
	var secrets []string
	args[1].Secrets(func(text string) { secrets = append(secrets, text) })
	return value.OfString(out).MarkFor(secrets), nil
}

// Options say for what and how the text is made.
type Options struct {
	// Shell is bash, sh, pwsh, powershell or cmd. Empty is bash, or sh where there is no bash: the text runs in both.
	Shell string
	// Trace lets the shell show everything that it does.
	Trace bool
	// Sections puts a line of several lines into a section that GitLab folds, instead of showing only how it begins.
	Sections bool
}

// Text makes the text of lines for a shell.
func Text(lines []string, o Options) string {
	var w writer
	switch o.Shell {
	case plan.ShellPwsh:
		w = &powershell{}
	case plan.ShellPowershell:
		// Windows PowerShell takes a file for one in the system's code page, unless it begins with the mark of Unicode.
		w = &powershell{}
		w.raw("\ufeff")
	case plan.ShellCmd:
		w = &batch{}
	default:
		w = &posix{shell: o.Shell}
	}
	w.begin(o.Trace)
	for i, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" {
			w.empty()
			continue
		}
		first, rest, many := strings.Cut(line, "\n")
		switch {
		case many && o.Sections:
			w.section(i, firstOf(first), rest)
		case many:
			w.echo("$ " + firstOf(first) + " # collapsed multi-line command")
		default:
			w.echo("$ " + line)
		}
		w.line(line)
	}
	return w.text()
}

// firstOf is the first of several lines without what Windows ends it with.
func firstOf(line string) string { return strings.TrimSuffix(line, "\r") }

// writer writes the text for one kind of shell.
type writer interface {
	begin(trace bool)
	echo(text string)
	empty()
	// section shows a command of several lines, folded, and in full.
	section(index int, first, rest string)
	// line writes a line of the job, and what ends the script when it fails.
	line(text string)
	raw(text string)
	text() string
}

// buffer is what all writers have.
type buffer struct{ strings.Builder }

func (b *buffer) raw(text string) { b.WriteString(text) }
func (b *buffer) text() string    { return b.String() }

// lines writes lines.
func (b *buffer) lines(all ...string) {
	for _, line := range all {
		b.WriteString(line + "\n")
	}
}

// How a command is shown: in bold green.
const (
	green = "\x1b[32;1m"
	reset = "\x1b[0;m"
)

// posix is for sh and what came of it.
type posix struct {
	buffer
	shell string
}

func (w *posix) begin(trace bool) {
	if trace {
		w.lines("set -x")
	}
	// `set` ends a shell that does not know an option, whatever stands behind it; so another one tries first.
	pipefail := `if (set -o pipefail) 2> /dev/null; then set -o pipefail; fi`
	if w.shell == plan.ShellBash {
		pipefail = "set -o pipefail"
	}
	w.lines(pipefail, "set -e", "set +o noclobber")
}

func (w *posix) echo(text string) {
	w.lines(`printf '\033[32;1m%s\033[0;m\n' ` + shellscript.Quote(text, shellscript.Sh))
}

func (w *posix) empty() { w.lines("echo") }

func (w *posix) section(index int, first, rest string) {
	name := sectionName(index)
	w.lines(`printf 'section_start:%s:` + name + sectionOptions + `\r\033[0K' "$(date +%s)"`)
	w.echo("$ " + first + "\n" + rest)
	w.lines(`printf 'section_end:%s:` + name + `\r\033[0K' "$(date +%s)"`)
}

func (w *posix) line(text string) { w.lines(text) }
