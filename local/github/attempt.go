package github

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/internal/mask"
	"github.com/rungci/rung/steps/event"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/service/client"
	"github.com/rungci/rung/steps/trace"
	"github.com/rungci/rung/steps/value"
)

// attempt is one run of a leg's steps.
type attempt struct {
	*runner
	leg      *leg
	id       int64
	contexts definition.Contexts
	spot     *spot
	env      executor.Environment
	brought  []event.File
	hide     func(string) string
	planned  bool // the steps are shown, and do not run
}

// attempt runs the steps of a leg in an environment of its own.
func (r *runner) attempt(ctx context.Context, l *leg) Result {
	began := time.Now()
	a := &attempt{runner: r, leg: l, id: r.counter.Add(1)}
	a.contexts = r.project.legContexts(l)
	a.hide = a.masks()
	spot, skip, refusal := a.choose()
	switch {
	case ctx.Err() != nil:
		return Result{Status: Cancelled, Note: context.Cause(ctx).Error()}
	case refusal != nil:
		return a.failed(refusal, began)
	case skip != "":
		r.say("", skip+": such jobs are skipped")
		return Result{Status: Skipped, Note: skip}
	}
	a.spot = spot
	r.o.Observer.Started(l.name)
	a.announce()
	out, err := a.run(ctx)
	if err != nil {
		return a.failed(session.AsError(ctx, err), began)
	}
	out.Duration = time.Since(began)
	return out
}

