package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/levels"
	"github.com/rungci/rung/cmd/step-runner/command/project"
	"github.com/rungci/rung/cmd/step-runner/command/runner"
	"github.com/rungci/rung/cmd/step-runner/command/screen"
	"github.com/rungci/rung/cmd/step-runner/command/signals"
	"github.com/rungci/rung/cmd/step-runner/command/values"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/service"
	"github.com/rungci/rung/ui"
)

// localGCPercent is for a program that reads a large definition once and keeps nearly all that it makes of it.
const localGCPercent = 400

// localFlags are the flags of `local`.
type localFlags struct {
	app *app

	event  project.Flags
	jobs   []string
	list   bool
	all    bool
	asJSON bool
	needs  bool
	dryRun bool
	watch  bool

	manual      []string
	concurrency int
	waitDelayed bool
	isolation   string
	noServices  bool
	inPlace     bool
	keep        bool
	shell       bool
	secrets     []string
	matrix      []string
	outputFile  string
	outputDir   string
	grace       time.Duration
	screen.ViewFlags

	realCheckout bool
}

func (a *app) localCommand() *cobra.Command {
	o := &localFlags{app: a}
	cmd := &cobra.Command{
		Use:   "local [FILE] [JOB...]",
		Short: "Run jobs of a .gitlab-ci.yml, or of a workflow of GitHub, on this machine",
		Long: `local runs the jobs of a pipeline here: those that are named, or without a name all of them, stage by stage and as their needs
allow. FILE is .gitlab-ci.yml at the top of the project when it is not given.

Jobs work on a copy of your work tree as it is, uncommitted changes included and ignored files left out. Nothing is brought back:
artifacts, caches, releases, pages and traces are kept in .rung, where later jobs and later runs find them. Variables that GitLab has
in the settings of the project stand in .rung/variables.yml.

A job that names an image or services runs in a container when Docker or Podman is there, and else on this machine.

FILE may be a workflow of GitHub as well, and is when the project has no .gitlab-ci.yml and one workflow. Its jobs begin in an empty
folder, and actions/checkout brings your work tree there. Where they run is for runs-on to say, and for .rung/runners.yml, which maps
labels to images or to this machine.

Exit codes: 0 fine · 1 a job failed that may not · 2 usage · 3 the definition is wrong · 4 not allowed, or a secret is missing ·
5 our system failed · 6 there is no such job · 124 timeout · 130 interrupted`,
		Example: `  step-runner local
  step-runner local --list
  step-runner local --job-name test --needs
  step-runner local .gitlab-ci.yml --format gitlab-ci --job-name hello-world --output-file trace.json
  step-runner local --event merge_request --target main --variable DEPLOY=true
  step-runner local .github/workflows/ci.yml --job-name test --matrix node:20`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.command(cmd.Context(), args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.event.Format, "format", "", "what the file is: `FORMAT` is gitlab-ci or github-actions (default: what its name says)")
	f.StringArrayVar(&o.jobs, "job-name", nil, "run the `JOB`; may be given several times")
	f.BoolVar(&o.needs, "needs", false, "run what the named jobs depend on first")
	f.BoolVar(&o.list, "list", false, "list the jobs and why they are in the pipeline, and run nothing")
	f.BoolVar(&o.all, "all", false, "with --list: the jobs that are not in the pipeline too")
	f.BoolVar(&o.asJSON, "json", false, "with --list and --dry-run: print JSON")
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would run, in order and with its steps, and run nothing")
	f.BoolVar(&o.watch, "watch", false, "run again whenever files of the work tree change")
	f.StringArrayVar(&o.manual, "manual", nil, "start the manual `JOB` when its turn comes; '*' starts all")
	f.IntVar(&o.concurrency, "concurrency", runtime.NumCPU(), "run at most `N` jobs at a time")
	f.BoolVar(&o.waitDelayed, "wait-delayed", false, "wait as long as delayed jobs say; else they start at once")
	f.StringVar(&o.isolation, "isolation", string(local.IsolateAuto), "where jobs run: `HOW` is auto, none (this machine) or container")
	f.BoolVar(&o.noServices, "no-services", false, "run jobs without their services where there is no engine for them")
	f.BoolVar(&o.inPlace, "in-place", false, "run jobs in your work tree itself, on this machine")
	f.StringArrayVar(&o.matrix, "matrix", nil, "of a workflow: run only what has the value `NAME:VALUE` in its matrix")
	f.BoolVar(&o.realCheckout, "real-checkout", false, "of a workflow: let actions/checkout fetch the project, instead of giving it the work tree")
	f.BoolVar(&o.keep, "keep", false, "leave the folders of jobs, and say where they are")
	f.BoolVar(&o.shell, "shell", false, "open a shell in a job that failed, before it is removed")
	f.StringArrayVar(&o.secrets, "secret", nil, "the value of a secret of the job: `NAME` (from the environment variable of that name), NAME=env:OTHER or NAME=@FILE")
	f.StringVar(&o.outputFile, "output-file", "", "write the trace of the one job to `FILE` (default: in .rung/traces)")
	f.StringVar(&o.outputDir, "output-dir", "", "write the traces of the jobs to `DIR`")
	f.StringVar(&o.Progress, "progress", "auto", "how to show the run: `MODE` is auto, tty, plain, quiet or json")
	f.StringVar(&o.Show, "show", "all", "whose output to show: `WHICH` is all, fail or none")
	f.CountVarP(&o.Verbose, "verbose", "v", "show steps, inputs and what is assumed; -vv commands and environment too")
	f.BoolVarP(&o.Quiet, "quiet", "q", false, "show failures only (--progress quiet)")
	f.DurationVar(&o.grace, "grace", engine.DefaultGrace, "give processes `TIME` to end when they are stopped, then kill them")
	o.event.Declare(f)
	return cmd
}

// command does what the flags say.
func (o *localFlags) command(ctx context.Context, args []string) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(localGCPercent)
	}
	file, names, err := o.arguments(args)
	if err != nil {
		return err
	}
	once := o.once
	file, is, err := o.event.WorkflowFile(file)
	if err != nil {
		return err
	}
	if is {
		once = o.onceWorkflow
	}
	if o.watch {
		return o.keepWatching(ctx, once, file, names)
	}
	return once(ctx, file, names)
}

