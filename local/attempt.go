package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/service/client"
	"github.com/rungci/rung/steps/trace"
)

// Work is one attempt at a job, as its frontend knows it. Its methods are called one after the other, in this order.
type Work interface {
	// Name is what people know the job by.
	Name() string
	// Identity says which job it is, for its trace.
	Identity() event.Identity
	// Place says where it runs, or why it cannot.
	Place() (*Place, error)
	// Hide removes from a text what is masked in the job.
	Hide(text string) string
	// Services tells where the services of a job on this machine are: for each, its own ports and those of this machine that lead there.
	Services(ports []map[uint16]uint16)
	// Steps makes the steps for the environment that stands.
	Steps(ctx context.Context, env executor.Environment) (*Steps, error)
	// TraceFile is where the trace is kept.
	TraceFile() (string, error)
	// View makes what the steps say what a person sees; it closes what it writes to.
	View(to Sink) Sink
	// Error is the error of a run that did not succeed, as a person sees it; o.End is there.
	Error(o *session.Outcome) *event.Error
	// Fetch says what the steps may have left in an environment with files of its own, as the job was compiled.
	Fetch(o *session.Outcome) []Arrival
	// Staging makes a folder that takes what is fetched, where the store is. The caller removes it.
	Staging() (string, error)
	// ShellEnv is the environment of a shell in the job, NAME=value.
	ShellEnv() []string
}

// Steps are a job compiled for an environment, and what they need there.
type Steps struct {
	Plan *plan.Component
	// Project is the folder that they run in.
	Project string
	// Source is the project on this machine that its files come from.
	Source    string
	Env       map[string]string // of every step, beyond that of the environment
	Variables []client.Variable
	Secrets   map[string]string
	Lock      string
	Timeout   time.Duration // 0 is none
	// Texts are files to write beside the project for the job's user only.
	Texts []event.File
	// Tree is the work tree to send, if the environment has files of its own; nil is none.
	Tree *Tree
	// Parcels are what else is sent to such an environment.
	Parcels []session.Parcel
}

// Arrival is a file or folder that is fetched from an environment. An environment may lie about what it is: Take decides by what the
// host compiled.
type Arrival struct {
	From string // in the environment
	// Take takes over what the job may leave. The path is in a staging folder; it holds plain files only, or does not exist.
	Take func(ctx context.Context, path string) error
}

// Tree is a work tree, and the folder of the environment that it is sent to.
type Tree struct {
	From, To   string
	Submodules bool
}

// Ended is how an attempt ended.
type Ended struct {
	Err      *event.Error // nil when it succeeded
	ExitCode *int
	// Outcome is what its steps produced; nil when they did not run.
	Outcome *session.Outcome
	Trace   string
	// Ignored is the image that it did not run in.
	Ignored string
	// Lost says that what the steps left could not be fetched.
	Lost bool
}

// attempt is an attempt on its way.
type attempt struct {
	*Runner
	Work
	place     *Place
	env       executor.Environment
	steps     *Steps
	brought   []event.File
	beside    executor.Services
	prepared  []event.Prepared
	preparing *session.Preparation
}

// Attempt runs the steps of a job once, in an environment of its own. An error that the steps do not report themselves is reported here.
func (r *Runner) Attempt(ctx context.Context, w Work) *Ended {
	a := &attempt{Runner: r, Work: w}
	out := &Ended{}
	if err := a.run(ctx, out); err != nil {
		a.problem(ctx, out, err)
	}
	return out
}

// problem takes over an error that is not one of the steps.
func (a *attempt) problem(ctx context.Context, out *Ended, err error) {
	wrong := session.AsError(ctx, err)
	switch {
	case wrong.Kind == event.ErrorCancelled && out.Outcome == nil:
		a.Observer.Say(a.Name(), "stopped before its first step: "+wrong.Error())
	case wrong.Kind == event.ErrorCancelled:
		a.Observer.Say(a.Name(), "stopped: "+wrong.Error())
	case out.Outcome == nil:
		a.Refuse(a.Name(), wrong)
	default:
		a.Observer.Warn(a.Name(), wrong.Error(), wrong.Hint)
	}
	if out.Err == nil {
		out.Err = wrong
	}
}

