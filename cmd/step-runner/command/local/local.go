package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/levels"
	"github.com/rungci/rung/cmd/step-runner/command/project"
	"github.com/rungci/rung/cmd/step-runner/command/runner"
	"github.com/rungci/rung/cmd/step-runner/command/screen"
	"github.com/rungci/rung/cmd/step-runner/command/signals"
	"github.com/rungci/rung/cmd/step-runner/command/tracefile"
	"github.com/rungci/rung/cmd/step-runner/command/values"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/internal/shellword"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/local/limits"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/service"
	"github.com/rungci/rung/ui"
)

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
	named  bool  // a list says which file it is of
	lists  []any // of the files so far, for one JSON array

	manual      []string
	concurrency int
	waitDelayed bool
	isolation   string
	limits      limits.Limits
	privileged  bool
	confine     string
	noServices  bool
	inPlace     bool
	keep        bool
	shell       bool
	secrets     []string
	matrix      []string
	outputFile  string
	outputDir   string
	grace       time.Duration
	envPolicy   values.EnvPolicy
	screen.ViewFlags

	realCheckout bool

	env      []string
	hostHome bool
	hostEnv  map[string]string // what these two come to

	early *levels.Levels // opened before the project was; nil is none
}

// isolations are the values of --isolation.
var isolations = []string{string(local.IsolateAuto), string(local.IsolateNone), isolateCGroup, string(local.IsolateContainer), isolateSandbox}

// isolateCGroup runs jobs on this machine, in control groups.
const isolateCGroup = string(executor.CGroup)

// isolateSandbox runs jobs in containers of gVisor.
const isolateSandbox = string(executor.Sandbox)

