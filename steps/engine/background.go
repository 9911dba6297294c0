package engine

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
)

// MaxBackground is how many background steps of a list run at the same time. More of them wait for their turn.
const MaxBackground = 10

// background is a step that runs while its list goes on. It sees the list as it was when the step was started, and the list
// sees nothing of it before it has waited for it.
type background struct {
	id      string
	step    *plan.Step
	cancel  context.CancelCauseFunc
	barrier *barrier
	done    chan struct{} // closed when the fields below are set
	outcome *outcome
	bug     any // what it panicked with

	asked   bool // a step cancelled it
	settled bool // the list has taken its outcome into account
}

// start starts a background step.
func (l *listRun) start(id string, st *plan.Step) {
	r, s := l.run, l.scope
	member := s.child()
	member.env, member.steps = &environ{maps.Clone(s.env.vars)}, maps.Clone(s.steps)
	member.barrier = &barrier{before: member.env}
	state := *l.state
	member.list = &state

	ctx, cancel := context.WithCancelCause(l.ctx)
	state.live = ctx
	b := &background{id: id, step: st, cancel: cancel, barrier: member.barrier, done: make(chan struct{})}
	l.background = append(l.background, b)
	if rec := r.recording.of(id, st); rec != nil {
		b.outcome = r.runListed(ctx, member, id, st)
	} else {
		b.outcome = r.unfit(member, id, st)
	}
	if b.outcome != nil {
		close(b.done)
		return
	}
	if l.slots == nil {
		l.slots = make(chan struct{}, MaxBackground)
	}
	go func() {
		defer close(b.done)
		defer func() {
			if bug := recover(); bug != nil {
				b.bug = fmt.Sprintf("%v\n%s", bug, debug.Stack())
			}
		}()
		select {
		case l.slots <- struct{}{}:
			defer func() { <-l.slots }()
			b.outcome = r.runStep(ctx, member, id, st)
		case <-ctx.Done():
			b.outcome = r.report.stillborn(id, joined(member.path, st.Name), st, interrupted(ctx))
		}
	}()
}

// settle waits for background steps and lets them have their effect on the list, in the order in which they were started, so that a
// run is repeatable. Their outcomes are taken into account in state.
func (l *listRun) settle(state *listState, steps []*background) {
	for _, b := range steps {
		if b.settled {
			continue
		}
		<-b.done
		b.settled = true
		b.cancel(nil)
		if b.bug != nil {
			panic(b.bug) // where whoever called Run can recover from it
		}
		l.scope.steps[b.step.Name] = resultValue(b.outcome)
		l.scope.export(b.barrier.exports)
		if b.asked && b.outcome.status == event.Cancelled {
			state.count(b.outcome)
		} else {
			state.note(b.outcome)
		}
	}
}

// await runs a step that waits for background steps. It fails when one of them does.
func (l *listRun) await(id string, st *plan.Step) *outcome {
	r := l.run
	named := l.awaited(st.Await)
	if rec := r.recording.of(id, st); rec != nil {
		l.settle(l.state, named)
		return r.runListed(l.ctx, l.scope, id, st)
	}
	if o := r.unfit(l.scope, id, st); o != nil {
		return o
	}
	return r.framed(l.ctx, l.scope, &invocation{id: id, step: st}, func(ctx context.Context) *outcome {
		for _, b := range named {
			if st.Await.Cancel && !b.settled {
				b.asked = true
				b.cancel(&event.Stop{Code: event.CodeCancelledByStep, Reason: fmt.Sprintf("cancelled by the step %q", st.Name)})
			}
		}
		for _, b := range named {
			select {
			case <-b.done:
				continue
			case <-ctx.Done():
			}
			if l.ctx.Err() == nil { // it is only the step that ran out of time
				return failed(interrupted(ctx))
			}
			<-b.done // it is being stopped, as the list is
		}
		state := &listState{}
		l.settle(state, named)
		return state.outcome()
	})
}

// awaited are the background steps that a step waits for.
func (l *listRun) awaited(a *plan.Await) []*background {
	if len(a.Steps) == 0 {
		return l.background
	}
	var found []*background
	for _, b := range l.background {
		if slices.Contains(a.Steps, b.step.Name) {
			found = append(found, b)
		}
	}
	return found
}

// checkWaits finds in a list the waits for what is not a background step before them, and steps that cannot be in the background.
func checkWaits(p *places, prefix, path string, steps []plan.Step) *event.Error {
	var names []string
	for i := range steps {
		st := &steps[i]
		id, path := childID(prefix, i+1), joined(path, st.Name)
		wrong := func(format string, args ...any) *event.Error {
			return p.in(definitionError(format, args...), id, path, st)
		}
		for j := range st.Parallel {
			if member := &st.Parallel[j]; member.Background || member.Await != nil {
				err := definitionError("a step of a parallel group cannot run in the background or wait")
				return p.in(err, childID(id, j+1), joined(path, member.Name), member)
			}
		}
		switch {
		case st.Background && st.Ref == nil && st.Inline == nil:
			return wrong("only a step that calls a component or runs a command can run in the background")
		case st.Background:
			names = append(names, st.Name)
		case st.Await != nil:
			for _, name := range st.Await.Steps {
				if !slices.Contains(names, name) {
					return wrong("there is no earlier background step named %q", name)
				}
			}
		}
	}
	return nil
}
