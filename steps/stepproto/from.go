package stepproto

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/structpb"

	stepsv0 "github.com/rungci/rung/api/gitlab/steps/v0"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"

	"github.com/rungci/rung/internal/lazyregexp"
)

// FromProto converts a message to the component it stands for. The error lists everything that is wrong, each with the
// path of the field.
func FromProto(m *SpecDefinition) (*plan.Component, error) {
	if m.GetDefinition() == nil {
		return nil, errors.New("definition: missing; a step file has an exec or steps in it")
	}
	var r reader
	c := r.component(m, "")
	return c, errors.Join(r.errs...)
}

// fromBareDefinition converts a definition that has no spec, like those of steps that are written inline.
func fromBareDefinition(m *stepsv0.Definition) (*plan.Component, error) {
	var r reader
	c := &plan.Component{Spec: plan.Spec{AnyOutputs: true, DelegateOutputs: m.GetDelegate() != ""}}
	c.Definition = r.definition(m, &c.Spec, "")
	return c, errors.Join(r.errs...)
}

// reader converts messages and keeps everything that is wrong with them.
type reader struct{ errs []error }

func (r *reader) fail(path, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
}

// names of inputs, outputs, steps and environment variables.
var namePattern = lazyregexp.New(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

func (r *reader) name(path, what, name string) {
	if !namePattern.MatchString(name) {
		r.fail(path, "the %s %q must begin with a letter or underscore and hold only letters, digits and underscores", what, name)
	}
}

func (r *reader) component(m *SpecDefinition, path string) *plan.Component {
	c := &plan.Component{Spec: r.spec(m.GetSpec().GetSpec(), path+"spec.spec")}
	c.Definition = r.definition(m.GetDefinition(), &c.Spec, path+"definition.")
	return c
}

func (r *reader) spec(m *stepsv0.Spec_Content, path string) plan.Spec {
	out := plan.Spec{DelegateOutputs: m.GetOutputMethod() == stepsv0.OutputMethod_delegate}
	for name, in := range sorted(m.GetInputs()) {
		at := fmt.Sprintf("%s.inputs[%q]", path, name)
		r.name(at, "name", name)
		set(&out.Inputs, name, plan.Input{Type: r.kind(at, in.GetType()), Default: r.fallback(at, in), Sensitive: in.GetSensitive()})
	}
	for name, o := range sorted(m.GetOutputs()) {
		at := fmt.Sprintf("%s.outputs[%q]", path, name)
		r.name(at, "name", name)
		set(&out.Outputs, name, plan.Output{Type: r.kind(at, o.GetType()), Default: r.fallback(at, o), Sensitive: o.GetSensitive()})
	}
	if out.DelegateOutputs && len(out.Outputs) > 0 {
		r.fail(path, "outputs are declared or delegated, not both")
	}
	return out
}

// sorted ranges over a map in the order of its keys, so that errors come in the same order every time.
func sorted[V any](m map[string]V) func(yield func(string, V) bool) {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}

func set[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

var kinds = map[stepsv0.ValueType]value.Kind{
	stepsv0.ValueType_string:  value.String,
	stepsv0.ValueType_number:  value.Number,
	stepsv0.ValueType_boolean: value.Boolean,
	stepsv0.ValueType_struct:  value.Struct,
	stepsv0.ValueType_array:   value.Array,
}

// rawString is the number of a type that the existing step-runner had before its v0.1.
const rawString stepsv0.ValueType = 1

func (r *reader) kind(path string, t stepsv0.ValueType) value.Kind {
	kind, ok := kinds[t]
	switch {
	case ok:
	case t == rawString:
		r.fail(path, "the type raw_string no longer exists; use string")
	case t == stepsv0.ValueType_value_type_unspecified:
		r.fail(path, "the type is missing; it is one of string, number, boolean, struct and array")
	default:
		r.fail(path, "%d is not a type; the types are string, number, boolean, struct and array", t)
	}
	return kind
}

// declared is an input or an output.
type declared interface {
	GetType() stepsv0.ValueType
	GetDefault() *structpb.Value
}

// fallback reads a default, which must have the declared type. A null one is none.
func (r *reader) fallback(path string, d declared) *value.Value {
	if d.GetDefault() == nil {
		return nil
	}
	v := r.value(path+".default", d.GetDefault())
	if v.IsNull() {
		return nil
	}
	if kind, ok := kinds[d.GetType()]; ok && v.Kind() != kind {
		r.fail(path+".default", "it is %s, and the type is %s", v.Kind().WithArticle(), kind)
	}
	return &v
}

func (r *reader) value(path string, m *structpb.Value) value.Value {
	v, err := fromValue(m, 0)
	if err != nil {
		r.fail(path, "%v", err)
	}
	return v
}

func (r *reader) definition(m *stepsv0.Definition, spec *plan.Spec, path string) plan.Definition {
	out := plan.Definition{Delegate: m.GetDelegate(), Env: r.texts(path+"env", m.GetEnv())}
	for name, v := range sorted(m.GetOutputs()) {
		at := fmt.Sprintf("%soutputs[%q]", path, name)
		r.name(at, "name", name)
		set(&out.Outputs, name, plan.Field{Value: r.value(at, v)})
	}
	if r.isExec(m, path) {
		out.Exec = r.exec(m.GetExec(), path+"exec.")
		if len(out.Outputs) > 0 || out.Delegate != "" {
			r.fail(path+"outputs", "an exec writes its outputs to its output file; only a list of steps has outputs or a delegate here")
		}
		return out
	}
	out.Steps = r.steps(m.GetSteps(), path+"steps")
	r.delegate(&out, spec, path)
	return out
}

// isExec reports which of the two kinds a definition is. A definition that does not say has the kind of what it holds.
func (r *reader) isExec(m *stepsv0.Definition, path string) bool {
	hasExec, hasSteps := m.GetExec() != nil, len(m.GetSteps()) > 0
	switch {
	case hasExec && hasSteps:
		r.fail(path+"type", "a definition has an exec or steps, not both")
	case !hasExec && !hasSteps:
		r.fail(path+"type", "a definition has an exec or steps, and this one has neither")
	case hasExec && m.GetType() == stepsv0.DefinitionType_steps:
		r.fail(path+"type", "it is steps, and the definition has an exec")
	case hasSteps && m.GetType() == stepsv0.DefinitionType_exec:
		r.fail(path+"type", "it is exec, and the definition has steps")
	}
	return hasExec
}

func (r *reader) delegate(def *plan.Definition, spec *plan.Spec, path string) {
	switch {
	case def.Delegate == "" && !spec.DelegateOutputs:
	case def.Delegate == "":
		r.fail(path+"delegate", "the spec delegates the outputs, and the definition does not name the step that gives them")
	case !spec.DelegateOutputs:
		r.fail(path+"delegate", "the outputs are delegated, and the spec does not say so with output_method: delegate")
	case len(def.Outputs) > 0:
		r.fail(path+"delegate", "outputs are given or delegated, not both")
	case !slices.ContainsFunc(def.Steps, func(s plan.Step) bool { return s.Name == def.Delegate }):
		r.fail(path+"delegate", "there is no step with the name %q", def.Delegate)
	}
}

func (r *reader) exec(m *stepsv0.Definition_Exec, path string) *plan.Exec {
	out := &plan.Exec{}
	for _, arg := range m.GetCommand() {
		out.Command = append(out.Command, textField(arg))
	}
	if len(out.Command) == 0 {
		r.fail(path+"command", "it is empty; its first item is the program to run")
	}
	if dir := m.GetWorkDir(); dir != "" {
		field := textField(dir)
		out.WorkDir = &field
	}
	return out
}

func textField(text string) plan.Field { return plan.Field{Value: value.OfString(text)} }

func (r *reader) texts(path string, env map[string]string) map[string]plan.Field {
	var out map[string]plan.Field
	for name, text := range sorted(env) {
		if !hasExpression(name) {
			r.name(fmt.Sprintf("%s[%q]", path, name), "name", name)
		}
		set(&out, name, textField(text))
	}
	return out
}

func (r *reader) steps(steps []*stepsv0.Step, path string) []plan.Step {
	out := make([]plan.Step, 0, len(steps))
	seen := map[string]bool{}
	for i, m := range steps {
		at := fmt.Sprintf("%s[%d]", path, i)
		r.name(at+".name", "name", m.GetName())
		if seen[m.GetName()] {
			r.fail(at+".name", "there is another step with the name %q before it", m.GetName())
		}
		seen[m.GetName()] = true
		out = append(out, r.step(m, at+"."))
	}
	return out
}

func (r *reader) step(m *stepsv0.Step, path string) plan.Step {
	out := plan.Step{Name: m.GetName(), Env: r.texts(path+"env", m.GetEnv())}
	if m.GetStep() == nil {
		r.fail(path+"step", "missing; it says what to run")
		return out
	}
	for name, v := range sorted(m.GetInputs()) {
		set(&out.Inputs, name, plan.Field{Value: r.value(fmt.Sprintf("%sinputs[%q]", path, name), v)})
	}
	r.reference(&out, m.GetStep(), path+"step.")
	return out
}
