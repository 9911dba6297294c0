package project

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/local/repository"
)

// Complete completes the values of the flags.
func Complete(cmd *cobra.Command) {
	command.Complete(cmd, "event", repository.Sources...)
}

// CompleteJobs completes the names of the jobs of the file that fileOf finds among the arguments; "" is the project's own.
func (o *Flags) CompleteJobs(p *command.Program, fileOf func(args []string) string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		var found []string
		for _, name := range o.jobs(cmd.Context(), p, fileOf(args)) {
			if strings.HasPrefix(name, typed) {
				found = append(found, name)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// jobs are the names of the jobs in a file; nil if it has errors, of which completion cannot tell. Nothing is fetched.
func (o *Flags) jobs(ctx context.Context, p *command.Program, file string) (names []string) {
	offline := *o
	offline.From.Offline = true
	file, workflow, err := offline.WorkflowFile(file)
	switch {
	case err != nil:
		return nil
	case workflow:
		opened, err := offline.OpenWorkflow(ctx, p, file, nil)
		if err != nil {
			return nil
		}
		all, err := opened.Select(nil, nil, false)
		if err != nil {
			return nil
		}
		for _, row := range opened.List(all) {
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
		names = append(names, j.Name)
	}
	return names
}
