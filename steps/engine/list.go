package engine

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// listState is how a list of steps stands: what the conditions of its steps ask about.
type listState struct {
	failed    bool
	cancelled bool
	first     *outcome // the one that decided the failure
	cut       bool     // a step was left out
	counts    event.Counts
	live      context.Context // of the steps to come; nil where no list runs
}

// note takes the outcome of one step into account.
func (l *listState) note(o *outcome) {
	l.count(o)
	switch {
	case o.status == event.Cancelled:
		l.cancelled = true
	case o.status == event.Failure && !o.allowed:
		l.failed = true
	default:
		return
	}
	if l.first == nil {
		l.first = o
	}
}

// count takes note of a step whose outcome decides nothing.
func (l *listState) count(o *outcome) {
	l.counts.Success += o.counts.Success
	l.counts.Failure += o.counts.Failure
	l.counts.Allowed += o.counts.Allowed
	l.counts.Cancelled += o.counts.Cancelled
	l.counts.Skipped += o.counts.Skipped
	l.cut = l.cut || o.cut
}

// outcome is that of the list as a whole, its outputs aside.
func (l *listState) outcome() *outcome {
	o := &outcome{status: event.Success, counts: l.counts, cut: l.cut}
	if l.first == nil {
		return o
	}
	o.status, o.err, o.exitCode = event.Failure, l.first.err, l.first.exitCode
	if l.cancelled && !l.failed {
		o.status = event.Cancelled
	}
	return o
}

// listRun is a list of steps under way.
type listRun struct {
	run    *run
	ctx    context.Context // of the steps to come
	scope  *scope
	prefix string // begins the IDs of its steps
	state  *listState

	cleanup    context.CancelFunc // not nil when the list was stopped, and what still runs cleans up after it
	background []*background
	slots      chan struct{}
}

// runList runs steps in order in the scope s, which it takes over.
func (r *run) runList(ctx context.Context, s *scope, prefix string, steps []plan.Step) *outcome {
	if err := checkWaits(&r.places, prefix, s.path, steps); err != nil {
		return failed(err)
	}
	l := &listRun{run: r, ctx: ctx, scope: s, prefix: prefix, state: &listState{live: ctx}}
	s.list = l.state
	s.steps = maps.Clone(s.steps)
	if s.steps == nil {
		s.steps = map[string]value.Value{}
	}
	defer l.end()
	if prefix == "" {
		return l.runOwn(steps)
	}
	for i := range steps {
		l.proceed()
		l.step(childID(prefix, i+1), &steps[i])
	}
	l.settle(l.state, l.background)
	return l.state.outcome()
}

// runOwn runs the run's own list, around which hooks run, and between whose steps the run can stop.
func (l *listRun) runOwn(steps []plan.Step) *outcome {
	r, next := l.run, 1
	r.hooks.begin(l.scope, steps)
	if r.from != nil {
		if err := r.restore(l, steps); err != nil {
			return failed(err)
		}
		next = r.from.next
	} else {
		r.runPre(l, steps)
	}
	for i := next - 1; i < len(steps); i++ {
		id := childID("", i+1)
		if !l.boundary(id, steps[i].Name) {
			return l.state.outcome()
		}
		l.proceed()
		l.step(id, &steps[i])
	}
	l.settle(l.state, l.background)
	r.runPosts(l, len(steps), next)
	return l.state.outcome()
}

// proceed makes the list ready for its next step. What stopped the list must not stop the steps that clean up after it.
func (l *listRun) proceed() {
	if l.ctx.Err() == nil || l.cleanup != nil {
		return
	}
	l.state.note(failed(interrupted(l.ctx)))
	limit := l.run.opts.Cleanup
	l.ctx, l.cleanup = context.WithTimeoutCause(context.WithoutCancel(l.ctx), limit, event.TimedOut(event.TimeoutCleanup, plan.Duration(limit)))
	l.state.live = l.ctx
}

// step runs one step and takes its outcome into account.
func (l *listRun) step(id string, st *plan.Step) {
	switch {
	case st.Background:
		l.start(id, st)
		return
	case len(st.Parallel) > 0:
		l.state.note(l.run.runParallel(l.ctx, l.scope, id, st))
		return
	}
	var o *outcome
	if st.Await != nil {
		o = l.await(id, st)
	} else {
		o = l.run.runListed(l.ctx, l.scope, id, st)
	}
	if o.err != nil && o.err.Kind == event.ErrorTimeout {
		if o.late = "step"; l.ctx.Err() != nil {
			o.late = "run"
		}
	}
	l.scope.steps[st.Name] = resultValue(o)
	l.state.note(o)
}

