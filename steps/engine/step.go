package engine

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/value"
)

// invocation is one step on its way through the engine.
type invocation struct {
	id      string
	step    *plan.Step // nil for the run's own component
	spec    *plan.Spec
	def     *plan.Definition
	given   event.StepInputs // completed and emitted by the first attempt
	attempt int              // counts from 1
	log     *stepLog         // of the step's own process
}

// runStep runs one step whose condition holds.
func (r *run) runStep(ctx context.Context, s *scope, id string, st *plan.Step) *outcome {
	inv := &invocation{id: id, step: st}
	var inner *scope
	return r.framed(ctx, inv, func(ctx context.Context) *outcome {
		if inner == nil {
			prepared, err := r.prepare(ctx, s, inv)
			if err != nil {
				return failed(err)
			}
			inner = prepared
		}
		return r.runDefinition(ctx, inner, inv)
	})
}

// framed runs work between the first and the last event of a step, as often as the step may be retried.
func (r *run) framed(ctx context.Context, inv *invocation, work func(context.Context) *outcome) *outcome {
	start := time.Now()
	st := inv.step
	r.out.emit(inv.id, r.started(st))
	o := r.attempts(ctx, inv, work)
	o.allowed = o.status == event.Failure && forgiven(st.AllowFailure, o)
	finished := event.StepFinished{
		Status:   o.status,
		Allowed:  o.allowed,
		ExitCode: o.exitCode,
		Outputs:  r.out.recordAll(o.outputs),
		Exports:  shownVariables(o.exports, r.out),
		Duration: time.Since(start),
	}
	if o.err != nil {
		finished.Error = r.at(o.err, st.Span)
	}
	if inv.log != nil {
		finished.LogBytes = inv.log.size()
	}
	r.out.emit(inv.id, finished)
	if o.counts == (event.Counts{}) { // a step that holds others counts only through them
		o.countOne()
	} else if o.allowed {
		o.counts.Allowed, o.counts.Failure = o.counts.Allowed+o.counts.Failure, 0
	}
	return o
}

// started makes the first event of a step.
func (r *run) started(st *plan.Step) event.StepStarted {
	e := event.StepStarted{Name: st.Name, Title: st.Title, Span: st.Span}
	switch {
	case st.Ref != nil:
		e.Kind, e.Ref = event.KindComponent, st.Ref.Text
	case len(st.Parallel) > 0:
		e.Kind = event.KindParallel
	case st.Inline == nil || st.Inline.Definition.Exec == nil:
		e.Kind = event.KindSteps
	case st.Inline.Definition.Exec.Script != nil:
		e.Kind = event.KindScript
	default:
		e.Kind = event.KindExec
	}
	return e
}

// attempts does work, within the step's time, until it succeeds, cannot be retried, or has had all its attempts.
func (r *run) attempts(ctx context.Context, inv *invocation, work func(context.Context) *outcome) *outcome {
	retry := inv.step.Retry
	for {
		inv.attempt++
		o := timed(ctx, inv.step.Timeout, "the step", work)
		if retry == nil || inv.attempt > retry.Max || !retriable(retry, o) || ctx.Err() != nil {
			return o
		}
		r.out.emit(inv.id, event.StepRetrying{Attempt: inv.attempt, Max: retry.Max + 1, Delay: retry.Delay, Error: o.err})
		if !sleep(ctx, time.Duration(retry.Delay)) {
			return o
		}
	}
}

// retriable reports whether a failure may pass when it is tried again: a wrong definition will not.
func retriable(retry *plan.Retry, o *outcome) bool {
	return o.status == event.Failure && o.err.Kind != event.ErrorDefinition && o.err.Kind != event.ErrorDenied && matches(retry.ExitCodes, o)
}

// forgiven reports whether a failure is allowed. What is wrong with a definition is not the user's command failing.
func forgiven(allow *plan.AllowFailure, o *outcome) bool {
	return allow != nil && (o.err.Kind == event.ErrorStep || o.err.Kind == event.ErrorTimeout) && matches(allow.ExitCodes, o)
}

func matches(codes []int, o *outcome) bool {
	return len(codes) == 0 || o.exitCode != nil && slices.Contains(codes, *o.exitCode)
}

// timed does work within a limit; 0 is none.
func timed(ctx context.Context, limit plan.Duration, what string, work func(context.Context) *outcome) *outcome {
	if limit <= 0 {
		return work(ctx)
	}
	d := time.Duration(limit)
	ctx, cancel := context.WithTimeoutCause(ctx, d, &timeoutError{what, d})
	defer cancel()
	return work(ctx)
}

