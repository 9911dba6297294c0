package main

import (
	"bytes"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
)

func (a *app) compileCommand() *cobra.Command {
	var format string
	var spans bool
	cmd := &cobra.Command{
		Use:   "compile FILE|-",
		Short: "Print what a file of steps means: its baseline definition",
		Long: `compile prints the baseline definition that a file of steps, or a job's list of steps, compiles to. The text is canonical:
it depends on the meaning of the input alone, so that two inputs can be compared. Nothing runs and nothing is fetched.

` + readerExitCodesHelp,
		Example: `  step-runner compile steps.yml
  step-runner compile hello/step.yml --format yaml`,
		Args: arguments(1, 1, "the file to compile"),
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	cmd.Flags().StringVarP(&format, "format", "f", "json", "print `FORMAT`: json or yaml")
	cmd.Flags().StringVarP(&format, "output", "o", "json", "the same") // its first name
	_ = cmd.Flags().MarkHidden("output")
	cmd.Flags().BoolVar(&spans, "spans", false, "print the place of everything in the source too")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if format != "json" && format != "yaml" {
			return usage("--format: %q is neither json nor yaml", format)
		}
		name, text, err := a.read(args[0])
		if err != nil {
			return err
		}
		component, err := gitlabsteps.ParseSteps(name, text)
		if err != nil {
			return err
		}
		encode := plan.Canonical
		if spans {
			encode = plan.WithSpans
		}
		out, err := encode(component)
		if err == nil && format == "yaml" {
			out, err = yamlsource.FromJSON(out)
		}
		if err != nil {
			return err
		}
		_, err = bytes.NewReader(out).WriteTo(a.stdout)
		return err
	}
	return cmd
}
