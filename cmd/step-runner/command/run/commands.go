// Package run holds the commands that run steps: ci and run.
package run

import (
	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
)

// app is the program as these commands know it.
type app struct{ *command.Program }

// Commands are the commands of this group.
func Commands(p *command.Program) []*cobra.Command {
	a := &app{p}
	return []*cobra.Command{
		a.ciCommand(),
		a.runCommand(),
	}
}
