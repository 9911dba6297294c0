package gitlab

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/value"
)

// MaxChildDepth is how deep child pipelines may nest, as on GitLab.
const MaxChildDepth = 2

// trigger is a job that starts a pipeline.
type trigger struct {
	*runner
	job *pipeline.Job
}

// start makes the child pipeline of the job, or says which pipeline of another project GitLab would start.
func (r trigger) start(ctx context.Context) local.Admission {
	ended := func(result local.Result) local.Admission { return local.Admission{Done: &result} }
	t := r.job.Keywords.Trigger
	vars, err := r.jobVariables()
	if err != nil {
		return ended(r.refused(r.job, asError(ctx, err)))
	}
	if t.Project != "" {
		return ended(r.elsewhere(vars))
	}
	if r.project.depth >= MaxChildDepth {
		return ended(r.refused(r.job, session.Problem(event.ErrorDefinition, "", "child pipelines can nest at most %d levels deep", MaxChildDepth)))
	}
	began := time.Now()
	r.Observer.Started(r.job.Name)
	child, err := r.child(ctx, vars)
	if err != nil {
		return ended(r.refused(r.job, asError(ctx, fmt.Errorf("cannot create the child pipeline: %w", err))))
	}
	if found := child.project.Unlocked(*child.o); found != nil {
		return ended(r.refused(r.job, local.Denied(found)))
	}
	call := &local.Call{Pipeline: child.schedule().pipeline()}
	if !t.Depend && !t.Mirror {
		call.Beside = &local.Result{Status: local.Success, Attempts: 1, Beside: true, Note: "its child pipeline runs beside it and does not decide its result"}
		return local.Admission{Call: call}
	}
	call.Ended = func(results []local.Result) local.Result {
		out := childResult(results, child.Prefix)
		if out.Duration = time.Since(began); out.Status == local.Failed && r.job.AllowFailure.Always {
			out.Status = local.Allowed
		}
		return out
	}
	return local.Admission{Call: call}
}

// childResult is the result of a job whose child pipeline has ended.
func childResult(results []local.Result, prefix string) local.Result {
	out := local.Result{Status: local.Success, Attempts: 1}
	var failed []string
	for _, c := range results {
		switch c.Status {
		case local.Failed:
			failed = append(failed, strings.TrimPrefix(c.Name, prefix))
			out.Status = local.Failed
		case local.Cancelled:
			if out.Status == local.Success {
				out.Status, out.Note = local.Cancelled, "its child pipeline was stopped"
			}
		}
	}
	if out.Status == local.Failed {
		out.Note = "its child pipeline failed: " + strings.Join(failed, ", ")
		out.Error = session.Problem(event.ErrorStep, "", "%s", out.Note)
	}
	return out
}

// jobVariables are the variables of a job that triggers a pipeline. It runs nowhere, and knows its own pipeline all the same: with
// `PARENT_PIPELINE_ID: $CI_PIPELINE_ID` it tells another one of it.
func (r trigger) jobVariables() (*variable.Collection, error) {
	layers, err := r.layers(r.job)
	if err != nil {
		return nil, err
	}
	known := variable.Layer{Level: variable.Predefined}
	for _, v := range r.project.Facts.RunVariables(r.project.jobFacts(r.job)) {
		if strings.HasPrefix(v.Name, "CI_PIPELINE_") || strings.HasPrefix(v.Name, "CI_UPSTREAM_") {
			known.Variables = append(known.Variables, v)
		}
	}
	return r.job.VariablesWith(append(layers, known)...)
}

// mirrored says whose status a job would take over on GitLab; "" when it has none such.
func (r *runner) mirrored(j *pipeline.Job) string {
	for _, need := range j.Upstream {
		if need.UpstreamJob == "" {
			return "needs: pipeline: GitLab would wait for the latest pipeline of " + need.Pipeline + ", and mirror its status"
		}
	}
	return ""
}

// elsewhere says what a job would do in another project.
func (r trigger) elsewhere(vars *variable.Collection) local.Result {
	t := r.job.Keywords.Trigger
	expand := r.expander(vars)
	where := expand(t.Project)
	if t.Branch != "" {
		where += "@" + expand(t.Branch)
	}
	text := "GitLab would start a pipeline of the project " + where
	var given []string
	for _, v := range r.forwarded(vars) {
		if v.Masked {
			given = append(given, v.Name+"=[MASKED]")
		} else {
			given = append(given, v.Name+"="+session.OneLine(expand(v.Value)))
		}
	}
	if given != nil {
		text += " with " + strings.Join(given, ", ")
	}
	if t.Depend || t.Mirror {
		text += ", and wait for it"
	}
	r.Observer.Say(r.job.Name, text)
	return local.Result{Status: local.Success, Note: text}
}

