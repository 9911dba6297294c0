// Package fleet holds the commands about machines that are made when jobs need them.
package fleet

import (
	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
)

// Command makes the command `fleet`.
func Command(p *command.Program) *cobra.Command {
	cmd := &cobra.Command{Use: "fleet", Short: "See the machines that jobs need, and try how many"}
	command.Group(cmd)
	cmd.AddCommand(statusCommand(p), explainCommand(p), costCommand(p), recordCommand(p), simulateCommand(p))
	return cmd
}
