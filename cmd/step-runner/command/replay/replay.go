// Package replay holds the command that re-runs a trace and compares.
package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/keys"
	"github.com/rungci/rung/cmd/step-runner/command/runner"
	"github.com/rungci/rung/cmd/step-runner/command/screen"
	"github.com/rungci/rung/cmd/step-runner/command/session"
	"github.com/rungci/rung/cmd/step-runner/command/signals"
	"github.com/rungci/rung/cmd/step-runner/command/tracefile"
	"github.com/rungci/rung/cmd/step-runner/command/values"
	jobenv "github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/replay"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/stepproto"
	"github.com/rungci/rung/steps/toolkit/github"
	"github.com/rungci/rung/steps/trace"
)

// replaying is what `replay` was told, and what it has found out.
type replaying struct {
	*session.Session
	options   replay.Options
	compare   replay.CompareOptions
	runtime   string // a step-runner that may be the one of the recorded run
	steps     string // the file with the steps
	asJSON    bool
	isolation string // auto, or none
	trusted   keys.TrustedKeys
	envelope  string
	dryRun    bool
	project   string // whose files the steps get, where the recorded run had some
	fresh     string // the folder around a fresh work directory; "" if there is none
	files     string // the folder with the files of variables, where the recorded run had some
	programs  string // the folder in PATH with this program, where the recorded run had one
	loaded    *tracefile.Loaded
	notes     []string
	needs     *replay.Needs
	// placeholders are the names of what was not given and that no step names.
	placeholders []string
}

// Command is the command.
func Command(p *command.Program) *cobra.Command {
	r := &replaying{Session: session.New(p)}
	cmd := &cobra.Command{
		Use:   "replay TRACE|BUNDLE",
		Short: "Re-run a trace and show differences",
		Long: `replay runs the steps of a trace again with the same components, inputs, job variables and environment, and with the same
version of step-runner if it is available. It compares outputs, exports, exit codes, statuses and logs. If all are the same
it prints one line and exits with 0; otherwise it prints the differences by step and exits with 1. A run that fails as the
recorded one did counts as the same.

It runs in the current folder or --work-dir; a run that was in a container runs in one of the same image, with its services.
Fetched components are pinned to what the trace recorded; local ones must not have changed. Pass what a trace does not hold
(secrets, sensitive job variables and inputs) with --secret; the values must be the recorded ones. Secrets and job variables
that no step names get placeholders, with a warning. Times and temporary paths in logs are ignored; --exact compares every
byte.

A replay runs the commands in the trace: replay only traces that you trust. --key runs it only if that key has signed the trace,
or the bundle, as it is read; --dry-run shows all that would run, and runs nothing.

` + replayExitCodesHelp,
		Example: `  step-runner replay trace.json
  step-runner replay trace.json --secret DEPLOY_TOKEN --output-file again.json
  step-runner replay trace.json --from build/compile --until test
  step-runner replay run.bundle --offline --key ci.pub
  step-runner replay trace.json --dry-run`,
		Args: command.Arguments(1, 1, "the trace or bundle to replay"),
		RunE: func(cmd *cobra.Command, args []string) error {
			defer r.Close()
			return r.run(cmd.Context(), args[0])
		},
	}
	r.flags(cmd)
	screen.CompleteView(cmd)
	command.Complete(cmd, "isolation", "auto", "none")
	command.Complete(cmd, "confine", plan.Confinements...)
	return cmd
}

const replayExitCodesHelp = `Exit codes: 0 same · 1 different · 2 usage · 3 invalid trace or definition · 4 a component or secret changed, or not allowed
· 5 internal error · 6 not found · 124 timeout · 130 interrupted`

