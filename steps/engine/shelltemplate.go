package engine

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/rungci/rung/internal/shellscript"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
)

// scriptSlot stands for the path of the script in the text of a shell.
const scriptSlot = "{0}"

// interpreter is what is known of a program that runs scripts.
type interpreter struct {
	dialect shellscript.Dialect // "" where no variable of the language can hold a value
	suffix  string              // of the names of its scripts: some programs go by it
	spaces  bool                // a few words of a plain value are no command to it
}

var interpreters = map[string]interpreter{
	"sh": {shellscript.Sh, ".sh", true}, "dash": {shellscript.Sh, ".sh", true}, "ash": {shellscript.Sh, ".sh", true},
	"bash": {shellscript.Bash, ".sh", true}, "zsh": {shellscript.Bash, ".sh", true}, "ksh": {shellscript.Bash, ".sh", true}, "mksh": {shellscript.Bash, ".sh", true},
	"pwsh": {shellscript.Pwsh, ".ps1", true}, "powershell": {shellscript.Powershell, ".ps1", true},
	"cmd": {"", ".cmd", true}, "python": {"", ".py", true}, "python3": {"", ".py", true}, "node": {"", ".js", true},
}

// templateCommand makes the argument vector of a shell whose text names the script's file as {0}: "perl {0}".
func (x *execution) templateCommand(script *plan.Script, shell string) ([]string, *event.Error) {
	argv := splitCommand(shell)
	known, name := interpreterOf(argv)
	var text string
	var err *event.Error
	if known.dialect != "" {
		text, _, err = x.shellText(script.Text, known.dialect)
	} else {
		text, err = x.plainText(script.Text, name, known.spaces)
	}
	if err != nil {
		return nil, err
	}
	if !printsItself(argv) {
		dialect := known.dialect
		if name == "zsh" {
			dialect = shellscript.Zsh
		}
		text = x.marked(script, text, dialect)
	}
	if known.suffix == ".cmd" {
		text = "@echo off\r\n" + strings.ReplaceAll(text, "\n", "\r\n")
	}
	file, cerr := x.scriptFile("script"+known.suffix, text)
	if cerr != nil {
		return nil, systemError("writing the script to a file: %v", cerr)
	}
	if known.suffix == ".ps1" { // PowerShell's own quotes stand around it: -command ". '{0}'"
		for i := range argv {
			argv[i] = strings.ReplaceAll(argv[i], "'"+scriptSlot+"'", shellscript.Quote(file, shellscript.Pwsh))
		}
	}
	for i := range argv {
		argv[i] = strings.ReplaceAll(argv[i], scriptSlot, file)
	}
	return argv, nil
}

// printsItself reports whether a shell is told to print the text of the script (-v), or in zsh all that it runs (-x).
func printsItself(argv []string) bool {
	_, name := interpreterOf(argv)
	return slices.ContainsFunc(argv, func(arg string) bool {
		switch {
		case arg == "--verbose", name == "zsh" && arg == "xtrace":
			return true
		case !strings.HasPrefix(arg, "-") || strings.HasPrefix(arg, "--"):
			return false
		}
		return strings.Contains(arg, "v") || name == "zsh" && strings.Contains(arg, "x")
	})
}

// interpreterOf finds the program that reads the script: the last one before it that is known, as others may stand around it
// (`sudo -E bash {0}`).
func interpreterOf(argv []string) (interpreter, string) {
	found, name := interpreter{}, argv[0]
	for _, arg := range argv {
		if strings.Contains(arg, scriptSlot) {
			break
		}
		base := strings.TrimSuffix(path.Base(filepath.ToSlash(arg)), ".exe")
		if known, ok := interpreters[base]; ok {
			found, name = known, base
		}
	}
	return found, name
}

// splitCommand takes the text of a shell apart: at spaces outside of double quotes, in which \" is a quote. Source: the runner of
// GitHub Actions, and how .NET reads the arguments that it passes on.
func splitCommand(text string) []string {
	var argv []string
	var word strings.Builder
	quoted, inWord := false, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && text[i+1] == '"':
			i++
			word.WriteByte('"')
			inWord = true
		case c == '"':
			quoted, inWord = !quoted, true
		case (c == ' ' || c == '\t' || c == '\n') && !quoted:
			if inWord {
				argv = append(argv, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if inWord {
		argv = append(argv, word.String())
	}
	return argv
}

// plainText evaluates a script in a language that we do not know: no variable of it can hold a value, so that values stand in the text
// as they are, and only those that are plain can. A text that is nothing but one expression is code, as in a shell.
func (x *execution) plainText(f plan.Field, language string, spaces bool) (string, *event.Error) {
	tmpl, err := expr.ParseTemplate(f.Value.Str())
	if err != nil {
		return "", x.run.expressionError(err, f)
	}
	if _, whole := tmpl.Whole(); whole {
		text, _, eerr := x.expandText(f)
		return text, eerr
	}
	var b strings.Builder
	for _, part := range tmpl.Parts() {
		if part.Expr == nil {
			b.WriteString(part.Text)
			continue
		}
		v, err := part.Expr.Eval(x)
		if err != nil {
			return "", x.run.expressionError(err, f)
		}
		v.Secrets(x.run.out.addSecret)
		if !isPlain(v.Text(), spaces) {
			place := x.run.find(f.Span, f.Value.Str(), &expr.Error{Offset: part.Offset, Length: 1})
			e := definitionError("script: a value with special characters cannot be inserted into a script for %s, which could run it as code", language)
			e.Hint = "pass it as a variable, with `env` on the step, and read the variable in the script"
			return "", x.run.at(e, place)
		}
		b.WriteString(v.Text())
	}
	return b.String(), nil
}

// isPlain reports whether a value means nothing to any language: a name, a number, a path or a version.
func isPlain(text string, spaces bool) bool {
	for _, c := range text {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("-_./:@,=+", c) && !(spaces && c == ' ') {
			return false
		}
	}
	return true
}
