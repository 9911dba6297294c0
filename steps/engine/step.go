package engine

import (
	"context"
	"slices"
	"time"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
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
	if o.status != event.Success || o.cut {
		return o
	}
	if o.outputs, err = local.listOutputs(inv); err != nil {
		o.status, o.err = event.Failure, err
		o.counts.Failure++ // it is the list that failed, none of its steps
	}
	return o
}
