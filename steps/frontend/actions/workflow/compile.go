package workflow

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/expr"
	ghexpr "github.com/rungci/rung/steps/expr/github"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// CompileOptions say how a job becomes a plan.
type CompileOptions struct {
	// Most are the permissions of the job that calls the workflow: the job's own are never more. Nil bounds nothing.
	Most *Permissions
	// Rung is context.rung: what the toolkit's services need. Its strings may be templates of our language ("${{ work_dir }}/x").
	Rung map[string]string
	// WorkTree is a folder, as the steps see it, whose files answer actions/checkout of the workflow's own repository; "" lets the action run.
	WorkTree string
	// ExcludesFile is a file of patterns that are left out of WorkTree's files as well (core.excludesFile); "" is none.
	ExcludesFile string
	// Delivered says that WorkTree is a copy that was made for the job: nothing of it is left out, and the job needs no git.
	Delivered bool
	// Root is the folder, as the steps see it, of the repository that the workflow file is in: where $/folder is looked for. "" is the
	// work directory. It is not used when Source is set.
	Root string
	// Source is where the workflow file was fetched, of a workflow of another repository; nil is none.
	Source *Source
	// Pin returns the commit that a repository ("owner/name") at a ref is locked to, "" where it is not locked. nil locks nothing. See
	// lockfile.File.Commit.
	Pin func(repository, ref string) (string, error)
}

// Source is a repository at a revision.
type Source struct {
	Repository string // "owner/name"
	Ref        string // a branch, tag or commit
}

// Compiled is one leg of a job as a plan.
type Compiled struct {
	Plan *plan.Component
	// Notes are for people: what is done in another way than on GitHub, once each.
	Notes []string
	// Checkout says that the steps use WorkTree, for actions/checkout, or Root, for actions in it.
	Checkout bool
}

// contextNames are the contexts that a plan holds. What is missing of job and runner the toolkit fills in; steps, env and secrets come from
// the run.
var contextNames = []string{"github", "needs", "strategy", "matrix", "inputs", "vars", "job", "jobs", "runner"}

// Compile makes the plan of a leg. The contexts become values of the plan, without the secrets and without github.token: a plan never
// holds a secret, and what else is sensitive in them is left out with a note.
//
// The plan's outputs are the job's outputs, and OutputEnvironmentURL where Settings.Environment.HasURL. The error is a diag.List.
func Compile(j *Job, leg *Leg, c Contexts, o CompileOptions) (*Compiled, error) {
	if j.Call != nil {
		return nil, fmt.Errorf("the job %s calls a workflow, and has no steps", j.ID)
	}
	k := &compiler{evaluation: j.evaluate(leg, c), contexts: c.withLeg(leg), options: o, out: &Compiled{}}
	def := plan.Definition{Env: k.env(j.workflow.parsed.env, j.node.env), Outputs: maps.Clone(j.compiled.outputs), Context: k.context(j.PermissionsIn(o.Most), j.CacheMode), Span: j.Span}
	def.Steps = k.steps(j.compiled.steps, j.compiled.nodes)
	if err := k.err(); err != nil {
		return nil, err
	}
	k.out.Plan = &plan.Component{Spec: plan.Spec{AnyOutputs: true}, Definition: def}
	return k.out, nil
}

// compiler makes the plan of one leg.
type compiler struct {
	*evaluation
	contexts Contexts
	options  CompileOptions
	out      *Compiled
}

func (k *compiler) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(k.out.Notes, text) {
		k.out.Notes = append(k.out.Notes, text)
	}
}

// context makes the values of the plan.
func (k *compiler) context(permissions *Permissions, mode CacheMode) map[string]plan.Field {
	fields := map[string]plan.Field{}
	for _, name := range contextNames {
		v, ok := k.contexts[name]
		if !ok {
			continue
		}
		if name == "github" {
			v = without(v, "token")
		}
		fields[name] = plan.Field{Value: expr.EscapeValue(k.public(v, name))}
	}
	levels := map[string]value.Value{}
	for scope, level := range permissions.Map() {
		levels[scope] = value.OfString(level)
	}
	rung := map[string]value.Value{"permissions": value.OfStruct(levels)}
	if mode != "" {
		rung["cache_mode"] = value.OfString(string(mode))
	}
	for name, text := range k.options.Rung {
		rung[name] = value.OfString(text)
	}
	fields["rung"] = plan.Field{Value: value.OfStruct(rung)}
	return fields
}

// env makes the variables of the job: the workflow's, and the job's over them.
func (k *compiler) env(nodes ...*yamlsource.Node) map[string]plan.Field {
	out := map[string]plan.Field{}
	for _, n := range nodes {
		if isExpression(n) {
			maps.Copy(out, k.wholeEnv(n))
			continue
		}
		for _, e := range entries(n) {
			out[e.Key.Text] = fieldOf(e.Value)
		}
	}
	return out
}

