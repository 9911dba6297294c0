package workflow

import (
	"slices"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/value"
)

var (
	containerKeys = []string{"image", "credentials", "env", "ports", "volumes", "options"}
	serviceKeys   = append(slices.Clone(containerKeys), "entrypoint", "command")
)

// runsOn checks what a job asks of its machine.
func (r *reader) runsOn(n *yamlsource.Node) {
	r.template(n, availableStrategy)
	switch {
	case isExpression(n):
	case n.Kind == yamlsource.Mapping:
		if r.keys(n, `"runs-on"`, "group", "labels") && len(n.Entries) > 0 {
			if group := n.Get("group"); group != nil {
				r.filled(group, "the group")
			}
			if labels := n.Get("labels"); labels != nil && !isExpression(labels) {
				r.strings(labels, "a label")
			}
		}
	case n.Kind == yamlsource.Sequence && len(n.Items) == 0:
		r.report(n.Span, "write `runs-on: ubuntu-latest`, say", "the job runs on nothing")
	default:
		r.strings(n, "a label")
	}
}

// container checks a container or a service: an image, or a map.
func (r *reader) container(n *yamlsource.Node, what string, keys []string) {
	if isExpression(n) || n.Kind != yamlsource.Mapping {
		if _, ok := r.filled(n, "the image of "+what); ok {
			r.template(n, availableStrategy)
		}
		return
	}
	r.keys(n, what, keys...)
	if n.Get("image") == nil {
		r.report(n.Span, "add `image:`", "%s has no image", what)
	}
	for _, e := range n.Entries {
		switch e.Key.Text {
		case "image", "options", "entrypoint", "command":
			r.text(e.Value, "the "+e.Key.Text+" of "+what, availableStrategy)
		case "env":
			r.env(e.Value, availableContainer)
		case "ports", "volumes":
			r.template(e.Value, availableStrategy)
			if e.Value.Kind != yamlsource.Sequence && !isExpression(e.Value) {
				r.report(e.Value.Span, "write [ ] around it", "the %s of %s must be a list, not %s", e.Key.Text, what, e.Value.Kind)
				continue
			}
			for _, item := range e.Value.Items {
				r.filled(item, "one of the "+e.Key.Text)
			}
		case "credentials":
			if !isExpression(e.Value) && !r.keys(e.Value, `"credentials"`, "username", "password") {
				continue
			}
			r.template(e.Value, availableCredentials)
		}
	}
}

// Settings computes the keys of a leg that must be known before its steps begin. The contexts are those of Runs, and secrets, env, job and
// runner for containers. The error is a diag.List.
func (j *Job) Settings(leg *Leg, c Contexts) (*Settings, error) {
	ev := j.evaluate(leg, c)
	s := &Settings{TimeoutMinutes: DefaultTimeoutMinutes, Permissions: j.permissionsOr(), CacheMode: j.CacheMode}
	n := &j.node
	if n.runsOn != nil {
		s.RunsOn = ev.runsOn(n.runsOn)
	}
	if n.container != nil {
		if v := ev.value(n.container); !emptyContainer(v) {
			container := ev.container(n.container, v)
			s.Container = &container
		}
	}
	if n.services != nil {
		s.Services = ev.services(n.services)
	}
	if n.timeout != nil {
		s.TimeoutMinutes = ev.number(n.timeout, `"timeout-minutes"`)
	}
	if n.continueOnError != nil {
		s.ContinueOnError = ev.boolean(n.continueOnError, `"continue-on-error"`)
	}
	s.Concurrency = ev.concurrency(n.concurrency)
	s.Environment = ev.environment(n.environment)
	if err := ev.err(); err != nil {
		return nil, err
	}
	return s, nil
}

// emptyContainer reports whether a container comes to nothing: the job has none then, so that an expression can decide it.
func emptyContainer(v value.Value) bool {
	return strings.TrimSpace(imageOf(v)) == ""
}

func imageOf(v value.Value) string {
	if v.Kind() == value.Struct {
		v = v.Fields()["image"]
	}
	if v.IsNull() {
		return ""
	}
	return formatText(v)
}

