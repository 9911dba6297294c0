package inspect

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/findings"
	"github.com/rungci/rung/cmd/step-runner/command/project"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/problems"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/source"
)

func (a *app) lintCommand() *cobra.Command {
	var o project.Flags
	var report findings.Flags
	cmd := &cobra.Command{
		Use:   "lint [FILE|FOLDER...]",
		Short: "Check .gitlab-ci.yml files, GitHub workflows and files of steps",
		Long: `lint checks a .gitlab-ci.yml with all its includes, or GitHub workflows with those that they call, and reports all problems
at once: each with its file, line and column, the includes and extends that lead there, and what to do. A list of steps, or the
definition of one, is checked as by step-runner check. FOLDER stands for the .yml files in it. Nothing runs. Rules are evaluated for the event, as by step-runner local.

A warning is something that is accepted but probably not intended. Every finding has a rule, which docs/rules.md explains. A comment
"# rung: ignore RULE" on the line, or on the line above, ignores it.

Exit codes: 0 no errors · 2 usage · 3 the file has errors, or with --strict warnings · 4 permission denied · 5 internal
error · 6 not found`,
		Example: `  step-runner lint
  step-runner lint .github/workflows
  step-runner lint --format codequality --output gl-code-quality-problems.json`,
		Args: command.Arguments(0, -1, ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := report.Valid(); err != nil {
				return err
			}
			files, err := o.Files(args)
			if err != nil {
				return err
			}
			var all []problems.Problem
			var unloaded *gitlab.LoadError
			for _, file := range files {
				found, err := a.lint(cmd.Context(), &o, file)
				if err != nil && !errors.As(err, &unloaded) {
					return err
				}
				all = append(all, found...)
			}
			err = report.Write(a.Program, all)
			if unloaded != nil { // which is not a problem of the file
				code, _ := exit.Report(project.OpenError(unloaded))
				return exit.Shown(code)
			}
			return err
		},
	}
	o.Declare(cmd.Flags())
	report.Declare(cmd)
	project.Complete(cmd)
	return cmd
}

// lint finds the problems of a definition. With a *local.LoadError they are those of files that could not be had.
func (a *app) lint(ctx context.Context, o *project.Flags, file string) ([]problems.Problem, error) {
	file, is, err := o.WorkflowFile(file)
	if err != nil {
		return nil, err
	}
	if is {
		return a.lintWorkflow(ctx, o, file)
	}
	if o.Format == "" && isStepFile(file) {
		return findings.OfSteps(ctx, a.Program, &o.From, file)
	}
	options, err := o.Options(a.Program, file)
	if err != nil {
		return nil, err
	}
	p, err := gitlab.Open(ctx, options)
	wrong := diag.Of(err)
	switch {
	case err != nil && wrong == nil:
		return nil, project.OpenError(err)
	case p == nil:
		return findings.OfGitLab(nil, wrong, nil), nil
	}
	var unloaded *gitlab.LoadError
	if errors.As(err, &unloaded) {
		return findings.OfGitLab(p.Config, wrong, p.Warnings), err
	}
	warnings := p.Warnings
	if p.Definition != nil && p.Config != nil {
		warnings = append(warnings, keyword.Lint(p.Definition, p.Config)...)
	}
	if wrong == nil && p.Pipeline != nil {
		wrong = jobProblems(ctx, p)
	}
	return findings.OfGitLab(p.Config, wrong, warnings), nil
}

// isStepFile reports whether a file is one of steps: a list, or a definition. Of a .gitlab-ci.yml every document is a mapping of jobs.
func isStepFile(file string) bool {
	text, err := source.ReadFile(file)
	if err != nil {
		return false
	}
	parsed, err := yamlsource.Parse(file, text, "!reference")
	if err != nil || len(parsed.Documents) == 0 {
		return false
	}
	last := parsed.Documents[len(parsed.Documents)-1]
	if last.Kind == yamlsource.Sequence {
		return true
	}
	run, exec := last.Get("run"), last.Get("exec")
	return run != nil && run.Kind == yamlsource.Sequence || len(parsed.Documents) > 1 && exec != nil && exec.Get("command") != nil
}

// lintWorkflow finds the problems of a workflow, and of those of the project that it calls.
func (a *app) lintWorkflow(ctx context.Context, o *project.Flags, file string) ([]problems.Problem, error) {
	linted, err := o.LintWorkflow(ctx, a.Program, file)
	if err != nil {
		return nil, err
	}
	return findings.OfWorkflow(linted), nil
}

// jobProblems are the problems that show when jobs become steps, those of jobs that are not part of the pipeline too.
func jobProblems(ctx context.Context, p *gitlab.Project) (wrong diag.List) {
	told := map[string]bool{}
	for _, j := range slices.Concat(p.Pipeline.Jobs, p.Pipeline.Excluded) {
		_, _, err := project.CompileJob(ctx, p, j, nil)
		for _, d := range diag.Of(err) { // what else there is, such as a secret that is not given, is not a problem of the file
			if key := d.Error(); !told[key] {
				told[key] = true
				wrong = append(wrong, d)
			}
		}
	}
	return wrong
}
