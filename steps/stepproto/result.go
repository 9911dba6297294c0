package stepproto

import (
	"errors"
	"slices"
	"strings"

	stepsv0 "github.com/rungci/rung/api/gitlab/steps/v0"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/trace"
)

// FromTrace makes the StepResult of a run: the result of its component, with those of its steps inside. Definitions are as
// written; invocations and processes have their expressions evaluated. A trace holds no sensitive value, and so neither
// does the result.
//
// Differences to what the existing step-runner writes: the environment is what each step was given beyond its caller's,
// except for the whole run, where it is the base environment. Steps that were skipped have no result, as there is no status
// for them. Of a step that ran several times, because it or its list is retried, the last time counts.
func FromTrace(t *trace.Trace) (*StepResult, error) {
	if t.Run.Component == nil {
		return nil, errors.New("the trace holds no component, so there is nothing to make a StepResult of")
	}
	out := &StepResult{
		Step:           &stepsv0.Step{Inputs: toValues(t.Run.Inputs)},
		SpecDefinition: ToProto(t.Run.Component),
		Status:         toStatus(t.Run.Status),
		Outputs:        toValues(t.Run.Outputs),
		Env:            cleanAll(t.Run.Env),
	}
	if own := ownProcess(t); own != nil {
		out.ExecResult, out.Exports = toExecResult(own), cleanAll(own.Exports)
		return out, nil
	}
	w := resultWriter{components: t.Components}
	out.SubStepResults = w.steps(t.Steps, t.Run.Component.Definition.Steps)
	return out, nil
}

// ownProcess is the step without an ID that a run has whose component is one process.
func ownProcess(t *trace.Trace) *trace.Step {
	for _, s := range t.Steps {
		if s.ID == "" {
			return s
		}
	}
	return nil
}

// resultWriter makes the results of steps.
type resultWriter struct {
	components map[string]*plan.Component
}

// steps makes the results of the steps of a list, whose definitions stand in list.
func (w *resultWriter) steps(steps []*trace.Step, list []plan.Step) []*StepResult {
	var out []*StepResult
	for i, s := range steps {
		again := slices.ContainsFunc(steps[i+1:], func(later *trace.Step) bool { return later.Name == s.Name })
		if s.Status == event.Skipped || again {
			continue
		}
		out = append(out, w.step(s, find(list, s.Name)))
	}
	return out
}

// find returns the definition of the step with the given name, nil when it is not known. A name is unique in a list,
// parallel groups included.
func find(list []plan.Step, name string) *plan.Step {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
		if found := find(list[i].Parallel, name); found != nil {
			return found
		}
	}
	return nil
}

func (w *resultWriter) step(s *trace.Step, def *plan.Step) *StepResult {
	out := &StepResult{
		Step:    invocation(s, def),
		Status:  toStatus(s.Status),
		Outputs: toValues(s.Outputs),
		Exports: cleanAll(s.Exports),
		Env:     cleanAll(s.Env),
	}
	component, children := w.component(s, def)
	if component != nil {
		out.SpecDefinition = ToProto(component)
	}
	if len(s.Attempts) > 0 {
		out.ExecResult = toExecResult(s)
	}
	out.SubStepResults = w.steps(s.Steps, children)
	return out
}

// component returns the component that a step ran, whole, and the list that its children stand in.
func (w *resultWriter) component(s *trace.Step, def *plan.Step) (*plan.Component, []plan.Step) {
	component := s.Definition
	switch {
	case def != nil && def.Inline != nil: // the trace leaves out the steps of an inline list
		component = def.Inline
	case def != nil && len(def.Parallel) > 0:
		group := plan.Component{Spec: plan.Spec{AnyOutputs: true}, Definition: plan.Definition{Steps: def.Parallel}}
		return &group, def.Parallel
	case s.Resolved != nil && w.components[s.Resolved.Key()] != nil:
		component = w.components[s.Resolved.Key()]
	}
	if component == nil {
		return nil, nil
	}
	return component, component.Definition.Steps
}

// invocation is the call of a step with its expressions evaluated.
func invocation(s *trace.Step, def *plan.Step) *stepsv0.Step {
	out := &stepsv0.Step{Name: s.Name}
	if def != nil {
		out = toStep(def)
	}
	if s.Inputs != nil {
		out.Inputs = toValues(s.Inputs)
	}
	if resolved := evaluated(s); resolved != nil && (out.Step == nil || out.Step.Protocol == stepsv0.StepReferenceProtocol_dynamic) {
		out.Step = resolved
	}
	out.Env = nil
	for name, text := range s.Env {
		if def == nil || givenByCaller(def, name) {
			set(&out.Env, clean(name), clean(text))
		}
	}
	return out
}

// givenByCaller reports whether the variable is, or may be, of the invocation, and not of the definition that it calls.
func givenByCaller(def *plan.Step, name string) bool {
	for own := range def.Env {
		if own == name || hasExpression(own) {
			return true
		}
	}
	return false
}

// evaluated is the reference of a step as it was resolved, nil when there is none.
func evaluated(s *trace.Step) *stepsv0.Step_Reference {
	switch {
	case s.Resolved == nil && s.Ref == "":
		return nil
	case s.Resolved == nil:
		return &stepsv0.Step_Reference{Protocol: stepsv0.StepReferenceProtocol_dynamic, Url: clean(s.Ref)}
	}
	text := clean(s.Resolved.Ref)
	if !strings.HasPrefix(text, ".") && !strings.HasPrefix(text, "/") {
		return &stepsv0.Step_Reference{Protocol: stepsv0.StepReferenceProtocol_dynamic, Url: text}
	}
	parts := slices.DeleteFunc(strings.Split(text, "/"), func(part string) bool { return part == "" })
	if strings.HasPrefix(text, "/") {
		parts = slices.Insert(parts, 0, "/")
	}
	if last := len(parts) - 1; last > 0 && parts[last] == s.Resolved.File {
		parts = parts[:last]
	}
	return &stepsv0.Step_Reference{
		Protocol: stepsv0.StepReferenceProtocol_local,
		Filename: clean(s.Resolved.File),
		StepPath: &stepsv0.Step_Reference_Paths{Paths: &stepsv0.PathParts{Parts: parts}},
	}
}

// toExecResult describes the last process of a step.
func toExecResult(s *trace.Step) *stepsv0.StepResult_ExecResult {
	if len(s.Attempts) == 0 {
		return nil
	}
	last := s.Attempts[len(s.Attempts)-1]
	out := &stepsv0.StepResult_ExecResult{WorkDir: clean(last.WorkDir)}
	for _, arg := range last.Command {
		out.Command = append(out.Command, clean(arg))
	}
	if last.ExitCode != nil {
		out.ExitCode = int32(*last.ExitCode) // codes of Windows that have 32 bits become negative, as they do there in C
	}
	return out
}

var statuses = map[event.Status]stepsv0.StepResult_Status{
	event.Running:   stepsv0.StepResult_running,
	event.Success:   stepsv0.StepResult_success,
	event.Failure:   stepsv0.StepResult_failure,
	event.Cancelled: stepsv0.StepResult_cancelled,
}

func toStatus(s event.Status) stepsv0.StepResult_Status { return statuses[s] }
