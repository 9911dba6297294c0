// Package session runs steps on this machine, from flags to exit code.
package session

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/components"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/runner"
	"github.com/rungci/rung/cmd/step-runner/command/screen"
	"github.com/rungci/rung/cmd/step-runner/command/signals"
	"github.com/rungci/rung/cmd/step-runner/command/tracefile"
	"github.com/rungci/rung/cmd/step-runner/command/values"
	"github.com/rungci/rung/internal/tempfolder"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/trace"
	"github.com/rungci/rung/steps/value"
	"github.com/rungci/rung/ui"
)

// Session is one run: what `ci` and `run` share, from their flags to the exit code.
type Session struct {
	Program *command.Program
	screen.ViewFlags

	TraceFile  string
	Env        []string
	EnvFiles   []string
	Secrets    []string
	known      map[string]string // the values of secrets, once they are read
	hostHome   bool
	envPolicy  values.EnvPolicy
	Confine    string // one of plan.Confinements
	WorkDir    string
	Timeout    time.Duration
	Grace      time.Duration
	stepExit   bool
	results    stepResults
	ToStderr   bool // keep stdout for data
	JobVars    map[string]engine.Variable
	Also       event.Sink      // who else is told what happens; may be nil
	Force      <-chan struct{} // closed to end everything at once, as a second interrupt does; may be nil
	Folder     string          // the run's own; made by Open
	From       components.Flags
	pause      pauseFlags
	Components *source.Resolver
}

// New makes a session; Declare gives it its flags.
func New(p *command.Program) *Session { return &Session{Program: p} }

// Open makes the run's own folder, and what finds components. Close has to be called.
func (s *Session) Open() error {
	if s.Components != nil {
		return nil
	}
	var err error
	if s.Folder, err = engine.MakeFolder(); err != nil {
		return exit.Coded(exit.System, "making the run's own folder: %v", err)
	}
	workDir, err := s.Directory()
	if err != nil {
		return err
	}
	s.Components, err = s.From.Open(s.Program, s.Folder, workDir)
	return err
}

// Close removes the folder that Open made.
func (s *Session) Close() { engine.RemoveFolder(s.Folder) }

// Declare declares the flags; defaultDir says where commands run without --work-dir.
func (s *Session) Declare(f *pflag.FlagSet, defaultDir string) {
	f.StringVar(&s.TraceFile, "output-file", "", "write the trace of the run to `FILE`")
	f.StringArrayVar(&s.Env, "env", nil, "set the environment variable `NAME=VALUE` for every step; NAME alone passes on the host's")
	f.StringArrayVar(&s.EnvFiles, "env-file", nil, "set the variables in `FILE` (lines of NAME=VALUE or NAME); --env overrides them")
	f.StringArrayVar(&s.Secrets, "secret", nil, "pass the secret `NAME` from the environment; or NAME=env:OTHER, NAME=@FILE")
	f.StringVar(&s.Progress, "progress", "auto", "show progress as `MODE`: auto, tty, plain, quiet or json")
	f.StringVar(&s.Fold, "fold", "auto", "fold steps in the job log of `SYSTEM`: gitlab, github, none or auto (plain view only)")
	f.StringVar(&s.Show, "show", "all", "show the output of `WHICH` steps: all, fail or none")
	f.CountVarP(&s.Verbose, "verbose", "v", "show inputs and resolved references; -vv (or CI_STEPS_LOG_LEVEL=debug) also commands and environment")
	f.BoolVarP(&s.Quiet, "quiet", "q", false, "show failures only (--progress quiet)")
	f.BoolVar(&s.hostHome, "host-home", false, "let steps use your home, temporary and XDG folders and your git configuration")
	s.envPolicy.Declare(f)
	f.StringVar(&s.Confine, "confine", plan.Confinements[0], "confine `WHICH` steps to their own files and processes, besides those that ask for it: fetched, all or none (Linux)")
	f.StringVar(&s.WorkDir, "work-dir", "", "run commands in `DIR` (default: "+defaultDir+")")
	f.DurationVar(&s.Timeout, "timeout", 0, "stop the run after `TIME` (1h30m); 0 means never")
	f.DurationVar(&s.Grace, "grace", engine.DefaultGrace, "give processes `TIME` to exit before they are killed")
	f.BoolVar(&s.stepExit, "exit-code-from-step", false, "exit with the exit code of the step that failed")
	s.pause.declare(f)
	s.From.Declare(f)
	s.results.flags(f, s.Program.Getenv)
}

