package inspect

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/frontend/actions/convert"
)

func (a *app) convertCommand() *cobra.Command {
	var o convert.Options
	var output string
	var strict bool
	cmd := &cobra.Command{
		Use:   "convert FILE",
		Short: "Convert a GitHub workflow to a .gitlab-ci.yml",
		Long: `convert writes the jobs of a GitHub workflow as jobs of a .gitlab-ci.yml whose run: keyword holds the steps. Actions stay
actions. FILE is a workflow, or - for standard input. Nothing runs.

Notes on standard error list what behaves differently or cannot be converted, with its position; a comment marks the place
in the result.

Exit codes: 0 success · 1 notes, with --strict · 2 usage · 3 invalid file · 4 permission denied · 5 internal error · 6 not
found`,
		Example: `  step-runner convert .github/workflows/ci.yml -o .gitlab-ci.yml
  step-runner convert .github/workflows/ci.yml --job-name test --strict`,
		Args: command.Arguments(1, 1, "FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			data, err := a.workflowText(args[0])
			if err != nil {
				return err
			}
			r, err := convert.Convert(filepath.ToSlash(args[0]), data, o)
			var unknown *convert.UnknownJobError
			if errors.As(err, &unknown) {
				return exit.Coded(exit.NotFound, "--job-name: %v", unknown).Hinted("the jobs are %s", strings.Join(unknown.Jobs, ", "))
			}
			if err != nil {
				return err
			}
			for _, n := range r.Notes {
				fmt.Fprintf(a.Stderr, "note: %s:%d: %s\n", n.Span.File, n.Span.Line, n.Message)
			}
			if output == "" {
				_, err = a.Stdout.Write(r.YAML)
			} else if err = os.WriteFile(output, r.YAML, 0o644); err != nil {
				err = exit.Coded(exit.System, "--output: %v", err)
			}
			if err == nil && strict && len(r.Notes) > 0 {
				return exit.Shown(exit.StepsFailed)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&o.Job, "job-name", "", "convert only the job with the ID `NAME`")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to `FILE`")
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with 1 if there are notes")
	return cmd
}

// workflowText reads a file, or standard input.
func (a *app) workflowText(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(io.LimitReader(a.Stdin, yamlsource.MaxSize+1))
	}
	return os.ReadFile(file)
}
