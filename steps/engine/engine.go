// Package engine runs a plan: one step at a time, each with the least information it needs.
//
// It turns a plan into processes and events. It reads no YAML, prints nothing and knows no screen; whatever happens leaves
// it as an event, with sensitive values already masked.
package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rungci/rung/internal/tempfolder"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/value"
)

// Defaults and limits of a run.
const (
	// DefaultGrace is how long processes have between the polite signal and the kill.
	DefaultGrace = 10 * time.Second
	// DefaultCleanup is how long the steps that run after a cancelled run (`when: always`) have in all.
	DefaultCleanup = 5 * time.Minute
	// MaxDepth is how deep components may call each other.
	MaxDepth = 100
)

// Variable is a job variable: what ${{ job.NAME }} and ${{ vars.NAME }} read.
type Variable struct {
	Value string
	// Sensitive variables are masked, and only the job's own list of steps can read them, not the components it calls.
	Sensitive bool
}

// Options say what to run and what it may know.
type Options struct {
	Component *plan.Component
	Text      []byte // the source of Component, for showing the line an error is about
	Dir       string // where relative references in Component start; an absolute path
	WorkDir   string // where commands run unless they say otherwise; an absolute path
	Inputs    map[string]value.Value
	Env       map[string]string // given to every step
	HostEnv   []string          // the host's environment, of which BaseNames reach the steps
	// InheritEnv lets every component have the whole environment around its step, and export what it likes.
	InheritEnv bool
	// Confine says which steps are confined, besides those that ask for it; "" is none. Where they cannot be, that is an error, but for those
	// that are confined only because they were fetched: then it is a warning.
	Confine plan.Confinement
	// Hidden are files and folders that confined steps do not see, wherever they are: what is recorded of the run, what others share.
	Hidden   []string
	HostHome bool // let steps use the user's home, temporary and XDG folders and git configuration
	Job      map[string]Variable
	Secrets  map[string]string
	Mask     []string // texts that are masked wherever they appear, and are no secrets to be granted
	// Placeholders are texts among Job, Secrets and what Recorded returns that stand for sensitive values which nobody gave. They are masked.
	// A value that holds one is recorded as event.Placeholder, without a digest.
	Placeholders []string
	Source       source.Source
	// Folder is the run's own, which exists, is empty but for the caller's things, and is removed by the caller. Empty lets the
	// run make one and remove it.
	Folder string
	// ParseReference parses the text of a reference in which every expression has been evaluated.
	ParseReference func(text string) (*plan.Reference, error)
	Toolkits       map[string]Toolkit  // what plan.Exec.Toolkit can name
	Functions      map[string]Function // of expressions, beyond those of the language
	Sink           event.Sink
	Runtime        event.Runtime
	// Program is the file of the step-runner that runs this. A command whose program is called step-runner runs it, wherever
	// PATH leads: built-in components are made of it. Empty leaves such a command to PATH.
	Program string
	// ProgramEnv returns the environment of a process of Program, by its arguments and the environment that its step has: what it must know of
	// its machine, and no other process. It is not recorded. Nil leaves it as it is.
	ProgramEnv func(args, env []string) []string
	// Programs makes the events tell which files ran as programs, with their digests.
	Programs bool
	Kill     <-chan struct{} // closed to end everything at once; may be nil
	// KillReason says why Kill was closed, for people; nil is that the run was asked again.
	KillReason func() string
	Grace      time.Duration // 0 is DefaultGrace
	Cleanup    time.Duration // 0 is DefaultCleanup
	Timeout    time.Duration // of the whole run; 0 is none
	// DigestKey is the key of the digests that stand for sensitive values. Nil makes a fresh one; that of an earlier run makes the
	// digests of both comparable.
	DigestKey []byte
	// Recorded is asked for every step, by its ID without rounds, what stands in for running it; nil, and a nil answer, run it. Where
	// it answers for a parallel group it answers for the members too. It is called by several goroutines at once.
	Recorded func(id string, st *plan.Step) *Recorded
	// Control stops the run between steps. Nil lets it run to its end.
	Control *Control
	// From is the state that the run goes on from; nil begins with the first step. The options must be those of the run that it was taken
	// from (see State.Fits), but for Folder, and Timeout, which can only shorten what that run had left. HostEnv and Env are not used: the
	// environment is part of the state.
	From *State
	// Given stands for what else a run and the one that goes on from its state have in common; "" is nothing.
	Given string
	// Files is the folder that Control.State has filled; "" where there are none. It is left as it is.
	Files string
}

// Result is how a run ended.
type Result struct {
	Status   event.Status
	Outputs  map[string]value.Value // in clear, with their marks
	Error    *event.Error           // nil on success
	ExitCode *int                   // of the process that decided a failure; nil when none did
}

