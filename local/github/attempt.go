package github

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/internal/mask"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/steps/event"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/value"
)

// attempt is one run of a leg's steps: a local.Work.
type attempt struct {
	*runner
	leg      *leg
	id       int64
	contexts definition.Contexts
	masked   []string // the values of its secrets
	hide     func(string) string
	env      map[string]value.Value // of `container: env`
	layout   executor.Layout
	compiled *definition.Compiled
	excludes []event.File // the user's own patterns of what Git ignores
	planned  bool         // the steps are shown, and do not run
}

// run runs the steps of a leg.
func (r *runner) run(ctx context.Context, l *leg) local.Result {
	began := time.Now()
	if ctx.Err() != nil {
		return local.Result{Status: local.Cancelled, Note: context.Cause(ctx).Error()}
	}
	if skip := r.unfit(l); skip != "" {
		r.SayOnce("", skip+": such jobs are skipped")
		return local.Result{Status: local.Skipped, Note: skip}
	}
	a := &attempt{runner: r, leg: l, id: r.Number(), contexts: r.project.legContexts(l)}
	a.masked = a.secretValues()
	a.hide = session.Hiding(a.masked)
	r.Observer.Started(l.name)
	a.announce()
	ended := r.Attempt(ctx, a)
	out := local.Result{
		Status: local.Success, Error: ended.Err, ExitCode: ended.ExitCode, Duration: time.Since(began), Ignored: ended.Ignored, Trace: ended.Trace,
	}
	if o := ended.Outcome; o != nil {
		out.Attempts = 1
		if o.End != nil {
			out.Outputs, out.Note = a.outputs(o.End.Outputs)
		}
	}
	if ended.Err != nil {
		out.Status, out.Note = local.Failed, session.OneLine(ended.Err.Error())
		if ended.Err.Kind == event.ErrorCancelled {
			out.Status = local.Cancelled
		}
	}
	return out
}

// legContexts are those of a leg: variables and secrets are those of its environment.
func (p *Project) legContexts(l *leg) definition.Contexts {
	c := l.node.contexts()
	if e := l.Environment; e != nil {
		c["vars"] = p.vars(e.Name)
		if l.node.scope.caller == nil {
			c["secrets"] = p.secrets(e.Name)
		}
	}
	return c
}

// secretValues are hidden in what is said of the job here, and in what its services print: what its steps say is masked where it is made.
func (a *attempt) secretValues() (values []string) {
	for _, v := range a.contexts["secrets"].Fields() {
		if v.Text() != "" {
			values = append(values, v.Text())
		}
	}
	for _, c := range a.leg.Services {
		if text := c.Password.Text(); text != "" {
			values = append(values, text)
		}
	}
	return values
}

// announce says what a job asks for that is something else on one machine than on GitHub.
func (a *attempt) announce() {
	if group := a.leg.RunsOn.Group; group != "" {
		a.SayOnce(a.leg.name, fmt.Sprintf("runs-on: group: %s: runner groups do not exist here", group))
	}
	if e := a.leg.Environment; e != nil {
		a.SayOnce(a.leg.name, fmt.Sprintf("environment: %s: the job gets the variables of that scope; no approval is required, and no deployment is created on GitHub", e.Name))
	}
}

// Name implements local.Work.
func (a *attempt) Name() string { return a.leg.name }

// Identity implements local.Work.
func (a *attempt) Identity() event.Identity {
	p, from := a.runner.project, a.leg.node
	id := event.Identity{
		Project: p.github["repository"].Text(), Ref: p.github["ref_name"].Text(), Commit: p.github["sha"].Text(),
		Pipeline: p.github["workflow"].Text(), PipelineID: a.ID, Job: a.leg.name,
		AllowFailure: a.leg.Settings != nil && a.leg.ContinueOnError,
	}
	if group := from.scope.prefix() + from.job.ID; group != id.Job {
		id.Group = group
	}
	for _, need := range from.job.Needs {
		id.Needs = append(id.Needs, from.scope.prefix()+need)
	}
	return id
}

// Hide implements local.Work.
func (a *attempt) Hide(text string) string { return a.hide(text) }

// Services implements local.Work: the job finds the ports of its services in its context.
func (a *attempt) Services(ports []map[uint16]uint16) {
	all := map[string]value.Value{}
	for i, s := range a.leg.Services {
		own := map[string]value.Value{}
		for inside, here := range ports[i] {
			own[fmt.Sprint(inside)] = value.OfString(fmt.Sprint(here))
			a.Observer.Say(a.leg.name, fmt.Sprintf("service %s: its port %d is localhost:%d", s.ID, inside, here))
		}
		all[s.ID] = value.OfStruct(map[string]value.Value{"ports": value.OfStruct(own)})
	}
	a.contexts["job"] = value.OfStruct(map[string]value.Value{"services": value.OfStruct(all)})
}

