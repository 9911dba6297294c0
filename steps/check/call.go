package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/rules"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// call checks a step that calls a component, and the component. It returns what is known of its outputs.
func (s *scope) call(st *plan.Step) expr.Type {
	types := make(map[string]expr.Type, len(st.Inputs))
	for _, name := range sorted(st.Inputs) {
		types[name] = s.field(st.Inputs[name])
		if expr.Has(name) {
			s.field(plan.Field{Value: value.OfString(name), Span: st.Inputs[name].Span})
		}
	}
	if st.Ref.Expr != nil {
		s.field(*st.Ref.Expr)
	}
	found := s.load(st.Ref)
	if found == nil {
		return expr.OfKind(value.Struct)
	}
	spec := &found.Plan.Spec
	c := call{s, st, spec}
	c.inputs(types)
	c.secrets()
	c.exports()
	s.environment(found.Plan, found.Dir, st)
	c.permissions()
	c.access()
	s.enter(found)
	if st.Ref.Kind == plan.RefAction {
		return expr.OfKind(value.Struct) // an action may set outputs that it does not declare
	}
	return outputType(spec, &found.Plan.Definition, nil)
}

// call is a step with the spec of what it calls, or holds inline.
type call struct {
	*scope
	step *plan.Step
	spec *plan.Spec
}

// inputs holds what a step gives against what its component takes.
func (c call) inputs(types map[string]expr.Type) {
	st, spec := c.step, c.spec
	given, all := map[string]bool{}, true
	for _, name := range sorted(st.Inputs) {
		f := st.Inputs[name]
		if expr.Has(name) {
			all = false
			continue
		}
		declared := spelling(st.Ref, spec.Inputs, name)
		if !types[name].Known || types[name].Kind != value.Null {
			given[declared] = true
		}
		in, ok := spec.Inputs[declared]
		switch {
		case !ok && spec.AnyInputs:
		case !ok:
			c.report(rules.UnknownInput, f.Span, InputHint(spec.Inputs, name), "step does not accept input with name %q", name)
		case st.Ref.Kind != plan.RefAction: // which takes everything as text
			c.input(name, in, f, types[name])
		}
	}
	for _, name := range sorted(spec.Inputs) {
		if in := spec.Inputs[name]; all && !given[name] && in.Default == nil && in.Computed == nil && st.Ref.Kind != plan.RefAction {
			c.report(rules.MissingInput, st.Span, Describe(in), "input %q required, but not defined", name)
		}
	}
}

// input holds one value against the declaration of its input.
func (c call) input(name string, in plan.Input, f plan.Field, t expr.Type) {
	if !t.Known || t.Kind == value.Null || in.Type == value.Null {
		return
	}
	if t.Kind != in.Type {
		hint := Describe(in)
		if t.Kind == value.String && in.Type == value.Number {
			hint = "an expression can convert it: ${{ num(…) }}"
		}
		shown := ""
		if !in.Sensitive && !f.Value.Sensitive() && !hasExpressions(f.Value) {
			shown = ": " + Short(f.Value)
		}
		c.report(rules.InputType, f.Span, hint, "input %q is declared as %s but was given %s%s", name, in.Type, t.Kind.WithArticle(), shown)
		return
	}
	if v := f.Value; !hasExpressions(v) {
		if what, hint := Refuses(in, v); what != "" {
			c.report(rules.InputType, f.Span, hint, "input %q %s", name, what)
		}
	}
}

// hasExpressions reports whether a value depends on a run.
func hasExpressions(v value.Value) bool { return strings.Contains(string(v.AppendJSON(nil)), "${{") }