// forwarded are the variables that a downstream pipeline gets.
func (r trigger) forwarded(vars *variable.Collection) []variable.Variable {
	t := r.job.Keywords.Trigger
	var out []variable.Variable
	if t.ForwardPipeline {
		for _, layer := range r.project.variables {
			if layer.Level == variable.Pipeline {
				out = append(out, layer.Variables...)
			}
		}
	}
	if !t.ForwardYAML {
		return out
	}
	seen := map[string]bool{}
	add := func(name string) {
		if v, ok := vars.Get(name); ok && !seen[name] {
			seen[name] = true
			out = append(out, v)
		}
	}
	for _, v := range r.project.Definition.Variables {
		if r.job.Keywords.Inherits.Has(v.Name) {
			add(v.Name)
		}
	}
	for _, v := range r.project.Pipeline.Verdict.Variables {
		if r.job.Keywords.Inherits.Has(v.Name) {
			add(v.Name)
		}
	}
	for _, v := range r.job.Keywords.Variables {
		add(v.Name)
	}
	for _, v := range r.job.Matrix {
		add(v.Name)
	}
	for _, v := range r.job.Verdict.Variables {
		add(v.Name)
	}
	return out
}

// child makes the pipeline that a job triggers, ready to run.
func (r trigger) child(ctx context.Context, vars *variable.Collection) (*runner, error) {
	p := &Project{
		Repository: r.project.Repository, Settings: r.project.Settings, Limits: r.project.Limits, Store: r.project.Store.Child(r.job.Name),
		options: r.project.options, lock: r.project.lock, parent: r.project, depth: r.project.depth + 1,
	}
	p.options.Inputs = nil
	if err := r.definition(ctx, p, vars); err != nil {
		return nil, err
	}
	p.Facts = r.project.Facts.Child(ctx, int(r.Number())+1, p.File) // the first pipeline is 1
	p.variables = []variable.Layer{
		{Level: variable.Predefined, Variables: p.Facts.Variables},
		{Level: variable.Project, Variables: p.Settings.For("", r.project.Protected())},
		{Level: variable.Pipeline, Variables: r.forwarded(vars)},
	}
	if err := p.resolve(ctx); err != nil {
		return nil, err
	}
	if len(p.Pipeline.Jobs) == 0 {
		return nil, fmt.Errorf("%w: %s", errNoJobs, p.Pipeline.Reason())
	}
	o := *r.o
	o.Jobs, o.Named = p.Pipeline.Jobs, nil
	out := p.runner(&o, r.Under(r.job.Name))
	out.issuer, out.parent = r.issuer, r.runner
	return out, nil
}

// definition finds the text of a child pipeline. One file is that text; several, or one from elsewhere, become its includes.
func (r trigger) definition(ctx context.Context, p *Project, vars *variable.Collection) error {
	t := r.job.Keywords.Trigger
	loader := &childLoader{Loader: r.project.loader, runner: r.runner}
	p.loader = loader
	var includes []map[string]value.Value
	for _, n := range t.Includes {
		include, err := r.include(ctx, loader, n.Value(), vars)
		if err != nil {
			return err
		}
		if !t.Inputs.IsNull() {
			if _, own := include["inputs"]; !own {
				include["inputs"] = t.Inputs.Value()
			}
		}
		includes = append(includes, include)
	}
	if len(includes) == 1 {
		if file, ok := includes[0]["local"]; ok && onlyInputs(includes[0]) && !strings.Contains(file.Str(), "*") {
			place := localPlace(file.Str())
			text, err := loader.Load(ctx, place)
			if err != nil {
				return err
			}
			p.File, p.Text = loader.name(place), text.Data
			p.options.Inputs = includes[0]["inputs"].Fields()
			return nil
		}
	}
	text, err := json.Marshal(map[string]any{"include": includes})
	p.File, p.Text = fmt.Sprintf("the child pipeline of %s", r.job.Name), text
	return err
}

// onlyInputs reports whether an include is a local file with inputs at most.
func onlyInputs(include map[string]value.Value) bool {
	_, inputs := include["inputs"]
	return len(include) == 1 || len(include) == 2 && inputs
}

// include makes one include of a child pipeline one that a file could have: an artifact becomes a file that the loader knows.
func (r trigger) include(ctx context.Context, loader *childLoader, v value.Value, vars *variable.Collection) (map[string]value.Value, error) {
	if v.Kind() == value.String {
		text, err := variable.ExpandText(v.Str(), vars.Lookup)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(text, "https://") || strings.HasPrefix(text, "http://") {
			return map[string]value.Value{"remote": value.OfString(text)}, nil
		}
		return map[string]value.Value{"local": value.OfString(text)}, nil
	}
	out := map[string]value.Value{}
	for name, field := range v.Fields() {
		if field.Kind() == value.String {
			text, err := variable.ExpandText(field.Str(), vars.Lookup)
			if err != nil {
				return nil, err
			}
			field = value.OfString(text)
		}
		out[name] = field
	}
	artifact, ok := out["artifact"]
	if !ok {
		return out, nil
	}
	path, err := loader.artifact(ctx, r.job, out["job"].Str(), artifact.Str())
	if err != nil {
		return nil, err
	}
	delete(out, "artifact")
	delete(out, "job")
	out["local"] = value.OfString(path)
	return out, nil
}