// run makes the environment, and runs the steps in it.
func (a *attempt) run(ctx context.Context, out *Ended) (err error) {
	if a.place, err = a.Place(); err == nil {
		err = a.lockImages()
	}
	if err != nil {
		return err
	}
	a.preparing = &session.Preparation{
		Tell: func(p event.Preparing) { a.Observer.Prepare(a.Name(), p) }, Hide: a.Hide, Now: time.Now,
	}
	if a.place.Services != nil {
		if a.beside, err = a.place.Starter.StartServices(ctx, a.place.Services, a.preparing.Report); err != nil {
			return err
		}
		defer a.end(ctx, a.Name(), "cannot remove its services", a.beside.Close)
		var ports []map[uint16]uint16
		for i := range a.place.Services.Services {
			ports = append(ports, a.beside.Ports(i))
		}
		a.Services(ports)
	}
	if a.env, err = a.place.Level.Prepare(ctx, a.place.Job, a.preparing.Report); err != nil {
		return err
	}
	defer a.close(ctx)
	out.Ignored = a.place.Ignored
	a.prepared = a.preparing.Ended()
	if err := a.inside(ctx, out); err != nil {
		a.problem(ctx, out, err)
	}
	if out.Err != nil && out.Err.Kind != event.ErrorCancelled && ctx.Err() == nil && a.Shell != nil {
		dir := a.env.Layout().Project
		if a.steps != nil {
			dir = a.steps.Project
		}
		a.Shell(ctx, ShellJob{Name: a.Name(), Environment: a.env, Dir: dir, Env: a.ShellEnv()})
	}
	return nil
}

// close removes the environment, or says where it is.
func (a *attempt) close(ctx context.Context) {
	if a.Keep {
		a.Observer.Say(a.Name(), session.WhereKept(a.env.Layout()))
	}
	a.end(ctx, a.Name(), "cannot remove its environment", a.env.Close)
}

// inside runs the steps in the environment that stands.
func (a *attempt) inside(ctx context.Context, out *Ended) (err error) {
	if a.steps, err = a.Steps(ctx, a.env); err != nil {
		return err
	}
	if err := a.bring(ctx); err != nil {
		return err
	}
	file, err := a.TraceFile()
	if err != nil {
		return err
	}
	began := time.Now()
	outcome, lost, err := a.record(ctx, file)
	if outcome.Started {
		out.Outcome, out.Trace = outcome, file
		defer func() { err = errors.Join(err, a.handOver(out)) }()
	}
	switch {
	case lost != nil:
		out.Err = lost // the end of the run has said it
		return nil
	case err != nil:
		return err
	case outcome.End == nil:
		return session.Problem(event.ErrorSystem, "", "the run ended without a result")
	}
	out.ExitCode = outcome.End.ExitCode
	if outcome.End.Status != event.Success {
		if out.Err = a.Error(outcome); out.Err == nil {
			out.Err = session.Problem(event.ErrorSystem, "", "the steps failed")
		}
	}
	if err := a.fetch(ctx, began, outcome); err != nil {
		out.Lost = true
		wrong := *session.AsError(ctx, err)
		wrong.Message = fmt.Sprintf("cannot fetch the files that the job produced: %v", err)
		return &wrong
	}
	return nil
}

