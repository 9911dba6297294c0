package workflow

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/rules"
	ghexpr "github.com/rungci/rung/steps/expr/github"
	"github.com/rungci/rung/steps/frontend/actions/step"
)

// Check finds what is wrong with a workflow whatever starts it, and what GitHub makes nothing of without a word. What only a run knows
// (variables, inputs, outputs) is unknown, and not wrong. The findings have their rules as codes; Notes are among them.
func (w *Workflow) Check() diag.List {
	c := &checker{w: w, source: w.parsed.source, found: slices.Clone(w.Notes)}
	top := w.parsed.source.Documents[0]
	all := &view{}
	for _, e := range top.Entries {
		if e.Key.Text != "jobs" {
			c.walk(e.Key.Text, e.Value, all)
		}
	}
	for i, e := range get(top, "jobs").Entries {
		c.job(w.Jobs[i], e.Value)
	}
	c.found.Sort()
	return c.found
}

type checker struct {
	w      *Workflow
	source *yamlsource.File
	found  diag.List
}

// view is what expressions at a place see of the job around them.
type view struct {
	job    *Job     // nil outside of jobs
	matrix *shape   // of the job
	steps  []string // ids of those that have run, in lower case
	later  []string // ids of those that have not
	closed bool     // steps are all that expressions here can name
	script bool     // the text is code
	text   bool     // what an expression comes to becomes text
}

// maxFindings bounds what is reported.
const maxFindings = 100

func (c *checker) report(rule string, place diag.Span, hint, format string, args ...any) {
	if len(c.found) >= maxFindings {
		return
	}
	d := c.source.Diagnostic(place, hint, fmt.Sprintf(format, args...))
	d.Code = rule
	c.found = append(c.found, d)
}

// job checks a job: its steps in order, and all else, which sees none or all of them.
func (c *checker) job(j *Job, n *yamlsource.Node) {
	v := view{job: j, matrix: contextShape(j.node.strategy), closed: true}
	if j.node.steps != nil {
		v.later = stepIDs(j.node.steps.Items)
	}
	done := v
	done.steps, done.later = v.later, nil
	for _, e := range n.Entries {
		switch e.Key.Text {
		case "steps":
		case "outputs", "environment":
			c.walk(e.Key.Text, e.Value, &done)
		default:
			c.walk(e.Key.Text, e.Value, &v)
		}
	}
	if j.node.steps == nil {
		return
	}
	for _, item := range j.node.steps.Items {
		c.step(item, &v)
		for _, id := range stepIDs([]*yamlsource.Node{item}) {
			v.steps = append(v.steps, id)
			v.later = slices.DeleteFunc(slices.Clone(v.later), func(other string) bool { return other == id })
		}
	}
}

// stepIDs are the ids of steps, and of those in parallel groups.
func stepIDs(steps []*yamlsource.Node) []string {
	var out []string
	for _, s := range steps {
		if id := s.Get("id"); id != nil {
			out = append(out, strings.ToLower(id.Text))
		}
		if group := s.Get("parallel"); group != nil {
			out = append(out, stepIDs(group.Items)...)
		}
	}
	return out
}

// step checks a step: what it runs is code.
func (c *checker) step(n *yamlsource.Node, v *view) {
	code, text := *v, *v
	code.script, code.text, text.text = true, true, true
	for _, e := range n.Entries {
		switch e.Key.Text {
		case "parallel":
			for _, member := range e.Value.Items {
				c.step(member, v)
			}
		case "run":
			c.walk("run", e.Value, &code)
			if found, ok := step.Unclosed(c.source, e.Value, c.shell(n, v)); ok && len(c.found) < maxFindings {
				c.found = append(c.found, found)
			}
		case "with":
			for _, in := range e.Value.Entries {
				if in.Key.Text == "script" && isScriptAction(n.Get("uses")) {
					c.walk("with", in.Value, &code)
				} else {
					c.walk("with", in.Value, &text)
				}
			}
		default:
			c.walk(e.Key.Text, e.Value, v)
		}
	}
}

// shell is what names the shell of a step. Without a name it is bash where the runner is known to be one with a POSIX shell: on Windows it is
// PowerShell.
func (c *checker) shell(n *yamlsource.Node, v *view) string {
	named := n.Get("shell")
	if named == nil {
		named = c.w.runDefault(v.job, "shell")
	}
	switch {
	case named != nil && hasExpression(named.Text):
		return ""
	case named != nil:
		return named.Text
	case v.job.node.container != nil || isPOSIX(v):
		return "bash"
	}
	return ""
}

