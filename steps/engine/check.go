package engine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rungci/rung/steps/check"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// inputError says what is wrong with one input.
type inputError struct {
	name string
	msg  string
	hint string
}

func (e *inputError) event() *event.Error {
	return hinted(event.NewError(event.CodeInputInvalid, "%s", e.msg), e.hint)
}

// checkInputs holds the given inputs against the declared ones. It returns a value for every declared input.
func checkInputs(spec *plan.Spec, given map[string]value.Value) (map[string]value.Value, *inputError) {
	declared := spec.Inputs
	checked := make(map[string]value.Value, len(declared))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch _, ok := declared[name]; {
		case ok:
		case spec.AnyInputs:
			checked[name] = given[name]
		default:
			return nil, &inputError{name: name, msg: fmt.Sprintf("step does not accept input with name %q", name), hint: check.InputHint(declared, name)}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		in := declared[name]
		v, ok := given[name]
		if !ok || v.IsNull() {
			if in.Default == nil {
				return nil, &inputError{name: name, msg: fmt.Sprintf("input %q required, but not defined", name), hint: check.Describe(in)}
			}
			v = *in.Default
		}
		if err := checkInput(name, in, v); err != nil {
			return nil, err
		}
		checked[name] = v.Mark(in.Sensitive)
	}
	return checked, nil
}

func checkInput(name string, in plan.Input, v value.Value) *inputError {
	if v.Kind() != in.Type {
		shown := ""
		if !in.Sensitive && !v.Sensitive() {
			shown = ": " + check.Short(v)
		}
		e := &inputError{name: name, msg: fmt.Sprintf("input %q is declared as %s but was given %s%s", name, in.Type, v.Kind().WithArticle(), shown), hint: check.Describe(in)}
		if v.Kind() == value.String && in.Type == value.Number {
			e.hint = "an expression can convert it: ${{ num(…) }}"
		}
		return e
	}
	if what, hint := check.Refuses(in, v); what != "" {
		return &inputError{name: name, msg: fmt.Sprintf("input %q %s", name, what), hint: hint}
	}
	return nil
}

// checkOutputs holds the outputs of a step against its spec. It returns every declared output, marked as declared.
func checkOutputs(spec *plan.Spec, given map[string]value.Value) (map[string]value.Value, error) {
	checked := make(map[string]value.Value, len(given))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		v := given[name]
		out, ok := spec.Outputs[name]
		if !ok {
			if spec.AnyOutputs || spec.DelegateOutputs {
				checked[name] = v
				continue
			}
			return nil, fmt.Errorf("key %q: unexpected output, remove from step outputs or define in step specification", name)
		}
		if v.Kind() != out.Type {
			return nil, fmt.Errorf("key %q: mismatched types, declared as %q in step specification and received from step as type %q", name, out.Type, v.Kind())
		}
		checked[name] = v.Mark(out.Sensitive)
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Outputs)) {
		if _, ok := checked[name]; ok {
			continue
		}
		out := spec.Outputs[name]
		if out.Default == nil {
			return nil, fmt.Errorf("key %q: missing output, add to step outputs or remove from step specification", name)
		}
		checked[name] = out.Default.Mark(out.Sensitive)
	}
	return checked, nil
}

// listOutputs makes the outputs of a list of steps: those of the step it delegates to, or its own.
func (s *scope) listOutputs(inv *invocation) (map[string]value.Value, *event.Error) {
	given := map[string]value.Value{}
	if name := inv.def.Delegate; name != "" {
		result, ok := s.steps[name]
		if !ok {
			return nil, definitionError("delegate: could not find step with name %q", name)
		}
		if status := result.Fields()["status"].Str(); status != string(event.Success) {
			return nil, definitionError("delegate: step %q gives no outputs: its status is %s", name, status)
		}
		given = result.Fields()["outputs"].Fields()
	}
	for _, name := range slices.Sorted(maps.Keys(inv.def.Outputs)) {
		v, err := s.expand(inv.def.Outputs[name])
		if err != nil {
			return nil, err
		}
		given[name] = v
	}
	outputs, err := checkOutputs(inv.spec, given)
	if err != nil {
		return nil, s.run.at(definitionError("outputs: %v", err), inv.def.Span)
	}
	for _, v := range outputs {
		v.Secrets(s.run.out.addSecret)
	}
	return outputs, nil
}

// remainingOutputs are those outputs of a list that can be made although it did not succeed.
func (s *scope) remainingOutputs(inv *invocation) map[string]value.Value {
	var made map[string]value.Value
	for name, f := range inv.def.Outputs {
		if v, err := s.expand(f); err == nil {
			put(&made, name, v)
		}
	}
	outputs := fitting(inv.spec, made)
	s.run.out.addSensitive(outputs)
	return outputs
}

// fitting are those of the outputs that the spec allows, marked as declared.
func fitting(spec *plan.Spec, given map[string]value.Value) map[string]value.Value {
	var outputs map[string]value.Value
	for name, v := range given {
		if out, declared := spec.Outputs[name]; declared && v.Kind() == out.Type {
			put(&outputs, name, v.Mark(out.Sensitive))
		} else if !declared && spec.AnyOutputs {
			put(&outputs, name, v)
		}
	}
	return outputs
}
