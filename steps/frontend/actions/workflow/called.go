package workflow

import (
	"maps"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	ghexpr "github.com/rungci/rung/steps/expr/github"
	"github.com/rungci/rung/steps/value"
)

// Dispatch checks what somebody gives as inputs of workflow_dispatch and adds the defaults. inputs is the `inputs` context, typed; event is
// what `github.event.inputs` holds: the same as strings. The error is a diag.List with a diagnostic for each input that is wrong.
func (w *Workflow) Dispatch(given map[string]string) (inputs, event value.Value, err error) {
	ev := w.evaluate(nil)
	typed, texts := map[string]value.Value{}, map[string]value.Value{}
	var names []string
	for i := range w.On.dispatch {
		in := &w.On.dispatch[i]
		names = append(names, in.Name)
		text, ok := lookup(given, in.Name)
		v, problem := in.Default, ""
		switch {
		case ok:
			v, problem = in.convert(value.OfString(text))
		case in.Default.IsNull() && in.Required:
			problem = "is required, and not given"
		case in.Default.IsNull():
			v = in.empty()
		}
		if problem != "" {
			ev.fail(in.span, "the input %q %s", in.Name, problem)
		}
		typed[in.Name], texts[in.Name] = v, value.OfString(formatText(v))
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(names, func(known string) bool { return strings.EqualFold(known, name) }) {
			hint := "it has no inputs"
			if len(names) > 0 {
				hint = "the inputs are " + strings.Join(names, ", ")
			}
			ev.list = append(ev.list, diag.Diagnostic{Span: diag.Span{File: w.File}, Message: "workflow_dispatch has no input " + name, Hint: hint})
		}
	}
	return value.OfStruct(typed), value.OfStruct(texts), ev.err()
}

func lookup(given map[string]string, name string) (string, bool) {
	for key, text := range given {
		if strings.EqualFold(key, name) {
			return text, true
		}
	}
	return "", false
}

// Arguments are what a job gives to the workflow that it calls.
type Arguments struct {
	With    map[string]value.Value
	Secrets map[string]value.Value // strings, marked sensitive; with secrets: inherit all that the caller has
}

// CallArguments computes `with` and `secrets` of a job that calls a workflow, for one leg. The contexts are those of Settings.
func (j *Job) CallArguments(leg *Leg, c Contexts) (*Arguments, error) {
	ev := j.evaluate(leg, c)
	args := &Arguments{With: map[string]value.Value{}, Secrets: map[string]value.Value{}}
	if n := j.node.with; n != nil {
		for _, e := range n.Entries {
			args.With[e.Key.Text] = ev.value(e.Value)
		}
	}
	switch n := j.node.secrets; {
	case j.Call.Inherit:
		maps.Copy(args.Secrets, c["secrets"].Fields())
	case n != nil:
		for _, e := range n.Entries {
			args.Secrets[e.Key.Text] = ev.text(e.Value).Mark(true)
		}
	}
	return args, ev.err()
}

// Called is what a called workflow is given.
type Called struct {
	Inputs  value.Value            // the `inputs` context
	Secrets map[string]value.Value // the fields of the `secrets` context
}

// tokenName is the secret that every workflow has.
const tokenName = "GITHUB_TOKEN"

// AsCalled checks what a job gives to the workflow that it calls: that it can be called at all, its inputs and their types, its secrets. args
// are what Job.CallArguments gave. The contexts are those of the caller, for defaults that are computed. The error is a diag.List about the
// text of the job.
func (w *Workflow) AsCalled(caller *Job, args *Arguments, c Contexts) (*Called, error) {
	ev := caller.workflow.evaluate(nil)
	if !w.On.Has("workflow_call") {
		ev.fail(caller.Call.Span, "%s cannot be called: it has no `on: workflow_call`", w.File)
		return nil, ev.err()
	}
	inputs := w.calledInputs(ev, caller, args, c)
	called := &Called{Inputs: value.OfStruct(inputs), Secrets: map[string]value.Value{}}
	if token, ok := ghexpr.Field(c["secrets"], tokenName); ok {
		called.Secrets[tokenName] = token
	}
	w.calledSecrets(ev, caller, args, called)
	if err := ev.err(); err != nil {
		return nil, err
	}
	return called, nil
}

