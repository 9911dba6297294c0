package workflow

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/rules"
)

// maxJobID is how long the id of a job may be, in characters.
const maxJobID = 99

// jobNode are the parts of a job that are computed when they are needed.
type jobNode struct {
	name, condition, strategy, runsOn, timeout, continueOnError, container, services *yamlsource.Node
	env, environment, concurrency, outputs, defaults, steps, with, secrets           *yamlsource.Node
}

var (
	jobKeys  = []string{"name", "needs", "if", "strategy", "runs-on", "timeout-minutes", "cancel-timeout-minutes", "continue-on-error", "container", "services", "env", "environment", "permissions", "concurrency", "outputs", "defaults", "steps", "snapshot", "cache-mode"}
	callKeys = []string{"name", "needs", "if", "strategy", "uses", "with", "secrets", "permissions", "concurrency", "cache-mode"}
)

func (r *reader) jobs(n *yamlsource.Node) {
	all := r.entries(n, `"jobs"`)
	if len(all) == 0 {
		r.report(n.Span, "write a job below `jobs:`", "the workflow has no jobs")
	}
	for _, e := range all {
		id := e.Key.Text
		switch {
		case !idPattern.MatchString(id) || strings.HasPrefix(id, "__") || len(id) > maxJobID:
			r.report(e.Key.Span, idHint+"; __ at the start is GitHub's own", "%q cannot be the id of a job", shorten(id))
		case r.w.Job(id) != nil:
			r.report(e.Key.Span, "names are case-insensitive", "the job %q is defined twice", id)
		}
		j := &Job{ID: id, Span: e.Key.Span, workflow: r.w, CacheMode: r.w.CacheMode}
		r.w.Jobs = append(r.w.Jobs, j)
		r.job(j, e.Value)
	}
	r.needs(n)
	for i, j := range r.w.Jobs {
		r.unneeded(j, all[i].Value)
	}
}

func (r *reader) job(j *Job, n *yamlsource.Node) {
	uses := n.Get("uses")
	keys := jobKeys
	if uses != nil {
		keys = callKeys
	}
	if n.Kind == yamlsource.Mapping && uses != nil {
		for _, e := range n.Entries {
			if !slices.Contains(callKeys, e.Key.Text) && slices.Contains(jobKeys, e.Key.Text) {
				r.report(e.Key.Span, "the called workflow's jobs have their own", "a job that calls a workflow cannot have %q", e.Key.Text)
			}
		}
		keys = append(slices.Clone(keys), jobKeys...)
	}
	if !r.keys(n, "the job "+j.ID, keys...) {
		return
	}
	j.Needs = r.strings(n.Get("needs"), "a job in `needs`")
	if mode := n.Get("cache-mode"); mode != nil {
		j.CacheMode = r.cacheMode(mode)
	}
	j.permissions = r.permissions(n.Get("permissions"))
	j.node = jobNode{
		name: n.Get("name"), condition: n.Get("if"), strategy: n.Get("strategy"),
		concurrency: r.concurrency(n.Get("concurrency"), availableStrategy),
	}
	r.text(j.node.name, "the name", availableStrategy)
	r.condition(j.node.condition, availableJobIf)
	r.strategy(j.node.strategy)
	if uses != nil {
		r.call(j, n, uses)
		return
	}
	r.machine(j, n)
	r.deployment(j, n)
	r.snapshot(n.Get("snapshot"))
	if j.node.steps = n.Get("steps"); j.node.steps == nil {
		r.report(j.Span, "write `steps:` with a list, or `uses:` with a workflow", "the job %q has nothing to do", j.ID)
		return
	}
	r.steps(j)
}

// machine reads where a job runs, and how long.
func (r *reader) machine(j *Job, n *yamlsource.Node) {
	j.node.runsOn, j.node.container, j.node.services = n.Get("runs-on"), n.Get("container"), n.Get("services")
	j.node.timeout, j.node.continueOnError = n.Get("timeout-minutes"), n.Get("continue-on-error")
	if j.node.runsOn == nil {
		r.report(j.Span, "write `runs-on: ubuntu-latest`, say", "the job %q has no runs-on", j.ID)
	} else {
		r.runsOn(j.node.runsOn)
	}
	if j.node.container != nil {
		r.container(j.node.container, "the container", containerKeys)
	}
	if services := j.node.services; services != nil && (!isExpression(services) || !r.template(services, availableStrategy)) {
		for _, e := range r.entries(services, `"services"`) {
			if !idPattern.MatchString(e.Key.Text) {
				r.report(e.Key.Span, idHint, "%q cannot be the name of a service", shorten(e.Key.Text))
			}
			r.container(e.Value, "the service "+e.Key.Text, serviceKeys)
		}
	}
	r.minutes(j.node.timeout, "timeout-minutes")
	if cancel := n.Get("cancel-timeout-minutes"); cancel != nil {
		r.minutes(cancel, "cancel-timeout-minutes")
		r.note(rules.IgnoredKey, cancel.Span, "", "cancel-timeout-minutes is ignored: cleanup after a cancellation has its own time limit")
	}
	r.booleanOr(j.node.continueOnError, `"continue-on-error"`)
	if j.node.continueOnError != nil {
		r.template(j.node.continueOnError, availableStrategy)
	}
}