// failed is the result of a leg whose steps did not start.
func (a *attempt) failed(err *event.Error, began time.Time) Result {
	out := Result{Status: Failed, Error: err, Note: session.OneLine(err.Message), Duration: time.Since(began)}
	if err.Kind == event.ErrorCancelled {
		out.Status = Cancelled
		return out
	}
	for _, d := range err.Diagnostics {
		a.o.Observer.Warn(a.leg.name, d.Error(), d.Hint)
	}
	if err.Diagnostics == nil {
		a.o.Observer.Warn(a.leg.name, "the job does not start: "+err.Message, err.Hint)
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

// masks hides the secrets of a job in what is said of it here: what its steps say is masked where it is made.
func (a *attempt) masks() func(string) string {
	var values []string
	for _, v := range a.contexts["secrets"].Fields() {
		if v.Text() != "" {
			values = append(values, v.Text())
		}
	}
	return session.Hiding(values)
}

// announce says what a job asks for that is something else on one machine than on GitHub.
func (a *attempt) announce() {
	if group := a.leg.RunsOn.Group; group != "" {
		a.say(a.leg.name, fmt.Sprintf("runs-on: group: %s: there is no group of runners to choose from here", group))
	}
	if e := a.leg.Environment; e != nil {
		a.say(a.leg.name, fmt.Sprintf("environment: %s: it gets the variables of that scope; nobody has to approve it, and no deployment is made on GitHub", e.Name))
	}
}

// run makes the environment and runs the steps in it.
func (a *attempt) run(ctx context.Context) (out Result, err error) {
	end, err := a.startServices(ctx)
	if err != nil {
		return out, err
	}
	defer a.closing(ctx, "its services are not removed", end)
	a.env, err = a.spot.level.Prepare(ctx, a.spot.job, func(line string) { a.o.Observer.Say(a.leg.name, a.hide(line)) })
	if err != nil {
		return out, err
	}
	defer a.close(ctx)
	out, err = a.inside(ctx)
	if (err != nil || out.Status == Failed) && ctx.Err() == nil && a.o.Shell != nil {
		a.o.Shell(ctx, a.leg.name, a.env, a.env.Layout().Project, a.shellEnv())
	}
	return out, err
}

// close removes the environment, or says where it is.
func (a *attempt) close(ctx context.Context) {
	if a.o.Keep {
		a.o.Observer.Say(a.leg.name, session.WhereKept(a.env.Layout()))
	}
	a.closing(ctx, "its environment is not removed", a.env.Close)
}

// closing removes something, whatever stopped the job.
func (a *attempt) closing(ctx context.Context, otherwise string, remove func(context.Context) error) {
	if err := session.End(ctx, remove); err != nil {
		a.o.Observer.Warn(a.leg.name, fmt.Sprintf("%s: %v", otherwise, err), "")
	}
}

// inside runs the steps in the environment that stands.
func (a *attempt) inside(ctx context.Context) (out Result, err error) {
	compiled, err := a.compile(a.env.Layout())
	if err != nil {
		return out, err
	}
	for _, note := range compiled.Notes {
		a.say(a.leg.name, note)
	}
	if err := a.deliver(ctx, compiled); err != nil {
		return out, err
	}
	file, err := a.project.Store.Trace(a.leg.name)
	if err != nil {
		return out, err
	}
	_ = os.Remove(a.requests()) // of an earlier run
	record, err := trace.NewRecorder(file, trace.Options{RuntimeDigest: a.o.RuntimeDigest, Volatile: true})
	if err != nil {
		return out, err
	}
	shown := a.o.Observer.Run(a.leg.name)
	described := session.Describe(a.spot.level.Level(), a.spot.job, a.env, a.brought, a.hide)
	if a.spot.started != nil {
		session.Beside(described, a.spot.beside, a.spot.started, a.hide)
	}
	w := &watch{to: []event.Sink{session.Described(record, described), shown}}
	request, err := a.request(compiled)
	if err == nil {
		err = session.Run(ctx, a.o.Kill, a.env, request, w)
	}
	_ = shown.Close() // what cannot be shown is still recorded
	if closeErr := record.Close(); closeErr != nil {
		a.o.Observer.Warn(a.leg.name, closeErr.Error(), "")
	}
	if err != nil {
		return out, err
	}
	if w.end == nil {
		return out, session.Problem(event.ErrorSystem, "", "the run ended without saying how")
	}
	out = a.ended(w)
	out.Trace = a.handOver(file)
	return out, a.bringBack(ctx, compiled)
}

// request is the run of the steps.
func (a *attempt) request(compiled *definition.Compiled) (client.Request, error) {
	layout := a.env.Layout()
	secrets := map[string]string{}
	for name, v := range a.contexts["secrets"].Fields() {
		secrets[name] = v.Text()
	}
	locked, err := a.leg.node.scope.lockText()
	return client.Request{
		ID: session.EnvironmentID(a.leg.name, a.id), Component: compiled.Plan, WorkDir: layout.Project, Env: a.base(layout), Secrets: secrets,
		Timeout: time.Duration(a.leg.TimeoutMinutes * float64(time.Minute)), Grace: a.o.Grace,
		Lock: locked,
	}, err
}

// base is the environment of every step, beyond what it has by itself.
func (a *attempt) base(layout executor.Layout) map[string]string {
	env := session.BaseEnv(layout)
	for name, v := range a.spot.env {
		env[name] = v.Text()
	}
	if layout.Shared {
		env[session.GitCeiling] = session.Above(layout)
	}
	return env
}

// shellEnv is the environment of a shell in the job.
func (a *attempt) shellEnv() []string {
	var out []string
	for name, text := range a.base(a.env.Layout()) {
		out = append(out, name+"="+text)
	}
	for name, v := range a.contexts["github"].Fields() {
		if v.Kind() == value.String && v.Text() != "" {
			out = append(out, "GITHUB_"+strings.ToUpper(name)+"="+v.Text())
		}
	}
	return out
}

// ended is how the run of the steps ended.
func (a *attempt) ended(w *watch) Result {
	out := Result{Status: Success, ExitCode: w.end.ExitCode, Ran: true, Outputs: map[string]value.Value{}}
	for name, v := range w.end.Outputs {
		_, secret := event.IsRedacted(v)
		if secret || strings.Contains(v.Text(), mask.Replacement) {
			a.o.Observer.Warn(a.leg.name, fmt.Sprintf("the output %s holds a secret, and is not given to other jobs", name), "")
			v = value.OfString("")
		}
		if name == definition.OutputEnvironmentURL {
			out.Note = "environment " + a.leg.Environment.Name + " " + v.Text()
			continue
		}
		out.Outputs[name] = v
	}
	if w.end.Status == event.Success {
		return out
	}
	out.Status, out.Error = Failed, w.end.Error
	if out.Error == nil {
		out.Error = session.Problem(event.ErrorSystem, "", "the steps failed")
	}
	if out.Error.Kind == event.ErrorCancelled {
		out.Status = Cancelled
	}
	out.Note = session.OneLine(out.Error.Message)
	return out
}

// byClient is what a step-runner says of a run that its client stops, which here is this program.
const byClient = "cancelled by the client: "

// handOver copies the trace to where it was asked for, and returns where it is.
func (a *attempt) handOver(file string) string {
	if a.o.Trace == nil {
		return file
	}
	to := a.o.Trace(a.leg.name)
	if to == "" {
		return file
	}
	data, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		a.o.Observer.Warn(a.leg.name, fmt.Sprintf("the trace cannot be written: %v", err), "it is "+file)
		return file
	}
	return to
}

// watch is a sink that remembers how a run ended, and tells of that as the workflow is written.
type watch struct {
	to     []event.Sink
	titles map[string]string // of the job's own steps, by their names
	end    *event.RunFinished
}

// Event implements event.Sink.
func (w *watch) Event(e event.Event) {
	switch b := e.Body.(type) {
	case event.RunStarted:
		w.titles = map[string]string{}
	case event.StepStarted:
		if b.Title != "" && !strings.Contains(e.Step, ".") {
			w.titles[b.Name] = b.Title
		}
	case event.Stopping:
		b.Reason = strings.TrimPrefix(b.Reason, byClient)
		e.Body = b
	case event.RunFinished:
		told := b
		told.Error = w.told(b.Error, b.ExitCode)
		w.end = &told
	}
	for _, sink := range w.to {
		sink.Event(e)
	}
}

// told is the error of a run, whose message begins with the name of the step, for people.
func (w *watch) told(err *event.Error, code *int) *event.Error {
	if err == nil {
		return nil
	}
	out := *err
	out.Message = strings.Replace(strings.Replace(err.Message, byClient, "", 1), "the run timed out", "the job timed out", 1)
	rest, ok := strings.CutPrefix(out.Message, `step "`)
	path, message, cut := strings.Cut(rest, `": `)
	if !ok || !cut {
		return &out
	}
	name, _, _ := strings.Cut(path, "/")
	title := cmp.Or(w.titles[name], name)
	switch {
	case err.Kind == event.ErrorStep && code != nil && *code > 0:
		out.Message = fmt.Sprintf("%s: exit code %d", title, *code)
	case err.Kind == event.ErrorTimeout || err.Kind == event.ErrorCancelled:
		out.Message = message
	default:
		out.Message = title + ": " + message
	}
	return &out
}
