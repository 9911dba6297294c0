// Package machine holds the commands for those who look after a machine that runs jobs.
package machine

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/manager/config"
)

// Opener opens an isolation level for an entry of the configuration, as manager.Options has it.
type Opener func(ctx context.Context, r *config.Runner, level executor.Level, setup executor.Setup) (executor.Executor, error)

// Commands makes the group. open and program are those of `rung run`.
func Commands(p *command.Program, open Opener, program func(system, arch string) (string, error)) []*cobra.Command {
	return []*cobra.Command{statusCommand(p), doctorCommand(p, open, program), serviceCommand(p)}
}