// once opens the project, and lists, shows or runs jobs.
func (o *localFlags) once(ctx context.Context, file string, names []string) error {
	p, err := o.event.Open(ctx, o.app.Program, file)
	if err != nil {
		return err
	}
	jobs, err := p.Select(names, o.needs)
	if err != nil {
		return project.UnknownJob(err)
	}
	switch {
	case o.list:
		return o.printList(p, jobs, len(names) == 0 && o.all)
	case o.dryRun:
		return o.printPlan(ctx, p, jobs)
	}
	return o.run(ctx, p, jobs, names)
}

// arguments tells the file from names of jobs, and checks the flags.
func (o *localFlags) arguments(args []string) (file string, names []string, err error) {
	if len(args) > 0 && isDefinition(args[0]) {
		file, args = args[0], args[1:]
	}
	names = append(slices.Clone(o.jobs), args...)
	switch local.Isolation(o.isolation) {
	case local.IsolateAuto, local.IsolateNone, local.IsolateContainer:
	default:
		return "", nil, exit.Usage("--isolation is auto, none or container, not %q", o.isolation)
	}
	switch {
	case o.inPlace && o.isolation == string(local.IsolateContainer):
		return "", nil, exit.Usage("--in-place runs jobs on this machine, and --isolation container does not").Hinted("leave one of them out")
	case o.inPlace && o.concurrency > 1:
		o.concurrency = 1 // jobs would work on the same files
	}
	switch {
	case o.concurrency < 1:
		return "", nil, exit.Usage("--concurrency is at least 1")
	case o.outputFile != "" && o.outputDir != "":
		return "", nil, exit.Usage("--output-file and --output-dir exclude each other")
	case o.needs && len(names) == 0:
		return "", nil, exit.Usage("--needs is about jobs that are named").Hinted("add --job-name JOB")
	case o.grace < 0 || o.grace > service.MaxGrace:
		return "", nil, exit.Usage("--grace is at least 0 and at most %s", service.MaxGrace)
	case o.watch && file == "-":
		return "", nil, exit.Usage("--watch reads the file anew, and standard input can be read once")
	}
	return file, names, nil
}

// isDefinition reports whether an argument is a file rather than the name of a job.
func isDefinition(arg string) bool {
	if arg == "-" || strings.HasSuffix(arg, ".yml") || strings.HasSuffix(arg, ".yaml") {
		return true
	}
	info, err := os.Stat(arg)
	return err == nil && info.Mode().IsRegular()
}

