// Package project opens the pipeline or workflow that a command line names.
package project

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/components"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/values"
	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/local/repository"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/source/lock"
)

// Flags say which pipeline it is: of which file, for what, with which variables.
type Flags struct {
	Format     string
	ProjectDir string
	variables  []string
	inputs     []string
	inputFile  string
	source     string
	eventFile  string
	fromCommit string
	target     string
	tag        string
	branch     string
	projects   []string
	From       components.Flags
	// Lock reads the lock file of the project with a root, in the place of what the flags say; nil does as they say.
	Lock func(root string) (*lock.File, error)
}

// readLock is what reads the lock file of a project.
func (o *Flags) readLock() func(root string) (*lock.File, error) {
	if o.Lock != nil {
		return o.Lock
	}
	return o.From.OwnLock
}

// Declare declares the flags.
func (o *Flags) Declare(f *pflag.FlagSet) {
	f.StringArrayVar(&o.variables, "variable", nil, "set the pipeline or workflow variable `NAME=VALUE`; NAME alone takes it from your environment")
	f.StringArrayVar(&o.inputs, "input", nil, "set the input `NAME=VALUE` (spec:inputs, workflow_dispatch), or a job input: JOB:NAME=VALUE")
	f.StringVar(&o.inputFile, "input-file", "", "read inputs from the YAML or JSON `FILE`")
	f.StringVar(&o.source, "event", "", "run as for `EVENT`: "+strings.Join(repository.Sources, ", ")+"; for a workflow, an event of GitHub, or tag (default push)")
	f.StringVar(&o.eventFile, "event-file", "", "for a workflow: read the event payload from the JSON `FILE`; it overrides what the repository provides")
	f.StringVar(&o.fromCommit, "from-commit", "", "compare changes with `COMMIT`")
	f.StringVar(&o.target, "target", "", "set the target `BRANCH` of the merge or pull request (default: the default branch)")
	f.StringVar(&o.tag, "tag", "", "run the pipeline for `TAG`")
	f.StringVar(&o.branch, "branch", "", "run the pipeline for `BRANCH` (default: the current branch)")
	f.StringVar(&o.ProjectDir, "project-dir", "", "use the project that contains `DIR` (default: the current folder)")
	f.StringArrayVar(&o.projects, "project", nil, "take includes and artifacts of another project from a folder: `PROJECT=DIR`")
	o.From.Declare(f)
}

// Open makes the pipeline that the flags ask for.
func (o *Flags) Open(ctx context.Context, p *command.Program, file string) (*gitlab.Project, error) {
	options, err := o.Options(p, file)
	if err != nil {
		return nil, err
	}
	project, err := gitlab.Open(ctx, options)
	if err != nil {
		return nil, OpenError(err)
	}
	return project, nil
}

// OpenError gives the errors of a pipeline that cannot be made their exit codes.
func OpenError(err error) error {
	var event *gitlab.EventError
	var given *gitlab.GivenError
	var unloaded *gitlab.LoadError
	switch {
	case errors.As(err, &unloaded):
		return exit.WithProblems(unloaded.Problems, unloaded.Err)
	case errors.As(err, &event):
		return exit.Usage("%v", err)
	case errors.As(err, &given):
		return exit.Usage("%v", err).Hinted("%s", given.Hint)
	case diag.Of(err) == nil && errors.Is(err, fs.ErrNotExist):
		return exit.Coded(exit.NotFound, "%v", err).Hinted("name the file as the first argument")
	}
	return err
}

// Options are those for gitlab.Open.
func (o *Flags) Options(p *command.Program, file string) (gitlab.Options, error) {
	out := gitlab.Options{Dir: o.ProjectDir, File: file, Env: p.Env, Loader: o.includes(p), Lock: o.readLock()}
	vars, err := values.Assignments("--variable", o.variables, values.PassedOn(p, "--variable"))
	if err != nil {
		return out, err
	}
	for _, pair := range o.variables { // in their order
		name, _, _ := strings.Cut(pair, "=")
		out.Variables = append(out.Variables, variable.Variable{Name: name, Value: vars[name]})
	}
	var own []string
	own, out.JobInputs = o.splitInputs()
	given := values.Inputs{Pairs: own, File: o.inputFile} // the definition says what types they have
	if out.Inputs, err = given.Values(nil); err != nil {
		return out, err
	}
	if out.Projects, err = projectFolders(o.projects); err != nil {
		return out, err
	}
	out.Event = repository.Event{Source: o.source, Ref: o.branch, Tag: o.tag, TargetBranch: o.target, Since: o.fromCommit}
	if file == "-" {
		_, text, err := p.Read("-")
		if err != nil {
			return out, err
		}
		if len(text) > config.MaxFileSize {
			return out, exit.Coded(exit.Definition, "standard input is larger than %d MiB", config.MaxFileSize>>20)
		}
		out.File, out.Text = "stdin", text
	} else if file != "" && o.ProjectDir == "" {
		if full, err := filepath.Abs(file); err == nil {
			out.Dir, out.File = filepath.Dir(full), full
		}
	}
	return out, nil
}

// jobInputForm is JOB:NAME=VALUE. Names of jobs may hold colons, those of inputs may not.
var jobInputForm = lazyregexp.New(`(?s)^(.+?):([A-Za-z0-9_-]+)=(.*)$`)

// splitInputs tells the inputs of the definition (NAME=VALUE) from those of jobs.
func (o *Flags) splitInputs() (own []string, ofJobs []gitlab.JobInput) {
	for _, pair := range o.inputs {
		name, _, _ := strings.Cut(pair, "=")
		found := jobInputForm().FindStringSubmatch(pair)
		if !strings.Contains(name, ":") || found == nil {
			own = append(own, pair)
			continue
		}
		ofJobs = append(ofJobs, gitlab.JobInput{Job: found[1], Name: found[2], Text: found[3]})
	}
	return own, ofJobs
}

// UnknownJob makes the error of a name that is none of a job one with an exit code.
func UnknownJob(err error) error {
	var unknown *gitlab.UnknownJobError
	if errors.As(err, &unknown) {
		return exit.Coded(exit.NotFound, "%v", err).Hinted("%s", unknown.Hint)
	}
	return err
}