func (r *replaying) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.WorkDir, "work-dir", "", "run commands in `DIR` (default: the current folder)")
	f.StringVar(&r.TraceFile, "output-file", "", "keep the trace of the new run in `FILE`")
	f.StringVar(&r.options.From, "from", "", "start at `STEP` (2.1, or build/compile); take earlier results from the trace")
	f.StringVar(&r.options.Until, "until", "", "stop after `STEP`")
	f.StringArrayVar(&r.Secrets, "secret", nil, "pass the secret, or other sensitive value, `NAME` from the environment; or NAME=env:OTHER, NAME=@FILE")
	f.BoolVar(&r.options.AllSecrets, "all-secrets", false, "require every secret, even those that no step names")
	f.BoolVar(&r.options.OtherSecrets, "other-secrets", false, "accept secrets that differ from the recorded ones")
	f.StringArrayVar(&r.Env, "env", nil, "set the environment variable `NAME=VALUE` instead of the recorded one; NAME alone passes on the host's")
	f.BoolVar(&r.options.Changed, "changed", false, "use components as they are now, and show the effect")
	f.BoolVar(&r.options.AnyPlatform, "any-platform", false, "run even if the trace is from another system or architecture")
	f.StringVar(&r.runtime, "runtime", "", "use the step-runner `FILE`, if it made the trace")
	f.StringVar(&r.steps, "steps", "", "read the steps from `FILE`, if the recorded text held secrets")
	f.StringVar(&r.isolation, "isolation", "auto", "run in `LEVEL`: auto (as recorded, such as a container of the same image) or none (this machine)")
	f.StringVar(&r.Confine, "confine", "", "confine `WHICH` steps, besides those that ask for it: fetched, all or none (default: as recorded)")
	f.BoolVar(&r.compare.Exact, "exact", false, "also compare times and temporary paths in logs")
	f.BoolVar(&r.asJSON, "json", false, "print the differences as JSON")
	f.StringVar(&r.Progress, "progress", "", "show progress on standard error as `MODE`: auto, tty, plain, quiet or json (default: none)")
	f.StringVar(&r.Show, "show", "all", "show the output of `WHICH` steps: all, fail or none")
	f.CountVarP(&r.Verbose, "verbose", "v", "show the run (--progress auto), inputs and resolved references; -vv also commands and environment")
	f.BoolVarP(&r.Quiet, "quiet", "q", false, "do not show the run")
	r.trusted.Declare(f)
	f.StringVar(&r.envelope, "envelope", "", "with --key: read the signatures from `FILE` instead of TRACE.dsse")
	f.BoolVar(&r.dryRun, "dry-run", false, "show what would run, uncut, and run nothing")
	f.DurationVar(&r.Timeout, "timeout", 0, "stop the run after `TIME` (1h30m); 0 means never")
	f.DurationVar(&r.Grace, "grace", engine.DefaultGrace, "give processes `TIME` to exit before they are killed")
	r.Session.From.Declare(f)
	for _, name := range []string{"lock-file", "locked", "refresh"} { // the trace is the lock
		_ = f.MarkHidden(name)
	}
}

// run replays the trace, or that of the bundle, in the file.
func (r *replaying) run(ctx context.Context, file string) error {
	if r.Timeout < 0 || r.Grace < 0 {
		return exit.Usage("--timeout and --grace cannot be less than 0")
	}
	if r.Confine != "" && !slices.Contains(plan.Confinements, r.Confine) {
		return command.OneOf("--confine", r.Confine, plan.Confinements...)
	}
	recorded, err := r.load(file)
	if err != nil {
		return err
	}
	if r.dryRun {
		return r.show(recorded)
	}
	if err := r.handOver(ctx, recorded); err != nil {
		return err
	}
	if r.options.Given, err = givenValues(r.Program, r.Secrets); err != nil { // once: it may come through a pipe
		return err
	}
	if r.needs, err = replay.NewNeeds(recorded, &r.options); err != nil {
		return err
	}
	if err := r.findProject(ctx, recorded); err != nil {
		return err
	}
	if elsewhere, err := r.wantsPlace(recorded); err != nil {
		return err
	} else if elsewhere {
		return r.inPlace(ctx, recorded)
	}
	removeProgram, err := r.ownProgram(recorded)
	if err != nil {
		return err
	}
	defer removeProgram()
	clean, err := r.freshFolder(recorded)
	if err != nil {
		return err
	}
	defer clean()
	removeFiles, err := r.variableFiles(recorded)
	if err != nil {
		return err
	}
	defer removeFiles()
	end, err := r.services(ctx, recorded)
	if err != nil {
		return err
	}
	defer end()
	traceFile, remove, err := r.target(file)
	if err != nil {
		return err
	}
	defer remove()
	again, err := r.prepare(recorded)
	if err != nil {
		return replayError(err)
	}
	components, err := again.Components(ctx, r.Components, r.loaded.Packages())
	if err != nil {
		return replayError(err)
	}
	r.notes = append(r.notes, again.Notes...)
	for _, note := range r.notes {
		r.Program.Tell("note: " + note)
	}
	r.placeholders = append(r.placeholders, again.Placeholders...)
	r.tellPlaceholders()
	result, err := r.execute(ctx, recorded, again, components, traceFile)
	if err != nil {
		return err
	}
	if result.Status == event.Cancelled && recorded.Run.Status != event.Cancelled {
		return exit.Coded(exit.Interrupted, "%s", result.Error.Message)
	}
	fresh, err := tracefile.Read(traceFile)
	if err != nil {
		return err
	}
	r.compare.Logs = true
	if fresh.Run.Environment == nil { // the new run does not know of it
		recorded.Run.Environment = nil
	}
	for _, note := range again.OtherPrograms(fresh) {
		r.notes = append(r.notes, note)
		r.Program.Tell("note: " + note)
	}
	d, err := again.Compare(fresh, r.compare)
	if err != nil {
		return err
	}
	return r.tell(recorded, fresh, d, result)
}