// run is the state that all steps of a run share.
type run struct {
	opts   Options
	out    *emitter
	base   *environ // the base environment, as at the start
	dirs   directories
	shells shellFinder
	places
	jobAll  value.Value // every job variable, for the job's own list
	jobOpen value.Value // those that are not sensitive, for components

	services   services
	hooks      hooks
	components components
	report     report
	recording  recording

	confinement confinement

	id    string
	from  *document // nil for a run that begins with its first step
	clock clock
	moved bool // the run goes on elsewhere
}

// Run runs the component and returns how it ended. Cancelling ctx stops it gracefully, with context.Cause as the reason;
// closing Options.Kill stops it at once. Run always returns a result; its events begin with RunStarted and end with
// RunFinished, or, where Control.Leave ended it, with Paused. A bug in it, or in what Options plug in, is a panic of the goroutine that called Run, whichever met it.
func Run(ctx context.Context, opts Options) *Result {
	start := time.Now()
	if opts.Grace == 0 {
		opts.Grace = DefaultGrace
	}
	if opts.Cleanup == 0 {
		opts.Cleanup = DefaultCleanup
	}
	r := &run{
		opts:    opts,
		id:      randomID(),
		jobAll:  jobVariables(opts.Job, true),
		jobOpen: jobVariables(opts.Job, false),
	}
	r.places.workDir = opts.WorkDir
	defer opts.Control.finish()
	err := r.dirs.create(opts.Folder, opts.HostHome)
	defer r.dirs.remove()
	var from *document
	if opts.From != nil && err == nil {
		from, err = r.fit()
	}
	r.out = newEmitter(opts.Sink, r.opts.DigestKey)
	r.out.placeholders = opts.Placeholders
	r.components = components{out: r.out, places: &r.places, keep: opts.Control != nil, seen: map[string]bool{}, reads: map[*plan.Component][]string{}}
	r.report = report{out: r.out, places: &r.places}
	r.recording = recording{ask: opts.Recorded, report: r.report}
	r.knowSecrets(ctx)
	r.base = baseEnviron(opts.HostEnv, opts.Env, &r.dirs)
	for _, v := range r.base.vars {
		r.out.addPasswords([]byte(v.text)) // of a proxy
	}
	if from != nil {
		err = r.adopt(from)
	}
	r.announce()

	var res *outcome
	var misfit *misfitError
	switch {
	case errors.As(err, &misfit):
		res = failed(event.NewError(event.CodeStateInvalid, "%v", err))
	case err != nil:
		res = failed(systemError("creating the run's folders: %v", err))
	default:
		res = r.root(ctx)
	}
	if r.moved {
		return &Result{Status: event.Cancelled, Error: event.NewError(event.CodeMoved, "moved: the run continues elsewhere from its state")}
	}
	return r.finish(res, start)
}

// knowSecrets makes masked what the run is started with.
func (r *run) knowSecrets(ctx context.Context) {
	opts := &r.opts
	r.add(opts.Component.Definition.Span.File, opts.Text)
	r.out.addPasswords(opts.Text)
	for _, secret := range opts.Secrets {
		r.out.addSecret(secret)
	}
	for _, text := range slices.Concat(opts.Mask, opts.Placeholders) {
		r.out.addSecret(text)
	}
	for _, v := range opts.Job {
		if v.Sensitive {
			r.out.addSecret(v.Value)
		}
	}
	(&literals{run: r, ctx: ctx, seen: map[*plan.Component]bool{}}).steps(opts.Component.Definition.Steps, opts.Dir)
	r.out.given = maps.Clone(r.out.secrets)
}

// isEmpty reports whether a folder is there and holds nothing.
func isEmpty(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	_, err = f.Readdirnames(1)
	return errors.Is(err, io.EOF)
}

// announce emits the first event.
func (r *run) announce() {
	component := r.out.component(r.opts.Component) // before the source, in which its defaults are masked
	started := event.RunStarted{
		ID:           r.id,
		Runtime:      r.opts.Runtime,
		WorkDir:      r.opts.WorkDir,
		FreshWorkDir: isEmpty(r.opts.WorkDir),
		Env:          r.base.shown(r.out),
		InheritEnv:   r.opts.InheritEnv,
		Confine:      r.opts.Confine,
		Source:       string(r.opts.Text),
		Component:    component,
		Inputs:       r.out.recordAll(r.opts.Inputs),
	}
	if len(r.opts.Job) > 0 {
		started.Job = map[string]string{}
		for name, v := range r.opts.Job {
			started.Job[name] = r.out.shownText(v.Value, v.Sensitive)
		}
	}
	if len(r.opts.Secrets) > 0 {
		started.Secrets = map[string]string{}
		for name, secret := range r.opts.Secrets {
			started.Secrets[name] = r.out.digest(secret)
		}
	}
	if r.from != nil {
		started.Continues = &event.Continuation{Run: r.from.Run, Before: r.from.Before}
	}
	started.DigestKey = hex.EncodeToString(r.out.key)
	r.out.emit("", started)
}

