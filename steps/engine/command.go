package engine

import (
	"errors"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/rungci/rung/internal/shellscript"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// maxInlineScript is how long a script can be and still be passed as an argument, in bytes: Linux takes 128 KiB.
const maxInlineScript = 100 << 10

// command makes the argument vector of an exec, as it is recorded and as it runs: they differ in how a script tells its lines.
func (x *execution) command() (recorded, running []string, err *event.Error) {
	if script := x.inv.def.Exec.Script; script != nil {
		return x.scriptCommand(script)
	}
	recorded, err = x.vector()
	return recorded, recorded, err
}

// vector makes the argument vector of an exec that is one.
func (x *execution) vector() ([]string, *event.Error) {
	fields := x.inv.def.Exec.Command
	argv := make([]string, len(fields))
	for i, f := range fields {
		var err *event.Error
		if i > 0 && i == shellTextIndex(argv[:i]) {
			argv[i], err = x.shellArgument(f, shellDialect(argv[0]))
		} else {
			argv[i], err = x.argument(i, f)
		}
		if err != nil {
			return nil, err
		}
		if strings.ContainsRune(argv[i], 0) {
			return nil, x.run.fieldError(f, "argument %d of the command holds a NUL byte", i)
		}
	}
	if argv[0] == "" {
		return nil, x.run.fieldError(fields[0], "the command is empty")
	}
	return argv, nil
}

func (x *execution) argument(i int, f plan.Field) (string, *event.Error) {
	text, sensitive, err := x.expandText(f)
	if err == nil && sensitive {
		x.run.out.emit(x.inv.id, event.Warning{
			Message: fmt.Sprintf("argument %d of the command holds a sensitive value, which other processes on this machine can see while it runs; pass it in `env` instead", i),
		})
	}
	return text, err
}

// shells are the programs whose -c argument is shell text, and the dialect they speak.
var shells = map[string]shellscript.Dialect{
	"sh": shellscript.Sh, "dash": shellscript.Sh, "ash": shellscript.Sh,
	"bash": shellscript.Bash, "zsh": shellscript.Bash, "ksh": shellscript.Bash, "mksh": shellscript.Bash,
}

func shellDialect(program string) shellscript.Dialect {
	if d, ok := shells[path.Base(filepath.ToSlash(program))]; ok {
		return d
	}
	return shellscript.Bash // behind env
}

// shellTextIndex returns the position of the next argument when it is the text of a shell's -c, else -1. args are the
// arguments before it: `bash -euo pipefail -c`, `env -i A=b sh -c`.
func shellTextIndex(args []string) int {
	i := 0
	if path.Base(filepath.ToSlash(args[0])) == "env" {
		for i = 1; i < len(args) && (strings.HasPrefix(args[i], "-") || strings.Contains(args[i], "=")); i++ {
		}
	}
	if i >= len(args) {
		return -1
	}
	if _, ok := shells[path.Base(filepath.ToSlash(args[i]))]; !ok {
		return -1
	}
	command := false
	for i++; i < len(args); i++ {
		arg := args[i]
		option := len(arg) > 1 && (arg[0] == '-' || arg[0] == '+')
		switch {
		case command: // the text was an argument before this one
			return -1
		case option && strings.HasPrefix(arg, "--"):
		case option && strings.Contains(arg, "c"):
			command = true
		case option:
		case strings.HasSuffix(args[i-1], "o") || strings.HasSuffix(args[i-1], "O"): // the name of a shell option
		default:
			return -1 // a script file: what follows are its arguments
		}
	}
	if command {
		return len(args)
	}
	return -1
}

// shellArgument evaluates the text of a shell's -c.
func (x *execution) shellArgument(f plan.Field, dialect shellscript.Dialect) (string, *event.Error) {
	text, sensitive, err := x.shellText(f, dialect)
	if err != nil || !sensitive && len(text) <= maxInlineScript {
		return text, err
	}
	return x.sourced(text)
}

// sourced puts a script into a file and returns the shell text that runs it: for scripts that are too long for an argument,
// or hold what the list of processes must not show.
func (x *execution) sourced(text string) (string, *event.Error) {
	file, err := x.scriptFile("script", text)
	if err != nil {
		return "", systemError("writing the script to a file: %v", err)
	}
	return ". '" + strings.ReplaceAll(file, "'", `'\''`) + "'", nil
}

// scriptCommand makes the argument vector that runs a script, as command does.
func (x *execution) scriptCommand(script *plan.Script) (recorded, running []string, err *event.Error) {
	want, _, err := x.expandText(plan.Field{Value: value.OfString(script.Shell), Span: script.Text.Span})
	if err != nil {
		return nil, nil, err
	}
	if strings.Contains(want, scriptSlot) {
		recorded, err = x.templateCommand(script, want)
		return recorded, recorded, err
	}
	shell, program, err := x.run.shells.find(want, x.env.vars["PATH"].text)
	if err != nil {
		return nil, nil, x.run.at(err, script.Text.Span)
	}
	dialect := shells[shell]
	switch shell {
	case plan.ShellPwsh, plan.ShellPowershell:
		dialect = shellscript.Pwsh
	case plan.ShellCmd:
		dialect = shellscript.Cmd
	}
	text, sensitive, err := x.shellText(script.Text, dialect)
	if err != nil {
		return nil, nil, err
	}
	marked := x.marked(script, text, dialect)
	switch dialect {
	case shellscript.Pwsh:
		recorded, err = x.fileCommand(text, "script.ps1", program, "-NoLogo", "-NoProfile", "-NonInteractive", "-ExecutionPolicy", "Bypass", "-File")
	case shellscript.Cmd:
		recorded, err = x.fileCommand("@echo off\r\n"+strings.ReplaceAll(text, "\n", "\r\n"), "script.cmd", program, "/d", "/c")
	default:
		if !sensitive && len(text) <= maxInlineScript {
			if len(marked) > maxInlineScript {
				marked = text
			}
			return []string{program, "-c", text}, []string{program, "-c", marked}, nil
		}
		if text, err = x.sourced(marked); err == nil {
			recorded = []string{program, "-c", text}
		}
	}
	return recorded, recorded, err
}

func (x *execution) fileCommand(text, suffix string, command ...string) ([]string, *event.Error) {
	file, err := x.scriptFile(suffix, text)
	if err != nil {
		return nil, systemError("writing the script to a file: %v", err)
	}
	return append(command, file), nil
}

// shellText evaluates shell text. Expressions become variables of the shell, so that no value can turn into code; a text
// that is nothing but one expression is code, because its author asked for that.
func (x *execution) shellText(f plan.Field, dialect shellscript.Dialect) (text string, sensitive bool, err *event.Error) {
	source := f.Value.Str()
	if !expr.Has(source) {
		return source, false, nil
	}
	tmpl, perr := expr.ParseTemplate(source)
	if perr != nil {
		return "", false, x.run.expressionError(perr, f)
	}
	if _, whole := tmpl.Whole(); whole {
		return x.expandText(f)
	}
	if text, ok := tmpl.Literal(); ok {
		return text, false, nil
	}
	parts := tmpl.Parts()
	pieces := make([]shellscript.Part, len(parts))
	var values []string
	for i, part := range parts {
		pieces[i] = shellscript.Part{Text: part.Text, Slot: part.Expr != nil}
		if part.Expr == nil {
			continue
		}
		v, everr := part.Expr.Eval(x)
		if everr != nil {
			return "", false, x.run.expressionError(everr, f)
		}
		v.Secrets(x.run.out.addSecret)
		sensitive = sensitive || v.Sensitive()
		values = append(values, v.Text())
	}
	script, serr := shellscript.Parse(pieces, dialect)
	if serr == nil {
		text, serr = script.Render(values)
	}
	if serr != nil {
		return "", false, x.run.shellError(serr, f, parts)
	}
	return text, sensitive, nil
}

// shellFinder finds the shell for a script once per PATH.
type shellFinder struct {
	mu    sync.Mutex
	known map[string][2]string
}

// find returns the shell that a script asks for and the program that runs it.
func (f *shellFinder) find(want, searchPath string) (shell, program string, err *event.Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := want + "\x00" + searchPath
	if found, ok := f.known[key]; ok {
		return found[0], found[1], nil
	}
	candidates := []string{want}
	if want == "" {
		candidates = []string{plan.ShellBash, plan.ShellSh}
	}
	for _, name := range candidates {
		if program := lookPath(name, searchPath); program != "" {
			if f.known == nil {
				f.known = map[string][2]string{}
			}
			f.known[key] = [2]string{name, program}
			return name, program, nil
		}
	}
	e := event.NewError(event.CodeShellNotFound, "no %s was found in PATH (%s)", strings.Join(candidates, " or "), searchPath)
	if want == "" {
		e.Hint = "install a shell, or name another with `shell:` (bash, sh, pwsh, powershell, cmd, or a command with {0})"
	}
	return "", "", e
}

// lookPath finds a program in the directories of searchPath, as exec.LookPath does in those of this process.
func lookPath(name, searchPath string) string {
	for _, dir := range filepath.SplitList(searchPath) {
		if !filepath.IsAbs(dir) {
			continue // a relative directory in PATH would depend on where the step runs
		}
		file := filepath.Join(dir, name)
		if runtime.GOOS == "windows" {
			file += ".exe"
		}
		if found, err := exec.LookPath(file); err == nil {
			return found
		}
	}
	return ""
}

// shellError makes the error of an expression that stands where no variable of the shell can.
func (p *places) shellError(err error, f plan.Field, parts []expr.Part) *event.Error {
	out := definitionError("script: %v", err)
	var detail *shellscript.Error
	if !errors.As(err, &detail) {
		return p.at(out, f.Span)
	}
	out.Message, out.Hint = "script: "+detail.Message, detail.Hint
	if detail.Part >= 0 && detail.Part < len(parts) {
		part := parts[detail.Part]
		return p.at(out, p.find(f.Span, f.Value.Str(), &expr.Error{Offset: part.Offset + detail.Offset, Length: 1}))
	}
	return p.at(out, f.Span)
}
