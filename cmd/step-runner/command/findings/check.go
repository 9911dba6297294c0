package findings

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/components"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/project"
	"github.com/rungci/rung/cmd/step-runner/command/report"
	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/problems"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
)

// Command makes the command `check`.
func Command(p *command.Program) *cobra.Command {
	var o project.Flags
	var flags report.Flags
	cmd := &cobra.Command{
		Use:     "check [FILE|FOLDER|-|REF...]",
		Aliases: []string{"lint"},
		Short:   "Check pipelines, workflows, steps and actions",
		Long: `check reports everything that will be wrong whatever values a run has, all at once: each finding with its file, line and column,
its rule, and what to do. Nothing runs. lint is the same command.

  .gitlab-ci.yml         with all its includes; rules are evaluated for the
                         event, as by step-runner local
  a GitHub workflow      with the workflows and actions of the project that
                         it uses
  a list of steps        with all components that it uses
  a component, by its    as its callers use it
  file, folder or REF
  action.yml             a GitHub action

FOLDER stands for what a run would find there: the definition of a component or an action, .gitlab-ci.yml, and the workflows in
.github/workflows. A folder that has none of these stands for the .yml files in it. Without arguments the project is checked.

Included files are fetched, unless --offline is used. Components, actions and workflows are not: one that is not in the cache is a note.

A warning is something that is accepted but probably not intended. docs/rules.md explains every rule. A comment
"# rung: ignore RULE" on the line, or on the line above, ignores it.

Exit codes: 0 no errors · 2 usage · 3 errors, or with --strict warnings · 4 permission denied · 5 internal error · 6 not found`,
		Example: `  step-runner check
  step-runner check .github/workflows ci/steps.yml ./hello
  step-runner check --format codequality --output gl-code-quality-problems.json`,
		Args: command.Arguments(0, -1, ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.Valid(); err != nil {
				return err
			}
			targets, err := targetsOf(p, &o, args)
			if err != nil {
				return err
			}
			from, err := ofSources(p, &o, targets)
			if err != nil {
				return err
			}
			all := from.found
			var unloaded *gitlab.LoadError
			for _, t := range targets {
				if from.steps && t.looksUp() {
					continue // where its components are is not known
				}
				found, err := t.check(cmd.Context(), p, &o)
				if err != nil && !errors.As(err, &unloaded) {
					return err
				}
				all = append(all, from.without(found)...)
			}
			for i := range all {
				all[i].Message, all[i].Source = source.MaskUserinfo(all[i].Message), source.MaskUserinfo(all[i].Source)
			}
			err = flags.Write(p, "step-runner", all)
			if unloaded != nil { // which is not a problem of the file
				code, _ := exit.Report(project.OpenError(unloaded))
				return exit.Shown(code)
			}
			return err
		},
	}
	o.Declare(cmd.Flags())
	flags.Declare(cmd)
	project.Complete(cmd)
	cmd.ValidArgsFunction = components.CompleteReference
	return cmd
}

// check finds the problems of a target. With a *gitlab.LoadError they are those of files that could not be had.
func (t target) check(ctx context.Context, program *command.Program, o *project.Flags) ([]problems.Problem, error) {
	p := *program
	if t.name == "-" {
		p.Stdin = bytes.NewReader(t.text)
	}
	switch t.kind {
	case workflowFile:
		linted, err := o.LintWorkflow(ctx, &p, t.name)
		if err != nil {
			return nil, err
		}
		return ofWorkflow(linted), nil
	case actionFile:
		return ofAction(ctx, &p, &o.From, t.name)
	case stepsFile:
		return ofSteps(ctx, &p, &o.From, t.name)
	case component:
		return ofComponent(ctx, &p, &o.From, t.name)
	default:
		return checkGitLab(ctx, &p, o, t.name)
	}
}

// checkGitLab finds the problems of a .gitlab-ci.yml; "" is the project's own.
func checkGitLab(ctx context.Context, program *command.Program, o *project.Flags, file string) ([]problems.Problem, error) {
	options, err := o.Options(program, file)
	if err != nil {
		return nil, err
	}
	p, err := gitlab.Open(ctx, options)
	wrong := diag.Of(err)
	switch {
	case err != nil && wrong == nil:
		return nil, project.OpenError(err)
	case p == nil:
		return ofPipeline(nil, wrong, nil), nil
	}
	var unloaded *gitlab.LoadError
	if errors.As(err, &unloaded) {
		return ofPipeline(p.Config, wrong, p.Warnings), err
	}
	warnings := p.Warnings
	if p.Definition != nil && p.Config != nil {
		warnings = append(warnings, keyword.Lint(p.Definition, p.Config)...)
	}
	var inSteps []problems.Problem
	if wrong == nil && p.Pipeline != nil {
		var runs []*plan.Component
		if wrong, runs = jobProblems(ctx, p); len(runs) > 0 && p.Config != nil {
			if inSteps, err = ofRuns(ctx, program, &o.From, p, runs); err != nil {
				return nil, err
			}
		}
	}
	return append(ofPipeline(p.Config, wrong, warnings), inSteps...), nil
}

// jobProblems are the problems that show when jobs become steps, those of jobs that are not part of the pipeline too. runs are the jobs with `run`.
func jobProblems(ctx context.Context, p *gitlab.Project) (wrong diag.List, runs []*plan.Component) {
	told := map[string]bool{}
	for _, j := range slices.Concat(p.Pipeline.Jobs, p.Pipeline.Excluded) {
		compiled, _, err := project.CompileJob(ctx, p, j, nil)
		if err == nil && j.Keywords.Run.Exists() {
			runs = append(runs, compiled)
		}
		for _, d := range diag.Of(err) { // what else there is, such as a secret that is not given, is not a problem of the file
			if key := d.Error(); !told[key] {
				told[key] = true
				wrong = append(wrong, d)
			}
		}
	}
	return wrong, runs
}