func (w *Workflow) calledInputs(ev *evaluation, caller *Job, args *Arguments, c Contexts) map[string]value.Value {
	out := map[string]value.Value{}
	var names []string
	for i := range w.On.inputs {
		in := &w.On.inputs[i]
		names = append(names, in.Name)
		given, ok := fold(args.With, in.Name)
		switch {
		case ok && IsUnknown(given.Str()):
			out[in.Name] = Unknown
		case ok:
			v, problem := in.given(given)
			if problem != "" {
				ev.fail(caller.argument(caller.node.with, in.Name), "the input %q of %s %s, not %s", in.Name, w.File, problem, shownValue(given))
			}
			out[in.Name] = v
		case in.Required:
			ev.fail(caller.Call.Span, "%s requires the input %q", w.File, in.Name)
		case in.computed != nil:
			defaults := w.evaluate(c)
			v, problem := defaults.value(in.computed), ""
			if !IsUnknown(v.Str()) {
				v, problem = in.convert(v)
			}
			if ev.list = append(ev.list, defaults.list...); problem != "" && len(defaults.list) == 0 {
				ev.fail(caller.Call.Span, "the default of the input %q of %s %s", in.Name, w.File, problem)
			}
			out[in.Name] = v
		case in.Default.IsNull():
			out[in.Name] = in.empty()
		default:
			out[in.Name] = in.Default
		}
	}
	for _, name := range slices.Sorted(maps.Keys(args.With)) {
		if !slices.ContainsFunc(names, func(known string) bool { return strings.EqualFold(known, name) }) {
			ev.fail(caller.argument(caller.node.with, name), "%s has no input %q", w.File, name)
		}
	}
	return out
}

// given returns what a caller gives for the input. Other than in workflow_dispatch, a text is not a number and no boolean.
func (in *Input) given(v value.Value) (out value.Value, problem string) {
	switch {
	case in.Type == "boolean" && v.Kind() != value.Boolean:
		return v, "must be true or false"
	case in.Type == "number" && v.Kind() != value.Number:
		return v, "must be a number"
	}
	return in.convert(v)
}

func (w *Workflow) calledSecrets(ev *evaluation, caller *Job, args *Arguments, called *Called) {
	if caller.Call.Inherit {
		maps.Copy(called.Secrets, args.Secrets)
	}
	for _, s := range w.On.secrets {
		v, ok := fold(args.Secrets, s.Name)
		if s.Required && !ok && !caller.Call.Inherit { // what is given may be empty, as that of a secret that nobody set
			ev.fail(caller.Call.Span, "%s demands the secret %s", w.File, s.Name)
		}
		if ok {
			called.Secrets[s.Name] = v
		}
	}
	if caller.Call.Inherit {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(args.Secrets)) {
		if !slices.ContainsFunc(w.On.secrets, func(s Secret) bool { return strings.EqualFold(s.Name, name) }) {
			ev.fail(caller.argument(caller.node.secrets, name), "%s has no secret %s", w.File, name)
		}
	}
}

// argument is the place of what a job gives under a name.
func (j *Job) argument(n *yamlsource.Node, name string) diag.Span {
	if n != nil {
		for _, e := range n.Entries {
			if strings.EqualFold(e.Key.Text, name) {
				return e.Key.Span
			}
		}
	}
	return j.Call.Span
}

func fold(in map[string]value.Value, name string) (value.Value, bool) {
	if v, ok := in[name]; ok {
		return v, true
	}
	for key, v := range in {
		if strings.EqualFold(key, name) {
			return v, true
		}
	}
	return value.Value{}, false
}

// Outputs computes the outputs of on.workflow_call, which are strings. The context "jobs" holds the workflow's jobs: result, and outputs.
func (w *Workflow) Outputs(c Contexts) (map[string]value.Value, error) {
	ev := w.evaluate(c)
	out := map[string]value.Value{}
	for _, o := range w.On.outputs {
		out[o.name] = ev.text(o.value)
	}
	return out, ev.err()
}