// load reads the trace, or that of a bundle, and checks who has signed it.
func (r *replaying) load(path string) (recorded *trace.Trace, err error) {
	if r.loaded, err = tracefile.Load(path); err != nil {
		return nil, err
	}
	if len(r.trusted.Files) == 0 {
		if r.envelope != "" {
			return nil, exit.Usage("--envelope requires --key").Hinted("use --key with the public key of the expected signer")
		}
		return r.loaded.Trace, nil
	}
	signers, err := r.loaded.Verify(r.envelope, &r.trusted)
	if err != nil {
		return nil, err
	}
	r.notes = append(r.notes, "signed by "+strings.Join(signers, ", "))
	return r.loaded.Trace, nil
}

// show prints what would run.
func (r *replaying) show(recorded *trace.Trace) error {
	for _, note := range r.notes {
		r.Program.Tell("note: " + note)
	}
	var definition *plan.Component
	if r.steps != "" {
		name, text, err := r.Program.Read(r.steps)
		if err != nil {
			return err
		}
		if definition, err = gitlabsteps.ParseSteps(name, text); err != nil {
			return err
		}
	}
	return tracefile.WriteWould(r.Program.Stdout, recorded, definition)
}

// prepare finds out what was run, with what is given.
func (r *replaying) prepare(recorded *trace.Trace) (*replay.Replay, error) {
	o := &r.options
	o.Project, o.Programs, o.VariableFiles = r.project, r.programs, r.files
	o.OS, o.Arch = runtime.GOOS, runtime.GOARCH
	o.Parsers = []replay.Parser{gitlabsteps.ParseSteps, func(_ string, text []byte) (*plan.Component, error) { return stepproto.ParseText(text) }}
	var err error
	if o.WorkDir, err = r.Directory(); err != nil {
		return nil, err
	}
	o.Env, err = values.Assignments("--env", r.Session.Env, values.PassedOn(r.Program, "--env"))
	if err != nil {
		return nil, err
	}
	if r.steps != "" {
		if o.TextName, o.Text, err = r.Program.Read(r.steps); err != nil {
			return nil, err
		}
	}
	if err := r.Open(); err != nil {
		return nil, err
	}
	if packages := r.loaded.Packages(); packages != nil {
		r.Components.Stores = append(r.Components.Stores, packages)
	}
	return replay.New(recorded, *o)
}

// givenValues reads --secret where it gives any sensitive value of a recorded run, however short.
func givenValues(p *command.Program, specs []string) (map[string]string, error) {
	given := map[string]string{}
	for _, spec := range specs {
		name, from, ok := strings.Cut(spec, "=")
		if !values.VariableName.MatchString(name) {
			return nil, exit.Usage("--secret: %q is not a name: use letters, digits and underscores, and do not begin with a digit", name)
		}
		if !ok {
			from = "env:" + name
		}
		text, err := values.ReadSecret(name, from, p.LookupEnv)
		if err != nil {
			return nil, err
		}
		given[name] = text
	}
	return given, nil
}

// replayError gives the error of a component that is not what it was its exit code.
func replayError(err error) error {
	var changed *replay.ChangedError
	if errors.As(err, &changed) {
		return exit.Coded(exit.Denied, "%v", changed).Hinted("replay it in a checkout of that time, from a bundle, or with --changed, which shows what the change does")
	}
	return err
}

// target is the file for the trace of the new run, which remove removes where nobody wants to keep it.
func (r *replaying) target(recorded string) (path string, remove func(), err error) {
	if r.TraceFile != "" {
		was, werr := os.Stat(recorded)
		if now, nerr := os.Stat(r.TraceFile); werr == nil && nerr == nil && os.SameFile(was, now) {
			return "", nil, exit.Usage("--output-file would replace the recorded trace").Hinted("name another file")
		}
		return r.TraceFile, func() {}, nil
	}
	dir, err := engine.MakeFolderFor("replay-")
	if err != nil {
		return "", nil, exit.Coded(exit.System, "making a folder for the trace: %v", err)
	}
	return filepath.Join(dir, "trace.json"), func() { _ = os.RemoveAll(dir) }, nil
}

