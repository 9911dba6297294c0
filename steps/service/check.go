package service

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// check finds what is wrong with a component that a client sent as a plan, which no frontend has looked at.
func check(c *plan.Component) diag.List {
	k := &checker{}
	k.component(c)
	return k.list
}

// checker collects what is wrong.
type checker struct{ list diag.List }

func (k *checker) report(span diag.Span, format string, args ...any) {
	k.list = append(k.list, diag.Diagnostic{Span: span, Message: fmt.Sprintf(format, args...)})
}

func (k *checker) component(c *plan.Component) {
	for _, name := range slices.Sorted(maps.Keys(c.Spec.Inputs)) {
		in := c.Spec.Inputs[name]
		k.typed("input", name, in.Type, in.Default, in.Span)
		if in.Computed != nil {
			k.field("inputs."+name+".computed", *in.Computed)
		}
		if _, err := regexp.Compile(in.Match); err != nil {
			k.report(in.Span, "input %q: match is not a regular expression: %v", name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Spec.Outputs)) {
		out := c.Spec.Outputs[name]
		k.typed("output", name, out.Type, out.Default, out.Span)
	}
	d := &c.Definition
	k.fields("env", d.Env)
	k.fields("outputs", d.Outputs)
	k.fields("context", d.Context)
	k.hook("pre", d.Pre, d.Span)
	k.hook("post", d.Post, d.Span)
	switch {
	case d.Exec != nil && d.Steps != nil:
		k.report(d.Span, "a definition has either an exec or steps, not both")
	case d.Exec != nil:
		k.exec(d.Exec, d.Span)
	case d.Steps == nil:
		k.report(d.Span, "a definition needs an exec or steps")
	default:
		names := map[string]bool{}
		k.steps(d.Steps, names)
		k.waits(d.Steps)
		if d.Delegate != "" && !names[d.Delegate] {
			k.report(d.Span, "delegate: no step here is named %q", d.Delegate)
		}
	}
}

func (k *checker) hook(what string, h *plan.Hook, span diag.Span) {
	switch {
	case h == nil:
	case h.Exec == nil:
		k.report(span, "%s needs an exec", what)
	default:
		k.exec(h.Exec, span)
		k.condition(what+".if", h.If)
	}
}

// waits checks that the steps of a list wait for background steps before them.
func (k *checker) waits(steps []plan.Step) {
	background := map[string]bool{}
	for i := range steps {
		s := &steps[i]
		for j := range s.Parallel {
			if s.Parallel[j].Background || s.Parallel[j].Await != nil {
				k.report(s.Parallel[j].Span, "the step %q is in a parallel group and cannot run in the background or wait", s.Parallel[j].Name)
			}
		}
		if s.Background && s.Ref == nil && s.Inline == nil {
			k.report(s.Span, "the step %q has nothing to run in the background", s.Name)
		}
		if s.Await != nil {
			for _, name := range s.Await.Steps {
				if !background[name] {
					k.report(s.Span, "the step %q waits for %q, which is not an earlier background step", s.Name, name)
				}
			}
		}
		background[s.Name] = s.Background
	}
}

func (k *checker) typed(what, name string, kind value.Kind, def *value.Value, span diag.Span) {
	if def != nil && def.Kind() != kind {
		k.report(span, "%s %q is of type %s, but its default is of type %s", what, name, kind, def.Kind())
	}
}

func (k *checker) exec(e *plan.Exec, span diag.Span) {
	switch {
	case (len(e.Command) > 0) == (e.Script != nil):
		k.report(span, "an exec needs either a command, which has at least one word, or a script")
	case e.Script != nil:
		if e.Script.Text.Value.Kind() != value.String {
			k.report(e.Script.Text.Span, "a script is a string, not %s", e.Script.Text.Value.Kind())
		}
		k.field("script", e.Script.Text)
		shells := []string{"", plan.ShellBash, plan.ShellSh, plan.ShellPwsh, plan.ShellPowershell, plan.ShellCmd}
		if shell := e.Script.Shell; !slices.Contains(shells, shell) && !expr.Has(shell) && !strings.Contains(shell, "{0}") {
			k.report(e.Script.Text.Span, "unknown shell %q", e.Script.Shell)
		}
	}
	for _, arg := range e.Command {
		k.field("command", arg)
	}
	if e.WorkDir != nil {
		k.field("work_dir", *e.WorkDir)
	}
	if e.LogFile != nil {
		k.field("log_file", *e.LogFile)
	}
	if !slices.Contains([]string{"", plan.ToolkitGitHub, plan.ToolkitGitHubAction}, e.Toolkit) {
		k.report(span, "unknown toolkit %q", e.Toolkit)
	}
	if e.Timeout < 0 {
		k.report(span, "a timeout must not be negative")
	}
}

// steps checks a list, or a parallel group of one, whose names are those of the list.
func (k *checker) steps(steps []plan.Step, names map[string]bool) {
	for i := range steps {
		k.step(&steps[i], names)
	}
}

func (k *checker) step(s *plan.Step, names map[string]bool) {
	switch {
	case !isName(s.Name):
		k.report(s.Span, "the step name %q must consist of letters, digits and underscores and must not start with a digit", s.Name)
	case names[s.Name]:
		k.report(s.Span, "two steps are named %q", s.Name)
	}
	names[s.Name] = true
	bodies := 0
	for _, has := range []bool{s.Ref != nil, s.Inline != nil, len(s.Parallel) > 0, s.Await != nil} {
		if has {
			bodies++
		}
	}
	if bodies != 1 {
		k.report(s.Span, "the step %q needs one of a reference, an inline component, a parallel group and a wait", s.Name)
	}
	if s.Ref != nil {
		k.reference(s)
	}
	if s.Inline != nil {
		k.component(s.Inline)
	}
	k.steps(s.Parallel, names)
	k.fields("inputs", s.Inputs)
	k.fields("env", s.Env)
	k.condition("if", s.If)
	if s.TimeLimit != nil {
		k.field("time_limit", *s.TimeLimit)
	}
	if s.AllowFailure != nil {
		k.condition("allow_failure.if", s.AllowFailure.If)
	}
	if s.Timeout < 0 || s.Limit < 0 || s.Retry != nil && (s.Retry.Max < 0 || s.Retry.Delay < 0) {
		k.report(s.Span, "the step %q has a negative timeout, limit or retry", s.Name)
	}
}

func (k *checker) reference(s *plan.Step) {
	ref := s.Ref
	missing := ""
	switch ref.Kind {
	case plan.RefLocal, plan.RefBuiltin:
		if len(ref.Path) == 0 {
			missing = "path"
		}
	case plan.RefGit, plan.RefArchive:
		if ref.URL == "" {
			missing = "url"
		}
	case plan.RefOCI:
		if ref.Repository == "" {
			missing = "repository"
		}
	case plan.RefAction:
		if ref.Action == "" {
			missing = "action"
		}
	case plan.RefDynamic:
		if ref.Expr == nil {
			missing = "expr"
			break
		}
		k.field("reference", *ref.Expr)
	}
	if missing != "" {
		k.report(ref.Span, "the reference of the step %q is of the kind %s and has no %s", s.Name, ref.Kind, missing)
	}
}

func (k *checker) condition(what string, f *plan.Field) {
	if f != nil && f.Value.Kind() == value.String {
		_, err := expr.ParseCondition(f.Value.Str())
		k.expression(what, f.Span, err)
	}
}

func (k *checker) fields(what string, fields map[string]plan.Field) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		k.field(what+"."+name, fields[name])
	}
}

func (k *checker) field(what string, f plan.Field) { k.expression(what, f.Span, expr.Check(f.Value)) }

func (k *checker) expression(what string, span diag.Span, err error) {
	if err == nil {
		return
	}
	d := diag.Diagnostic{Span: span, Message: what + ": " + err.Error()}
	var detail *expr.Error
	if errors.As(err, &detail) {
		d.Message, d.Hint = what+detail.Path+": "+detail.Message, detail.Hint
	}
	k.list = append(k.list, d)
}

// isName reports whether a text can name a step.
func isName(text string) bool {
	for i, c := range []byte(text) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return text != ""
}