// Hidden are the files and folders that confined steps of a run with the trace do not see.
func (s *Session) Hidden(traceFile string) []string {
	var hidden []string
	if s.Components != nil && s.Components.Cache != nil {
		hidden = append(hidden, s.Components.Cache.Dir())
	}
	if path, err := filepath.Abs(traceFile); err == nil && traceFile != "" {
		hidden = append(hidden, trace.Files(path)...)
	}
	return hidden
}

// Job is what a session runs.
type Job struct {
	Component *plan.Component
	Text      []byte
	Inputs    map[string]value.Value
}

// Execute runs the job and shows it.
func (s *Session) Execute(ctx context.Context, j Job) (*engine.Result, error) {
	if s.Timeout < 0 || s.Grace < 0 {
		return nil, exit.Usage("--timeout and --grace cannot be less than 0")
	}
	inheritEnv, err := s.envPolicy.Inherits()
	if err != nil {
		return nil, err
	}
	if !slices.Contains(plan.Confinements, s.Confine) {
		return nil, command.OneOf("--confine", s.Confine, plan.Confinements...)
	}
	if err := s.pause.check(len(s.Env)+len(s.EnvFiles) > 0); err != nil {
		return nil, err
	}
	if err := s.Open(); err != nil {
		return nil, err
	}
	defer s.Close()
	workDir, err := s.Directory()
	if err != nil {
		return nil, err
	}
	env, err := s.environment()
	if err != nil {
		return nil, err
	}
	secrets, err := s.SecretValues()
	if err != nil {
		return nil, err
	}
	opts := runner.EngineOptions(s.Program)
	opts.Component, opts.Text, opts.Inputs = j.Component, j.Text, j.Inputs
	opts.Dir, opts.WorkDir, opts.Folder = workDir, workDir, s.Folder
	opts.Env, opts.HostHome, opts.Job, opts.Secrets = env, s.hostHome, s.JobVars, secrets
	opts.InheritEnv = inheritEnv
	opts.Confine, opts.Hidden = plan.Confinement(s.Confine), s.Hidden(s.TraceFile)
	opts.Mask = credentials(env)
	opts.Source = s.Components
	pausing, err := s.pause.open(&opts)
	if err != nil {
		return nil, err
	}
	defer pausing.remove()
	view, err := s.View()
	if err != nil {
		return nil, err
	}
	defer view.Close()
	record, err := s.recorder()
	if err != nil {
		return nil, err
	}
	defer record.remove()

	ctx, kill, stop := signals.Handle(ctx, s.Force)
	defer stop()
	ctx, pauses := pausing.watch(ctx)
	opts.Programs = record.Recorder != nil
	out := Sinks{record, view}
	if s.Also != nil {
		out = append(out, s.Also)
	}
	opts.Sink = out
	opts.Kill, opts.Timeout = kill, s.Timeout
	opts.Grace = max(s.Grace, time.Nanosecond) // the engine's 0 is its default
	result := engine.Run(ctx, opts)
	pauses()
	recordErr, viewErr := record.close(pausing.paused()), view.Close()
	record.sendSpans(context.WithoutCancel(ctx), s.Program)
	if recordErr != nil && result.Status == event.Success {
		recordErr = exit.Coded(exit.System, "the steps succeeded, but their results could not be written completely: %v", recordErr)
	}
	if viewErr != nil {
		viewErr = exit.Coded(exit.System, "writing the output: %v", viewErr)
	}
	for _, err := range []error{recordErr, viewErr} {
		if err != nil {
			_, text := exit.Report(err)
			_, _ = io.WriteString(s.Program.Stderr, text)
		}
	}
	if pausing.report(s.Program.Stderr) && recordErr == nil {
		return result, exit.Shown(exit.Paused)
	}
	if code := exit.OfRun(result.Status, result.Error); code != exit.OK {
		if s.stepExit && code == exit.StepsFailed && result.ExitCode != nil && *result.ExitCode != 0 {
			code = *result.ExitCode
		}
		return result, exit.Shown(code)
	}
	if recordErr != nil || viewErr != nil {
		return result, exit.Shown(exit.System)
	}
	return result, nil
}

