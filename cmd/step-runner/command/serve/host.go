package serve

import (
	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/host/remotefiles"
	"github.com/rungci/rung/internal/cgroup"
)

// hostCommand does something with the files or control groups of this machine for a program on another one, which has copied this one here.
func (a *app) hostCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "host OPERATION [ARGUMENT…]",
		Short:              "Handle this machine's files and control groups for a program on another machine",
		Hidden:             true,
		DisableFlagParsing: true, // a path may begin with a dash
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == cgroup.Operation {
				return cgroup.Serve(cmd.Context(), a.Stdin, a.Stdout)
			}
			if code := remotefiles.Serve(cmd.Context(), local.Files{}, args, a.Stdin, a.Stdout, a.Stderr); code != 0 {
				return exit.Shown(code)
			}
			return nil
		},
	}
}
