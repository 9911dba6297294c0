package planpb

import (
	"errors"
	"slices"

	planv1 "github.com/rungci/rung/api/rung/plan/v1"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// FromProto converts a message to the component it stands for. It fails on a constant or a kind of value that this version
// does not know, and on a field without a value; whether the component makes sense is for its frontend and the engine.
func FromProto(m *planv1.Component) (*plan.Component, error) {
	if m == nil {
		return nil, errors.New("there is no component")
	}
	return fromComponent(m, 0)
}

func fromComponent(m *planv1.Component, depth int) (*plan.Component, error) {
	if depth > MaxNesting {
		return nil, errTooNested
	}
	spec, err := fromSpec(m.GetSpec())
	if err != nil {
		return nil, at("spec", err)
	}
	def, err := fromDefinition(m.GetDefinition(), depth)
	if err != nil {
		return nil, at("definition", err)
	}
	return &plan.Component{Spec: spec, Definition: def}, nil
}

func fromSpec(m *planv1.Spec) (plan.Spec, error) {
	out := plan.Spec{
		Description: m.GetDescription(), DelegateOutputs: m.GetDelegateOutputs(), AnyOutputs: m.GetAnyOutputs(), AnyInputs: m.GetAnyInputs(),
		Exports: m.GetExports(), Home: m.GetHome(), Permissions: m.GetPermissions(), Access: m.GetAccess(),
	}
	var errs [4]error
	out.Inputs, errs[0] = convertMap("inputs", m.GetInputs(), fromInput)
	out.Outputs, errs[1] = convertMap("outputs", m.GetOutputs(), fromOutput)
	out.Env, errs[2] = convertMap("env", m.GetEnv(), func(e *planv1.EnvRequest) (plan.EnvRequest, error) {
		// Default is copied with its absence, which its getter would not tell.
		return plan.EnvRequest{Default: e.Default, Optional: e.GetOptional(), Description: e.GetDescription(), Span: fromSpan(e.GetSpan())}, nil
	})
	out.Secrets, errs[3] = convertMap("secrets", m.GetSecrets(), func(r *planv1.SecretRequest) (plan.SecretRequest, error) {
		return plan.SecretRequest{Optional: r.GetOptional(), Description: r.GetDescription(), Span: fromSpan(r.GetSpan())}, nil
	})
	return out, first(errs[:]...)
}

func fromInput(m *planv1.Input) (plan.Input, error) {
	out := plan.Input{Sensitive: m.GetSensitive(), Description: m.GetDescription(), Match: m.GetMatch(), Deprecated: m.GetDeprecated(), Span: fromSpan(m.GetSpan())}
	var errs [4]error
	out.Type, errs[0] = reverse(kinds, "type", m.GetType())
	out.Default, errs[1] = fromDefault(m.GetDefault())
	out.Options, errs[2] = convertSlice("options", m.GetOptions(), FromValue)
	out.Computed, errs[3] = fromOptionalField("computed", m.GetComputed())
	return out, first(errs[:]...)
}

func fromOutput(m *planv1.Output) (plan.Output, error) {
	out := plan.Output{Sensitive: m.GetSensitive(), Description: m.GetDescription(), Span: fromSpan(m.GetSpan())}
	var errs [2]error
	out.Type, errs[0] = reverse(kinds, "type", m.GetType())
	out.Default, errs[1] = fromDefault(m.GetDefault())
	return out, first(errs[:]...)
}

func fromDefault(m *planv1.Value) (*value.Value, error) {
	if m == nil {
		return nil, nil
	}
	v, err := FromValue(m)
	if err != nil {
		return nil, at("default", err)
	}
	return &v, nil
}

func fromField(m *planv1.Field) (plan.Field, error) {
	v, err := FromValue(m.GetValue())
	return plan.Field{Value: v, Span: fromSpan(m.GetSpan()), Lines: fromLines(m.GetLines())}, err
}

func fromLines(all []*planv1.SourceLines) [][]diag.SourceLine {
	if len(all) == 0 {
		return nil
	}
	out := make([][]diag.SourceLine, len(all))
	for i, text := range all {
		for _, line := range text.GetLines() {
			out[i] = append(out[i], diag.SourceLine{Span: fromSpan(line.GetSpan()), Source: line.GetSource()})
		}
	}
	return out
}

func fromOptionalField(name string, m *planv1.Field) (*plan.Field, error) {
	if m == nil {
		return nil, nil
	}
	f, err := fromField(m)
	if err != nil {
		return nil, at(name, err)
	}
	return &f, nil
}

func fromDefinition(m *planv1.Definition, depth int) (plan.Definition, error) {
	out := plan.Definition{Delegate: m.GetDelegate(), InputPrefix: m.GetInputPrefix(), Span: fromSpan(m.GetSpan())}
	var errs [6]error
	out.Env, errs[0] = convertMap("env", m.GetEnv(), fromField)
	out.Outputs, errs[1] = convertMap("outputs", m.GetOutputs(), fromField)
	out.Context, errs[3] = convertMap("context", m.GetContext(), fromField)
	out.Pre, errs[4] = fromHook("pre", m.GetPre())
	out.Post, errs[5] = fromHook("post", m.GetPost())
	switch body := m.GetBody().(type) {
	case *planv1.Definition_Exec:
		if out.Exec, errs[2] = fromExec(body.Exec); errs[2] != nil {
			errs[2] = at("exec", errs[2])
		}
	case *planv1.Definition_Steps:
		out.Steps, errs[2] = fromSteps("steps", body.Steps.GetSteps(), depth)
	}
	return out, first(errs[:]...)
}

func fromHook(name string, m *planv1.Hook) (*plan.Hook, error) {
	if m == nil {
		return nil, nil
	}
	out := &plan.Hook{}
	var errs [2]error
	out.Exec, errs[0] = fromExec(m.GetExec())
	out.If, errs[1] = fromOptionalField("if", m.GetIf())
	if err := first(errs[:]...); err != nil {
		return nil, at(name, err)
	}
	return out, nil
}

func fromExec(m *planv1.Exec) (*plan.Exec, error) {
	out := &plan.Exec{Toolkit: m.GetToolkit()}
	var errs [4]error
	out.Timeout, errs[0] = fromDuration(m.GetTimeout())
	out.WorkDir, errs[1] = fromOptionalField("work_dir", m.GetWorkDir())
	out.LogFile, errs[3] = fromOptionalField("log_file", m.GetLogFile())
	switch run := m.GetRun().(type) {
	case *planv1.Exec_Command:
		out.Command, errs[2] = convertSlice("command", present(run.Command.GetArgs()), fromField)
	case *planv1.Exec_Script:
		out.Script = &plan.Script{Shell: run.Script.GetShell()}
		if out.Script.Text, errs[2] = fromField(run.Script.GetText()); errs[2] != nil {
			errs[2] = at("script", errs[2])
		}
	}
	return out, first(errs[:]...)
}

// present makes an empty list that is there differ from none at all, which protobuf's own lists do not.
func present[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func fromSteps(field string, steps []*planv1.Step, depth int) ([]plan.Step, error) {
	if depth > MaxNesting {
		return nil, errTooNested
	}
	return convertSlice(field, present(steps), func(m *planv1.Step) (plan.Step, error) { return fromStep(m, depth) })
}

func fromStep(m *planv1.Step, depth int) (plan.Step, error) {
	out := plan.Step{
		Name: m.GetName(), Title: m.GetTitle(), Background: m.GetBackground(), InheritEnv: m.GetInheritEnv(), AllowExports: m.GetAllowExports(), Permissions: m.GetPermissions(),
		Confine: m.Confine, AllowAccess: m.GetAllowAccess(),
		Span: fromSpan(m.GetSpan()),
	}
	var errs [10]error
	errs[0] = readRun(&out, m, depth)
	out.Inputs, errs[1] = convertMap("inputs", m.GetInputs(), fromField)
	out.Env, errs[2] = convertMap("env", m.GetEnv(), fromField)
	out.Secrets, errs[3] = convertMap("secrets", m.GetSecrets(), same)
	out.If, errs[4] = fromOptionalField("if", m.GetIf())
	out.When, errs[5] = reverse(whens, `value of "when"`, m.GetWhen())
	out.Timeout, errs[6] = fromDuration(m.GetTimeout())
	out.TimeLimit, errs[8] = fromOptionalField("time_limit", m.GetTimeLimit())
	if retry := m.GetRetry(); retry != nil {
		out.Retry = &plan.Retry{Max: int(retry.GetMax()), ExitCodes: fromInts(retry.GetExitCodes())}
		out.Retry.Delay, errs[7] = fromDuration(retry.GetDelay())
	}
	if allow := m.GetAllowFailure(); allow != nil {
		out.AllowFailure = &plan.AllowFailure{ExitCodes: fromInts(allow.GetExitCodes())}
		out.AllowFailure.If, errs[9] = fromOptionalField("allow_failure.if", allow.GetIf())
	}
	return out, first(errs[:]...)
}

// readRun reads what the step runs: a reference, an inline component, a parallel group or a wait.
func readRun(out *plan.Step, m *planv1.Step, depth int) (err error) {
	switch run := m.GetRun().(type) {
	case *planv1.Step_Ref:
		if out.Ref, err = fromReference(run.Ref); err != nil {
			return at("ref", err)
		}
	case *planv1.Step_Inline:
		if out.Inline, err = fromComponent(run.Inline, depth+1); err != nil {
			return at("inline", err)
		}
	case *planv1.Step_Parallel:
		out.Limit = int(run.Parallel.GetLimit())
		out.Parallel, err = fromSteps("parallel", run.Parallel.GetSteps(), depth+1)
	case *planv1.Step_Await:
		out.Await = &plan.Await{Steps: slices.Clone(run.Await.GetSteps()), Cancel: run.Await.GetCancel()}
	}
	return err
}

func fromReference(m *planv1.Reference) (*plan.Reference, error) {
	out := &plan.Reference{
		Text: m.GetText(), Path: slices.Clone(m.GetPath()), File: m.GetFile(), URL: m.GetUrl(), Rev: m.GetRev(),
		Registry: m.GetRegistry(), Repository: m.GetRepository(), Tag: m.GetTag(), Action: m.GetAction(), Span: fromSpan(m.GetSpan()),
		SHA256: m.GetSha256(), OrRoot: m.GetOrRoot(),
	}
	var errs [2]error
	out.Kind, errs[0] = reverse(refKinds, "kind of reference", m.GetKind())
	out.Expr, errs[1] = fromOptionalField("expr", m.GetExpr())
	return out, first(errs[:]...)
}
