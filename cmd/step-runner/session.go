package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/trace"
	"github.com/rungci/rung/steps/value"
	"github.com/rungci/rung/ui"
)

// session is one run: what `ci` and `run` share, from their flags to the exit code.
type session struct {
	app *app

	traceFile  string
	env        []string
	secrets    []string
	known      map[string]string // the values of secrets, once they are read
	progress   string
	show       string
	verbose    int
	quiet      bool
	hostHome   bool
	workDir    string
	timeout    time.Duration
	grace      time.Duration
	stepExit   bool
	results    stepResults
	toStderr   bool // keep stdout for data
	jobVars    map[string]engine.Variable
	also       event.Sink      // who else is told what happens; may be nil
	force      <-chan struct{} // closed to end everything at once, as a second interrupt does; may be nil
	folder     string          // the run's own; made by open
	from       sourceFlags
	components *source.Resolver
}

func (a *app) newSession() *session { return &session{app: a} }

// open makes the run's own folder and what finds components. close removes the folder.
func (s *session) open() error {
	if s.components != nil {
		return nil
	}
	var err error
	if s.folder, err = engine.MakeFolder(); err != nil {
		return coded(exitSystem, "making the run's own folder: %v", err)
	}
	workDir, err := s.directory()
	if err != nil {
		return err
	}
	s.components, err = s.app.openResolver(&s.from, s.folder, workDir)
	return err
}

func (s *session) close() { engine.RemoveFolder(s.folder) }

// flags declares the flags; defaultDir says where commands run without --work-dir.
func (s *session) flags(f *pflag.FlagSet, defaultDir string) {
	f.StringVar(&s.traceFile, "output-file", "", "write the trace of the run to `FILE`")
	f.StringArrayVar(&s.env, "env", nil, "give every step the environment variable `NAME=VALUE`; NAME alone passes the host's on")
	f.StringArrayVar(&s.secrets, "secret", nil, "a secret that steps can be granted: `NAME` (from the environment variable of that name), NAME=env:OTHER or NAME=@FILE")
	f.StringVar(&s.progress, "progress", "auto", "how to show the run: `MODE` is auto, tty, plain, quiet or json")
	f.StringVar(&s.show, "show", "all", "whose output to show: `WHICH` is all, fail or none")
	f.CountVarP(&s.verbose, "verbose", "v", "show inputs and resolved references; -vv (or CI_STEPS_LOG_LEVEL=debug) commands and environment too")
	f.BoolVarP(&s.quiet, "quiet", "q", false, "show failures only (--progress quiet)")
	f.BoolVar(&s.hostHome, "host-home", false, "let steps use your home, temporary and XDG folders and git configuration")
	f.StringVar(&s.workDir, "work-dir", "", "run commands in `DIR` (default: "+defaultDir+")")
	f.DurationVar(&s.timeout, "timeout", 0, "stop the run after `TIME` (1h30m); 0 never does")
	f.DurationVar(&s.grace, "grace", engine.DefaultGrace, "give processes `TIME` to end when they are stopped, then kill them")
	f.BoolVar(&s.stepExit, "exit-code-from-step", false, "when a step fails, exit with its own code")
	s.from.flags(f)
	s.results.flags(f, s.app.getenv)
}

// job is what a session runs.
type job struct {
	component *plan.Component
	text      []byte
	inputs    map[string]value.Value
}

