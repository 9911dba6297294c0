// Package trust holds the commands that report what may run and prove what ran: locks, sources, the cache, signatures and packages.
package trust

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
		a.sourcesCommand(),
		(&cacheCommands{p}).cacheCommand(),
		a.signCommand(),
		a.verifyCommand(),
		a.ociCommand(),
	}
}

// TraceCommands are those below `trace`: they sign traces, verify them and pack them.
func TraceCommands(p *command.Program) []*cobra.Command {
	a := &app{p}
	return []*cobra.Command{a.traceBundleCommand(), a.traceSignCommand(), a.traceVerifyCommand()}
}
