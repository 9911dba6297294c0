package gitlab

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/local/repository"
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/catalog/artifacts"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/compile"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/place"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/service/client"
)

func timeoutOf(j *pipeline.Job) time.Duration { return cmp.Or(j.Keywords.Timeout, DefaultTimeout) }

// attempt is one run of a job's steps: a local.Work.
type attempt struct {
	*runner
	job      *pipeline.Job
	slot     int
	dry      bool  // it is only shown
	id       int64 // of the job on GitLab, as far as there is one
	started  time.Time
	timeout  time.Duration
	project  string // the folder of the job's files
	layout   executor.Layout
	places   places
	archives map[string]string // of other jobs: where they are for the environment, and on this machine
	vars     *variable.Collection
	results  compile.Results // what the steps may leave
	excludes []event.File    // the user's own patterns of what Git ignores
}

func (r *runner) newAttempt(j *pipeline.Job, slot int) *attempt {
	return &attempt{runner: r, job: j, slot: slot, id: r.Number(), started: time.Now(), timeout: timeoutOf(j)}
}

// Name implements local.Work.
func (a *attempt) Name() string { return a.job.Name }

// Identity implements local.Work.
func (a *attempt) Identity() event.Identity {
	p := a.runner.project
	text := func(name string) string {
		v, _ := a.vars.Lookup(name)
		return v
	}
	id := event.Identity{
		Project: text("CI_PROJECT_PATH"), Ref: p.Facts.Pipeline.Ref, Commit: text("CI_COMMIT_SHA"),
		Pipeline: cmp.Or(p.Pipeline.Name, p.File), PipelineID: a.ID, Job: a.Prefix + a.job.Name, Stage: a.job.Stage, StageIndex: a.job.StageIndex,
		AllowFailure: a.job.AllowFailure.Always, AllowFailureExitCodes: a.job.AllowFailure.ExitCodes,
	}
	if a.job.Group != a.job.Name {
		id.Group = a.Prefix + a.job.Group
	}
	for _, need := range a.job.Needs {
		id.Needs = append(id.Needs, a.Prefix+need.Job.Name)
	}
	return id
}

// Place implements local.Work.
func (a *attempt) Place() (*local.Place, error) {
	vars, err := a.variables(nil)
	if err != nil {
		return nil, err
	}
	a.vars = vars
	return a.place()
}

// Hide implements local.Work.
func (a *attempt) Hide(text string) string { return session.Hiding(place.Masked(a.vars))(text) }

// Services implements local.Work: GitLab's services are always beside a container.
func (a *attempt) Services([]map[uint16]uint16) {}

// Steps implements local.Work.
func (a *attempt) Steps(ctx context.Context, env executor.Environment) (*local.Steps, error) {
	a.layout = env.Layout()
	a.project = a.layout.Project
	if a.o.InPlace {
		a.project = a.runner.project.Repository.Root
	}
	if err := a.findPlaces(); err != nil {
		return nil, err
	}
	var err error
	if err = a.enter(); err != nil {
		return nil, err
	}
	lock, err := a.runner.project.lock.Text()
	if err != nil {
		return nil, err
	}
	compiled, err := a.compiled(ctx)
	if err != nil {
		return nil, err
	}
	out := &local.Steps{Project: a.project, Source: a.runner.project.Repository.Root, Env: map[string]string{}, Lock: lock, Timeout: a.timeout}
	if !a.o.InPlace {
		out.Env[session.GitCeiling] = session.Above(a.layout)
	}
	out.Texts = append(out.Texts, a.excludes...)
	out.Plan, a.results = compiled.Plan, compiled.Results
	for _, v := range slices.Concat(compiled.Variables, compiled.Contents) {
		out.Variables = append(out.Variables, client.Variable{Name: v.Name, Value: v.Value, Masked: v.Masked})
	}
	return out, a.deliver(compiled, out)
}

// TraceFile implements local.Work. The trace is in the store: elsewhere in the project it would be one of the files that jobs work on. That
// of an earlier attempt is overwritten.
func (a *attempt) TraceFile() (string, error) { return a.runner.project.Store.Trace(a.job.Name) }

// View implements local.Work.
func (a *attempt) View(to local.Sink) local.Sink {
	if a.Everything {
		return to
	}
	return newCompact(to, a.job.Keywords, !a.Color)
}

// Error implements local.Work.
func (a *attempt) Error(o *session.Outcome) *event.Error {
	return newCompact(nil, a.job.Keywords, false).shown(o)
}

// findPlaces finds the folders of the store.
func (a *attempt) findPlaces() (err error) {
	if !a.layout.Shared {
		a.places = travelling(a.layout)
		return nil
	}
	s := a.runner.project.Store
	if a.places.cache, err = s.Cache(); err != nil {
		return err
	}
	if a.job.Keywords.Artifacts != nil || a.job.Keywords.Pages != nil {
		if a.places.artifacts, err = s.Artifacts(a.job.Name, a.ID); err != nil {
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
	predefined := append(p.Facts.RunVariables(facts), byHand(facts.Manual)...)
	if layout != nil {
		runner := repository.Runner{
			Project: a.project, Builds: a.builds(layout), Temp: layout.Temp, Slot: a.slot, Shared: layout.Shared,
			Version: a.Version, Revision: a.Revision, Tags: a.job.Keywords.Tags,
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

// ShellEnv implements local.Work.
func (a *attempt) ShellEnv() []string {
	var out []string
	if !a.o.InPlace {
		out = append(out, session.GitCeiling+"="+session.Above(a.layout))
	}
	for _, v := range a.vars.Effective() {
		if v.File {
			continue
		}
		out = append(out, v.Name+"="+v.Value)
	}
	return out
}

// manifest is what is kept of a job: what it was compiled to upload, as far as the steps succeeded and the files are in the store.
func (a *attempt) manifest(o *session.Outcome) *store.Manifest {
	m := &store.Manifest{}
	if len(a.results.Uploads) == 0 {
		return m
	}
	folder, err := a.runner.project.Store.Artifacts(a.job.Name, a.ID)
	if err != nil {
		a.Observer.Warn(a.job.Name, fmt.Sprintf("cannot keep its artifacts: %v", err), "")
		return m
	}
	for _, u := range a.results.Uploads {
		step, file := o.Of(u.Step), artifacts.FileName(u.Name, u.Type, u.Format)
		if step == nil || step.Outputs["file"].Str() == "" {
			continue // there was nothing to upload
		}
		if info, err := os.Lstat(filepath.Join(folder, file)); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if u.Type == "archive" {
			m.Archive = file
		} else {
			m.Reports = append(m.Reports, store.Report{Type: u.Type, File: file})
		}
	}
	return m
}

var _ local.Work = (*attempt)(nil)
