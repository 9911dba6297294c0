package step

import (
	"path"
	"strings"
	"unicode/utf8"

	"github.com/rungci/rung/internal/shellscript"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/rules"
	ghexpr "github.com/rungci/rung/steps/expr/github"
)

// Unclosed finds what the script of a step begins and never ends: a quote, a here-document, an `if`. An expression counts as a word.
// shell is the text that names its shell; scripts of others than bash and sh are not read.
func Unclosed(f *yamlsource.File, script *yamlsource.Node, shell string) (found diag.Diagnostic, ok bool) {
	if script.Kind != yamlsource.String || !isPOSIX(shell) {
		return found, false
	}
	text, ok := ghexpr.Plain(script.Text)
	if !ok {
		return found, false
	}
	offset, message, ok := shellscript.Unclosed(text)
	if !ok {
		return found, false
	}
	place := f.At(script, utf8.RuneCountInString(text[:min(offset, len(text))]), 1)
	found = f.Diagnostic(place, shellscript.UnclosedHint, shellscript.UnclosedMessage+message)
	found.Code = rules.ShellSyntax
	return found, true
}

// isPOSIX reports whether a shell is bash or sh: its name, or a command that begins with it.
func isPOSIX(shell string) bool {
	words := strings.Fields(shell)
	if len(words) == 0 {
		return false
	}
	name := strings.ToLower(path.Base(words[0]))
	return name == "bash" || name == "sh"
}
