package engine

import (
	"maps"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/value"
)

// view is what expressions can see at one place of a run.
type view struct {
	run     *run
	dir     string // of the definition that the place is in
	workDir string
	inputs  value.Value
	env     *environ
	own     map[string]variable // secrets that this step was granted; children do not inherit them
	may     map[string]string   // the permissions of the component that it is in; nil is all that the job has
	granted map[string]string   // by the step's name: what it is granted. Only its own env sees them.
	known   map[string]string   // the secrets of the component that it is in: what functions see of them
	list    *listState          // the list of steps it is in; nil outside of lists
	steps   map[string]value.Value
	files   *stepFiles   // nil where there is no process to write them
	top     bool         // sensitive job variables can be read
	path    string       // the names of the steps that lead here: "build/compile"
	origin  *plan.Origin // of the component that it is in
	context value.Value  // what definitions around and here say is known; null where none does
}

// Lookup implements expr.Scope.
func (s *view) Lookup(name string) (value.Value, bool) {
	switch name {
	case "env":
		return s.env.value(s.own), true
	case "inputs":
		return s.inputs, true
	case "context":
		return s.around(), true
	case "job", "vars":
		if s.top {
			return s.run.jobAll, true
		}
		return s.run.jobOpen, true
	case "secrets":
		if s.granted == nil {
			return value.Value{}, false
		}
		fields := make(map[string]value.Value, len(s.granted))
		for name, secret := range s.granted {
			fields[name] = value.OfString(secret).Mark(true)
		}
		return value.OfStruct(fields), true
	case "steps":
		return value.OfStruct(s.steps), true
	case "work_dir":
		return value.OfString(s.workDir), true
	case "step_dir", "func_dir":
		return value.OfString(s.dir), true
	case "input_file":
		if s.files == nil {
			return value.Value{}, false
		}
		return value.OfString(s.files.inputs(s.inputs)), true
	case "output_file", "export_file":
		if s.files == nil {
			return value.Value{}, false
		}
		return value.OfString(s.files.path(name)), true
	}
	return value.Value{}, false
}

// around is what ${{ context }} reads.
func (s *view) around() value.Value {
	if s.context.IsNull() {
		return value.OfStruct(nil)
	}
	return s.context
}

// surround puts the definition's context on top of the one around it.
func (s *view) surround(def *plan.Definition) *event.Error {
	if len(def.Context) == 0 {
		return nil
	}
	fields := maps.Clone(s.context.Fields())
	if fields == nil {
		fields = make(map[string]value.Value, len(def.Context))
	}
	for _, name := range slices.Sorted(maps.Keys(def.Context)) {
		v, err := s.expand(def.Context[name])
		if err != nil {
			return err
		}
		fields[name] = v
	}
	s.context = value.OfStruct(fields)
	return nil
}

// Names implements expr.Scope.
func (s *view) Names() []string {
	names := []string{"context", "env", "func_dir", "inputs", "job", "step_dir", "steps", "vars", "work_dir"}
	if s.granted != nil {
		names = append(names, "secrets")
	}
	if s.files != nil {
		names = append(names, "export_file", "input_file", "output_file")
	}
	return names
}

// Call implements expr.Scope: the functions that ask how the steps before went.
func (s *view) Call(name string, args []value.Value) (value.Value, bool, error) {
	if function, ok := s.run.opts.Functions[name]; ok {
		v, err := function(functionScope{s}, args)
		return v, true, err
	}
	if !slices.Contains(statusFunctions, name) {
		return value.Value{}, false, nil
	}
	if len(args) > 0 {
		return value.Value{}, true, &expr.Error{Message: name + "() takes no arguments"}
	}
	failed, cancelled := s.Status()
	switch name {
	case "success":
		return value.OfBool(!failed && !cancelled), true, nil
	case "failure":
		return value.OfBool(failed), true, nil
	case "cancelled":
		return value.OfBool(cancelled), true, nil
	default:
		return value.OfBool(true), true, nil
	}
}

// Status implements FunctionScope.
func (s *view) Status() (failed, cancelled bool) {
	if s.list == nil {
		return false, false
	}
	return s.list.failed, s.list.cancelled
}

// conditionScope is what the condition of a step sees: there a variable that is not set is null, as the question is often
// whether it is.
type conditionScope struct{ *view }

// Lenient implements expr.LenientScope.
func (conditionScope) Lenient(name string) bool {
	return name == "env" || name == "job" || name == "vars"
}

// statusFunctions are the functions that say how the steps before went; a condition that calls one is not bound to success.
var statusFunctions = []string{"always", "success", "failure", "cancelled"}

// jobVariables makes the `job` context, with or without the sensitive variables.
func jobVariables(job map[string]Variable, sensitive bool) value.Value {
	fields := make(map[string]value.Value, len(job))
	for name, v := range job {
		if !v.Sensitive || sensitive {
			fields[name] = value.OfString(v.Value).Mark(v.Sensitive)
		}
	}
	return value.OfStruct(fields)
}

// expand evaluates a field.
func (s *view) expand(f plan.Field) (value.Value, *event.Error) {
	v, err := expr.Expand(f.Value, s)
	if err != nil {
		return value.Value{}, s.run.expressionError(err, f)
	}
	v.Secrets(s.run.out.addSecret)
	return v, nil
}

// expandText evaluates a field to text.
func (s *view) expandText(f plan.Field) (string, bool, *event.Error) {
	v, err := s.expand(f)
	if err != nil {
		return "", false, err
	}
	return v.Text(), v.Sensitive(), nil
}

// expandEnv evaluates a map of environment variables, names included.
func (s *view) expandEnv(fields map[string]plan.Field) (map[string]variable, *event.Error) {
	if len(fields) == 0 {
		return nil, nil
	}
	vars := make(map[string]variable, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		text, sensitive, err := s.expandText(fields[name])
		if err != nil {
			return nil, err
		}
		name, err := s.expandName(name, fields[name])
		if err != nil {
			return nil, err
		}
		if strings.ContainsRune(text, 0) {
			return nil, s.run.fieldError(fields[name], "the value of environment variable %s holds a NUL byte", name)
		}
		for _, secret := range source.Passwords(text) {
			s.run.out.addSecret(secret)
		}
		vars[name] = variable{text, sensitive}
	}
	return vars, nil
}

// expandName evaluates the name of an input or variable, which may hold expressions too.
func (s *view) expandName(name string, f plan.Field) (string, *event.Error) {
	if !expr.Has(name) {
		return name, nil
	}
	expanded, _, err := s.expandText(plan.Field{Value: value.OfString(name), Span: f.Span})
	if err != nil {
		return "", err
	}
	if expanded == "" || strings.ContainsAny(expanded, "=\x00") {
		return "", s.run.fieldError(f, "%q, from %q, is not a name", expanded, name)
	}
	return expanded, nil
}