// Directory is the run's work directory, absolute.
func (s *Session) Directory() (string, error) {
	dir, err := filepath.Abs(s.WorkDir)
	if err != nil {
		return "", exit.Coded(exit.System, "finding the work directory: %v", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", exit.Coded(exit.NotFound, "the work directory cannot be used: %v", err)
	}
	if !info.IsDir() {
		return "", exit.Usage("the work directory %s is not a directory", dir)
	}
	return dir, nil
}

// View makes the view that the flags ask for.
func (s *Session) View() (ui.View, error) {
	stdout := s.Program.Stdout
	if s.ToStderr {
		stdout = s.Program.Stderr
	}
	options, err := s.Options(s.Program, stdout)
	if err != nil {
		return nil, err
	}
	options.TraceFile = s.TraceFile
	return ui.New(options), nil
}

// Sinks pass every event on to each, in order.
type Sinks []event.Sink

// Event implements event.Sink.
func (s Sinks) Event(e event.Event) {
	for _, sink := range s {
		sink.Event(e)
	}
}

// recording is the trace that a session writes, if any.
type recording struct {
	*trace.Recorder
	path    string
	results stepResults
	temp    string
	spans   *tracefile.Spans // nil sends none
}

// recorder opens the trace. Step results are made from a trace, so that asking for them alone makes one too.
func (s *Session) recorder() (*recording, error) {
	rec := &recording{path: s.TraceFile, results: s.results}
	var err error
	if rec.spans, err = tracefile.SpansTo(s.Program.Getenv); err != nil {
		fmt.Fprintf(s.Program.Stderr, "warning: no spans are sent: %v\n", err)
	}
	if rec.path == "" {
		if !s.results.wanted() && rec.spans == nil {
			return rec, nil
		}
		dir, err := tempfolder.Make("trace-")
		if err != nil {
			return nil, exit.Coded(exit.System, "creating a folder for the trace: %v", err)
		}
		rec.temp, rec.path = dir, filepath.Join(dir, "trace.json")
	}
	opened, err := trace.NewRecorder(rec.path, trace.Options{RuntimeDigest: runner.Digest})
	if err != nil {
		rec.remove()
		return nil, exit.Coded(exit.System, "%v", err).Hinted("--output-file names a file in a folder that exists")
	}
	rec.Recorder = opened
	return rec, nil
}

// Event implements event.Sink.
func (r *recording) Event(e event.Event) {
	if r.Recorder != nil {
		r.Recorder.Event(e)
	}
}

// close ends the trace. Of a run that goes on elsewhere there are no results yet.
func (r *recording) close(moved bool) error {
	if r.Recorder == nil {
		return nil
	}
	if err := r.Recorder.Close(); err != nil || moved {
		return err
	}
	return r.results.write(r.path)
}

// sendSpans sends the finished trace to a collector. What goes wrong is no failure of the run.
func (r *recording) sendSpans(ctx context.Context, p *command.Program) {
	if r.spans == nil {
		return
	}
	if err := r.spans.Send(ctx, r.path); err != nil {
		fmt.Fprintf(p.Stderr, "warning: cannot send spans: %v\n", err)
	}
}

func (r *recording) remove() {
	if r.temp != "" {
		tempfolder.Remove(r.temp)
	}
}