// root runs the run's own component.
func (r *run) root(ctx context.Context) *outcome {
	ctx, end := r.limited(ctx)
	defer end()
	defer r.watch(ctx)()
	defer r.services.close(r.out)

	inputs, err := checkInputs(&r.opts.Component.Spec, r.opts.Inputs)
	if err != nil {
		return failed(err.event())
	}
	r.out.addSensitive(inputs)
	root := &scope{view: view{
		run:     r,
		dir:     r.opts.Dir,
		workDir: r.opts.WorkDir,
		inputs:  value.OfStruct(inputs),
		env:     &environ{maps.Clone(r.base.vars)}, // exports change it; the base stays as it was
		top:     true,
	}}
	spec := &r.opts.Component.Spec
	own, eerr := root.request(spec, r.opts.Secrets)
	if eerr != nil {
		return failed(eerr)
	}
	own.secrets, own.known = r.opts.Secrets, r.opts.Secrets // the run's own list may grant any of them
	if r.from == nil {                                      // else it has been done, and steps have changed since what it looks at
		if err := (&preflight{run: r, ctx: ctx, checked: map[string]bool{}}).all(); err != nil {
			return failed(err)
		}
	}
	o := r.runDefinition(ctx, own, &invocation{spec: spec, def: &r.opts.Component.Definition, attempt: 1})
	if r.opts.Component.Definition.Exec != nil {
		o.countOne() // the run is the one step
	}
	return o
}

// watch emits Stopping when the run is asked to stop. The function it returns ends the watch.
func (r *run) watch(ctx context.Context) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-ctx.Done():
			stop := stopping(context.Cause(ctx))
			stop.Grace = plan.Duration(r.opts.Grace)
			r.out.emit("", stop)
		case <-done:
			return
		}
		select {
		case <-r.opts.Kill:
			r.out.emit("", event.Stopping{Code: event.CodeKilled, Reason: r.killReason(), Force: true})
		case <-done:
		}
	})
	return func() { close(done); wg.Wait() }
}

func (r *run) killReason() string {
	if r.opts.KillReason != nil {
		return r.opts.KillReason()
	}
	return "asked again"
}

// finish emits the last event.
func (r *run) finish(res *outcome, start time.Time) *Result {
	result := &Result{Status: res.status, Outputs: res.outputs, ExitCode: res.exitCode}
	if res.err != nil {
		result.Error = r.out.maskError(res.err)
	}
	r.out.emit("", event.RunFinished{
		Status:   result.Status,
		Outputs:  r.out.recordAll(res.outputs),
		Error:    result.Error,
		ExitCode: result.ExitCode,
		Duration: time.Since(start),
		Counts:   res.counts,
	})
	return result
}

func randomID() string {
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		panic(err) // crypto/rand never fails on the systems Go runs on
	}
	return hex.EncodeToString(b)
}

// directories are the run's own folders, removed when it ends.
type directories struct {
	kept  bool   // root is the caller's, who removes it
	root  string // only this user may enter it
	files string // output files, export files and long scripts
	tmp   string // shared by the steps; their temporary folder, unless they use the user's
	home  string // "" when steps use the user's
	homes string // of components that have one of their own, by the IDs of their steps. Each is made when a process needs it.
}

// The names of folders in the run's own.
const (
	filesFolder = "files"
	tmpFolder   = "tmp"
	homeFolder  = "home"
	homesFolder = "homes"
)

func (d *directories) create(root string, hostHome bool) error {
	d.kept = root != ""
	if !d.kept {
		made, err := MakeFolder()
		if err != nil {
			return err
		}
		root = made
	}
	d.root, d.files, d.tmp = root, filepath.Join(root, filesFolder), filepath.Join(root, tmpFolder)
	d.homes = filepath.Join(root, homesFolder)
	made := []string{d.files, d.tmp}
	if !hostHome {
		d.home = filepath.Join(root, homeFolder)
		made = append(made, d.home)
	}
	for _, dir := range made {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	return nil
}

func (d *directories) remove() {
	if !d.kept {
		RemoveFolder(d.root)
	}
}

// MakeFolder makes a folder for a run, which only this user may enter.
func MakeFolder() (string, error) { return tempfolder.Make("") }

// MakeFolderFor makes such a folder for what surrounds a run; its name says for what.
func MakeFolderFor(purpose string) (string, error) { return tempfolder.Make(purpose) }

// FolderPrefix begins the name of every run's own folder.
const FolderPrefix = "step-runner-"

// RemoveFolder removes a run's folder and all that the run left in it.
func RemoveFolder(root string) { tempfolder.Remove(root) }
