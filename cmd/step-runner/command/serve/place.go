package serve

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/executor/custom/frames"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/host/sshd"
)

// placeCommand makes the place that it is started in one that jobs can run in, for whoever is at its standard input and output: level
// custom, whose driver started it.
func (a *app) placeCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "place MARK",
		Short:  "Serve this machine over standard input and output, to run a job on it",
		Hidden: true,
		Args:   command.Arguments(1, 1, "a mark"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			conn := &frames.Conn{In: a.Stdin, Out: &frames.Writer{Mark: args[0], Out: a.Stdout}, End: a.Stdout.Close}
			return sshd.Serve(ctx, conn, local.New())
		},
	}
}