func (a *app) localCommand() *cobra.Command {
	o := &localFlags{app: a}
	cmd := &cobra.Command{
		Use:   "local [FILE] [JOB...]",
		Short: "Run CI jobs on this machine: .gitlab-ci.yml or GitHub workflows",
		Long: `local runs the jobs of a pipeline: the named jobs, or all of them, stage by stage and as their needs allow. FILE defaults to
.gitlab-ci.yml at the top of the project.

Jobs work on a copy of your work tree with uncommitted changes and without ignored files. Your files are never changed:
artifacts, caches, releases, pages and traces are stored in .rung, where later jobs and runs find them. Put the variables of
the project's CI/CD settings in .rung/variables.yml.

A job with an image or services runs in a container if Docker or Podman is available, otherwise on this machine.

FILE can be a GitHub workflow, and defaults to the only workflow of a project without .gitlab-ci.yml. Its jobs start in an
empty folder, and actions/checkout copies your work tree there. runs-on and .rung/runners.yml, which maps labels to images,
decide where jobs run.

Exit codes: 0 success · 1 a required job failed · 2 usage · 3 invalid definition · 4 not allowed, or a secret is missing · 5
internal error · 6 no such job · 124 timeout · 130 interrupted`,
		Example: `  step-runner local
  step-runner local --list
  step-runner local --job-name test --needs
  step-runner local .gitlab-ci.yml --job-name test --output-file trace.json
  step-runner local --event merge_request --target main --variable DEPLOY=true
  step-runner local .github/workflows/ci.yml --job-name test --matrix node:20`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.command(cmd.Context(), args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.event.Format, "format", "", "treat the file as `FORMAT`: gitlab-ci or github-actions (default: by its name)")
	f.StringArrayVar(&o.jobs, "job-name", nil, "run `JOB`; can be repeated")
	f.BoolVar(&o.needs, "needs", false, "run the jobs that the named jobs need first")
	f.BoolVar(&o.list, "list", false, "list the jobs, and why each is in the pipeline")
	f.BoolVar(&o.all, "all", false, "with --list: include jobs that are not in the pipeline")
	f.BoolVar(&o.asJSON, "json", false, "with --list and --dry-run: print JSON")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the jobs and steps that would run, in order")
	f.BoolVar(&o.watch, "watch", false, "run again when files in the work tree change")
	f.StringArrayVar(&o.manual, "manual", nil, "start the manual `JOB`; '*' starts all")
	f.IntVar(&o.concurrency, "concurrency", runtime.NumCPU(), "run at most `N` jobs at a time")
	f.BoolVar(&o.waitDelayed, "wait-delayed", false, "wait for the delay of delayed jobs instead of starting them at once")
	f.StringVar(&o.isolation, "isolation", string(local.IsolateAuto), "run jobs in `LEVEL`: auto, none (this machine), cgroup (the same, with limits), container, or sandbox (a container of gVisor)")
	for _, l := range limitFlags {
		f.Var(&limitFlag{&o.limits, l.name, l.kind, ""}, l.name, l.usage)
	}
	f.BoolVar(&o.privileged, "privileged", false, "let jobs in containers have all rights on this machine's kernel")
	f.StringVar(&o.confine, "confine", plan.Confinements[0], "confine `WHICH` steps to their own files and processes, besides those that ask for it: fetched, all or none (Linux)")
	f.BoolVar(&o.noServices, "no-services", false, "run jobs without their services if there is no container engine")
	f.StringArrayVar(&o.env, "env", nil, "set the environment variable `NAME=VALUE` for steps on this machine; NAME alone passes yours on")
	f.BoolVar(&o.hostHome, "host-home", false, "let jobs on this machine use your home and XDG folders and your git configuration")
	f.BoolVar(&o.inPlace, "in-place", false, "run jobs in your work tree itself instead of a copy")
	f.StringArrayVar(&o.matrix, "matrix", nil, "run only the matrix jobs with `NAME:VALUE`")
	f.BoolVar(&o.realCheckout, "real-checkout", false, "let actions/checkout fetch the project instead of copying the work tree")
	f.BoolVar(&o.keep, "keep", false, "keep the folders of jobs, and print their paths")
	f.BoolVar(&o.shell, "shell", false, "open a shell in a job that failed")
	f.StringArrayVar(&o.secrets, "secret", nil, "pass the secret `NAME` from the environment; or NAME=env:OTHER, NAME=@FILE")
	f.StringVar(&o.outputFile, "output-file", "", "write the trace of the job to `FILE` (default: in .rung/traces)")
	f.StringVar(&o.outputDir, "output-dir", "", "write the traces to `DIR`")
	f.StringVar(&o.Progress, "progress", "auto", "show progress as `MODE`: auto, tty, plain, quiet or json")
	f.StringVar(&o.Fold, "fold", "auto", "fold steps in the job log of `SYSTEM`: gitlab, github, none or auto (plain view only)")
	f.StringVar(&o.Show, "show", "all", "show the output of `WHICH` jobs: all, fail or none")
	f.CountVarP(&o.Verbose, "verbose", "v", "show steps, inputs and assumptions; -vv also commands and environment")
	f.BoolVarP(&o.Quiet, "quiet", "q", false, "show failures only (--progress quiet)")
	o.envPolicy.Declare(f)
	f.DurationVar(&o.grace, "grace", engine.DefaultGrace, "give processes `TIME` to exit before they are killed")
	o.event.Declare(f)
	o.complete(cmd)
	return cmd
}

// complete completes the arguments and the values of flags.
func (o *localFlags) complete(cmd *cobra.Command) {
	file := func(args []string) string {
		if len(args) > 0 && isDefinition(args[0]) {
			return args[0]
		}
		return ""
	}
	jobs := o.event.CompleteJobs(o.app.Program, file)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		found, _ := jobs(cmd, args, typed)
		if len(args) > 0 {
			return found, cobra.ShellCompDirectiveNoFileComp
		}
		return found, cobra.ShellCompDirectiveDefault
	}
	command.CompleteWith(cmd, "job-name", jobs)
	command.CompleteWith(cmd, "manual", o.event.CompleteManualJobs(o.app.Program, file))
	command.CompleteWith(cmd, "matrix", o.event.CompleteMatrix(o.app.Program, file))
	command.Complete(cmd, "isolation", isolations...)
	command.Complete(cmd, "env-policy", values.EnvPolicies...)
	command.Complete(cmd, "confine", plan.Confinements...)
	command.Complete(cmd, "network", "all", "none", "public")
	command.Complete(cmd, "format", project.Formats...)
	project.Complete(cmd)
	screen.CompleteView(cmd)
}

