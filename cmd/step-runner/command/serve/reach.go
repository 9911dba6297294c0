package serve

import (
	"context"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
)

const (
	// reachTry is how long one attempt to connect may take.
	reachTry = 2 * time.Second
	// reachPause is the time between two attempts.
	reachPause = 100 * time.Millisecond
)

// reachCommand waits for a server. It is run in the container of a job, from where alone the job's services may be reached.
func (a *app) reachCommand() *cobra.Command {
	var limit time.Duration
	cmd := &cobra.Command{
		Use:    "reach HOST:PORT",
		Short:  "Wait until a TCP port accepts connections",
		Hidden: true,
		Args:   command.Arguments(1, 1, "a host and a port"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, _, err := net.SplitHostPort(args[0]); err != nil {
				return exit.Usage("%q is not a host and a port", args[0])
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), limit)
			defer cancel()
			return reach(ctx, args[0], limit)
		},
	}
	cmd.Flags().DurationVar(&limit, "timeout", 30*time.Second, "give up after `TIME`")
	return cmd
}

// reach connects to an address until it succeeds or ctx ends.
func reach(ctx context.Context, address string, limit time.Duration) error {
	dialer := &net.Dialer{Timeout: reachTry}
	for {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return exit.Coded(exit.Timeout, "cannot connect to %s after %s: %v", address, limit, err)
		case <-time.After(reachPause):
		}
	}
}
