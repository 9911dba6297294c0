package inspect

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/tracefile"
	"github.com/rungci/rung/steps/trace"
)

func (a *app) traceJoinCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "join TRACE...",
		Short: "Join the traces of a run that moved between processes",
		Long: `join combines the traces of a run that was paused between two steps and resumed in another process. Pass all parts, in any
order.

` + exit.ReaderCodesHelp,
		Example: `  step-runner trace join -o whole.json part-1.json part-2.json`,
		Args:    command.Arguments(1, -1, "a trace"),
		RunE: func(_ *cobra.Command, args []string) error {
			parts := make([]*trace.Trace, len(args))
			for i, path := range args {
				var err error
				if parts[i], err = tracefile.Read(path); err != nil {
					return err
				}
			}
			whole, err := trace.Join(parts...)
			if err != nil {
				return exit.Coded(exit.Definition, "%v", err)
			}
			return a.WriteTo(out, command.Private, func(w io.Writer) error { return tracefile.Export(w, whole, "json") })
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "-", "write to `FILE` instead of standard output")
	return cmd
}