// deployment reads what a job gives to others: variables, outputs, an environment.
func (r *reader) deployment(j *Job, n *yamlsource.Node) {
	j.node.env = r.env(n.Get("env"), availableJobEnv)
	j.node.defaults = r.defaults(n.Get("defaults"), availableJobDefaults)
	j.node.outputs = n.Get("outputs")
	for _, e := range r.entries(j.node.outputs, `"outputs"`) {
		if !idPattern.MatchString(e.Key.Text) {
			r.report(e.Key.Span, idHint, "%q cannot be the name of an output", shorten(e.Key.Text))
		}
		r.scalar(e.Value, "the output "+e.Key.Text)
	}
	environment := n.Get("environment")
	j.node.environment = environment
	switch {
	case environment == nil:
	case environment.Kind != yamlsource.Mapping:
		r.text(environment, "the environment", availableStrategy)
	case r.keys(environment, "the environment", "name", "url", "deployment"):
		if name := environment.Get("name"); name == nil {
			r.report(environment.Span, "add `name:`", "the environment has no name")
		} else if _, ok := r.filled(name, "the name of the environment"); ok {
			r.template(name, availableStrategy)
		}
		if d := environment.Get("deployment"); d != nil {
			r.booleanOr(d, `"deployment"`)
			r.template(d, availableStrategy)
		}
	}
}

var snapshotVersion = lazyregexp.New(`^\d+\.\*$`)

// snapshot reads `snapshot`, which GitHub makes images of its machines with.
func (r *reader) snapshot(n *yamlsource.Node) {
	if n == nil {
		return
	}
	if n.Kind == yamlsource.Mapping {
		r.keys(n, `"snapshot"`, "image-name", "version", "if")
		if n.Get("image-name") == nil {
			r.report(n.Span, "add `image-name:`", "the snapshot has no name")
		}
		if v := n.Get("version"); v != nil && !snapshotVersion.MatchString(v.Text) && !hasExpression(v.Text) {
			r.report(v.Span, "write 1.*", "the version of a snapshot is a number and .*, not %s", r.shown(v))
		}
		r.condition(n.Get("if"), availableSnapshotIf)
	} else {
		r.filled(n, "the snapshot")
	}
	r.note(rules.IgnoredKey, n.Span, "", "snapshot is ignored: the job runs, but no image of its machine is kept")
}

// minutes reads a number above 0, or an expression.
func (r *reader) minutes(n *yamlsource.Node, what string) {
	switch {
	case n == nil, isExpression(n) && r.template(n, availableStrategy):
	case n.Kind != yamlsource.Number || literal(n).Float() <= 0:
		r.report(n.Span, "", "%q must be a number of minutes above 0, not %s", what, r.shown(n))
	}
}

// booleanOr reads true, false or an expression.
func (r *reader) booleanOr(n *yamlsource.Node, what string) {
	if n != nil && !isExpression(n) {
		r.boolean(n, what)
	}
}

// needs checks that the jobs that others need are there, and that none waits for itself.
func (r *reader) needs(n *yamlsource.Node) {
	var ids []string
	for _, j := range r.w.Jobs {
		ids = append(ids, j.ID)
	}
	for i, j := range r.w.Jobs {
		if i >= len(n.Entries) {
			break
		}
		list := n.Entries[i].Value.Get("needs")
		for k, id := range j.Needs {
			place := list
			if list.Kind == yamlsource.Sequence && len(list.Items) == len(j.Needs) {
				place = list.Items[k]
			}
			switch {
			case r.w.Job(id) == nil:
				r.report(place.Span, r.suggest(id, ids, "the jobs are "), "the job %q needs %q, which does not exist", j.ID, shorten(id))
			case strings.EqualFold(id, j.ID):
				r.report(place.Span, "", "the job %q needs itself", j.ID)
			case slices.ContainsFunc(j.Needs[:k], func(before string) bool { return strings.EqualFold(before, id) }):
				r.report(place.Span, "", "the job %q needs %q twice", j.ID, id)
			}
		}
	}
	r.cycles()
}

// cycles reports jobs that wait for each other: one of them, with the way around.
func (r *reader) cycles() {
	if left := unordered(r.w); len(left) > 0 {
		way := r.around(left[0], left)
		if len(way) > 2 { // one that needs itself is reported
			r.report(r.w.Job(way[0]).Span, "", "jobs need each other: %s", strings.Join(way, " needs "))
		}
	}
}

// around follows needs inside of the jobs that cannot be ordered until one comes again.
func (r *reader) around(j *Job, left []*Job) []string {
	var way []string
	for {
		if i := slices.Index(way, j.ID); i >= 0 {
			return append(way[i:], j.ID)
		}
		way = append(way, j.ID)
		next := slices.IndexFunc(j.Needs, func(id string) bool { return slices.Contains(left, r.w.Job(id)) })
		if next < 0 {
			return nil
		}
		j = r.w.Job(j.Needs[next])
	}
}