// run runs the jobs.
func (o *localFlags) run(ctx context.Context, p *gitlab.Project, jobs []*pipeline.Job, names []string) error {
	if len(jobs) == 0 {
		fmt.Fprintf(o.app.Stderr, "there is nothing to run: %s\n", p.Pipeline.Reason())
		return nil
	}
	if o.outputFile != "" && len(jobs) > 1 {
		return exit.Usage("--output-file is for one job, and there are %d", len(jobs)).Hinted("give --job-name, or --output-dir DIR for the traces of all")
	}
	if err := o.checkTraces(); err != nil {
		return err
	}
	secrets, err := values.ReadSecrets(o.secrets, o.app.LookupEnv)
	if err != nil {
		return err
	}
	shown, several := shownNames(jobs)
	view, err := o.view(shown, several)
	if err != nil {
		return err
	}
	ctx, kill, stop := signals.Handle(ctx, nil)
	defer stop()
	places := levels.New(o.app.Program, &o.event.From, p.Repository.Root)
	defer places.Close()
	options := gitlab.RunOptions{
		Options: o.runOptions(places, kill, view), Jobs: jobs, Named: names, Manual: o.manual, WaitDelayed: o.waitDelayed,
		InPlace: o.inPlace, Secrets: secrets,
	}
	o.introduce(p, view)
	began := time.Now()
	results := p.Run(ctx, options)
	return o.ended(view, results, time.Since(began))
}

// shownNames are the names of jobs for a view, and whether it is one of several: a trigger becomes several.
func shownNames(jobs []*pipeline.Job) (names []string, several bool) {
	for _, j := range jobs {
		names = append(names, j.Name)
		several = several || j.Keywords.Trigger != nil
	}
	return names, several || len(jobs) > 1
}

// runOptions are what the flags say of every run.
func (o *localFlags) runOptions(places *levels.Levels, kill <-chan struct{}, view *jobsView) local.Options {
	out := local.Options{
		Concurrency: o.concurrency, Isolation: local.Isolation(o.isolation), None: places.OpenNone, Container: places.OpenContainer,
		NoServices: o.noServices, Keep: o.keep, Trace: o.traceFile, Grace: max(o.grace, time.Nanosecond), Kill: kill,
		RuntimeDigest: runner.Digest, Version: o.app.Version, Observer: view, Verbose: o.Verbose > 0, Color: screen.Color(o.app.Program, o.app.Stdout),
		Everything: o.Progress == string(ui.ModeJSON),
	}
	if o.shell {
		out.Shell = func(ctx context.Context, job local.ShellJob) {
			defer view.Suspend()()
			o.app.openShell(ctx, job)
		}
	}
	return out
}

// ended shows how all jobs ended, and is their exit code.
func (o *localFlags) ended(view *jobsView, results []local.Result, took time.Duration) error {
	view.ended(results, took)
	if err := view.Close(); err != nil {
		return exit.Coded(exit.System, "writing the output: %v", err)
	}
	if code := resultCode(results); code != exit.OK {
		return exit.Shown(code)
	}
	return nil
}

// introduce says what was assumed, and what is hardly meant.
func (o *localFlags) introduce(p *gitlab.Project, view *jobsView) {
	for _, w := range p.Warnings {
		view.Warn("", w.Error(), w.Hint)
	}
	notes := p.Facts.Notes
	if o.Verbose > 0 {
		notes = append(slices.Clone(p.Repository.Notes), notes...)
	}
	for _, note := range notes {
		view.Say("", note)
	}
}

// checkTraces finds out early that traces could not be written in the end.
func (o *localFlags) checkTraces() error {
	dir := o.outputDir
	switch {
	case o.outputFile != "":
		dir = filepath.Dir(o.outputFile)
		if info, err := os.Stat(o.outputFile); err == nil && !info.Mode().IsRegular() {
			return exit.Coded(exit.System, "--output-file: %s is not a regular file", o.outputFile)
		}
	case dir != "":
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return exit.Coded(exit.System, "--output-dir: %v", err)
		}
	default:
		return nil
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return exit.Coded(exit.System, "the trace cannot be written: there is no folder %s", dir).Hinted("create it first")
	}
	return nil
}

// traceFile is where the trace of a job goes; "" is the store.
func (o *localFlags) traceFile(job string) string {
	switch {
	case o.outputFile != "":
		return o.outputFile
	case o.outputDir != "":
		return filepath.Join(o.outputDir, traceName(job))
	}
	return ""
}

// resultCode is the exit code of a run: that of the first required job that failed.
func resultCode(results []local.Result) int {
	code := exit.OK
	for _, r := range results {
		switch r.Status {
		case local.Failed:
			if r.Error == nil && r.Children != nil { // one of them tells
				if c := resultCode(r.Children); c != exit.OK {
					return c
				}
				continue
			}
			if r.Error == nil {
				return exit.StepsFailed
			}
			if c := exit.OfRun("failure", r.Error); c != exit.OK {
				return c
			}
		case local.Cancelled:
			code = exit.Interrupted
		}
	}
	return code
}
