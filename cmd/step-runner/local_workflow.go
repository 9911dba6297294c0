package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/local/github"
	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/local/include"
	"github.com/rungci/rung/local/repository"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
)

// workflowFile finds out whether a workflow of GitHub is meant, and which file that is. file is what was named, "" for none.
func (o *eventFlags) workflowFile(file string) (found string, is bool, err error) {
	if err := checkFormat(o.format); err != nil || o.format == formatGitLabCI {
		return file, false, err
	}
	if file != "" {
		return file, o.format == formatActions || isWorkflow(file), nil
	}
	root, files, err := github.Find(o.projectDir)
	if err != nil {
		return "", false, coded(exitSystem, "looking for workflows: %v", err)
	}
	if o.format == "" {
		if _, err := os.Stat(filepath.Join(root, gitlab.DefaultFile)); err == nil || len(files) == 0 {
			return "", false, nil // where there is nothing, a .gitlab-ci.yml is what is missing
		}
	}
	switch len(files) {
	case 0:
		return "", false, coded(exitNotFound, "there are no workflows in %s", filepath.Join(root, filepath.FromSlash(github.Folder))).
			hinted("name the file, as the first argument")
	case 1:
		return filepath.Join(root, filepath.FromSlash(files[0])), true, nil
	}
	return "", false, usage("there are %d workflows", len(files)).hinted("name one: %s", strings.Join(files, ", "))
}

// isWorkflow reports whether a file is where GitHub has its workflows.
func isWorkflow(file string) bool {
	full, err := filepath.Abs(file)
	return err == nil && strings.HasSuffix(filepath.ToSlash(filepath.Dir(full)), "/"+github.Folder)
}

// openWorkflow reads a workflow for the event that the flags name.
func (a *app) openWorkflow(ctx context.Context, o *eventFlags, file string, secrets map[string]string) (*github.Project, error) {
	options := github.Options{Dir: o.projectDir, File: file, Env: a.env, Secrets: secrets, Load: a.workflowLoader(o), Lock: o.from.ownLock}
	var err error
	if options.Variables, err = assignments("--variable", o.variables, func(name string) (string, error) {
		text, ok := a.lookupEnv(name)
		if !ok {
			return "", coded(exitNotFound, "--variable %s: there is no environment variable of that name to take", name)
		}
		return text, nil
	}); err != nil {
		return nil, err
	}
	options.Event = github.Event{Name: o.source, File: o.eventFile, Branch: o.branch, Tag: o.tag, Target: o.target, Since: o.fromCommit}
	given := inputFlags{pairs: o.inputs, file: o.inputFile}
	inputs, err := given.values(nil)
	if err != nil {
		return nil, err
	}
	options.Event.Inputs = map[string]string{}
	for name, v := range inputs {
		options.Event.Inputs[name] = v.Text()
	}
	if file == "-" {
		if _, options.Text, err = a.read("-"); err != nil {
			return nil, err
		}
		options.File = "stdin"
	} else if !filepath.IsAbs(file) {
		if options.File, err = filepath.Abs(file); err != nil {
			return nil, coded(exitSystem, "finding the workflow: %v", err)
		}
	}
	if options.Dir == "" && file != "-" {
		options.Dir = filepath.Dir(options.File)
	}
	p, err := github.Open(ctx, options)
	return p, workflowError(err)
}

// workflowError gives the errors of a workflow that cannot be had their exit codes.
func workflowError(err error) error {
	var event *github.EventError
	var unknown *github.UnknownJobError
	switch {
	case errors.As(err, &event):
		return usage("%v", err).hinted("%s", event.Hint)
	case errors.As(err, &unknown):
		return coded(exitNotFound, "%v", err).hinted("%s", unknown.Hint)
	case err != nil && diag.Of(err) == nil && errors.Is(err, fs.ErrNotExist):
		return coded(exitNotFound, "%v", err).hinted("name the file, as the first argument")
	}
	return err
}

// workflowLoader reads workflows of other repositories, by the user's sources, cache and credentials.
func (a *app) workflowLoader(o *eventFlags) func(context.Context, *repository.Repository, string, string, string) ([]byte, error) {
	var once sync.Once
	var loader *include.Loader
	var wrong error
	return func(ctx context.Context, of *repository.Repository, name, ref, path string) ([]byte, error) {
		once.Do(func() {
			projects, err := projectFolders(o.projects)
			if err == nil {
				loader, err = a.openIncludes(o, of, projects)
			}
			wrong = err
		})
		if wrong != nil {
			return nil, wrong
		}
		file, err := loader.Load(ctx, config.Place{Kind: config.Project, Project: name, Ref: ref, Path: path})
		return file.Data, err
	}
}

// onceWorkflow opens a workflow, and lists, shows or runs its jobs.
func (o *localFlags) onceWorkflow(ctx context.Context, file string, names []string) error {
	if err := o.checkWorkflowFlags(); err != nil {
		return err
	}
	secrets, err := readSecrets(o.secrets, o.app.lookupEnv)
	if err != nil {
		return err
	}
	p, err := o.app.openWorkflow(ctx, &o.event, file, secrets)
	if err != nil {
		return err
	}
	chosen, err := p.Select(names, o.matrix, o.needs)
	if err == nil {
		err = p.CheckMatrix(chosen)
	}
	switch {
	case err != nil:
		return workflowError(err)
	case o.list:
		return o.printWorkflow(p, chosen)
	case !p.Starts && len(names) == 0:
		fmt.Fprintf(o.app.stderr, "there is nothing to run: %s\n", p.Why)
		fmt.Fprintln(o.app.stderr, "hint: --event says what happens, and --job-name JOB runs a job whatever happens")
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
		return usage("--manual is about manual jobs, which workflows have none of").hinted("name the jobs that shall run")
	case o.waitDelayed:
		return usage("--wait-delayed is about delayed jobs, which workflows have none of")
	case o.inPlace:
		return usage("--in-place: the jobs of a workflow begin in an empty folder, as on GitHub").hinted("actions/checkout brings your work tree there")
	}
	for _, pair := range o.matrix {
		if !strings.Contains(pair, ":") {
			return usage("--matrix: %q is not NAME:VALUE", pair)
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
		return usage("--output-file is for one job, and there are several").hinted("give --job-name, or --output-dir DIR for the traces of all")
	}
	if err := o.checkTraces(); err != nil {
		return err
	}
	shown, err := o.view(names, several)
	if err != nil {
		return err
	}
	session := &session{app: o.app}
	ctx, kill, stop := session.signals(ctx)
	defer stop()
	places := &places{app: o.app, from: &o.event.from, root: p.Repository.Root}
	defer places.close()
	options := github.RunOptions{Options: o.runOptions(places, kill, shown), Selection: chosen, RealCheckout: o.realCheckout}
	o.introduceWorkflow(p, shown)
	began := time.Now()
	results := p.Run(ctx, options)
	return o.ended(shown, results, time.Since(began))
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