// isPOSIX reports whether all runners of a job are known not to run Windows.
func isPOSIX(v *view) bool {
	labels := scalars(v.job.node.runsOn)
	if slices.ContainsFunc(labels, hasExpression) {
		if !v.matrix.isKnown() {
			return false
		}
		labels = append(labels, scalars(v.job.node.strategy)...)
	}
	has := func(words ...string) bool {
		return slices.ContainsFunc(labels, func(label string) bool {
			return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(strings.ToLower(label), word) })
		})
	}
	return has("ubuntu", "linux", "macos") && !has("win", "inputs.", "vars.", "needs.", "github.")
}

// scalars are the texts in a node.
func scalars(n *yamlsource.Node) (out []string) {
	if n == nil {
		return nil
	}
	if n.Kind.IsScalar() {
		out = append(out, n.Text)
	}
	for _, item := range n.Items {
		out = append(out, scalars(item)...)
	}
	for _, e := range n.Entries {
		out = append(out, scalars(e.Value)...)
	}
	return out
}

// isScriptAction reports whether an action runs the input `script` as code.
func isScriptAction(uses *yamlsource.Node) bool {
	return uses != nil && strings.HasPrefix(strings.ToLower(uses.Text), "actions/github-script@")
}

// walk checks the expressions of a node.
func (c *checker) walk(key string, n *yamlsource.Node, v *view) {
	for _, item := range n.Items {
		c.walk("", item, v)
	}
	for _, e := range n.Entries {
		c.walk(e.Key.Text, e.Value, v)
	}
	if n.Kind != yamlsource.String {
		return
	}
	if key == "if" {
		if parsed, err := ghexpr.ParseCondition(n.Text, nil); err == nil && parsed.Expr != nil {
			c.expression(n, parsed.Expr, v)
		}
		return
	}
	if !hasExpression(n.Text) {
		return
	}
	t, err := ghexpr.ParseTemplate(n.Text, nil)
	if err != nil {
		return // which Parse reports
	}
	for _, part := range t.Parts() {
		if part.Expr != nil {
			c.expression(n, part.Expr, v)
		}
	}
}

// expression checks one expression of a text.
func (c *checker) expression(n *yamlsource.Node, e *ghexpr.Expr, v *view) {
	refs := e.References()
	spared := replaced(e.Tree())
	for _, ref := range refs {
		if !slices.Contains(spared, strings.Join(ref.Path, ".")) {
			c.reference(c.source.At(n, ref.Offset, ref.Length), ref.Path, v)
		}
	}
	if v.script {
		c.injection(n, e, refs)
	}
	if path, ok := e.Tree().Path(); ok && v.text && len(refs) == 1 && isObject(path, v) {
		c.report(rules.ObjectAsText, c.source.At(n, refs[0].Offset, refs[0].Length), "name a field of it, or write toJSON("+strings.Join(path, ".")+")",
			"%s is an object, which becomes the text \"Object\"", strings.Join(path, "."))
	}
	if len(refs) > 0 || e.CallsStatus() || e.Calls("hashFiles") {
		return
	}
	var wrong *ghexpr.Error
	if _, err := e.Eval(nil); errors.As(err, &wrong) {
		c.report(rules.ConstantError, c.source.At(n, wrong.Offset, wrong.Length), wrong.Hint, "the expression always fails: %s", wrong.Message)
	}
}

// replaced are what an expression names with something else to use where it is empty: matrix.image || 'alpine'.
func replaced(t ghexpr.Tree) (out []string) {
	for i, arg := range t.Args {
		if path := pathOf(arg); t.Kind == ghexpr.Or && i+1 < len(t.Args) && len(path) > 1 && path[0] == "matrix" {
			out = append(out, strings.Join(path, "."))
		}
		out = append(out, replaced(arg)...)
	}
	return out
}

// objects are contexts, and fields of them, that are never text.
var objects = []string{
	"github", "github.event", "env", "vars", "job", "job.container", "job.services", "jobs", "steps", "steps.*", "steps.*.outputs", "runner", "secrets", "strategy",
	"needs", "needs.*", "needs.*.outputs", "inputs",
}

// isObject reports whether a path leads to an object whatever a run makes of it.
func isObject(path []string, v *view) bool {
	if path[0] == "matrix" {
		return v.matrix.at(path[1:]).isMap()
	}
	return slices.ContainsFunc(objects, func(pattern string) bool { return matchesPath(strings.Split(pattern, "."), path) })
}

// matchesPath compares a path with a pattern, in which * stands for any name.
func matchesPath(pattern, path []string) bool {
	return len(pattern) == len(path) && isPrefix(path, pattern)
}

// isPrefix reports whether a pattern begins with a path.
func isPrefix(path, pattern []string) bool {
	if len(path) > len(pattern) {
		return false
	}
	for i, name := range path {
		if pattern[i] != "*" && !strings.EqualFold(pattern[i], name) {
			return false
		}
	}
	return true
}

