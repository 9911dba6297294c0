package engine

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/shellscript"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
)

// This file is the wall around a component: which variables pass into it, and which it can set for the steps after it.

// open reports whether variables pass as if the component were the caller's own steps.
func (c *call) open() bool { return c.from.run.opts.InheritEnv }

// isOwn reports whether the component is one of this program.
func (c *call) isOwn() bool { return c.origin != nil && c.origin.Kind == plan.RefBuiltin }

// admits reports whether a variable of the environment around the step passes into its component. A pattern stands for no sensitive
// variable, but in a component of this program: its author does not know what it stands for.
func (c *call) admits(name string, sensitive bool) bool {
	if plan.IsBaseVariable(name) || slices.Contains(c.reads, name) {
		return true
	}
	if _, asked := c.spec.Env[name]; asked {
		return true
	}
	if sensitive && !c.isOwn() {
		return false
	}
	for request := range c.spec.Env {
		if plan.IsPattern(request) && plan.MatchesVariable([]string{request}, name) {
			return true
		}
	}
	return false
}

// environ is what the component gets of the environment around its step, and what its caller passes.
func (c *call) environ(around *environ) *environ {
	vars := make(map[string]variable, len(around.vars))
	c.withheld = nil
	for name, v := range around.vars {
		if c.open() || c.step.InheritEnv || c.admits(name, v.sensitive) {
			vars[name] = v
		} else if _, passed := c.passed[name]; !passed {
			put(&c.withheld, name, v.sensitive)
		}
	}
	for request := range c.spec.Env {
		if !plan.IsPattern(request) || strings.Trim(request, "*") == "" { // * is the environment, and not the job's variables
			continue
		}
		for name, v := range c.from.run.opts.Job {
			if _, known := vars[name]; !known && !v.Sensitive && plan.MatchesVariable([]string{request}, name) {
				vars[name] = variable{text: v.Value}
			}
		}
	}
	if c.home != "" {
		maps.Copy(vars, homeVariables(c.home))
	}
	maps.Copy(vars, c.passed)
	return &environ{vars}
}

// inside is what passes of an environment into the component that the call leads to, through all that it is in.
func (c *call) inside(around *environ) *environ {
	if c == nil {
		return around
	}
	return c.environ(c.from.call.inside(around))
}

// exported are those of a process's exports that leave the components it is in, as they leave. An action cannot fail by one that may not,
// as on GitHub: that is a warning.
func (x *execution) exported(exports map[string]variable) (map[string]variable, *event.Error) {
	for c := x.call; c != nil; c = c.from.call {
		if c.open() || c.isOwn() {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(exports)) {
			text, refused, hint := c.lets(name, exports[name].text)
			switch {
			case refused == "":
				v := exports[name]
				v.text = text
				exports[name] = v
			case c.isAction():
				delete(exports, name)
				x.run.out.emit(x.inv.id, event.Warning{Message: refused + "; it is left out: " + hint})
			default:
				return nil, x.run.at(hinted(event.NewError(event.CodeOutputInvalid, "%s", refused), hint), c.step.Span)
			}
		}
	}
	return exports, nil
}

// isAction reports whether the component is a GitHub Action.
func (c *call) isAction() bool { return c.step.Ref.Kind == plan.RefAction }

// lets returns a variable as it leaves the component, or why it may not. PATH only grows: by entries after the others, as those
// before them decide which programs later steps run.
func (c *call) lets(name, text string) (as, refused, hint string) {
	allowed := slices.Contains(c.step.AllowExports, name)
	switch {
	case !plan.MatchesVariable(c.spec.Exports, name):
		return "", fmt.Sprintf("%s exports %s, which its spec does not declare", c.step.Ref.Text, name),
			fmt.Sprintf("declare it with `spec: {exports: [%s]}`, or run with --env-policy inherit", name)
	case plan.IsTakeoverVariable(name) && !allowed && (!c.isAction() || c.origin != nil):
		return "", fmt.Sprintf("%s exports %s, which can take over later steps", c.step.Ref.Text, name),
			fmt.Sprintf("if that is wanted, allow it on the step with `allow_exports: [%s]`", name)
	case name != "PATH" || allowed:
		return text, "", ""
	}
	seen, around := c.paths()
	added, ok := additions(text, seen)
	switch {
	case !ok:
		return "", c.step.Ref.Text + " exports a PATH without all entries of the one around it",
			"let it add to PATH, or allow it on the step with `allow_exports: [PATH]`"
	case c.isAction():
		return text, "", "" // before the others, as on GitHub
	default:
		entries := slices.DeleteFunc(append([]string{around}, added...), func(entry string) bool { return entry == "" })
		return strings.Join(entries, string(os.PathListSeparator)), "", ""
	}
}

// paths are the PATH that the step passes to its component, and the one around the step.
func (c *call) paths() (passed, around string) {
	from := c.from
	if from.env == nil { // what is left of a call in a run that goes on from a state
		from = c.from.run.hooks.top
	}
	passed = from.env.vars["PATH"].text
	if around = passed; from.parent != nil {
		around = from.parent.env.vars["PATH"].text
	}
	return passed, around
}

// additions are the entries that a PATH has before and after those of another; false if it does not have those.
func additions(text, path string) ([]string, bool) {
	if text == path || path == "" {
		return strings.FieldsFunc(strings.TrimPrefix(text, path), isListSeparator), true
	}
	const sep = string(os.PathListSeparator)
	before, after, ok := strings.Cut(sep+text+sep, sep+path+sep)
	if !ok {
		return nil, false
	}
	return slices.Concat(strings.FieldsFunc(before, isListSeparator), strings.FieldsFunc(after, isListSeparator)), true
}

func isListSeparator(r rune) bool { return r == os.PathListSeparator }

// maxMissed is how many variables a hint names.
const maxMissed = 3

// missed says what a failed process may have missed: what its shell text reads without a request, or what an action did not get.
func (x *execution) missed(argv []string) string {
	c := x.call
	if c == nil || c.isOwn() {
		return ""
	}
	var names []string
	if c.isAction() {
		for _, name := range slices.Sorted(maps.Keys(c.withheld)) {
			if c.withheld[name] {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			return fmt.Sprintf("the action does not get %s, which holds a sensitive value; pass what it needs with `env` on its step", listed(names))
		}
		return ""
	}
	for _, name := range x.shellReads(argv) {
		_, kept := c.withheld[name]
		_, known := x.env.vars[name]
		_, ofJob := x.run.opts.Job[name]
		if !known && (kept || ofJob) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("%s reads %s, which its spec does not request; request it with `spec: {env: {%s: {}}}`, or pass it with `env` on the step",
		c.step.Ref.Text, listed(names), names[0])
}

// shellReads are the variables that the process's shell text reads.
func (x *execution) shellReads(argv []string) []string {
	exec := x.inv.def.Exec
	if exec.Script != nil {
		dialect, known := shells[exec.Script.Shell]
		if !known && exec.Script.Shell == "" {
			dialect = shellscript.Bash
		}
		if text, literal := expr.Literal(exec.Script.Text.Value.Str()); literal {
			return shellscript.Reads(text, dialect)
		}
		return nil
	}
	for i := 1; i < len(argv) && i < len(exec.Command); i++ {
		if i == shellTextIndex(argv[:i]) {
			if text, literal := expr.Literal(exec.Command[i].Value.Str()); literal {
				return shellscript.Reads(text, shellDialect(argv[0]))
			}
		}
	}
	return nil
}

// listed are names as a sentence has them.
func listed(names []string) string {
	if len(names) > maxMissed {
		return strings.Join(names[:maxMissed], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}