// secrets holds the secrets that a step grants against those that its component requests.
func (c call) secrets() {
	st, spec := c.step, c.spec
	for _, name := range sorted(st.Secrets) {
		own := st.Secrets[name]
		if _, ok := spec.Secrets[name]; !ok {
			c.report(rules.SecretNotRequested, st.Span, fmt.Sprintf("remove it from `secrets`, or let the step request it with `spec: {secrets: {%s: {}}}`", name),
				"the secret %s is granted to a step that does not request it", name)
		} else if _, ok := c.scope.spec.Secrets[own]; !ok && !c.top {
			c.report(rules.SecretNotGranted, st.Span, "request it in spec.secrets", "the secret %s cannot be granted: the component does not request it", own)
		}
	}
	for _, name := range sorted(spec.Secrets) {
		if _, ok := st.Secrets[name]; !ok && !spec.Secrets[name].Optional && st.Ref != nil {
			c.report(rules.SecretNotGranted, st.Span, fmt.Sprintf("grant it with `secrets: [%s]` on the step", name), "the step requests the secret %s, which was not granted", name)
		}
	}
}

// exports finds what a component may export to take over later steps, and its caller does not allow.
func (c call) exports() {
	st := c.step
	if isOurs(st.Ref) {
		return
	}
	for _, name := range c.spec.Exports {
		if !plan.IsPattern(name) && plan.IsTakeoverVariable(name) && !slices.Contains(st.AllowExports, name) {
			c.report(rules.ExportNotAllowed, st.Span, "if that is wanted, allow it with `allow_exports: ["+name+"]`", "%s may export %s, which can take over later steps: it fails when it does", st.Ref.Text, name)
		}
	}
}

// permissions holds what a component requests against what its step grants, and that against what the component around may do.
func (c call) permissions() {
	if message, hint := Permission(c.step, c.spec, c.scope.spec.Permissions, c.top); message != "" {
		c.report(rules.PermissionNotGranted, c.step.Span, hint, "%s", message)
	}
}

// Permission says what is wrong with the permissions of a step that calls a component; "" is nothing. Around is what the component may do that the
// step is in; it is not asked at the top, where that is up to the job.
func Permission(st *plan.Step, spec *plan.Spec, around map[string]string, top bool) (message, hint string) {
	if scope := plan.BeyondPermissions(st.Permissions, around); scope != "" && !top {
		level := st.Permissions[scope]
		return fmt.Sprintf("the permission %s: %s cannot be granted: the component does not have it", scope, level), fmt.Sprintf("request it with `spec: {permissions: {%s: %s}}`", scope, level)
	}
	if scope := plan.BeyondPermissions(spec.Permissions, st.Permissions); scope != "" {
		level := spec.Permissions[scope]
		return fmt.Sprintf("the step requests the permission %s: %s, which was not granted", scope, level), fmt.Sprintf("grant it with `permissions: {%s: %s}` on the step", scope, level)
	}
	return "", ""
}

// access holds what a confined step allows against what its component requests.
func (c call) access() {
	st := c.step
	if st.Ref == nil || st.Confine == nil || !*st.Confine {
		return
	}
	if lacking, ok := plan.Uncovered(plan.AccessesOf(c.spec.Access), plan.AccessesOf(st.AllowAccess)); ok {
		c.report(rules.AccessNotGranted, st.Span, fmt.Sprintf("if that is wanted, allow it on the step with `allow_access: [%s]`", lacking),
			"the component is confined and requests access to %s, which the step does not allow", lacking)
	}
}

// spelling returns the name of an input as it is declared: to actions, upper and lower case are the same.
func spelling(ref *plan.Reference, declared map[string]plan.Input, name string) string {
	if _, ok := declared[name]; ok || ref.Kind != plan.RefAction {
		return name
	}
	for own := range declared {
		if strings.EqualFold(own, name) {
			return own
		}
	}
	return name
}

// InputHint says which input may be meant by a name that none has.
func InputHint(declared map[string]plan.Input, name string) string {
	names := sorted(declared)
	switch like := diag.Suggest(name, names); {
	case like != "":
		return fmt.Sprintf("did you mean %q?", like)
	case len(names) > 0:
		return "its inputs are " + strings.Join(names, ", ")
	}
	return "it declares no inputs"
}
