package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/values"
	"github.com/rungci/rung/local/github"
	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/local/include"
	"github.com/rungci/rung/local/repository"
	"github.com/rungci/rung/steps/diag"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
)

// The formats of pipelines.
const (
	formatGitLabCI = "gitlab-ci"
	formatActions  = "github-actions"
)

// Formats are the values of --format.
var Formats = []string{formatGitLabCI, formatActions}

func checkFormat(format string) error {
	if format == "" {
		return nil
	}
	return command.OneOf("--format", format, Formats...)
}

// WorkflowFile finds out whether a workflow of GitHub is meant, and which file that is. file is what was named, "" for none.
func (o *Flags) WorkflowFile(file string) (found string, is bool, err error) {
	if err := checkFormat(o.Format); err != nil || o.Format == formatGitLabCI {
		return file, false, err
	}
	if file != "" {
		return file, o.Format == formatActions || IsWorkflow(file), nil
	}
	root, files, err := github.Find(o.ProjectDir)
	if err != nil {
		return "", false, exit.Coded(exit.System, "looking for workflows: %v", err)
	}
	if o.Format == "" {
		_, err := os.Lstat(filepath.Join(root, gitlab.DefaultFile))
		switch {
		case err == nil:
			return "", false, nil
		case len(files) == 0:
			return "", false, exit.Coded(exit.NotFound, "there is no pipeline in %s: neither %s nor a workflow in %s", root, gitlab.DefaultFile, github.Folder).
				Hinted("go to a project's folder, or name the file as the first argument")
		}
	}
	switch len(files) {
	case 0:
		return "", false, exit.Coded(exit.NotFound, "there are no workflows in %s", filepath.Join(root, filepath.FromSlash(github.Folder))).
			Hinted("name the file as the first argument")
	case 1:
		return filepath.Join(root, filepath.FromSlash(files[0])), true, nil
	}
	return "", false, exit.Usage("there are %d workflows", len(files)).Hinted("name one: %s", strings.Join(files, ", "))
}

// Root is the root of the project that a file is of, "" for its own file, as far as it can be told without asking git.
func (o *Flags) Root(file string) string {
	dir := o.ProjectDir
	if dir == "" && file != "" && file != "-" {
		dir = filepath.Dir(file)
	}
	return github.Root(cmp.Or(dir, "."))
}

// Files are the files of a project: the workflows of one that has several and no .gitlab-ci.yml; else "", its own file.
func (o *Flags) Files() (files []string, err error) {
	root, workflows, err := github.Find(o.ProjectDir)
	if err != nil {
		return nil, exit.Coded(exit.System, "looking for workflows: %v", err)
	}
	_, err = os.Stat(filepath.Join(root, gitlab.DefaultFile))
	if len(workflows) < 2 || o.Format == formatGitLabCI || o.Format == "" && err == nil {
		return []string{""}, nil
	}
	for _, file := range workflows {
		files = append(files, filepath.Join(root, filepath.FromSlash(file)))
	}
	return files, nil
}

// IsWorkflow reports whether a file is where GitHub has its workflows.
func IsWorkflow(file string) bool {
	full, err := filepath.Abs(file)
	return err == nil && strings.HasSuffix(filepath.ToSlash(filepath.Dir(full)), "/"+github.Folder)
}

// OpenWorkflow reads a workflow for the event that the flags name.
func (o *Flags) OpenWorkflow(ctx context.Context, p *command.Program, file string, secrets map[string]string) (*github.Project, error) {
	options := github.Options{Dir: o.ProjectDir, File: file, Env: p.Env, Secrets: secrets, Load: o.workflowLoader(p), Lock: o.readLock(), Relock: o.Lock != nil}
	var err error
	if options.Variables, err = values.Assignments("--variable", o.variables, values.PassedOn(p, "--variable")); err != nil {
		return nil, err
	}
	options.Event = github.Event{Name: o.source, File: o.eventFile, Branch: o.branch, Tag: o.tag, Target: o.target, Since: o.fromCommit}
	given := values.Inputs{Pairs: o.inputs, File: o.inputFile}
	inputs, err := given.Values(nil)
	if err != nil {
		return nil, err
	}
	options.Event.Inputs = map[string]string{}
	for name, v := range inputs {
		options.Event.Inputs[name] = v.Text()
	}
	if err := locate(p, &options); err != nil {
		return nil, err
	}
	project, err := github.Open(ctx, options)
	return project, WorkflowError(err)
}

// LintWorkflow finds what is wrong with a workflow.
func (o *Flags) LintWorkflow(ctx context.Context, p *command.Program, file string) (*github.Linted, error) {
	options := github.Options{Dir: o.ProjectDir, File: file, Lock: o.From.OwnLock}
	if err := locate(p, &options); err != nil {
		return nil, err
	}
	found, err := github.Lint(ctx, options)
	return found, WorkflowError(err)
}

// locate makes the file of a workflow absolute, and reads one from standard input.
func locate(p *command.Program, o *github.Options) (err error) {
	if o.File == "-" {
		_, o.Text, err = p.Read("-")
		o.File = "stdin"
		return err
	}
	if !filepath.IsAbs(o.File) {
		if o.File, err = filepath.Abs(o.File); err != nil {
			return exit.Coded(exit.System, "finding the workflow: %v", err)
		}
	}
	if o.Dir == "" {
		o.Dir = filepath.Dir(o.File)
	}
	return nil
}

// WorkflowError gives the errors of a workflow that cannot be had their exit codes.
func WorkflowError(err error) error {
	var event *github.EventError
	var unknown *github.UnknownJobError
	switch {
	case errors.As(err, &event):
		return exit.Usage("%v", err).Hinted("%s", event.Hint)
	case errors.As(err, &unknown):
		return exit.Coded(exit.NotFound, "%v", err).Hinted("%s", unknown.Hint)
	case err != nil && diag.Of(err) == nil && errors.Is(err, fs.ErrNotExist):
		return exit.Coded(exit.NotFound, "%v", err).Hinted("name the file as the first argument")
	}
	return err
}

// workflowLoader reads workflows of other repositories, by the user's sources, cache and credentials.
func (o *Flags) workflowLoader(p *command.Program) func(context.Context, *repository.Repository, string, string, string) ([]byte, error) {
	var once sync.Once
	var loader *include.Loader
	var wrong error
	return func(ctx context.Context, of *repository.Repository, name, ref, path string) ([]byte, error) {
		once.Do(func() {
			projects, err := projectFolders(o.projects)
			if err == nil {
				loader, err = o.openIncludes(p, of, projects)
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

// Leg is the one leg of a job that a name stands for.
func Leg(ctx context.Context, p *github.Project, name string) (*definition.Compiled, error) {
	chosen, err := p.Select([]string{name}, nil, false)
	if err != nil {
		return nil, WorkflowError(err)
	}
	legs, err := p.Plan(ctx, chosen, false)
	switch {
	case err != nil:
		return nil, err
	case len(legs) > 1:
		var names []string
		for _, l := range legs {
			names = append(names, fmt.Sprintf("%q", l.Name))
		}
		return nil, exit.Usage("%s is %d jobs", name, len(legs)).Hinted("name one of %s", strings.Join(names, ", "))
	case len(legs) == 0 || legs[0].Compiled == nil:
		return nil, exit.Coded(exit.Definition, "the job %s has no steps of its own", name)
	}
	return legs[0].Compiled, nil
}
