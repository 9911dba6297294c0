package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/rules"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// scope is one place of a definition: what expressions see there, and where it is.
type scope struct {
	view
	check *checker
	dir   string
	later map[string]bool // the steps of the list that have not run
	top   bool            // the run's own list: it can grant every secret
	spec  *plan.Spec      // of the component around
	maybe bool            // behind a condition

	waiting map[string]expr.Type // background steps that nothing has waited for yet
	id      string               // of the step that this is in
	path    string               // the names that lead to it
}

// child is the scope of what is written inline. It shares the steps that have run, until a list adds its own.
func (s *scope) child() *scope {
	c := *s
	c.waiting = nil
	return &c
}

// field checks the expressions of a field.
func (s *scope) field(f plan.Field) expr.Type {
	t, found := expr.Infer(f.Value, &s.view)
	s.mistakes(f, found)
	return t
}

func (s *scope) fields(all map[string]plan.Field) {
	for _, name := range sorted(all) {
		s.field(all[name])
		if expr.Has(name) {
			s.field(plan.Field{Value: value.OfString(name), Span: all[name].Span})
		}
	}
}

func (s *scope) optional(f *plan.Field) {
	if f != nil {
		s.field(*f)
	}
}

// condition checks an `if`. It returns the value of one that is always the same.
func (s *scope) condition(f *plan.Field) (v value.Value, constant bool) {
	switch {
	case f == nil:
		return value.Value{}, false
	case f.Value.Kind() != value.String:
		return f.Value, true
	}
	e, err := expr.ParseCondition(f.Value.Str())
	if err != nil {
		return value.Value{}, false
	}
	_, found := e.Infer(&s.view)
	s.mistakes(*f, found)
	return e.Constant()
}

// mistakes reports what is wrong with expressions of a field.
func (s *scope) mistakes(f plan.Field, found []expr.Mistake) {
	for _, m := range found {
		span := f.Span
		if f.Value.Kind() == value.String && m.Error.Path == "" {
			span = diag.Find(s.check.o.Line, span, f.Value.Str(), m.Offset, m.Length)
		}
		hint := m.Hint
		if len(m.Path) == 2 && m.Path[0] == "steps" && s.later[m.Missing] {
			hint = fmt.Sprintf("%q has not ended there: a step sees those before it", m.Missing)
		}
		s.report(ruleOf(m), span, hint, "%s", m.Message)
	}
}

// ruleOf is the rule that a mistake breaks.
func ruleOf(m expr.Mistake) string {
	switch {
	case m.Function:
		return rules.UnknownFunction
	case m.Path == nil:
		return rules.ExpressionType
	case len(m.Path) == 1:
		return rules.UnknownName
	case m.Path[0] == "steps" && len(m.Path) == 2:
		return rules.UnknownStep
	case m.Path[0] == "steps":
		return rules.UnknownOutput
	case m.Path[0] == "inputs":
		return rules.UnknownInput
	}
	return rules.UnknownName
}

// definition checks a definition in its scope, which then knows the steps of it.
func (s *scope) definition(def *plan.Definition) {
	s.fields(def.Context)
	s.fields(def.Env)
	if def.Exec != nil {
		s.exec(def.Exec)
	}
	s.list(def.Steps)
}

func (s *scope) exec(x *plan.Exec) {
	for _, f := range x.Command {
		s.field(f)
	}
	if x.Script != nil {
		s.field(x.Script.Text)
		s.field(plan.Field{Value: value.OfString(x.Script.Shell), Span: x.Script.Text.Span})
	}
	s.optional(x.WorkDir)
	s.optional(x.LogFile)
}

// mentionsOutputFile reports whether anything in a definition is told where outputs go.
func mentionsOutputFile(def *plan.Definition) bool {
	const name = "output_file"
	text := func(f plan.Field) bool { return strings.Contains(f.Value.Text(), name) }
	if x := def.Exec; x.Script != nil && (text(x.Script.Text) || expr.Has(x.Script.Text.Value.Text()) && isWhole(x.Script.Text)) || slices.ContainsFunc(x.Command, text) {
		return true
	}
	for _, f := range def.Env {
		if text(f) {
			return true
		}
	}
	return false
}

// isWhole reports whether a script is nothing but one expression, so that what it does is unknown.
func isWhole(f plan.Field) bool {
	t, err := expr.ParseTemplate(f.Value.Text())
	if err != nil {
		return true
	}
	_, whole := t.Whole()
	return whole
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
