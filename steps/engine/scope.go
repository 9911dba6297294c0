package engine

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// scope is what expressions can see at one place of a run, and what the processes started there are given.
//
// Scopes form a chain, from a step outwards. A component's scope shares nothing with its caller's but the environment; the
// scope of an inline step shows its caller's inputs and steps.
type scope struct {
	run     *run
	parent  *scope
	dir     string // of the definition that the scope belongs to
	workDir string
	inputs  value.Value
	env     *environ
	own     map[string]variable // secrets that this step was granted; children do not inherit them
	secrets map[string]string   // what the step can grant to its children
	known   map[string]string   // the secrets of the component that it is in: what functions see of them
	list    *listState          // the list of steps it is in; nil outside of lists
	steps   map[string]value.Value
	files   *stepFiles // nil where there is no process to write them
	top     bool       // sensitive job variables can be read
	barrier *barrier   // set in a member of a parallel group: exports wait there
	depth   int        // of components calling components
	path    string     // the names of the steps that lead here: "build/compile"
	origin  *plan.Origin
	call    *call       // of the component that it is in; nil in the run's own
	context value.Value // what definitions around and here say is known; null where none does
}

// child returns a scope inside s for another step, which begins as a copy.
func (s *scope) child() *scope {
	c := *s
	c.parent, c.own, c.barrier, c.files = s, nil, nil, nil
	return &c
}

// Lookup implements expr.Scope.
func (s *scope) Lookup(name string) (value.Value, bool) {
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
func (s *scope) around() value.Value {
	if s.context.IsNull() {
		return value.OfStruct(nil)
	}
	return s.context
}

// surround puts the definition's context on top of the one around it.
func (s *scope) surround(def *plan.Definition) *event.Error {
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
func (s *scope) Names() []string {
	names := []string{"context", "env", "func_dir", "inputs", "job", "step_dir", "steps", "vars", "work_dir"}
	if s.files != nil {
		names = append(names, "export_file", "input_file", "output_file")
	}
	return names
}

// Call implements expr.Scope: the functions that ask how the steps before went.
func (s *scope) Call(name string, args []value.Value) (value.Value, bool, error) {
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
func (s *scope) Status() (failed, cancelled bool) {
	if s.list == nil {
		return false, false
	}
	return s.list.failed, s.list.cancelled
}

// conditionScope is what the condition of a step sees: there a variable that is not set is null, as the question is often
// whether it is.
type conditionScope struct{ *scope }

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
func (s *scope) expand(f plan.Field) (value.Value, *event.Error) {
	v, err := expr.Expand(f.Value, s)
	if err != nil {
		return value.Value{}, s.run.expressionError(err, f)
	}
	v.Secrets(s.run.out.addSecret)
	return v, nil
}

// expandText evaluates a field to text.
func (s *scope) expandText(f plan.Field) (string, bool, *event.Error) {
	v, err := s.expand(f)
	if err != nil {
		return "", false, err
	}
	return v.Text(), v.Sensitive(), nil
}

// expandEnv evaluates a map of environment variables, names included.
func (s *scope) expandEnv(fields map[string]plan.Field) (map[string]variable, *event.Error) {
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
		vars[name] = variable{text, sensitive}
	}
	return vars, nil
}

// expandName evaluates the name of an input or variable, which may hold expressions too.
func (s *scope) expandName(name string, f plan.Field) (string, *event.Error) {
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

// export sets variables for every later step, whatever its depth: in this scope and in all around it, up to the member of
// a parallel group, whose exports wait until the group ends.
func (s *scope) export(vars map[string]variable) {
	if len(vars) == 0 {
		return
	}
	for at := s; at != nil; at = at.parent {
		maps.Copy(at.env.vars, vars)
		if at.barrier != nil {
			at.barrier.add(vars)
			return
		}
	}
}

// barrier collects the exports of a member of a parallel group, or of a background step.
type barrier struct {
	exports map[string]variable
	before  *environ // of the list around it, as it was then
}

func (b *barrier) add(vars map[string]variable) {
	if b.exports == nil {
		b.exports = map[string]variable{}
	}
	maps.Copy(b.exports, vars)
}

// stepFiles are the input file, the output file and the export file of one process. They are made when something asks for their path.
type stepFiles struct {
	dir            string
	id             string
	input          string
	output, export string
	scripts        []string
	track          *scriptTrack // nil where the places of a script's lines are unknown
	err            error
}

// newStepFiles is the files of the step with the ID, of which no other process runs at the same time. Names that depend on
// nothing else make the traces of two runs the same.
func newStepFiles(dir, id string) *stepFiles {
	if id == "" {
		id = "run"
	}
	return &stepFiles{dir: dir, id: id}
}

func (f *stepFiles) path(name string) string {
	target, suffix := &f.output, "output.jsonl"
	if name == "export_file" {
		target, suffix = &f.export, "export.jsonl"
	}
	if *target == "" {
		path, err := f.create(suffix, nil)
		if err != nil && f.err == nil {
			f.err = err
		}
		*target = path
	}
	return *target
}

// inputs returns the path of a file that holds the inputs as one JSON object.
func (f *stepFiles) inputs(given value.Value) string {
	if f.input == "" {
		if given.Kind() != value.Struct { // a job has none
			given = value.OfStruct(nil)
		}
		path, err := f.create("input.json", append(given.AppendJSON(nil), '\n'))
		if err != nil && f.err == nil {
			f.err = err
		}
		f.input = path
	}
	return f.input
}

// name is the path of a file of the step.
func (f *stepFiles) name(suffix string) string { return filepath.Join(f.dir, f.id+"-"+suffix) }

// create makes a file that only this user can read. Its name must not exist yet.
func (f *stepFiles) create(suffix string, content []byte) (string, error) {
	path := f.name(suffix)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return path, err
	}
	if _, err := file.Write(content); err != nil {
		file.Close()
		return path, err
	}
	return path, file.Close()
}

// remove deletes the files.
func (f *stepFiles) remove() {
	for _, path := range append(f.scripts, f.input, f.output, f.export) {
		if path != "" {
			_ = os.Remove(path)
		}
	}
}