// end leaves nothing of the list behind.
func (l *listRun) end() {
	for _, b := range l.background {
		b.cancel(nil)
		<-b.done // of those that nobody has waited for, because something panicked
	}
	if l.cleanup != nil {
		l.cleanup()
	}
}

func childID(prefix string, position int) string {
	if prefix == "" {
		return fmt.Sprint(position)
	}
	return fmt.Sprintf("%s.%d", prefix, position)
}

// resultValue is what ${{ steps.NAME }} reads.
func resultValue(o *outcome) value.Value {
	if o.status == event.Success && !o.allowed && o.late == "" && len(o.outputs) == 0 {
		return plainSuccess // of most steps of a long list, which keeps the results of all
	}
	return newResult(o)
}

var plainSuccess = newResult(&outcome{status: event.Success})

func newResult(o *outcome) value.Value {
	return value.OfStruct(map[string]value.Value{
		"status":  value.OfString(string(o.status)),
		"allowed": value.OfBool(o.allowed),
		"timeout": value.OfString(o.late),
		"outputs": value.OfStruct(o.outputs),
	})
}

// runListed runs one step of a list, or skips it when its condition does not hold.
func (r *run) runListed(ctx context.Context, s *scope, id string, st *plan.Step) *outcome {
	if rec := r.recording.of(id, st); rec != nil {
		return r.recording.standIn(s, id, st, rec)
	}
	if o := r.unfit(s, id, st); o != nil {
		return o
	}
	return r.runStep(ctx, s, id, st)
}

// unfit is the outcome of a step whose condition does not hold, or cannot be evaluated; nil when it holds.
func (r *run) unfit(s *scope, id string, st *plan.Step) *outcome {
	reason, err := s.skip(st)
	switch {
	case err != nil:
		return r.report.stillborn(id, joined(s.path, st.Name), st, err)
	case reason != "":
		return r.report.skipped(id, st, reason)
	}
	return nil
}

// runParallel runs the members of a parallel group at the same time. Each sees the list as it was before the group; their
// results and exports are added in the order they are written in when all have ended, so that a run is repeatable.
func (r *run) runParallel(ctx context.Context, s *scope, id string, st *plan.Step) *outcome {
	if rec := r.recording.of(id, st); rec != nil {
		return r.recording.group(s, id, st, rec)
	}
	reason, err := s.skip(st)
	if err != nil {
		return r.report.stillborn(id, joined(s.path, st.Name), st, err)
	}
	if reason != "" {
		return r.skipMembers(s, id, st, reason)
	}
	return r.framed(ctx, s, &invocation{id: id, step: st}, func(ctx context.Context) *outcome { return r.runMembers(ctx, s, id, st) })
}

func (r *run) skipMembers(s *scope, id string, st *plan.Step, reason string) *outcome {
	r.out.emit(id, event.StepSkipped{Name: st.Name, Title: st.Title, Reason: reason, Span: r.shown(st.Span)})
	for i := range st.Parallel {
		member := &st.Parallel[i]
		s.steps[member.Name] = resultValue(&outcome{status: event.Skipped})
	}
	return &outcome{status: event.Skipped, counts: event.Counts{Skipped: len(st.Parallel)}}
}

func (r *run) runMembers(ctx context.Context, s *scope, id string, st *plan.Step) *outcome {
	vars, err := s.expandEnv(st.Env)
	if err != nil {
		return failed(err)
	}
	limit := st.Limit
	if limit <= 0 || limit > len(st.Parallel) {
		limit = len(st.Parallel)
	}
	slots := make(chan struct{}, limit)
	outcomes := make([]*outcome, len(st.Parallel))
	barriers := make([]*barrier, len(st.Parallel))
	bugs := make([]any, len(st.Parallel))
	done := make(chan struct{})
	before := &environ{maps.Clone(s.env.vars)}
	for i := range st.Parallel {
		member := s.child()
		member.env = &environ{maps.Clone(s.env.with(vars).vars)}
		member.barrier = &barrier{before: before}
		member.path = joined(s.path, st.Name)
		barriers[i] = member.barrier
		go func() {
			slots <- struct{}{}
			defer func() {
				if bug := recover(); bug != nil {
					bugs[i] = fmt.Sprintf("%v\n%s", bug, debug.Stack())
				}
				<-slots
				done <- struct{}{}
			}()
			outcomes[i] = r.runListed(ctx, member, childID(id, i+1), &st.Parallel[i])
		}()
	}
	for range st.Parallel {
		<-done
	}
	for _, bug := range bugs {
		if bug != nil {
			panic(bug) // where whoever called Run can recover from it: a server has other runs
		}
	}
	state := &listState{}
	for i, o := range outcomes {
		s.steps[st.Parallel[i].Name] = resultValue(o)
		s.export(barriers[i].exports)
		state.note(o)
	}
	return state.outcome()
}