// fields are what contexts hold that are the same for every run. Those that are not here may be new: only what is nearly one of them is a typo.
var fields = map[string][]string{
	"github": {
		"action", "action_path", "action_ref", "action_repository", "action_status", "actor", "actor_id", "api_url", "base_ref", "env", "event", "event_name", "event_path",
		"graphql_url", "head_ref", "job", "job_workflow_sha", "output", "path", "ref", "ref_name", "ref_protected", "ref_type", "repository", "repository_id", "repository_owner",
		"repository_owner_id", "repository_visibility", "repositoryurl", "retention_days", "run_id", "run_number", "run_attempt", "secret_source", "server_url", "sha", "state",
		"step_summary", "token", "triggering_actor", "workflow", "workflow_ref", "workflow_sha", "workspace", "artifact_cache_size_limit",
	},
	"runner":   {"name", "os", "arch", "temp", "tool_cache", "debug", "environment", "workspace"},
	"strategy": {"fail-fast", "job-index", "job-total", "max-parallel"},
	"job":      {"check_run_id", "container", "services", "status", "workflow_ref", "workflow_sha", "workflow_repository", "workflow_file_path"},
	"steps":    {"outputs", "outcome", "conclusion"},
	"needs":    {"outputs", "result"},
}

// reference checks what an expression names.
func (c *checker) reference(place diag.Span, path []string, v *view) {
	if len(path) < 2 || path[1] == "*" {
		return
	}
	name := path[1]
	switch path[0] {
	case "steps":
		c.stepReference(place, path, v)
	case "matrix":
		c.matrixReference(place, path, v)
	case "inputs":
		c.input(place, name, slices.Concat(c.w.On.dispatch, c.w.On.inputs))
	case "needs":
		c.field(place, "needs", path, 2)
	case "github":
		if len(path) > 3 && strings.EqualFold(path[1], "event") && strings.EqualFold(path[2], "inputs") && c.w.On.Has("workflow_dispatch") && !c.w.On.Has("workflow_call") {
			c.input(place, path[3], c.w.On.dispatch)
		}
		c.field(place, "github", path, 1)
	case "runner", "strategy", "job":
		c.field(place, path[0], path, 1)
	}
}

// field finds typos of fields that contexts have.
func (c *checker) field(place diag.Span, of string, path []string, at int) {
	if len(path) <= at || path[at] == "*" {
		return
	}
	name := strings.ToLower(path[at])
	if slices.Contains(fields[of], name) {
		return
	}
	if like := diag.Suggest(name, fields[of]); like != "" {
		c.report(rules.UndefinedProperty, place, fmt.Sprintf("did you mean %q?", like), "%s has no field %q", strings.Join(path[:at], "."), shorten(path[at]))
	}
}

func (c *checker) stepReference(place diag.Span, path []string, v *view) {
	id := strings.ToLower(path[1])
	switch {
	case !v.closed:
	case slices.Contains(v.steps, id):
		c.field(place, "steps", path, 2)
	case slices.Contains(v.later, id):
		c.report(rules.UndefinedStep, place, "an expression sees the steps before its own", "steps.%s is empty: the step has not ended there", path[1])
	default:
		hint := "give the step this `id`"
		if like := diag.Suggest(id, slices.Concat(v.steps, v.later)); like != "" {
			hint = fmt.Sprintf("did you mean %q?", like)
		}
		c.report(rules.UndefinedStep, place, hint, "steps.%s is empty: no step of the job %q has this id", shorten(path[1]), v.job.ID)
	}
}

func (c *checker) matrixReference(place diag.Span, path []string, v *view) {
	if v.job == nil || !v.matrix.isKnown() {
		return
	}
	at := v.matrix
	for i, name := range path[1:] {
		if name == "*" || !at.isMap() {
			return
		}
		inner := at.get(name)
		if inner == nil {
			hint := fmt.Sprintf("the job %q has no matrix", v.job.ID)
			if names := at.names(); len(names) > 0 {
				hint = strings.Join(path[:i+1], ".") + " has " + strings.Join(names, ", ")
				if like := diag.Suggest(strings.ToLower(name), names); like != "" {
					hint = fmt.Sprintf("did you mean %q?", like)
				}
			}
			c.report(rules.UndefinedMatrix, place, hint, "%s is empty: no matrix job has it", strings.Join(path[:i+2], "."))
			return
		}
		at = inner
	}
}

func (c *checker) input(place diag.Span, name string, declared []Input) {
	names := make([]string, len(declared))
	for i, in := range declared {
		if names[i] = in.Name; strings.EqualFold(in.Name, name) {
			return
		}
	}
	hint := "declare it in `on`, below `workflow_dispatch` or `workflow_call`"
	if like := diag.Suggest(name, names); like != "" {
		hint = "did you mean " + strconv.Quote(like) + "?"
	}
	c.report(rules.UndefinedInput, place, hint, "the workflow declares no input %q", shorten(name))
}