// wholeEnv computes variables that are one expression: env: ${{ matrix.env }}.
func (k *compiler) wholeEnv(n *yamlsource.Node) map[string]plan.Field {
	if k.dynamic(n) {
		k.fail(n.Span, "variables that are one expression are computed before the first step: it can use github, inputs, matrix, needs, strategy and vars")
		return nil
	}
	v := k.value(n)
	switch {
	case v.IsNull() || formatText(v) == "":
		return nil
	case v.Kind() != value.Struct:
		k.unless(n, "the variables must come to a map, not %s", shownValue(v))
		return nil
	}
	fields := map[string]plan.Field{}
	for _, name := range v.Keys() {
		text := v.Fields()[name]
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			k.fail(n.Span, "%q cannot be the name of a variable", shorten(name))
		case text.Kind() == value.Struct || text.Kind() == value.Array:
			k.fail(n.Span, "the variable %s must be a text, not %s", name, shownValue(text))
		case text.Sensitive() || v.Marked():
			k.fail(n.Span, "the variable %s holds a secret, which cannot be part of a map of variables: set it by itself", name)
		default:
			fields[name] = plan.Field{Value: value.OfString(expr.Escape(formatText(text))), Span: n.Span}
		}
	}
	return fields
}

// without is a struct without a field.
func without(v value.Value, name string) value.Value {
	if _, ok := v.Fields()[name]; !ok {
		return v
	}
	fields := maps.Clone(v.Fields())
	delete(fields, name)
	return value.OfStruct(fields).Mark(v.Marked())
}

// public is a value without what is sensitive in it.
func (k *compiler) public(v value.Value, path string) value.Value {
	switch {
	case !v.Sensitive():
		return v
	case v.Marked(), v.Kind() != value.Struct && v.Kind() != value.Array:
		k.note("%s holds a secret, and is empty in the job", path)
		return value.OfString("")
	case v.Kind() == value.Array:
		items := slices.Clone(v.Items())
		for i, item := range items {
			items[i] = k.public(item, fmt.Sprintf("%s[%d]", path, i))
		}
		return value.OfArray(items)
	}
	fields := map[string]value.Value{}
	for _, name := range v.Keys() {
		fields[name] = k.public(v.Fields()[name], path+"."+name)
	}
	return value.OfStruct(fields)
}

// steps makes the steps of the leg of those of the job.
func (k *compiler) steps(from []plan.Step, nodes []*yamlsource.Node) []plan.Step {
	out := slices.Clone(from)
	for i := range out {
		s, n := &out[i], nodes[i]
		s.Title = k.title(s.Title, n.Get("name"))
		if env := n.Get("env"); isExpression(env) {
			s.Env = k.wholeEnv(env)
		}
		if group := n.Get("parallel"); group != nil {
			s.Parallel = k.steps(s.Parallel, group.Items)
		}
		if s.Ref != nil && s.Ref.Kind == plan.RefAction {
			k.action(s, n)
		}
	}
	return out
}

// title computes the name of a step, with what is known before the first one runs. Where that fails the name stays as it is written.
func (k *compiler) title(title string, n *yamlsource.Node) string {
	if n == nil || !hasExpression(title) {
		return title
	}
	t, err := ghexpr.ParseTemplate(title, nil)
	if err != nil {
		return title
	}
	known := maps.Clone(k.contexts)
	delete(known, "secrets")
	v, err := t.Eval(ghexpr.Values(known))
	if text := strings.TrimSpace(formatText(v)); err == nil && text != "" && !v.Sensitive() {
		return text
	}
	return title
}

// action finds out what a step with `uses` calls.
func (k *compiler) action(s *plan.Step, n *yamlsource.Node) {
	action, err := plan.ParseAction(s.Ref.Action)
	if err != nil { // it was parsed before
		return
	}
	ref := *s.Ref
	s.Ref = &ref
	repository, onGitHub := strings.CutPrefix(action.URL, plan.GitHubURL)
	switch {
	case action.Own:
		s.Ref.Action = k.own(action.Folder)
	case strings.EqualFold(repository, "actions/checkout") && onGitHub && action.Path == "":
		if k.checkout(s, n) {
			return
		}
	}
	if k.options.Pin == nil || !onGitHub {
		return
	}
	switch commit, err := k.options.Pin(repository, action.Rev); {
	case err != nil:
		k.fail(ref.Span, "%s", err)
	case commit != "":
		s.Ref.Action = strings.TrimSuffix(s.Ref.Action, "@"+action.Rev) + "@" + commit
	}
}

// own is the reference of a folder of the repository that the workflow is in.
func (k *compiler) own(folder string) string {
	switch {
	case k.options.Source != nil:
		return strings.TrimSuffix(k.options.Source.Repository+"/"+folder, "/") + "@" + k.options.Source.Ref
	case k.options.Root != "":
		k.out.Checkout = true
		return strings.TrimSuffix(k.options.Root, "/") + "/" + folder
	}
	return plan.WorkDirPrefix + folder
}
