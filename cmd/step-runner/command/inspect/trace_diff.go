package inspect

import (
	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/screen"
	"github.com/rungci/rung/cmd/step-runner/command/tracefile"
	"github.com/rungci/rung/steps/trace"
)

func (a *app) traceDiffCommand() *cobra.Command {
	var logs, times, asJSON bool
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two traces of the same job",
		Long: `diff compares two traces: the run (status, source, program, environment, job variables, inputs, secrets) and each step
(reference, definition, inputs, environment, command, outputs, exit code, log). Steps are matched by name, then by position.
Differences that any two runs have are ignored: IDs, times, and paths of temporary folders. Sensitive values are compared by
keyed digest if both traces have the same key; otherwise diff reports that it cannot compare them. Durations are shown if
they changed much, but never count as a difference.

Exit codes: 0 same · 1 different · 2 usage · 3 invalid file · 4 permission denied · 5 internal error · 6 not found`,
		Example: `  step-runner trace diff yesterday.json today.json
  step-runner trace diff --logs a.json b.json
  step-runner trace diff --json a.json b.json | jq '.steps[].path'`,
		Args: command.Arguments(2, 2, "the traces to compare"),
		RunE: func(_ *cobra.Command, args []string) error {
			first, err := tracefile.Read(args[0])
			if err != nil {
				return err
			}
			second, err := tracefile.Read(args[1])
			if err != nil {
				return err
			}
			d, err := trace.Diff(first, second, trace.DiffOptions{Logs: logs})
			if err != nil {
				return err
			}
			if asJSON {
				err = command.WriteJSON(a.Stdout, d)
			} else {
				o := trace.DiffTextOptions{Color: screen.Color(a.Program, a.Stdout), ASCII: screen.ASCIIOnly(a.Getenv), Times: times}
				err = d.WriteText(a.Stdout, o)
			}
			if err == nil && !d.Same {
				return exit.Shown(exit.Different)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&logs, "logs", false, "show log lines that differ")
	f.BoolVar(&times, "times", false, "show all durations, not only large changes")
	f.BoolVar(&asJSON, "json", false, "print the difference as JSON")
	return cmd
}
