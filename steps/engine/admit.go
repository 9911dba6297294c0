package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/check"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// admit completes what a step gives to its component: names as the component spells them, where it is one to which upper and lower case are
// the same, and the defaults that are computed. It warns of what the component does not know or does not want any more. s is the
// component's own scope, without its inputs.
func (s *scope) admit(inv *invocation, given map[string]value.Value) *event.Error {
	declared := inv.spec.Inputs
	warn := func(hint, format string, args ...any) {
		if inv.attempt != 1 { // another one has said it, or will
			return
		}
		message := fmt.Sprintf(format, args...)
		if hint != "" {
			message += "; " + hint
		}
		s.run.out.emit(inv.id, event.Warning{Message: message})
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		spelled := name
		if inv.step.Ref.Kind == plan.RefAction {
			spelled = spelling(declared, name)
		}
		v := given[name]
		if delete(given, name); spelled != name {
			if _, twice := given[spelled]; twice {
				return s.run.at(definitionError("the input %q is given twice, also as %q", spelled, name), inputSpan(inv.step, name))
			}
		}
		given[spelled] = v
		switch in, ok := declared[spelled]; {
		case !ok && inv.spec.AnyInputs:
			warn(check.InputHint(declared, name), "%s does not declare the input %q", inv.step.Ref.Text, name)
		case in.Deprecated != "":
			warn("", "the input %q of %s is deprecated: %s", name, inv.step.Ref.Text, in.Deprecated)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		if in := declared[name]; in.Computed != nil && given[name].IsNull() {
			v, err := s.expand(*in.Computed)
			if err != nil {
				return err
			}
			given[name] = v
		}
	}
	return nil
}

// spelling returns the name of an input as it is declared: upper and lower case are the same.
func spelling(declared map[string]plan.Input, name string) string {
	if _, ok := declared[name]; ok {
		return name
	}
	for _, own := range slices.Sorted(maps.Keys(declared)) {
		if strings.EqualFold(own, name) {
			return own
		}
	}
	return name
}

// definitionEnv makes the variables of a definition: its own, and those that it wants of its inputs.
func (s *scope) definitionEnv(def *plan.Definition) (map[string]variable, *event.Error) {
	vars, err := s.expandEnv(def.Env)
	if err != nil || def.InputPrefix == "" {
		return vars, err
	}
	all := make(map[string]variable, len(vars)+len(s.inputs.Fields()))
	for name, v := range s.inputs.Fields() {
		if name = def.InputPrefix + strings.ToUpper(strings.ReplaceAll(name, " ", "_")); checkVariable(name, v.Text()) != nil {
			return nil, definitionError("the input %s cannot be passed to the process: %v", name, checkVariable(name, v.Text()))
		}
		all[name] = variable{text: v.Text(), sensitive: v.Sensitive()}
	}
	maps.Copy(all, vars)
	return all, nil
}