// Steps implements local.Work.
func (a *attempt) Steps(_ context.Context, env executor.Environment) (*local.Steps, error) {
	a.layout = env.Layout()
	var err error
	if a.compiled, err = a.compile(a.layout); err != nil {
		return nil, err
	}
	for _, note := range a.compiled.Notes {
		a.SayOnce(a.leg.name, note)
	}
	_ = os.Remove(a.requests()) // of an earlier run
	out := &local.Steps{
		Plan: a.compiled.Plan, Project: a.layout.Project, Source: a.project.Repository.Root, Texts: a.excludes, Env: a.base(), Secrets: map[string]string{},
		Timeout: time.Duration(a.leg.TimeoutMinutes * float64(time.Minute)),
	}
	for name, v := range a.contexts["secrets"].Fields() {
		out.Secrets[name] = v.Text()
	}
	a.deliver(out)
	out.Lock, err = a.leg.node.scope.lock.Text()
	return out, err
}

// base is the environment of every step, beyond that of the place.
func (a *attempt) base() map[string]string {
	env := map[string]string{}
	for name, v := range a.env {
		env[name] = v.Text()
	}
	if a.layout.Shared {
		env[session.GitCeiling] = session.Above(a.layout)
	}
	return env
}

// TraceFile implements local.Work.
func (a *attempt) TraceFile() (string, error) { return a.project.Store.Trace(a.leg.name) }

// ShellEnv implements local.Work.
func (a *attempt) ShellEnv() []string {
	env := session.BaseEnv(a.layout)
	maps.Copy(env, a.base())
	var out []string
	for name, text := range env {
		out = append(out, name+"="+text)
	}
	for name, v := range a.contexts["github"].Fields() {
		if v.Kind() == value.String && v.Text() != "" {
			out = append(out, "GITHUB_"+strings.ToUpper(name)+"="+v.Text())
		}
	}
	return out
}

// outputs are what a leg gives to other jobs, and the note about its environment.
func (a *attempt) outputs(all map[string]value.Value) (out map[string]value.Value, note string) {
	out = map[string]value.Value{}
	for name := range a.compiled.Plan.Definition.Outputs { // and no others, whatever the environment reports
		v, reported := all[name]
		if !reported {
			continue
		}
		_, secret := event.IsRedacted(v)
		if secret || strings.Contains(v.Text(), mask.Replacement) || a.hide(v.Text()) != v.Text() {
			a.Observer.Warn(a.leg.name, fmt.Sprintf("the output %s holds a secret and is not passed to other jobs", name), "")
			v = value.OfString("")
		}
		if name == definition.OutputEnvironmentURL {
			note = "environment " + a.leg.Environment.Name + " " + v.Text()
			continue
		}
		out[name] = v
	}
	return out, note
}

// View implements local.Work.
func (a *attempt) View(to local.Sink) local.Sink { return &phrased{to: to} }

// Error implements local.Work.
func (a *attempt) Error(o *session.Outcome) *event.Error {
	return (&phrased{titles: o.Titles}).told(o.End.Error, o.End.ExitCode)
}

var _ local.Work = (*attempt)(nil)

// phrased shows a run in the words of the workflow.
type phrased struct {
	to     local.Sink
	titles map[string]string // of the job's own steps, by their names
}

// Close implements local.Sink.
func (w *phrased) Close() error { return w.to.Close() }

// Event implements event.Sink.
func (w *phrased) Event(e event.Event) {
	switch b := e.Body.(type) {
	case event.RunStarted:
		w.titles = map[string]string{}
	case event.StepStarted:
		if b.Title != "" && !strings.Contains(e.Step, ".") {
			w.titles[b.Name] = b.Title
		}
	case event.RunFinished:
		b.Error = w.told(b.Error, b.ExitCode)
		e.Body = b
	}
	w.to.Event(e)
}

// told is the error of a run for people, with the title of the job's own step that it began in.
func (w *phrased) told(err *event.Error, code *int) *event.Error {
	if err == nil {
		return nil
	}
	out := *session.OfJob(err)
	out.StepName = ""
	if err.StepName == "" || err.Kind == event.ErrorTimeout || err.Kind == event.ErrorCancelled {
		return &out
	}
	name, _, _ := strings.Cut(err.StepName, "/")
	title := cmp.Or(w.titles[name], name)
	if err.Kind == event.ErrorStep && code != nil && *code > 0 {
		out.Message = fmt.Sprintf("exit code %d", *code)
	}
	out.Message = title + ": " + out.Message
	return &out
}
