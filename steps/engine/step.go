package engine

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/rungci/rung/steps/check"
	"github.com/rungci/rung/steps/event"
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
	found   *source.Component // what the step's reference turned out to be
	given   event.StepInputs  // completed and emitted by the first attempt
	state   map[string]string // what the step's processes left for those to come: see ToolkitResult
	attempt int               // counts from 1
	log     *stepLog          // of the step's own process
	stacked bool              // the definition's Post is to run
	apart   *apart            // of the attempt at hand, if it is confined
	path    string            // the names on the way to a step that is not of the list around it; "" is of that
}

// names are those on the way to the step, which is in the list of s.
func (inv *invocation) names(s *scope) string { return cmp.Or(inv.path, joined(s.path, inv.step.Name)) }

// announce emits what the step was given, with the variables of its definition, once.
func (inv *invocation) announce(out *emitter, vars map[string]variable) {
	if inv.step == nil || inv.attempt > 1 {
		return
	}
	for name, text := range shownVariables(vars, out) {
		if inv.given.Env == nil {
			inv.given.Env = map[string]string{}
		}
		inv.given.Env[name] = text
	}
	if len(inv.given.Env)+len(inv.given.Inputs)+len(inv.given.Secrets)+len(inv.given.Permissions) > 0 {
		out.emit(inv.id, inv.given)
	}
}

// runStep runs one step whose condition holds.
func (r *run) runStep(ctx context.Context, s *scope, id string, st *plan.Step) *outcome {
	inv := &invocation{id: id, step: st}
	var inner *scope
	defer r.dirs.removeHome(r.dirs.homeOf(id))
	return r.framed(ctx, s, inv, func(ctx context.Context) *outcome {
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

// framed runs work between the first and the last event of a step of the list in s, as often as the step may be retried.
func (r *run) framed(ctx context.Context, s *scope, inv *invocation, work func(context.Context) *outcome) *outcome {
	start := time.Now()
	st := inv.step
	r.out.emit(inv.id, r.report.started(st, s.shownSpan(st.Span)))
	var o *outcome
	limit, err := s.limit(st)
	if err != nil {
		o = failed(err)
	} else {
		o = r.attempts(ctx, s, inv, limit, work)
	}
	s.forgive(st.AllowFailure, o)
	if o.err != nil {
		o.err = r.in(o.err, inv.id, inv.names(s), st)
	}
	finished := event.StepFinished{
		Status:   o.status,
		Allowed:  o.allowed,
		ExitCode: o.exitCode,
		Outputs:  r.out.recordAll(o.outputs),
		Exports:  shownVariables(o.exports, r.out),
		Error:    o.err,
		Duration: time.Since(start),
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

// limit is how long an attempt at a step may take; 0 means no limit.
func (s *scope) limit(st *plan.Step) (plan.Duration, *event.Error) {
	if st.TimeLimit == nil {
		return st.Timeout, nil
	}
	v, err := s.expand(*st.TimeLimit)
	if err != nil {
		return 0, err
	}
	minutes := v.Float()
	if v.Kind() != value.Number || !(minutes > 0) || minutes >= math.MaxInt64/float64(time.Minute) {
		return 0, s.run.fieldError(*st.TimeLimit, "the time limit is %s, not a number of minutes above 0", check.Short(v))
	}
	limit := plan.Duration(minutes * float64(time.Minute))
	if st.Timeout > 0 {
		limit = min(limit, st.Timeout)
	}
	return limit, nil
}

// attempts does work, within the limit, until it succeeds, cannot be retried, or has had all its attempts.
func (r *run) attempts(ctx context.Context, s *scope, inv *invocation, limit plan.Duration, work func(context.Context) *outcome) *outcome {
	retry := inv.step.Retry
	for {
		inv.attempt++
		o := timed(ctx, limit, event.TimeoutStep, work)
		if retry == nil || inv.attempt > retry.Max || !retriable(retry, o) || ctx.Err() != nil {
			return o
		}
		r.out.emit(inv.id, event.StepRetrying{Attempt: inv.attempt, Max: retry.Max + 1, Delay: retry.Delay, Error: r.in(o.err, inv.id, inv.names(s), inv.step)})
		if !sleep(ctx, time.Duration(retry.Delay)) {
			return o
		}
	}
}

// retriable reports whether a failure may pass when it is tried again: a wrong definition will not.
func retriable(retry *plan.Retry, o *outcome) bool {
	return o.status == event.Failure && o.err.Kind != event.ErrorDefinition && o.err.Kind != event.ErrorDenied && matches(retry.ExitCodes, o)
}

// forgive marks a failure that is allowed. What is wrong with a definition is not the user's command failing.
func (s *scope) forgive(allow *plan.AllowFailure, o *outcome) {
	if o.status != event.Failure || allow == nil || o.err.Kind != event.ErrorStep && o.err.Kind != event.ErrorTimeout || !matches(allow.ExitCodes, o) {
		return
	}
	var err *event.Error
	if o.allowed, _, err = s.holds(allow.If); err != nil {
		o.err = err
	}
}

func matches(codes []int, o *outcome) bool {
	return len(codes) == 0 || o.exitCode != nil && slices.Contains(codes, *o.exitCode)
}

// timed does work within a limit; 0 is none.
func timed(ctx context.Context, limit plan.Duration, of event.TimeoutOf, work func(context.Context) *outcome) *outcome {
	if limit <= 0 {
		return work(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(limit), event.TimedOut(of, limit))
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
	var err *event.Error
	if inv.def.Exec != nil { // its own environment may name its files
		if inv.apart, err = local.keepApart(inv); err != nil {
			return failed(err)
		}
		defer inv.apart.remove()
		local.files = newStepFiles(inv.apart.filesFor(r), inv.id)
		defer local.files.remove()
		local.env = inv.apart.environ(r, local.env, local.call)
	}
	if r.from == nil || inv.step != nil { // else the state has what these were
		if err = local.surround(inv.def); err != nil {
			return failed(err)
		}
		vars, err := local.definitionEnv(inv.def)
		if err != nil {
			return failed(err)
		}
		local.env = local.env.with(vars)
		inv.announce(r.out, vars)
	}
	if inv.def.Exec != nil {
		return timed(ctx, inv.def.Exec.Timeout, event.TimeoutCommand, func(ctx context.Context) *outcome {
			return r.runExec(ctx, &local, inv)
		})
	}
	r.hooks.push(&local, local.env, inv)
	o := r.runList(ctx, &local, inv.id, inv.def.Steps)
	if o.status != event.Success || o.cut {
		if inv.keepsOutputs() && !o.cut {
			o.outputs = local.remainingOutputs(inv)
		}
		return o
	}
	if o.outputs, err = local.listOutputs(inv); err != nil {
		o.status, o.err = event.Failure, err
		o.counts.Failure++ // it is the list that failed, none of its steps
	}
	return o
}

// keepsOutputs reports whether a list gives what it can although it failed: the run's own does, and that of an action, as on GitHub.
func (inv *invocation) keepsOutputs() bool {
	return inv.step == nil || inv.step.Ref != nil && inv.step.Ref.Kind == plan.RefAction
}