// execute runs the job and shows it.
func (s *session) execute(ctx context.Context, j job) (*engine.Result, error) {
	if s.timeout < 0 || s.grace < 0 {
		return nil, usage("--timeout and --grace cannot be less than 0")
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	defer s.close()
	workDir, err := s.directory()
	if err != nil {
		return nil, err
	}
	env, err := s.environment()
	if err != nil {
		return nil, err
	}
	secrets, err := s.secretValues()
	if err != nil {
		return nil, err
	}
	view, err := s.view()
	if err != nil {
		return nil, err
	}
	defer view.Close()
	record, err := s.recorder()
	if err != nil {
		return nil, err
	}
	defer record.remove()

	ctx, kill, stop := s.signals(ctx)
	defer stop()
	opts := s.app.engineOptions()
	opts.Component, opts.Text, opts.Inputs = j.component, j.text, j.inputs
	opts.Dir, opts.WorkDir, opts.Folder = workDir, workDir, s.folder
	opts.Env, opts.HostHome, opts.Job, opts.Secrets = env, s.hostHome, s.jobVars, secrets
	opts.Source = s.components
	out := sinks{record, view}
	if s.also != nil {
		out = append(out, s.also)
	}
	opts.Sink = out
	opts.Kill, opts.Timeout = kill, s.timeout
	opts.Grace = max(s.grace, time.Nanosecond) // the engine's 0 is its default
	result := engine.Run(ctx, opts)
	recordErr, viewErr := record.close(), view.Close()
	if recordErr != nil && result.Status == event.Success {
		recordErr = coded(exitSystem, "the steps succeeded, but what was to be written of them is not complete: %v", recordErr)
	}
	if viewErr != nil {
		viewErr = coded(exitSystem, "writing the output: %v", viewErr)
	}
	for _, err := range []error{recordErr, viewErr} {
		if err != nil {
			_, text := report(err)
			_, _ = io.WriteString(s.app.stderr, text)
		}
	}
	if code := exitCode(result.Status, result.Error); code != exitOK {
		if s.stepExit && code == exitStepsFailed && result.ExitCode != nil && *result.ExitCode != 0 {
			code = *result.ExitCode
		}
		return result, &shown{code}
	}
	if recordErr != nil || viewErr != nil {
		return result, &shown{exitSystem}
	}
	return result, nil
}

// directory is the run's work directory, absolute.
func (s *session) directory() (string, error) {
	dir, err := filepath.Abs(s.workDir)
	if err != nil {
		return "", coded(exitSystem, "finding the work directory: %v", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", coded(exitNotFound, "the work directory cannot be used: %v", err)
	}
	if !info.IsDir() {
		return "", usage("the work directory %s is not a directory", dir)
	}
	return dir, nil
}

func (s *session) view() (ui.View, error) {
	mode, err := ui.ParseMode(s.progress)
	if err != nil {
		return nil, usage("--progress: %v", err)
	}
	show, err := ui.ParseShow(s.show)
	if err != nil {
		return nil, usage("--show: %v", err)
	}
	if s.quiet {
		mode = ui.ModeQuiet
	}
	stdout := s.app.stdout
	if s.toStderr {
		stdout = s.app.stderr
	}
	return ui.New(ui.Options{
		Mode: mode, Show: show, Verbose: s.verbose,
		Stdout: stdout, Stderr: s.app.stderr,
		StdoutTTY: isTerminal(stdout), StderrTTY: isTerminal(s.app.stderr),
		Width:     func() int { w, _ := terminalSize(s.app.stderr); return w },
		Height:    func() int { _, h := terminalSize(s.app.stderr); return h },
		Color:     s.app.color(s.app.stderr),
		ASCII:     asciiOnly(s.app.getenv),
		TraceFile: s.traceFile,
	}), nil
}

// signals makes the first interrupt a graceful stop and the second one a kill. A terminal that closes is the first; it may say
// so more than once. A reader of the output that goes away ends nothing: the write fails, as on a full disk, and the run goes on.
func (s *session) signals(ctx context.Context) (context.Context, <-chan struct{}, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	kill := make(chan struct{})
	killOnce := sync.OnceFunc(func() { close(kill) })
	incoming, pipes := make(chan os.Signal, 4), make(chan os.Signal, 1)
	signal.Notify(incoming, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // it is under nohup
		signal.Notify(incoming, syscall.SIGHUP)
	}
	signal.Notify(pipes, syscall.SIGPIPE) // nothing reads it; without it the write would end the program
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case sig := <-incoming:
				if ctx.Err() != nil && sig != syscall.SIGHUP {
					killOnce()
				}
				cancel(stopOf(sig))
			case <-s.force:
				killOnce()
				<-done
				return
			case <-done:
				return
			}
		}
	})
	return ctx, kill, func() {
		signal.Stop(incoming)
		signal.Stop(pipes)
		close(done)
		wg.Wait()
		cancel(nil)
	}
}

func stopOf(sig os.Signal) *event.Stop {
	switch sig {
	case os.Interrupt:
		return &event.Stop{Code: event.CodeInterrupted, Reason: "interrupted"}
	case syscall.SIGHUP:
		return &event.Stop{Code: event.CodeTerminated, Reason: "the terminal was closed"}
	}
	return &event.Stop{Code: event.CodeTerminated, Reason: "terminated"}
}

// sinks pass every event on to each, in order.
type sinks []event.Sink

func (s sinks) Event(e event.Event) {
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
}

// recorder opens the trace. Step results are made from a trace, so that asking for them alone makes one too.
func (s *session) recorder() (*recording, error) {
	rec := &recording{path: s.traceFile, results: s.results}
	if rec.path == "" {
		if !s.results.wanted() {
			return rec, nil
		}
		dir, err := os.MkdirTemp("", "step-runner-results-")
		if err != nil {
			return nil, coded(exitSystem, "making a folder for the step results: %v", err)
		}
		rec.temp, rec.path = dir, filepath.Join(dir, "trace.json")
	}
	opened, err := trace.NewRecorder(rec.path, trace.Options{RuntimeDigest: programDigest})
	if err != nil {
		rec.remove()
		return nil, coded(exitSystem, "%v", err).hinted("--output-file names a file in a folder that exists")
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

func (r *recording) close() error {
	if r.Recorder == nil {
		return nil
	}
	if err := r.Recorder.Close(); err != nil {
		return err
	}
	return r.results.write(r.path)
}

func (r *recording) remove() {
	if r.temp != "" {
		_ = os.RemoveAll(r.temp)
	}
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// terminalSize returns the width and height of a terminal, and a common size for what is none.
func terminalSize(f *os.File) (width, height int) {
	w, h, err := term.GetSize(int(f.Fd()))
	if err != nil || w <= 0 || h <= 0 {
		return 80, 24
	}
	return w, h
}
