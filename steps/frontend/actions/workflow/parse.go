package workflow

import (
	"slices"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
)

// MaxSize is how long a workflow file may be, in bytes.
const MaxSize = 1 << 20

// parsed are the parts of a workflow that are computed when they are needed.
type parsed struct {
	source      *yamlsource.File
	runName     *yamlsource.Node
	env         *yamlsource.Node
	defaults    *yamlsource.Node
	concurrency *yamlsource.Node
}

// Parse reads a workflow file. name is what diagnostics call it. The error is a diag.List of everything that is wrong.
func Parse(name string, data []byte) (*Workflow, error) {
	whole := diag.Span{File: name, Line: 1, Column: 1, Length: 1}
	if len(data) > MaxSize {
		return nil, diag.List{{Span: whole, Message: "the workflow is longer than 1 MiB"}}
	}
	source, err := yamlsource.Parse(name, data)
	if err != nil {
		return nil, err
	}
	w := &Workflow{File: name, parsed: parsed{source: source}}
	r := &reader{nodes: &nodes{source: source, notes: &w.Notes}, w: w}
	if len(source.Documents) != 1 {
		r.report(whole, "", "a workflow file has one document, not %d", len(source.Documents))
	} else {
		r.merges(source.Documents[0])
		r.root(source.Documents[0])
	}
	if err := source.Err(); err != nil {
		return nil, err
	}
	return w, nil
}

var rootKeys = []string{"name", "description", "run-name", "on", "permissions", "env", "defaults", "concurrency", "cache-mode", "jobs"}

func (r *reader) root(n *yamlsource.Node) {
	if n.Kind != yamlsource.Mapping {
		r.report(n.Span, "valid keys: "+strings.Join(rootKeys, ", "), "a workflow must be a map, not %s", n.Kind)
		return
	}
	known, on := rootKeys, n.Get("on")
	if i := slices.IndexFunc(n.Entries, func(e yamlsource.Entry) bool { return e.Key.Text == "true" }); i >= 0 && on == nil {
		r.report(n.Entries[i].Key.Span, "write `on:`; some tools read `on` as true, and write it so", "the workflow has `true:` where `on:` belongs")
		known, on = append(slices.Clone(known), "true"), n.Entries[i].Value
	} else if on == nil {
		r.report(n.Span, "write `on: push`, say", "the workflow has no `on`")
	}
	r.keys(n, "a workflow", known...)
	w := r.w
	w.Name, _ = r.scalar(n.Get("name"), "the name")
	w.Description, _ = r.scalar(n.Get("description"), "the description")
	if w.parsed.runName = n.Get("run-name"); w.parsed.runName != nil {
		r.text(w.parsed.runName, "run-name", availableRunName)
	}
	if on != nil {
		(&triggers{nodes: r.nodes, on: &w.On}).read(on)
	}
	w.Permissions = r.permissions(n.Get("permissions"))
	w.CacheMode = r.cacheMode(n.Get("cache-mode"))
	w.parsed.env = r.env(n.Get("env"), availableEnv)
	w.parsed.defaults = r.defaults(n.Get("defaults"), availableNothing)
	w.parsed.concurrency = r.concurrency(n.Get("concurrency"), availableConcurrency)
	jobs := n.Get("jobs")
	if jobs == nil {
		r.report(n.Span, "write `jobs:` and a job below it", "the workflow has no jobs")
		return
	}
	r.jobs(jobs)
}

func (r *reader) cacheMode(n *yamlsource.Node) CacheMode {
	if n == nil {
		return ""
	}
	modes := []string{string(CacheRead), string(CacheWrite), string(CacheWriteOnly), string(CacheNone)}
	if !slices.Contains(modes, n.Text) {
		r.report(n.Span, r.suggest(n.Text, modes, "write "), "%s is not a cache mode", r.shown(n))
	}
	return CacheMode(n.Text)
}

// env reads a map of variables.
func (r *reader) env(n *yamlsource.Node, a available) *yamlsource.Node {
	if n == nil || isExpression(n) && r.template(n, a) {
		return n
	}
	for _, e := range r.entries(n, `"env"`) {
		if strings.ContainsAny(e.Key.Text, "=\x00") || e.Key.Text == "" || hasExpression(e.Key.Text) {
			r.report(e.Key.Span, "", "%q cannot be the name of a variable", shorten(e.Key.Text))
		}
		r.text(e.Value, "the variable "+e.Key.Text, a)
	}
	return n
}

// defaults reads `defaults`: how run steps run.
func (r *reader) defaults(n *yamlsource.Node, a available) *yamlsource.Node {
	if n == nil || !r.keys(n, `"defaults"`, "run") {
		return nil
	}
	run := n.Get("run")
	if run == nil || !r.keys(run, `"run"`, "shell", "working-directory") {
		return nil
	}
	for _, e := range run.Entries {
		if _, ok := r.filled(e.Value, e.Key.Text); ok {
			r.template(e.Value, a)
		}
	}
	return run
}

// concurrency reads a group, or a map with more about it.
func (r *reader) concurrency(n *yamlsource.Node, a available) *yamlsource.Node {
	switch {
	case n == nil:
	case n.Kind != yamlsource.Mapping:
		if _, ok := r.filled(n, "the concurrency group"); ok {
			r.template(n, a)
		}
	case r.keys(n, `"concurrency"`, "group", "cancel-in-progress", "queue"):
		r.template(n, a)
		if n.Get("group") == nil {
			r.report(n.Span, "add `group:`", "the concurrency has no group")
		} else {
			r.filled(n.Get("group"), "the concurrency group")
		}
		cancel := n.Get("cancel-in-progress")
		r.booleanOr(cancel, `"cancel-in-progress"`)
		queue := n.Get("queue")
		switch {
		case queue == nil:
		case queue.Text != "single" && queue.Text != "max":
			r.report(queue.Span, "write single or max", "%s is not a queue", r.shown(queue))
		case queue.Text == "max" && cancel != nil && strings.EqualFold(cancel.Text, "true"):
			r.report(queue.Span, "leave one of them out", "`queue: max` and `cancel-in-progress: true` exclude each other")
		}
	}
	return n
}

// Job returns the job with the id, nil when there is none. Upper and lower case are the same.
func (w *Workflow) Job(id string) *Job {
	i := slices.IndexFunc(w.Jobs, func(j *Job) bool { return strings.EqualFold(j.ID, id) })
	if i < 0 {
		return nil
	}
	return w.Jobs[i]
}
