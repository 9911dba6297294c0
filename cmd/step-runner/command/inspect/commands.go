// Package inspect holds the commands that read definitions and traces and run nothing.
package inspect

import (
	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/explain"
	"github.com/rungci/rung/cmd/step-runner/command/findings"
)

// app is the program as these commands know it.
type app struct{ *command.Program }

// Commands are the commands of this group. ofTraces are further ones below `trace`.
func Commands(p *command.Program, ofTraces []*cobra.Command) []*cobra.Command {
	a := &app{p}
	return []*cobra.Command{
		a.traceCommand(ofTraces),
		a.describeCommand(),
		findings.Command(p),
		a.compileCommand(),
		a.convertCommand(),
		explain.Command(p),
		command.VersionCommand(a.Program, "step-runner"),
	}
}
