// Package fleet holds the commands about machines that are made when jobs need them.
package fleet

import (
	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
)

// Command makes the command `fleet`.
func Command(p *command.Program) *cobra.Command {
	cmd := &cobra.Command{Use: "fleet", Short: "Try how many machines jobs need"}
	command.Group(cmd)
	cmd.AddCommand(simulateCommand(p))
	return cmd
}
