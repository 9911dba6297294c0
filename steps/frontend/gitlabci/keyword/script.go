package keyword

import (
	"slices"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
)

// scriptReader reads what a job runs.
type scriptReader struct {
	*values
}

// lines reads a script: a string, or a list in which lists stand for their items. name is the keyword.
func (r scriptReader) lines(n config.Node, name string) []Line {
	if k := n.Kind(); k != yamlsource.String && k != yamlsource.Sequence {
		hint := "write a list of commands under it"
		if k != yamlsource.Mapping {
			hint = "put quotes around it"
		}
		r.report(n, hint, "`%s` must be a command or a list of commands, not %s", name, k)
		return nil
	}
	out := make([]Line, 0, n.Len())
	for level, it := range n.Flat() {
		if level > MaxNesting {
			r.report(it, "write the commands into one list", "`%s` nests lists deeper than %d levels, which is the limit", name, MaxNesting)
			return out
		}
		if it.Kind() == yamlsource.String {
			out = append(out, Line{it.Text(), it})
			continue
		}
		r.noCommand(it, name)
	}
	return out
}

// noCommand reports an item of a script that YAML does not take for a text.
func (r scriptReader) noCommand(n config.Node, name string) {
	switch n.Kind() {
	case yamlsource.Mapping:
		hint := "put quotes around the whole command"
		for key := range n.Entries() {
			hint += ": YAML takes `" + shorten(key.Text()) + ": …` for a map"
			break
		}
		r.report(n, hint, "a command of `%s` is a map", name)
	case yamlsource.Null:
		r.report(n, "delete the item, or write a command", "a command of `%s` is null", name)
	default:
		r.report(n, "put quotes around it", "a command of `%s` is %s", name, n.Kind())
	}
}

// script reads `script:`, which has to hold something.
func (r scriptReader) script(n config.Node) []Line {
	lines := r.lines(n, "script")
	if holdsNothing(n) {
		r.report(n, "write a command; `true` does nothing", "`script` is empty")
	}
	return lines
}

// holdsNothing reports whether a value is a blank text, or a list without items but empty lists.
func holdsNothing(n config.Node) bool {
	if n.Kind() == yamlsource.Sequence {
		for range n.Flat() {
			return false
		}
		return true
	}
	return n.Kind() == yamlsource.String && strings.TrimSpace(n.Text()) == ""
}

// hooks reads `hooks:`.
func (r scriptReader) hooks(n config.Node) Hooks {
	h := Hooks{}
	for _, v := range r.fields(n, "hooks", []string{"pre_get_sources_script"}) {
		h.PreGetSources = r.lines(v, "hooks:pre_get_sources_script")
	}
	return h
}

// The keys of a step of `run:`. What is in them is for the compiler of steps. GitLab takes stepKeys; rungKeys are those that our runner takes
// besides, and Lint warns of.
var (
	stepKeys = []string{"name", "step", "func", "script", "inputs", "env"}
	rungKeys = []string{"title", "if", "when", "timeout", "time_limit", "retry", "allow_failure", "secrets", "shell", "log_file", "toolkit",
		"background", "outputs", "delegate", "max_parallel", "action", "exec", "run", "parallel", "wait", "cancel"}
	stepPurposes = []string{"step", "func", "action", "exec", "run", "parallel", "wait", "cancel"}
)

// stepName is what a step may be called.
var stepName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// run checks the form of `run:`: the steps themselves are read by their own compiler.
func (r scriptReader) run(n config.Node) config.Node {
	if n.Kind() != yamlsource.Sequence {
		r.report(n, "write a list of steps under it", "`run` must be a list of steps, not %s", n.Kind())
		return n
	}
	if n.Len() == 0 {
		r.report(n, "write a step", "`run` is empty")
	}
	names, keys := map[string]bool{}, slices.Concat(stepKeys, rungKeys)
	for _, step := range n.Items() {
		var purposes []string
		named := false
		for key, v := range r.fields(step, "run", keys) {
			switch {
			case key == "name":
				named = true
				name := r.text(v, "run:name")
				switch {
				case v.Kind() != yamlsource.String:
				case !stepName().MatchString(name):
					r.report(v, "use letters, digits and _", "%q cannot be the name of a step", shorten(name))
				case names[name]:
					r.report(v, "choose another one", "another step of the job is called %q", shorten(name))
				}
				names[name] = true
			case key == "script":
				purposes = append(purposes, key)
				r.text(v, "run:script")
			case slices.Contains(stepPurposes, key):
				purposes = append(purposes, key)
			}
		}
		if step.Kind() != yamlsource.Mapping {
			continue
		}
		if !named {
			r.report(step, "add `name:`", "a step of `run` has no name")
		}
		switch {
		case len(purposes) == 0 && !strange(step, keys):
			r.report(step, "give it a `func:` or a `script:`", "a step of `run` does nothing")
		case len(purposes) > 1:
			r.report(step, "split it into two steps", "a step of `run` has %s and %s, and can have only one of them", purposes[0], purposes[1])
		}
	}
	return n
}