// command does what the flags say.
func (o *localFlags) command(ctx context.Context, args []string) error {
	file, names, err := o.arguments(args)
	if err != nil {
		return err
	}
	if o.list && file == "" && len(names) == 0 {
		return o.listAll(ctx)
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

// listAll lists the jobs of the project's file, or of each of its workflows: several are one JSON array. A file with mistakes does not keep the others from
// being listed.
func (o *localFlags) listAll(ctx context.Context) error {
	files, err := o.event.Files()
	if err != nil {
		return err
	}
	o.named = len(files) > 1
	var wrong diag.List
	printed := false
	for _, file := range files {
		once := o.once
		file, is, err := o.event.WorkflowFile(file)
		if err != nil {
			return err
		}
		if is {
			once = o.onceWorkflow
		}
		if printed && !o.asJSON {
			fmt.Fprintln(o.app.Stdout)
		}
		err = once(ctx, file, nil)
		if found := diag.Of(err); o.named && found != nil {
			wrong = append(wrong, found...)
			continue
		}
		if err != nil {
			return err
		}
		printed = true
	}
	if o.named && o.asJSON {
		if err := command.WriteJSON(o.app.Stdout, append([]any{}, o.lists...)); err != nil {
			return err
		}
	}
	if len(wrong) > 0 {
		return wrong
	}
	return nil
}

// once opens the project, and lists, shows or runs jobs.
func (o *localFlags) once(ctx context.Context, file string, names []string) error {
	defer o.openEarly(file)()
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
	if o.hostEnv, err = o.hostEnvironment(); err != nil {
		return "", nil, err
	}
	if err := command.OneOf("--isolation", o.isolation, isolations...); err != nil {
		return "", nil, err
	}
	if _, err := o.envPolicy.Inherits(); err != nil {
		return "", nil, err
	}
	switch {
	case o.inPlace && (o.isolation == string(local.IsolateContainer) || o.isolation == isolateSandbox):
		return "", nil, exit.Usage("--in-place runs jobs on this machine, and --isolation %s does not", o.isolation).Hinted("leave one of them out")
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
	case !slices.Contains(plan.Confinements, o.confine):
		return "", nil, command.OneOf("--confine", o.confine, plan.Confinements...)
	case o.grace < 0 || o.grace > service.MaxGrace:
		return "", nil, exit.Usage("--grace is at least 0 and at most %s", service.MaxGrace)
	case o.watch && file == "-":
		return "", nil, exit.Usage("--watch reads the file again, and standard input can be read once")
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
		fmt.Fprintf(o.app.Stderr, "there is nothing to run: %s\n", cleantext.Line(p.Pipeline.Reason()))
		return nil
	}
	if o.outputFile != "" && len(jobs) > 1 {
		return exit.Usage("--output-file is for one job, but there are %d", len(jobs)).Hinted("use --job-name, or --output-dir DIR for the traces of all")
	}
	if err := o.checkEarly(p.Repository.Root); err != nil {
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
	places := o.levels(p.Repository.Root)
	defer places.Close()
	options := gitlab.RunOptions{
		Options: o.runOptions(places, kill, view), Jobs: jobs, Named: names, Manual: o.manual, WaitDelayed: o.waitDelayed,
		InPlace: o.inPlace, Secrets: secrets,
	}
	if found := p.Unlocked(options); found != nil {
		return errors.Join(unlocked(found), view.Close())
	}
	if err := o.checkMachine(options.Options, p.Repository.NoGit && p.NeedsGit(options)); err != nil {
		return errors.Join(err, view.Close())
	}
	o.introduce(p, view)
	began := time.Now()
	results := p.Run(ctx, options)
	return o.ended(context.WithoutCancel(ctx), view, results, time.Since(began))
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
	inheritEnv, _ := o.envPolicy.Inherits() // it was checked with the other flags
	out := local.Options{
		InheritEnv: inheritEnv, Locked: o.event.From.Locked,
		Concurrency: o.concurrency, Isolation: local.Isolation(o.isolation), Limits: o.limits, Privileged: o.privileged, None: places.OpenNone, Container: places.OpenContainer,
		HostEnv: o.hostEnv, NoServices: o.noServices, Keep: o.keep, Confine: plan.Confinement(o.confine), Trace: o.traceFile, Grace: max(o.grace, time.Nanosecond), Kill: kill,
		RuntimeDigest: runner.Digest, Version: o.app.Version, Observer: view, Verbose: o.Verbose > 0, Color: screen.Color(o.app.Program, o.app.Stdout),
		Everything: o.Progress == string(ui.ModeJSON),
	}
	switch o.isolation {
	case isolateCGroup:
		out.Isolation, out.None = local.IsolateNone, places.OpenCGroup
	case isolateSandbox:
		out.Isolation, out.Container = local.IsolateContainer, places.OpenSandbox
	}
	if o.shell {
		out.Shell = func(ctx context.Context, job local.ShellJob) {
			defer view.Suspend()()
			o.app.openShell(ctx, job)
		}
	}
	return out
}

// unlocked is the error of jobs whose images --locked refuses.
func unlocked(found diag.List) error {
	return exit.WithProblems(found, exit.Coded(exit.Denied, "--locked requires images with digests"))
}

// ended shows how all jobs ended, and is their exit code.
func (o *localFlags) ended(ctx context.Context, view *jobsView, results []local.Result, took time.Duration) error {
	view.ended(results, took)
	if err := view.Close(); err != nil {
		return exit.Coded(exit.System, "writing the output: %v", err)
	}
	o.sendSpans(ctx, results)
	if code := resultCode(results); code != exit.OK {
		o.suggest(results)
		return exit.Shown(code)
	}
	return nil
}

// sendSpans sends the spans of all jobs to a collector, where the environment names one. What goes wrong is no failure of the jobs.
func (o *localFlags) sendSpans(ctx context.Context, results []local.Result) {
	spans, err := tracefile.SpansTo(o.app.Getenv)
	if err == nil && spans != nil {
		var files []string
		for _, r := range local.Flatten(results) {
			if r.Trace != "" {
				files = append(files, r.Trace)
			}
		}
		err = spans.Send(ctx, files...)
	}
	if err != nil {
		fmt.Fprintf(o.app.Stderr, "warning: cannot send spans: %v\n", err)
	}
}

// suggest says how to look into the first job whose steps failed.
func (o *localFlags) suggest(results []local.Result) {
	if o.Quiet || o.Progress == string(ui.ModeJSON) || o.Progress == string(ui.ModeQuiet) {
		return
	}
	for _, r := range local.Flatten(results) {
		if r.Status != local.Failed || r.Trace == "" || r.Apart {
			continue
		}
		fmt.Fprintf(o.app.Stderr, "hint: step-runner trace show --logs %s\n", shellword.Of(r.Trace))
		if !o.shell && (r.Error == nil || r.Error.Fault() != event.FaultSystem) { // which no look at the job's files mends
			fmt.Fprintln(o.app.Stderr, "hint: run it again with --shell for a shell in the failed job")
		}
		return
	}
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

// checkEarly finds out before any job what every job would fail with: traces that cannot be written, and sources.toml files that are wrong.
func (o *localFlags) checkEarly(root string) error {
	if err := o.checkTraces(); err != nil {
		return err
	}
	_, err := o.event.From.Rules(o.app.Program, root)
	return err
}

// checkMachine finds out before any job what this machine lacks for all of them: the level that was asked for, or git.
func (o *localFlags) checkMachine(options local.Options, noGit bool) error {
	r := local.NewRunner(options)
	var missing *event.Error
	switch options.Isolation {
	case local.IsolateContainer:
		_, missing = r.Container()
	case local.IsolateNone:
		_, missing = r.ThisMachine()
	}
	switch {
	case missing != nil:
		return missing
	case noGit:
		return exit.Coded(exit.System, "there is no git in PATH, and the project cannot be copied to jobs without it: it knows what the project ignores").
			Hinted("install git, or add its folder to PATH")
	}
	return nil
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
