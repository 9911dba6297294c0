package planpb

import (
	"errors"
	"fmt"

	planv1 "github.com/rungci/rung/api/rung/plan/v1"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// ToProto converts a component to its message. It fails on what no valid component has: a definition with both an exec and
// steps, a type or a kind of reference that does not exist, a number that is not finite.
func ToProto(c *plan.Component) (*planv1.Component, error) { return toComponent(c, 0) }

func toComponent(c *plan.Component, depth int) (*planv1.Component, error) {
	if depth > MaxNesting {
		return nil, errTooNested
	}
	spec, err := toSpec(&c.Spec)
	if err != nil {
		return nil, at("spec", err)
	}
	def, err := toDefinition(&c.Definition, depth)
	if err != nil {
		return nil, at("definition", err)
	}
	return &planv1.Component{Spec: spec, Definition: def}, nil
}

var errTooNested = fmt.Errorf("steps nest deeper than %d levels", MaxNesting)

func toSpec(s *plan.Spec) (*planv1.Spec, error) {
	out := &planv1.Spec{Description: s.Description, DelegateOutputs: s.DelegateOutputs, AnyOutputs: s.AnyOutputs, AnyInputs: s.AnyInputs, Exports: s.Exports, Home: s.Home, Permissions: s.Permissions, Access: s.Access}
	var errs [4]error
	out.Inputs, errs[0] = convertMap("inputs", s.Inputs, toInput)
	out.Outputs, errs[1] = convertMap("outputs", s.Outputs, toOutput)
	out.Env, errs[2] = convertMap("env", s.Env, func(e plan.EnvRequest) (*planv1.EnvRequest, error) {
		return &planv1.EnvRequest{Default: e.Default, Optional: e.Optional, Description: e.Description, Span: toSpan(e.Span)}, nil
	})
	out.Secrets, errs[3] = convertMap("secrets", s.Secrets, func(r plan.SecretRequest) (*planv1.SecretRequest, error) {
		return &planv1.SecretRequest{Optional: r.Optional, Description: r.Description, Span: toSpan(r.Span)}, nil
	})
	return out, first(errs[:]...)
}

// first returns the first error there is, so that a list of conversions can be checked in one place.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func toInput(in plan.Input) (*planv1.Input, error) {
	out := &planv1.Input{Sensitive: in.Sensitive, Description: in.Description, Match: in.Match, Deprecated: in.Deprecated, Span: toSpan(in.Span)}
	var errs [4]error
	out.Type, errs[0] = lookup(kinds, "type", in.Type)
	out.Default, errs[1] = toDefault(in.Default)
	out.Options, errs[2] = convertSlice("options", in.Options, ToValue)
	out.Computed, errs[3] = toOptionalField("computed", in.Computed)
	return out, first(errs[:]...)
}

func toOutput(in plan.Output) (*planv1.Output, error) {
	out := &planv1.Output{Sensitive: in.Sensitive, Description: in.Description, Span: toSpan(in.Span)}
	var errs [2]error
	out.Type, errs[0] = lookup(kinds, "type", in.Type)
	out.Default, errs[1] = toDefault(in.Default)
	return out, first(errs[:]...)
}

func toDefault(v *value.Value) (*planv1.Value, error) {
	if v == nil {
		return nil, nil
	}
	out, err := ToValue(*v)
	if err != nil {
		return nil, at("default", err)
	}
	return out, nil
}

func toField(f plan.Field) (*planv1.Field, error) {
	v, err := ToValue(f.Value)
	out := &planv1.Field{Value: v, Span: toSpan(f.Span)}
	for _, text := range f.Lines {
		lines := &planv1.SourceLines{}
		for _, line := range text {
			lines.Lines = append(lines.Lines, &planv1.SourceLine{Span: toSpan(line.Span), Source: line.Source})
		}
		out.Lines = append(out.Lines, lines)
	}
	return out, err
}

func toOptionalField(name string, f *plan.Field) (*planv1.Field, error) {
	if f == nil {
		return nil, nil
	}
	out, err := toField(*f)
	if err != nil {
		return nil, at(name, err)
	}
	return out, nil
}

func toDefinition(d *plan.Definition, depth int) (*planv1.Definition, error) {
	out := &planv1.Definition{Delegate: d.Delegate, InputPrefix: d.InputPrefix, Span: toSpan(d.Span)}
	var errs [6]error
	out.Env, errs[0] = convertMap("env", d.Env, toField)
	out.Outputs, errs[1] = convertMap("outputs", d.Outputs, toField)
	out.Context, errs[3] = convertMap("context", d.Context, toField)
	out.Pre, errs[4] = toHook("pre", d.Pre)
	out.Post, errs[5] = toHook("post", d.Post)
	switch {
	case d.Exec != nil && d.Steps != nil:
		return nil, errors.New("a definition has an exec or steps, not both")
	case d.Exec != nil:
		var exec *planv1.Exec
		if exec, errs[2] = toExec(d.Exec); errs[2] != nil {
			errs[2] = at("exec", errs[2])
		}
		out.Body = &planv1.Definition_Exec{Exec: exec}
	case d.Steps != nil:
		var steps []*planv1.Step
		steps, errs[2] = toSteps("steps", d.Steps, depth)
		out.Body = &planv1.Definition_Steps{Steps: &planv1.StepList{Steps: steps}}
	}
	return out, first(errs[:]...)
}