// record runs the steps; what happens goes to the trace and to the Observer. An environment that ends in the middle of the run cannot say
// how it ended: lost is what is said of it here, to both.
func (a *attempt) record(ctx context.Context, file string) (outcome *session.Outcome, lost *event.Error, err error) {
	outcome = &session.Outcome{}
	record, err := trace.NewRecorder(file, trace.Options{RuntimeDigest: a.RuntimeDigest, Volatile: true})
	if err != nil {
		return outcome, nil, err
	}
	logFile := ""
	if a.env.Layout().Shared { // the step-runner writes the log where the trace keeps it
		if logFile, err = record.SharedLog(); err != nil {
			return outcome, nil, errors.Join(err, record.Close())
		}
	}
	described := session.Describe(a.place.Level.Level(), a.place.Job, a.env, a.brought, a.Hide)
	described.Prepared, described.Project, described.IgnoredImage = a.prepared, a.steps.Source, a.Hide(a.place.Ignored)
	if layout := a.env.Layout(); layout.Shared {
		described.Programs = layout.Bin
	}
	if a.beside != nil {
		session.Beside(described, a.place.Services, a.beside, a.Hide)
	}
	identity := a.Identity().Hide(a.Hide)
	shown := a.View(a.Observer.Run(a.Name()))
	s, unfinished := a.steps, &session.Unfinished{}
	all := sinks{unfinished, outcome, session.Described(record, described, &identity), session.Described(shown, nil, &identity)}
	err = session.Run(ctx, session.KillOn(a.Kill), a.env, client.Request{
		ID: a.place.Job.ID, Component: s.Plan, WorkDir: s.Project, Env: a.stepEnv(), Variables: s.Variables, Secrets: s.Secrets,
		Timeout: s.Timeout, Grace: a.Grace, Lock: s.Lock, LogFile: logFile, InheritEnv: a.InheritEnv, Confine: a.Confine,
	}, all)
	if err != nil && unfinished.Begun() {
		lost = session.AsError(ctx, err)
		lost.Message, lost.Hint = a.Hide(lost.Message), a.Hide(lost.Hint)
		for _, e := range unfinished.Ends(session.EndOf(lost)) {
			all.Event(e)
		}
	}
	_ = shown.Close() // what cannot be shown is still recorded
	if closeErr := record.Close(); closeErr != nil {
		a.Observer.Warn(a.Name(), closeErr.Error(), "")
	}
	return outcome, lost, err
}

// stepEnv is the environment of every step, beyond what it has by itself.
func (a *attempt) stepEnv() map[string]string {
	env := session.BaseEnv(a.env.Layout())
	if a.env.Layout().Shared {
		maps.Copy(env, a.HostEnv)
	}
	maps.Copy(env, a.steps.Env)
	return env
}

// sinks passes events on to several.
type sinks []event.Sink

// Event implements event.Sink.
func (s sinks) Event(e event.Event) {
	for _, to := range s {
		to.Event(e)
	}
}

// bring puts into the environment what the steps need there.
func (a *attempt) bring(ctx context.Context) error {
	layout, s := a.env.Layout(), a.steps
	for _, f := range s.Texts {
		var err error
		a.brought = append(a.brought, f)
		if layout.Shared {
			err = os.WriteFile(filepath.FromSlash(f.To), []byte(f.Text), 0o600)
		} else {
			err = session.SendText(ctx, a.env, f.To, f.Text)
		}
		if err != nil {
			return fmt.Errorf("writing the files of variables: %w", err)
		}
	}
	if layout.Shared {
		return nil
	}
	if t := s.Tree; t != nil {
		if err := session.SendTree(ctx, a.env, t.To, t.From, "", t.Submodules); err != nil {
			return fmt.Errorf("sending the project's files: %w", err)
		}
		a.brought = append(a.brought, event.File{To: t.To, From: t.From, Tree: true})
	}
	for _, p := range s.Parcels {
		a.brought = append(a.brought, event.File{To: session.Target(layout, p), From: p.From})
	}
	return session.Send(ctx, a.env, s.Parcels)
}

// handOver puts the trace where it was asked for.
func (a *attempt) handOver(out *Ended) error {
	if a.Trace == nil {
		return nil
	}
	to := a.Trace(a.Name())
	if to == "" {
		return nil
	}
	if err := trace.HandOver(out.Trace, to); err != nil {
		return session.Problem(event.ErrorSystem, "the trace is in "+out.Trace, "cannot write the trace: %v", err)
	}
	out.Trace = to
	return nil
}
