package stepproto

import (
	"google.golang.org/protobuf/types/known/structpb"

	stepsv0 "github.com/rungci/rung/api/gitlab/steps/v0"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// ToProto converts a component, as far as the messages go: see Lost for what they have no field for. A script becomes a call
// of the existing step-runner's script step where it can, and a command that runs the shell where not; a parallel group
// becomes a list.
func ToProto(c *plan.Component) *SpecDefinition {
	return &SpecDefinition{Spec: toSpec(&c.Spec), Definition: toDefinition(&c.Definition)}
}

func toSpec(s *plan.Spec) *stepsv0.Spec {
	out := &stepsv0.Spec_Content{OutputMethod: stepsv0.OutputMethod_outputs}
	if s.DelegateOutputs {
		out.OutputMethod = stepsv0.OutputMethod_delegate
	}
	for name, in := range s.Inputs {
		set(&out.Inputs, name, &stepsv0.Spec_Content_Input{Type: toType(in.Type), Default: toDefault(in.Default), Sensitive: in.Sensitive})
	}
	for name, o := range s.Outputs {
		set(&out.Outputs, name, &stepsv0.Spec_Content_Output{Type: toType(o.Type), Default: toDefault(o.Default), Sensitive: o.Sensitive})
	}
	return &stepsv0.Spec{Spec: out}
}

func toType(kind value.Kind) stepsv0.ValueType {
	for t, k := range kinds {
		if k == kind {
			return t
		}
	}
	return stepsv0.ValueType_value_type_unspecified
}

func toDefault(v *value.Value) *structpb.Value {
	if v == nil {
		return nil
	}
	return toValue(*v)
}

func toDefinition(d *plan.Definition) *stepsv0.Definition {
	out := &stepsv0.Definition{Env: toTexts(d.Env), Outputs: toFields(d.Outputs), Delegate: d.Delegate}
	if d.Exec != nil {
		out.Type, out.Exec = stepsv0.DefinitionType_exec, toExec(d.Exec)
		return out
	}
	out.Type, out.Steps = stepsv0.DefinitionType_steps, toSteps(d.Steps)
	return out
}

func toExec(e *plan.Exec) *stepsv0.Definition_Exec {
	out := &stepsv0.Definition_Exec{}
	for _, arg := range e.Command {
		out.Command = append(out.Command, clean(arg.Value.Text()))
	}
	if e.Script != nil {
		out.Command = shellCommand(e.Script)
	}
	if e.WorkDir != nil {
		out.WorkDir = clean(e.WorkDir.Value.Text())
	}
	return out
}

// shellCommand is the command that runs a script's text, as the engine would.
func shellCommand(s *plan.Script) []string {
	text := clean(s.Text.Value.Text())
	switch s.Shell {
	case plan.ShellPwsh, plan.ShellPowershell:
		return []string{s.Shell, "-NoLogo", "-NoProfile", "-NonInteractive", "-Command", text}
	case plan.ShellCmd:
		return []string{"cmd", "/D", "/C", text}
	case plan.ShellSh:
		return []string{"sh", "-c", text}
	default:
		return []string{"bash", "-c", text}
	}
}

func toTexts(fields map[string]plan.Field) map[string]string {
	var out map[string]string
	for name, field := range fields {
		set(&out, clean(name), clean(field.Value.Text()))
	}
	return out
}

func toFields(fields map[string]plan.Field) map[string]*structpb.Value {
	var out map[string]*structpb.Value
	for name, field := range fields {
		set(&out, clean(name), toValue(field.Value))
	}
	return out
}

func toSteps(steps []plan.Step) []*stepsv0.Step {
	var out []*stepsv0.Step
	for i := range steps {
		if len(steps[i].Parallel) > 0 {
			out = append(out, toSteps(steps[i].Parallel)...) // names are those of the enclosing list
			continue
		}
		out = append(out, toStep(&steps[i]))
	}
	return out
}

func toStep(s *plan.Step) *stepsv0.Step {
	out := &stepsv0.Step{Name: s.Name, Env: toTexts(s.Env), Inputs: toFields(s.Inputs)}
	switch {
	case s.Ref != nil:
		out.Step = toReference(s.Ref, out)
	case s.Inline == nil:
	case plainScript(s.Inline) != nil:
		out.Step = &stepsv0.Step_Reference{
			Protocol: stepsv0.StepReferenceProtocol_dist,
			Filename: plan.FallbackFile,
			StepPath: &stepsv0.Step_Reference_Paths{Paths: &stepsv0.PathParts{Parts: []string{scriptStep}}},
		}
		set(&out.Inputs, scriptInput, toValue(plainScript(s.Inline).Text.Value))
	default:
		out.Step = &stepsv0.Step_Reference{Protocol: stepsv0.StepReferenceProtocol_spec_def, SpecDef: ToProto(s.Inline)}
	}
	return out
}

// plainScript returns the script of a component that is nothing else, in the default shell: what the existing step-runner's
// script step runs.
func plainScript(c *plan.Component) *plan.Script {
	exec := c.Definition.Exec
	if exec == nil || exec.Script == nil || exec.Script.Shell != "" || exec.WorkDir != nil || len(c.Definition.Env)+len(c.Spec.Outputs) > 0 {
		return nil
	}
	return exec.Script
}

// actionCall makes the inputs of the existing step-runner's action step.
func actionCall(action string, step *stepsv0.Step) map[string]*structpb.Value {
	return map[string]*structpb.Value{
		actionInput:  structpb.NewStringValue(action),
		actionInputs: structpb.NewStructValue(&structpb.Struct{Fields: step.Inputs}),
	}
}