// execute runs the recorded run again.
func (r *replaying) execute(ctx context.Context, recorded *trace.Trace, again *replay.Replay, components source.Source, traceFile string) (*engine.Result, error) {
	recorder, err := trace.NewRecorder(traceFile, trace.Options{RuntimeDigest: runner.Digest})
	if err != nil {
		return nil, exit.Coded(exit.System, "%v", err).Hinted("--output-file names a file in a folder that exists")
	}
	sink := session.Sinks{jobenv.Described(recorder, r.place(recorded), nil)}
	if !r.Quiet && (r.Verbose > 0 || r.Progress != "") {
		if r.Progress == "" {
			r.Progress = "auto"
		}
		r.ToStderr = true
		view, err := r.View()
		if err != nil {
			return nil, err
		}
		defer view.Close()
		sink = append(sink, view)
	}
	ctx, kill, stop := signals.Handle(ctx, nil)
	defer stop()
	opts := runner.EngineOptions(r.Program)
	toolkit, functions := github.Again(recorded.Run.Started)
	opts.Toolkits[plan.ToolkitGitHub], opts.Toolkits[plan.ToolkitGitHubAction] = toolkit, toolkit
	maps.Copy(opts.Functions, functions)
	again.Apply(&opts)
	if r.Confine != "" {
		opts.Confine = plan.Confinement(r.Confine)
	}
	opts.Mask = slices.Collect(maps.Values(r.options.Given)) // also what only a service has
	opts.Hidden = r.Hidden(traceFile)
	opts.Programs = true
	opts.Folder, opts.Source, opts.Sink = r.Folder, components, sink
	opts.Kill, opts.Timeout = kill, r.Timeout
	opts.Grace = max(r.Grace, time.Nanosecond) // the engine's 0 is its default
	result := engine.Run(ctx, opts)
	if err := recorder.Close(); err != nil {
		return nil, exit.Coded(exit.System, "%v", err)
	}
	return result, nil
}

// replayResult is what --json prints.
type replayResult struct {
	*trace.Difference
	Notes []string `json:"notes,omitempty"`
	// Placeholders are the names of secrets that were not given and that no step names.
	Placeholders []string      `json:"placeholders,omitempty"`
	Recorded     time.Duration `json:"recorded_ns"` // how long the recorded run took
	Again        time.Duration `json:"again_ns"`
}

// tell prints what differs, and returns the error with the exit code for that.
func (r *replaying) tell(recorded, fresh *trace.Trace, d *trace.Difference, result *engine.Result) error {
	err := ownError(recorded, result)
	if err != nil && !d.Same && len(fresh.Steps) == 0 && !r.asJSON {
		return err // nothing ran, so there is nothing to compare
	}
	var werr error
	switch {
	case r.asJSON:
		werr = command.WriteJSON(r.Program.Stdout, replayResult{d, r.notes, r.placeholders, recorded.Run.Duration, fresh.Run.Duration})
	case d.Same:
		steps := "1 step"
		if d.Compared != 1 {
			steps = fmt.Sprintf("%d steps", d.Compared)
		}
		line := fmt.Sprintf("same: %s, %s (recorded: %s)", steps, fresh.Run.Duration.Round(time.Millisecond), recorded.Run.Duration.Round(time.Millisecond))
		line += uncompared(d, r.placeholders)
		_, werr = fmt.Fprintln(r.Program.Stdout, line)
	default:
		werr = d.WriteText(r.Program.Stdout, trace.DiffTextOptions{
			Color: screen.Color(r.Program, r.Program.Stdout), ASCII: screen.ASCIIOnly(r.Program.Getenv), A: "the recorded run", B: "the replay",
		})
	}
	switch {
	case werr != nil:
		return werr
	case d.Same:
		return nil
	case err != nil:
		return err
	}
	return exit.Shown(exit.Different)
}

// uncompared says how much of a run that is the same could not be compared.
func uncompared(d *trace.Difference, placeholders []string) string {
	n := 0
	for _, v := range d.NotCompared {
		if !v.Placeholder {
			n++
		}
	}
	text := ""
	if n > 0 {
		text = fmt.Sprintf("; %d sensitive values could not be compared", n)
	}
	switch len(placeholders) {
	case 0:
		return text
	case 1:
		return text + "; a placeholder was used for 1 secret"
	}
	return text + fmt.Sprintf("; placeholders were used for %d secrets", len(placeholders))
}

// ownError is the error of a run that did not fail by its steps and not as the recorded run did.
func ownError(recorded *trace.Trace, result *engine.Result) error {
	code := exit.OfRun(result.Status, result.Error)
	if code == exit.OK || code == exit.StepsFailed || recorded.Run.Error != nil && recorded.Run.Error.Kind == result.Error.Kind {
		return nil
	}
	return replayError(result.Error)
}
