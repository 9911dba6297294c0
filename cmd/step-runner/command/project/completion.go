package project

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/local/github"
	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/local/repository"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// Complete completes the values of the flags.
func Complete(cmd *cobra.Command) {
	command.Complete(cmd, "event", repository.Sources...)
}

// CompleteJobs completes the names of the jobs of the file that fileOf finds among the arguments; "" is the project's own.
func (o *Flags) CompleteJobs(p *command.Program, fileOf func(args []string) string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		return command.Beginning(typed, o.jobs(cmd.Context(), p, fileOf(args), false)), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteManualJobs completes the names of manual jobs, which workflows do not have.
func (o *Flags) CompleteManualJobs(p *command.Program, fileOf func(args []string) string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		return command.Beginning(typed, o.jobs(cmd.Context(), p, fileOf(args), true)), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteMatrix completes the values of the matrix of the jobs of a workflow, as NAME:VALUE.
func (o *Flags) CompleteMatrix(p *command.Program, fileOf func(args []string) string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		var pairs []string
		offline := *o
		offline.From.Offline = true
		if file, workflow, err := offline.WorkflowFile(fileOf(args)); err == nil && workflow {
			for _, row := range offline.rows(cmd.Context(), p, file) {
				for _, pair := range row.Values {
					if !slices.Contains(pairs, pair) {
						pairs = append(pairs, pair)
					}
				}
			}
		}
		return command.Beginning(typed, pairs), cobra.ShellCompDirectiveNoFileComp
	}
}

// rows are the jobs of a workflow; nil if it has errors.
func (o *Flags) rows(ctx context.Context, p *command.Program, file string) []github.Row {
	opened, err := o.OpenWorkflow(ctx, p, file, nil)
	if err != nil {
		return nil
	}
	all, err := opened.Select(nil, nil, false)
	if err != nil {
		return nil
	}
	return opened.List(all)
}

// jobs are the names of the jobs in a file, or of the manual ones; nil if it has errors, of which completion cannot tell. Nothing is fetched.
func (o *Flags) jobs(ctx context.Context, p *command.Program, file string, manual bool) (names []string) {
	offline := *o
	offline.From.Offline = true
	file, workflow, err := offline.WorkflowFile(file)
	switch {
	case err != nil:
		return nil
	case workflow && manual:
		return nil
	case workflow:
		for _, row := range offline.rows(ctx, p, file) {
			names = append(names, row.ID)
		}
		return names
	}
	options, err := offline.Options(p, file)
	if err != nil {
		return nil
	}
	opened, err := gitlab.Open(ctx, options)
	if err != nil || opened.Pipeline == nil {
		return nil
	}
	for _, j := range opened.Pipeline.Jobs {
		if !manual || j.When == when.Manual {
			names = append(names, j.Name)
		}
	}
	return names
}
