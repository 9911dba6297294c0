package gitlab

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/local/repository"
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/service/client"
	"github.com/rungci/rung/steps/trace"
)

// attempt runs the steps of a job once, in an environment of its own.
func (r *runner) attempt(ctx context.Context, j *pipeline.Job, slot, number int) (out outcome) {
	a := &attempt{runner: r, job: j, slot: slot, number: number, id: r.counter.Add(1), started: time.Now()}
	a.timeout = timeoutOf(j)
	return a.run(ctx)
}

func timeoutOf(j *pipeline.Job) time.Duration { return cmp.Or(j.Keywords.Timeout, DefaultTimeout) }

// attempt is one run of a job's steps.
type attempt struct {
	*runner
	job          *pipeline.Job
	slot, number int
	dry          bool  // it is only shown
	id           int64 // of the job on GitLab, as far as there is one
	started      time.Time
	timeout      time.Duration
	env          executor.Environment
	project      string // the folder of the job's files
	layout       executor.Layout
	places       places
	isolation    executor.Level
	what         *executor.Job     // what the environment was asked to be
	brought      []event.File      // what was put into it
	archives     map[string]string // of other jobs: where they are for the environment, and on this machine
	vars         *variable.Collection
	sink         Sink
}

func (a *attempt) run(ctx context.Context) outcome {
	vars, err := a.variables(nil)
	if err != nil {
		return failed(asError(ctx, err))
	}
	level, what, refusal := a.level(a.job, vars)
	if refusal != nil {
		return failed(refusal)
	}
	a.what, a.isolation = what, level.Level()
	a.env, err = level.Prepare(ctx, what, func(line string) { a.o.Observer.Say(a.job.Name, line) })
	if err != nil {
		return failed(asError(ctx, err))
	}
	defer a.close(ctx)
	out, err := a.inside(ctx)
	if err != nil {
		out = failed(asError(ctx, err))
	}
	out.vars = a.vars
	if out.err != nil && out.err.Kind != event.ErrorCancelled && a.o.Shell != nil {
		a.o.Shell(ctx, ShellJob{Name: a.job.Name, Environment: a.env, Dir: a.project, Env: a.shellEnv()})
	}
	return out
}

// close removes the environment, or says where it is.
func (a *attempt) close(ctx context.Context) {
	if a.o.Keep {
		a.o.Observer.Say(a.job.Name, session.WhereKept(a.env.Layout()))
	}
	if err := session.End(ctx, a.env.Close); err != nil {
		a.o.Observer.Warn(a.job.Name, fmt.Sprintf("its environment is not removed: %v", err), "")
	}
}

// inside runs the steps in the environment that stands.
func (a *attempt) inside(ctx context.Context) (outcome, error) {
	layout := a.env.Layout()
	a.project = layout.Project
	if a.o.InPlace {
		a.project = a.runner.project.Repository.Root
	}
	if err := a.findPlaces(layout); err != nil {
		return outcome{}, err
	}
	var err error
	if a.vars, err = a.variables(&layout); err != nil {
		return outcome{}, err
	}
	job, err := a.compiled(ctx)
	if err != nil {
		return outcome{}, err
	}
	component, err := Component(job, a.project)
	if err != nil {
		return outcome{}, err
	}
	variables, err := requestVariables(job)
	if err != nil {
		return outcome{}, err
	}
	if err := a.deliver(ctx, job, component); err != nil {
		return outcome{}, err
	}
	path, record, err := a.recorder()
	if err != nil {
		return outcome{}, err
	}
	a.sink = a.o.Observer.Run(a.job.Name)
	if !a.o.Everything {
		a.sink = newCompact(a.sink, a.job.Keywords, !a.o.Color)
	}
	described := session.Describe(a.isolation, a.what, a.env, a.brought, session.Hiding(maskedValues(a.vars)))
	w := &watch{to: []event.Sink{session.Described(record, described), a.sink}}
	request := client.Request{
		ID: session.EnvironmentID(a.job.Name, a.id), Component: component, WorkDir: a.project, Env: a.base(layout), Variables: variables,
		Timeout: a.timeout, Grace: a.o.Grace,
	}
	err = session.Run(ctx, a.o.Kill, a.env, request, w)
	_ = a.sink.Close() // what cannot be shown is still recorded
	if closeErr := record.Close(); closeErr != nil {
		a.o.Observer.Warn(a.job.Name, closeErr.Error(), "")
	}
	if err != nil {
		return outcome{}, err
	}
	out := a.ended(w)
	if w.started {
		if out.trace, err = a.handOver(path); err != nil && out.err == nil {
			out.err = asError(ctx, err)
		}
	}
	if err := a.collect(ctx, w, &out); err != nil && out.err == nil {
		return outcome{}, err
	}
	return out, nil
}

// base is the environment of every step, beyond what it has by itself.
func (a *attempt) base(layout executor.Layout) map[string]string {
	env := session.BaseEnv(layout)
	if !a.o.InPlace {
		env[session.GitCeiling] = session.Above(layout)
	}
	return env
}