func (ev *evaluation) runsOn(n *yamlsource.Node) RunsOn {
	v := ev.value(n)
	out := RunsOn{}
	if v.Kind() == value.Struct {
		out.Group, v = formatText(v.Fields()["group"]), v.Fields()["labels"]
	}
	out.Labels = texts(v)
	if out.Group == "" && len(out.Labels) == 0 {
		ev.unless(n, "the job runs on nothing: `runs-on` comes to %s", shownValue(v))
	}
	return out
}

// texts are the strings of a list, or of a single value; nothing of null and of what is empty.
func texts(v value.Value) []string {
	items := []value.Value{v}
	if v.Kind() == value.Array {
		items = v.Items()
	}
	var out []string
	for _, item := range items {
		if text := strings.TrimSpace(formatText(item)); text != "" {
			out = append(out, text)
		}
	}
	return out
}

func (ev *evaluation) container(n *yamlsource.Node, v value.Value) Container {
	c := Container{Image: strings.TrimPrefix(strings.TrimSpace(imageOf(v)), "docker://"), Span: n.Span}
	if name := get(n, "image"); name != nil {
		c.Span = name.Span
	}
	fields := v.Fields()
	c.Options, c.Entrypoint, c.Command = formatText(fields["options"]), formatText(fields["entrypoint"]), formatText(fields["command"])
	c.Ports, c.Volumes = texts(fields["ports"]), texts(fields["volumes"])
	for name, item := range fields["env"].Fields() {
		if c.Env == nil {
			c.Env = map[string]value.Value{}
		}
		c.Env[name] = textOf(item)
	}
	credentials := fields["credentials"].Fields()
	c.Username = formatText(credentials["username"])
	if p := credentials["password"]; formatText(p) != "" {
		c.Password = textOf(p).Mark(true)
	}
	if (c.Username == "") != c.Password.IsNull() {
		ev.unless(n, "the credentials of a container are a user name and a password, and one of them is empty")
	}
	return c
}

// services computes the services. One whose image is empty is left out, so that an expression can decide it.
func (ev *evaluation) services(n *yamlsource.Node) []Service {
	var out []Service
	add := func(id string, n *yamlsource.Node, v value.Value) {
		if !emptyContainer(v) {
			out = append(out, Service{ID: id, Container: ev.container(n, v)})
		}
	}
	if isExpression(n) {
		v := ev.value(n)
		if IsUnknown(v.Str()) {
			add("", n, v) // one or more
		}
		for _, id := range v.Keys() {
			add(id, n, v.Fields()[id])
		}
		return out
	}
	for _, e := range n.Entries {
		add(e.Key.Text, e.Value, ev.value(e.Value))
	}
	return out
}

func (ev *evaluation) concurrency(n *yamlsource.Node) *Concurrency {
	if n == nil {
		return nil
	}
	v := ev.value(n)
	c := &Concurrency{}
	if v.Kind() == value.Struct {
		fields := v.Fields()
		c.Cancel = ev.boolean(get(n, "cancel-in-progress"), `"cancel-in-progress"`)
		c.Queue = formatText(fields["queue"]) == "max"
		v = fields["group"]
	}
	if c.Group = formatText(v); c.Group == "" {
		return nil
	}
	return c
}

func (ev *evaluation) environment(n *yamlsource.Node) *Environment {
	if n == nil {
		return nil
	}
	e := &Environment{Deployment: true}
	if n.Kind != yamlsource.Mapping {
		e.Name = ev.string(n)
	} else {
		e.Name, e.HasURL = ev.string(n.Get("name")), n.Get("url") != nil
		if d := n.Get("deployment"); d != nil {
			e.Deployment = ev.boolean(d, `"deployment"`)
		}
	}
	if e.Name == "" {
		return nil
	}
	return e
}

// Concurrency computes the workflow's concurrency; nil where there is none.
func (w *Workflow) Concurrency(c Contexts) (*Concurrency, error) {
	ev := w.evaluate(c)
	return ev.concurrency(w.parsed.concurrency), ev.err()
}

// RunTitle computes run-name; "" where there is none, or nothing in it.
func (w *Workflow) RunTitle(c Contexts) (string, error) {
	if w.parsed.runName == nil {
		return "", nil
	}
	ev := w.evaluate(c)
	return strings.TrimSpace(ev.string(w.parsed.runName)), ev.err()
}
