// Package serve holds the commands that other programs talk to, and those that a job's environment runs.
package serve

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
)

// app is the program as these commands know it.
type app struct{ *command.Program }

// Commands are the commands of this group.
func Commands(p *command.Program) []*cobra.Command {
	a := &app{p}
	return []*cobra.Command{
		a.serveCommand(),
		a.proxyCommand(),
		a.bootstrapCommand(),
		a.terminalCommand(),
		a.builtinCommand(),
		a.reachCommand(),
		a.hostCommand(),
		a.becomeCommand(),
		a.initCommand(),
		a.placeCommand(),
	}
}

// Quick runs a built-in step, if args name one: jobs start several of them, which do without the tree of all commands.
func Quick(ctx context.Context, p *command.Program, args []string) (ran bool, err error) {
	return (&app{p}).quick(ctx, args)
}