func toHook(name string, h *plan.Hook) (*planv1.Hook, error) {
	if h == nil {
		return nil, nil
	}
	if h.Exec == nil {
		return nil, at(name, errors.New("a hook has an exec"))
	}
	out := &planv1.Hook{}
	var errs [2]error
	out.Exec, errs[0] = toExec(h.Exec)
	out.If, errs[1] = toOptionalField("if", h.If)
	if err := first(errs[:]...); err != nil {
		return nil, at(name, err)
	}
	return out, nil
}

func toExec(e *plan.Exec) (*planv1.Exec, error) {
	out := &planv1.Exec{Timeout: toDuration(e.Timeout), Toolkit: e.Toolkit}
	var errs [3]error
	out.WorkDir, errs[0] = toOptionalField("work_dir", e.WorkDir)
	out.LogFile, errs[2] = toOptionalField("log_file", e.LogFile)
	switch {
	case e.Command != nil && e.Script != nil:
		return nil, errors.New("an exec has a command or a script, not both")
	case e.Command != nil:
		var args []*planv1.Field
		args, errs[1] = convertSlice("command", e.Command, toField)
		out.Run = &planv1.Exec_Command{Command: &planv1.Command{Args: args}}
	case e.Script != nil:
		var text *planv1.Field
		text, errs[1] = toOptionalField("script", &e.Script.Text)
		out.Run = &planv1.Exec_Script{Script: &planv1.Script{Text: text, Shell: e.Script.Shell}}
	}
	return out, first(errs[:]...)
}

func toSteps(field string, steps []plan.Step, depth int) ([]*planv1.Step, error) {
	if depth > MaxNesting {
		return nil, errTooNested
	}
	return convertSlice(field, steps, func(s plan.Step) (*planv1.Step, error) { return toStep(&s, depth) })
}

func toStep(s *plan.Step, depth int) (*planv1.Step, error) {
	out := &planv1.Step{
		Name: s.Name, Title: s.Title, Background: s.Background, InheritEnv: s.InheritEnv, AllowExports: s.AllowExports, Permissions: s.Permissions,
		Confine: s.Confine, AllowAccess: s.AllowAccess,
		Timeout: toDuration(s.Timeout), Span: toSpan(s.Span),
	}
	var errs [8]error
	errs[0] = setRun(out, s, depth)
	out.Inputs, errs[1] = convertMap("inputs", s.Inputs, toField)
	out.Env, errs[2] = convertMap("env", s.Env, toField)
	out.Secrets, errs[3] = convertMap("secrets", s.Secrets, same)
	out.If, errs[4] = toOptionalField("if", s.If)
	out.When, errs[5] = lookup(whens, `value of "when"`, s.When)
	out.TimeLimit, errs[6] = toOptionalField("time_limit", s.TimeLimit)
	if s.Retry != nil {
		out.Retry = &planv1.Retry{Max: int64(s.Retry.Max), Delay: toDuration(s.Retry.Delay), ExitCodes: toInts(s.Retry.ExitCodes)}
	}
	if s.AllowFailure != nil {
		out.AllowFailure = &planv1.AllowFailure{ExitCodes: toInts(s.AllowFailure.ExitCodes)}
		out.AllowFailure.If, errs[7] = toOptionalField("allow_failure.if", s.AllowFailure.If)
	}
	return out, first(errs[:]...)
}

func same(s string) (string, error) { return s, nil }

// setRun sets what the step runs: a reference, an inline component, a parallel group or a wait.
func setRun(out *planv1.Step, s *plan.Step, depth int) error {
	set := 0
	for _, is := range []bool{s.Ref != nil, s.Inline != nil, s.Parallel != nil, s.Await != nil} {
		if is {
			set++
		}
	}
	switch {
	case set > 1:
		return errors.New("a step has one of a reference, an inline definition, a parallel group and a wait")
	case s.Limit != 0 && s.Parallel == nil:
		return errors.New("a step that is not a parallel group has no limit")
	case s.Ref != nil:
		ref, err := toReference(s.Ref)
		out.Run = &planv1.Step_Ref{Ref: ref}
		if err != nil {
			return at("ref", err)
		}
	case s.Inline != nil:
		inline, err := toComponent(s.Inline, depth+1)
		out.Run = &planv1.Step_Inline{Inline: inline}
		if err != nil {
			return at("inline", err)
		}
	case s.Parallel != nil:
		steps, err := toSteps("parallel", s.Parallel, depth+1)
		out.Run = &planv1.Step_Parallel{Parallel: &planv1.Parallel{Steps: steps, Limit: int64(s.Limit)}}
		return err
	case s.Await != nil:
		out.Run = &planv1.Step_Await{Await: &planv1.Await{Steps: s.Await.Steps, Cancel: s.Await.Cancel}}
	}
	return nil
}

func toReference(r *plan.Reference) (*planv1.Reference, error) {
	out := &planv1.Reference{
		Text: r.Text, Path: r.Path, File: r.File, Url: r.URL, Rev: r.Rev,
		Registry: r.Registry, Repository: r.Repository, Tag: r.Tag, Action: r.Action, Span: toSpan(r.Span),
		Sha256: r.SHA256, OrRoot: r.OrRoot,
	}
	var errs [2]error
	out.Kind, errs[0] = lookup(refKinds, "kind of reference", r.Kind)
	out.Expr, errs[1] = toOptionalField("expr", r.Expr)
	return out, first(errs[:]...)
}
