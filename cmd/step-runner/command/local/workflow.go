package local

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/project"
	"github.com/rungci/rung/cmd/step-runner/command/signals"
	"github.com/rungci/rung/cmd/step-runner/command/values"
	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/local/github"
)

// onceWorkflow opens a workflow, and lists, shows or runs its jobs.
func (o *localFlags) onceWorkflow(ctx context.Context, file string, names []string) error {
	if err := o.checkWorkflowFlags(); err != nil {
		return err
	}
	secrets, err := values.ReadSecrets(o.secrets, o.app.LookupEnv)
	if err != nil {
		return err
	}
	defer o.openEarly(file)()
	p, err := o.event.OpenWorkflow(ctx, o.app.Program, file, secrets)
	if err != nil {
		return err
	}
	chosen, err := p.Select(names, o.matrix, o.needs)
	if err == nil {
		err = p.CheckMatrix(chosen)
	}
	switch {
	case err != nil:
		return project.WorkflowError(err)
	case o.list:
		return o.printWorkflow(p, chosen)
	case !p.Starts && len(names) == 0:
		fmt.Fprintf(o.app.Stderr, "there is nothing to run: %s\n", cleantext.Line(p.Why))
		fmt.Fprintln(o.app.Stderr, "hint: --event sets the event, and --job-name JOB runs a job for any event")
		return nil
	case o.dryRun:
		return o.printWorkflowPlan(ctx, p, chosen)
	}
	return o.runWorkflow(ctx, p, chosen)
}

// checkWorkflowFlags refuses what means nothing for a workflow.
func (o *localFlags) checkWorkflowFlags() error {
	switch {
	case len(o.manual) > 0:
		return exit.Usage("--manual is for manual jobs, and workflows have none").Hinted("name the jobs to run")
	case o.waitDelayed:
		return exit.Usage("--wait-delayed is for delayed jobs, and workflows have none")
	case o.inPlace:
		return exit.Usage("--in-place: the jobs of a workflow begin in an empty folder, as on GitHub").Hinted("actions/checkout copies your work tree to it")
	}
	for _, pair := range o.matrix {
		if !strings.Contains(pair, ":") {
			return exit.Usage("--matrix: %q is not NAME:VALUE", pair)
		}
	}
	return nil
}

// runWorkflow runs the jobs.
func (o *localFlags) runWorkflow(ctx context.Context, p *github.Project, chosen *github.Selection) error {
	var names []string
	several := false
	for _, row := range p.List(chosen) {
		names = append(names, row.Legs...)
		several = several || row.Calls != "" || len(row.Legs) != 1
	}
	several = several || len(names) != 1
	if o.outputFile != "" && several {
		return exit.Usage("--output-file is for one job, but there are several").Hinted("use --job-name, or --output-dir DIR for the traces of all")
	}
	if err := o.checkEarly(p.Repository.Root); err != nil {
		return err
	}
	shown, err := o.view(names, several)
	if err != nil {
		return err
	}
	ctx, kill, stop := signals.Handle(ctx, nil)
	defer stop()
	places := o.levels(p.Repository.Root)
	defer places.Close()
	options := github.RunOptions{Options: o.runOptions(places, kill, shown), Selection: chosen, RealCheckout: o.realCheckout}
	if found := p.Unlocked(ctx, options); found != nil {
		return errors.Join(unlocked(found), shown.Close())
	}
	if err := o.checkMachine(options.Options, p.Repository.NoGit && p.NeedsGit(options)); err != nil {
		return errors.Join(err, shown.Close())
	}
	o.introduceWorkflow(p, shown)
	began := time.Now()
	results := p.Run(ctx, options)
	return o.ended(context.WithoutCancel(ctx), shown, results, time.Since(began))
}

// introduceWorkflow says what was assumed, and what is hardly meant.
func (o *localFlags) introduceWorkflow(p *github.Project, shown *jobsView) {
	for _, w := range p.Workflow.Notes {
		shown.Warn("", w.Error(), w.Hint)
	}
	for _, note := range p.Notes {
		shown.Say("", note)
	}
	if !p.Starts {
		shown.Say("", "GitHub would not run it: "+p.Why)
	}
}