// findPlaces finds the folders of the store.
func (a *attempt) findPlaces(layout executor.Layout) (err error) {
	if !layout.Shared {
		a.places = travelling(layout)
		return nil
	}
	s := a.runner.project.Store
	if a.places.cache, err = s.Cache(); err != nil {
		return err
	}
	if a.job.Keywords.Artifacts != nil || a.job.Keywords.Pages != nil {
		if a.places.artifacts, err = s.Artifacts(a.job.Name, a.runner.id); err != nil {
			return err
		}
	}
	if a.job.Keywords.Release != nil {
		if a.places.releases, err = s.Releases(); err != nil {
			return err
		}
	}
	if a.job.Keywords.Pages != nil {
		a.places.pages, err = s.Pages()
	}
	return err
}

// variables are the job's variables; without a layout, as far as they do not depend on it.
func (a *attempt) variables(layout *executor.Layout) (*variable.Collection, error) {
	p := a.runner.project
	facts := p.jobFacts(a.job)
	facts.ID, facts.PipelineName, facts.Started, facts.Timeout = int(a.id), p.Pipeline.Name, a.started, a.timeout
	facts.Manual = a.startsByHand(a.job) && a.job.When == "manual"
	if pages := a.job.Keywords.Pages; pages != nil {
		facts.PagesPrefix = pages.PathPrefix
	}
	predefined := p.Facts.RunVariables(facts)
	if layout != nil {
		runner := repository.Runner{
			Project: a.project, Builds: filepath.Dir(a.project), Temp: layout.Temp, Slot: a.slot, Shared: layout.Shared,
			Version: a.o.Version, Revision: a.o.Revision, Tags: a.job.Keywords.Tags,
		}
		if !layout.Shared {
			runner.Builds = path.Dir(a.project)
		}
		predefined = append(predefined, runner.Variables()...)
	}
	layers, err := a.layers(a.job)
	if err != nil {
		return nil, err
	}
	layers = append(layers, variable.Layer{Level: variable.Predefined, Variables: predefined})
	vars, err := a.job.VariablesWith(layers...)
	if err != nil {
		return nil, err
	}
	if len(a.job.Keywords.IDTokens) == 0 {
		return p.openToken(vars), nil
	}
	tokens, err := a.tokens(a.job, vars, a.timeout)
	if err != nil {
		return nil, err
	}
	vars, err = a.job.VariablesWith(append(layers, variable.Layer{Level: variable.ExecutionPolicy, Variables: tokens})...)
	if err != nil {
		return nil, err
	}
	return p.openToken(vars), nil
}

// recorder opens the trace of the job, in the store: elsewhere in the project it would be one of the files that jobs work on. One of an
// attempt before is overwritten.
func (a *attempt) recorder() (string, *trace.Recorder, error) {
	file, err := a.runner.project.Store.Trace(a.job.Name)
	if err != nil {
		return "", nil, err
	}
	record, err := trace.NewRecorder(file, trace.Options{RuntimeDigest: a.o.RuntimeDigest, Volatile: true})
	return file, record, err
}

// handOver copies the trace to where it was asked for.
func (a *attempt) handOver(file string) (string, error) {
	if a.o.Trace == nil {
		return file, nil
	}
	to := a.o.Trace(a.job.Name)
	if to == "" {
		return file, nil
	}
	data, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		return file, session.Problem(event.ErrorSystem, "", "the trace cannot be written: %v", err)
	}
	return to, nil
}

// ended is how the run of the steps ended.
func (a *attempt) ended(w *watch) outcome {
	if w.end == nil {
		return failed(session.Problem(event.ErrorSystem, "", "the run ended without saying how"))
	}
	out := outcome{exitCode: w.end.ExitCode}
	if w.end.Status != event.Success {
		out.err = newCompact(nil, a.job.Keywords, false).shown(w)
		if out.err == nil {
			out.err = session.Problem(event.ErrorSystem, "", "the steps failed")
		}
	}
	return out
}

// shellEnv is the environment of a shell in the job.
func (a *attempt) shellEnv() []string {
	var out []string
	if !a.o.InPlace {
		out = append(out, session.GitCeiling+"="+session.Above(a.env.Layout()))
	}
	for _, v := range a.vars.Effective() {
		if v.File {
			continue
		}
		out = append(out, v.Name+"="+v.Value)
	}
	return out
}

// manifest makes what is kept of a job of what its steps gave.
func (a *attempt) manifest(w *watch) *store.Manifest {
	m := &store.Manifest{}
	for _, g := range w.given {
		if g.ref != uploadRef {
			continue
		}
		file := g.outputs["file"].Str()
		if file == "" {
			continue
		}
		if kind := g.inputs["type"].Str(); kind == "" || kind == "archive" {
			m.Archive = filepath.ToSlash(file)
		} else {
			m.Reports = append(m.Reports, store.Report{Type: kind, File: filepath.ToSlash(file)})
		}
	}
	return m
}
