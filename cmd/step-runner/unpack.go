package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/executor/archive"
)

// unpackCommand unpacks a tar archive. It is run in a job's environment, as the job's user, so that files that are sent there are
// that user's and go where the user may write.
func (a *app) unpackCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "unpack DIR",
		Short:  "Unpack the tar archive on standard input",
		Hidden: true,
		Args:   arguments(1, 1, "a folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := archive.Unpack(cmd.Context(), a.stdin, args[0])
			_, _ = io.Copy(io.Discard, a.stdin) // who writes should not find us gone
			var unsafe *archive.UnsafeError
			switch {
			case errors.As(err, &unsafe):
				return coded(exitDenied, "%v", err)
			case err != nil:
				return coded(exitSystem, "%v", err)
			}
			return nil
		},
	}
}
