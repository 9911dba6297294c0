package inspect

import (
	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/components"
	"github.com/rungci/rung/cmd/step-runner/command/findings"
	"github.com/rungci/rung/steps/diag/problems"
)

func (a *app) checkCommand() *cobra.Command {
	var from components.Flags
	var report findings.Flags
	cmd := &cobra.Command{
		Use:   "check FILE|-|REF...",
		Short: "Check steps and the components they use",
		Long: `check reports everything that will be wrong with a list of steps whatever it runs with: steps, outputs, inputs and functions that do not
exist, values of the wrong type, outputs that are never produced, steps that never run. It follows all components. Nothing runs and nothing
is fetched: a component that is not in the cache is a note.

Every finding has a rule, which docs/rules.md explains. A comment "# rung: ignore RULE" on the line, or on the line above, ignores it.

Exit codes: 0 no errors · 2 usage · 3 errors, or with --strict warnings · 4 permission denied · 5 internal error · 6 not found`,
		Example: `  step-runner check steps.yml
  step-runner check ./hello --format sarif`,
		Args: command.Arguments(1, -1, "the file or reference to check"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := report.Valid(); err != nil {
				return err
			}
			var all []problems.Problem
			for _, arg := range args {
				found, err := findings.OfSteps(cmd.Context(), a.Program, &from, arg)
				if err != nil {
					return err
				}
				all = append(all, found...)
			}
			return report.Write(a.Program, all)
		},
	}
	from.Declare(cmd.Flags())
	_ = cmd.Flags().MarkHidden("offline") // it always is
	report.Declare(cmd)
	cmd.ValidArgsFunction = components.CompleteReference
	return cmd
}
