// Package local holds the command that runs the jobs of a pipeline or workflow on this machine.
package local

import (
	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
)

// app is the program as this command knows it.
type app struct{ *command.Program }

// Command is the command.
func Command(p *command.Program) *cobra.Command { return (&app{p}).localCommand() }