// sleep waits for d, or until ctx ends, and reports whether it waited to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// prepare finds out all that a step is given: its component, environment, inputs and secrets. It returns the scope that the
// step's definition runs in.
func (r *run) prepare(ctx context.Context, s *scope, inv *invocation) (*scope, *event.Error) {
	st := inv.step
	vars, err := s.expandEnv(st.Env)
	if err != nil {
		return nil, err
	}
	caller := s.child() // the item's own environment is visible in its inputs and its reference
	caller.env = s.env.with(vars)
	inv.given.Env = shownVariables(vars, r.out)

	inner := caller.child()
	if st.Inline != nil {
		inv.spec, inv.def = &st.Inline.Spec, &st.Inline.Definition
	} else if st.Ref == nil {
		return nil, definitionError("the step has nothing to do")
	} else if err := r.enter(ctx, caller, inner, inv); err != nil {
		return nil, err
	}
	granted, err := s.grant(st, inv.spec)
	if err != nil {
		return nil, err
	}
	inner, err = inner.request(inv.spec, granted)
	if err != nil {
		return nil, err
	}
	inv.given.Secrets = slices.Sorted(maps.Keys(inner.secrets))
	return inner, nil
}

// enter makes inner the scope of the component that the step refers to.
func (r *run) enter(ctx context.Context, caller, inner *scope, inv *invocation) *event.Error {
	st := inv.step
	if inner.depth++; inner.depth > MaxDepth {
		return definitionError("components call each other more than %d levels deep; is there a cycle?", MaxDepth)
	}
	found, err := r.load(ctx, caller, inv)
	if err != nil {
		return err
	}
	component := found.Plan
	inv.spec, inv.def = &component.Spec, &component.Definition
	given := map[string]value.Value{}
	for _, name := range slices.Sorted(maps.Keys(st.Inputs)) {
		f := st.Inputs[name]
		v, err := caller.expand(f)
		if err != nil {
			return err
		}
		if st.Ref.Kind == plan.RefAction {
			v = actionInput(v)
		}
		if name, err = caller.expandName(name, f); err != nil {
			return err
		}
		given[name] = v
	}
	inputs, ierr := checkInputs(component.Spec.Inputs, given)
	if ierr != nil {
		return r.at(ierr.event(), inputSpan(st, ierr.name))
	}
	r.out.addSensitive(inputs)
	inv.given.Inputs = r.out.recordAll(inputs)
	inner.dir, inner.inputs, inner.steps, inner.list, inner.top = found.Dir, value.OfStruct(inputs), nil, nil, false
	return nil
}

// load resolves the step's reference and loads what it names.
func (r *run) load(ctx context.Context, caller *scope, inv *invocation) (*source.Component, *event.Error) {
	ref, err := caller.resolve(inv.step.Ref)
	if err != nil {
		return nil, err
	}
	found, lerr := r.opts.Source.Load(ctx, ref, caller.dir)
	if lerr != nil {
		return nil, r.at(loadError(ref.Text, lerr), inv.step.Ref.Span)
	}
	r.sources.add(filepath.Join(found.Dir, found.File), found.Text)
	resolved := event.StepResolved{Ref: found.Ref, Dir: found.Dir, File: found.File, Digest: found.Digest}
	if r.firstSight(found.Digest) {
		resolved.Component = found.Plan
	}
	r.out.emit(inv.id, resolved)
	return found, nil
}

// resolve evaluates the expressions in a reference. Their results are data: they are never evaluated again.
func (s *scope) resolve(ref *plan.Reference) (*plan.Reference, *event.Error) {
	if ref.Kind == plan.RefDynamic {
		text, _, err := s.expandText(*ref.Expr)
		if err != nil {
			return nil, err
		}
		parsed, perr := s.run.opts.ParseReference(text)
		if perr != nil {
			return nil, s.run.fieldError(*ref.Expr, "%q, from %q, is not a reference: %v", text, ref.Text, perr)
		}
		return parsed, nil
	}
	out := *ref
	for _, part := range []*string{&out.URL, &out.Rev, &out.File, &out.Registry, &out.Repository, &out.Tag, &out.Action} {
		if !expr.Has(*part) {
			continue
		}
		text, _, err := s.expandText(plan.Field{Value: value.OfString(*part), Span: ref.Span})
		if err != nil {
			return nil, err
		}
		*part = text
	}
	if ref.Kind == plan.RefAction && ref.Text == ref.Action {
		out.Text = out.Action
	}
	return &out, nil
}