// Order returns the jobs so that each comes after those that it needs; else as in the text.
func (w *Workflow) Order() []*Job {
	var order []*Job
	done := map[*Job]bool{}
	for range w.Jobs {
		before := len(order)
		for _, j := range w.Jobs {
			if !done[j] && !slices.ContainsFunc(j.Needs, func(id string) bool { need := w.Job(id); return need != nil && !done[need] }) {
				done[j] = true
				order = append(order, j)
			}
		}
		if len(order) == before {
			break
		}
	}
	return order
}

// unordered are the jobs that wait for each other.
func unordered(w *Workflow) []*Job {
	order := w.Order()
	return slices.DeleteFunc(slices.Clone(w.Jobs), func(j *Job) bool { return slices.Contains(order, j) })
}

// Ancestors returns the ids of all jobs that the job needs, and that those need.
func (w *Workflow) Ancestors(j *Job) []string {
	var all []string
	var add func(j *Job)
	add = func(j *Job) {
		for _, id := range j.Needs {
			if need := w.Job(id); need != nil && !slices.Contains(all, need.ID) {
				all = append(all, need.ID)
				add(need)
			}
		}
	}
	add(j)
	return all
}

// call reads a job that calls a workflow.
func (r *reader) call(j *Job, n, uses *yamlsource.Node) {
	j.Call = &Call{Span: uses.Span}
	if text, ok := r.filled(uses, `"uses"`); ok {
		if problem := j.Call.parse(text); problem != "" {
			r.report(uses.Span, "write ./.github/workflows/FILE.yml, or OWNER/NAME/.github/workflows/FILE.yml@REF", "%s", problem)
		}
	}
	j.node.with, j.node.secrets = n.Get("with"), n.Get("secrets")
	for _, e := range r.entries(j.node.with, `"with"`) {
		if !e.Value.Kind.IsScalar() {
			r.report(e.Value.Span, "write it as JSON in a string, and read it with fromJSON()", "an input must be a string, a number or a boolean, not %s", e.Value.Kind)
			continue
		}
		r.template(e.Value, availableStrategy)
	}
	switch secrets := j.node.secrets; {
	case secrets == nil:
	case secrets.Kind == yamlsource.String:
		if j.Call.Inherit = secrets.Text == "inherit"; !j.Call.Inherit {
			r.report(secrets.Span, "write inherit, or a map", "the secrets of a called workflow are a map or inherit, not %s", r.shown(secrets))
		}
	default:
		for _, e := range r.entries(secrets, `"secrets"`) {
			r.text(e.Value, "the secret "+e.Key.Text, availableCallSecrets)
		}
	}
}

// parse reads the reference of a workflow.
func (c *Call) parse(text string) (problem string) {
	c.Uses = text
	if hasExpression(text) {
		return "which workflow is called cannot be computed"
	}
	path, ref, hasRef := strings.Cut(text, "@")
	for _, prefix := range []string{"./", "$/"} {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			if hasRef {
				return "a workflow of the same repository is called at the same commit, without @"
			}
			c.Local, path = true, rest
			break
		}
	}
	if !c.Local {
		parts := strings.SplitN(path, "/", 3)
		if len(parts) < 3 || parts[0] == "" || parts[1] == "" || !hasRef || ref == "" {
			return strconv.Quote(shorten(text)) + " is not a reference to a workflow"
		}
		c.Repository, c.Ref, path = parts[0]+"/"+parts[1], ref, parts[2]
	}
	name, inFolder := strings.CutPrefix(path, ".github/workflows/")
	if !inFolder || strings.Contains(name, "/") || !strings.HasSuffix(name, ".yml") && !strings.HasSuffix(name, ".yaml") {
		return "workflows that can be called are files right in .github/workflows"
	}
	c.Path = path
	return ""
}

// permissionsOr are the job's permissions, else the workflow's, else the default.
func (j *Job) permissionsOr() *Permissions {
	for _, p := range []*Permissions{j.permissions, j.workflow.Permissions} {
		if p != nil {
			return p
		}
	}
	return DefaultPermissions()
}

// Declared are the permissions that the job, or else its workflow, asks for; else those of its caller, nil where those are not known.
func (j *Job) Declared(caller *Permissions) *Permissions {
	if j.permissions == nil && j.workflow.Permissions == nil {
		return caller
	}
	return j.permissionsOr()
}

// PermissionsIn are what the token of the job may do in a workflow whose caller has at most so much; nil is not a caller. A called workflow
// that does not say what it needs gets what its caller has.
func (j *Job) PermissionsIn(most *Permissions) *Permissions {
	switch {
	case most == nil:
		return j.permissionsOr()
	case j.permissions == nil && j.workflow.Permissions == nil:
		return most
	}
	return j.permissionsOr().Within(most)
}

// place is where a node is, or the job where there is none.
func (j *Job) place(n *yamlsource.Node) diag.Span {
	if n == nil {
		return j.Span
	}
	return n.Span
}