// grant looks up the secrets that the step's caller grants it.
func (s *scope) grant(st *plan.Step, spec *plan.Spec) (map[string]string, *event.Error) {
	granted := make(map[string]string, len(st.Secrets))
	for _, name := range slices.Sorted(maps.Keys(st.Secrets)) {
		if _, ok := spec.Secrets[name]; !ok {
			return nil, &event.Error{
				Kind:    event.ErrorDefinition,
				Message: fmt.Sprintf("the secret %s is granted to a step that does not request it", name),
				Hint:    fmt.Sprintf("remove it from `secrets`, or let the step request it with `spec: {secrets: {%s: {}}}`", name),
			}
		}
		own := st.Secrets[name]
		secret, ok := s.secrets[own]
		if !ok {
			return nil, &event.Error{
				Kind:    event.ErrorDenied,
				Message: fmt.Sprintf("the secret %s cannot be granted: it is not available here", own),
				Hint:    fmt.Sprintf("give it to the run with --secret %s; in a component, request it in spec.secrets first", own),
			}
		}
		granted[name] = secret
	}
	return granted, nil
}

// request gives the scope what the spec asks for: environment variables by name, and the secrets that were granted.
func (s *scope) request(spec *plan.Spec, granted map[string]string) (*scope, *event.Error) {
	extra := map[string]variable{}
	for name, req := range spec.Env {
		if _, ok := s.env.vars[name]; ok {
			continue
		}
		if v, ok := s.run.opts.Job[name]; ok && !v.Sensitive {
			extra[name] = variable{text: v.Value}
		} else if req.Default != nil {
			extra[name] = variable{text: *req.Default}
		} else {
			return nil, s.run.at(&event.Error{
				Kind:    event.ErrorDefinition,
				Message: fmt.Sprintf("the step requires the environment variable %s, which is not set", name),
				Hint:    fmt.Sprintf("set it with `env: {%s: …}` on the step, or --env %s=… for the run", name, name),
			}, req.Span)
		}
	}
	s.env = s.env.with(extra)
	s.own, s.secrets = nil, nil
	for name, req := range spec.Secrets {
		secret, ok := granted[name]
		if !ok {
			if req.Optional {
				continue
			}
			return nil, s.run.at(&event.Error{
				Kind:    event.ErrorDenied,
				Message: fmt.Sprintf("the step requests the secret %s, which was not granted", name),
				Hint:    fmt.Sprintf("grant it with `secrets: [%s]` on the step, and give it to the run with --secret %s", name, name),
			}, req.Span)
		}
		if s.own == nil {
			s.own, s.secrets = map[string]variable{}, map[string]string{}
		}
		s.own[name], s.secrets[name] = variable{text: secret, sensitive: true}, secret
	}
	return s, nil
}

// runDefinition runs one attempt at a definition in the scope s.
func (r *run) runDefinition(ctx context.Context, s *scope, inv *invocation) *outcome {
	local := *s
	local.parent, local.barrier = s, nil
	vars, err := local.expandEnv(inv.def.Env)
	if err != nil {
		return failed(err)
	}
	local.env = s.env.with(vars)
	r.announceInputs(inv, vars)
	if inv.def.Exec != nil {
		return timed(ctx, inv.def.Exec.Timeout, "the command", func(ctx context.Context) *outcome {
			return r.runExec(ctx, &local, inv)
		})
	}
	o := r.runList(ctx, &local, inv.id, inv.def.Steps)
	if o.status != event.Success {
		return o
	}
	if o.outputs, err = local.listOutputs(inv); err != nil {
		o.status, o.err = event.Failure, err
		o.counts.Failure++ // it is the list that failed, none of its steps
	}
	return o
}

// announceInputs emits what the step was given, once.
func (r *run) announceInputs(inv *invocation, vars map[string]variable) {
	if inv.step == nil || inv.attempt > 1 {
		return
	}
	for name, text := range shownVariables(vars, r.out) {
		if inv.given.Env == nil {
			inv.given.Env = map[string]string{}
		}
		inv.given.Env[name] = text
	}
	if len(inv.given.Env)+len(inv.given.Inputs)+len(inv.given.Secrets) > 0 {
		r.out.emit(inv.id, inv.given)
	}
}

// inputSpan is where the input is given, or where the step stands when it is not.
func inputSpan(st *plan.Step, name string) diag.Span {
	if f, ok := st.Inputs[name]; ok {
		return f.Span
	}
	return st.Span
}
