package trace

import (
	"slices"
	"time"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
)

// Events calls visit with the events that the trace was made of, as far as it holds them: the start and the end of the run and of its steps,
// skips, attempts that failed, warnings, requests to stop, and the logs, chunk by chunk. It streams the logs.
//
// The order is that of the run. Chunks come where the trace has them, with the time of their first byte; what steps that ran at the same time
// logged is as far apart as their chunks. The events of a run that has not ended are those with which the events of the whole run begin, but
// for the end of the last chunk, and for steps that run at the same time.
func (t *Trace) Events(visit func(event.Event) error) error {
	l := &timeline{trace: t, at: map[string]bounds{}, visit: visit}
	l.add(t.Run.Started, "", l.runStarted())
	var planned []plan.Step
	if t.Run.Component != nil {
		planned = t.Run.Component.Definition.Steps
	}
	end := later(t.Run.Started.Add(t.Run.Duration), l.list(t.Steps, planned, false, t.Run.Started))
	for _, w := range t.Warnings {
		at := w.Time
		if at.IsZero() { // versions up to 0.1 did not record it
			at = end
		}
		l.add(at, WithoutRounds(w.Step), event.Warning{Message: w.Message, Diagnostic: w.Diagnostic, Machine: w.Machine})
	}
	if s := t.Run.Stopping; s != nil {
		l.add(s.Time, "", event.Stopping{Code: s.Code, Reason: s.Reason, Force: s.Force})
	}
	slices.SortStableFunc(l.events, func(a, b event.Event) int { return a.Time.Compare(b.Time) })
	if !t.Incomplete {
		r := &t.Run
		l.add(end, "", event.RunFinished{
			Status: r.Status, Outputs: r.Outputs, Error: r.Error, ExitCode: r.ExitCode, Duration: r.Duration, Counts: r.Counts,
		})
	}
	if err := t.Chunks(l.chunk); err != nil {
		return err
	}
	return l.until(len(l.events))
}

// timeline puts the events of a trace in order.
type timeline struct {
	trace  *Trace
	at     map[string]bounds // of steps, by ID
	events []event.Event     // all but the logs
	passed int               // how many of them have been visited
	seq    int64
	visit  func(event.Event) error
}

// bounds are when a step began and ended. The end of one that has not is far away.
type bounds struct{ start, end time.Time }

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func (b bounds) within(t time.Time) time.Time {
	if t.After(b.end) {
		return b.end
	}
	return later(t, b.start)
}

func (l *timeline) add(at time.Time, step string, body event.Body) {
	l.events = append(l.events, event.Event{Time: at, Step: step, Body: body})
}

func (l *timeline) runStarted() event.RunStarted {
	r := &l.trace.Run
	return event.RunStarted{
		ID: r.ID, Runtime: event.Runtime{Version: l.trace.Runtime.Version, OS: l.trace.Runtime.OS, Arch: l.trace.Runtime.Arch},
		WorkDir: r.WorkDir, FreshWorkDir: r.FreshWorkDir, Environment: r.Environment, Identity: r.Identity, Env: r.Env, Job: r.Job,
		Secrets: r.Secrets, DigestKey: r.DigestKey, Source: r.Source, Component: r.Component, Inputs: r.Inputs, Continues: r.Continues,
	}
}

// list adds the steps of a list, which began at start or later, and returns when they had ended. Durations are measured apart from the times of
// events, so a step is moved to where the one before it has ended, unless they ran at the same time. Nothing depends on what comes later.
func (l *timeline) list(steps []*Step, planned []plan.Step, parallel bool, start time.Time) time.Time {
	last := start
	for _, s := range steps {
		own := plannedStep(planned, s.ID)
		end := l.step(s, own, later(s.Started, start))
		if last = later(last, end); !parallel && (own == nil || !own.Background) {
			start = later(start, end)
		}
	}
	return last
}

// plannedStep is what the list that a step is in says of it; nil where that is unknown.
func plannedStep(list []plan.Step, id string) *plan.Step {
	if position, _ := placeOf(id); position >= 1 && position <= len(list) {
		return &list[position-1]
	}
	return nil
}

// step adds a step and returns when it had ended; of one that has not, when it began.
func (l *timeline) step(s *Step, own *plan.Step, start time.Time) time.Time {
	path := WithoutRounds(s.ID)
	if s.Status == event.Skipped {
		l.add(start, path, event.StepSkipped{Name: s.Name, Title: s.Title, Reason: s.Skipped, Span: s.Span})
		return start
	}
	if path != "" { // else the run is one process
		l.add(start, path, event.StepStarted{Name: s.Name, Title: s.Title, Kind: s.Kind, Ref: s.Ref, Span: s.Span})
	}
	for i, a := range s.Attempts {
		if a.Error == nil {
			continue
		}
		most := len(s.Attempts)
		if own != nil && own.Retry != nil {
			most = max(most, own.Retry.Max+1)
		}
		l.add(later(a.Started.Add(a.Duration), start), path, event.StepRetrying{Attempt: i + 1, Max: most, Error: a.Error})
	}
	end := l.list(s.Steps, l.planned(s, own), s.Kind == event.KindParallel, start)
	if s.Status == event.Running {
		l.at[s.ID] = bounds{start, farAway}
		return end
	}
	end = later(end, s.Started.Add(s.Duration))
	l.at[s.ID] = bounds{start, end}
	if path != "" {
		l.add(end, path, event.StepFinished{
			Status: s.Status, Allowed: s.Allowed, ExitCode: s.ExitCode, Error: s.Error, Outputs: s.Outputs, Exports: s.Exports, Duration: s.Duration,
		})
	}
	return end
}

// farAway is later than any event.
var farAway = time.Unix(1<<40, 0)

// planned is the list that a step is.
func (l *timeline) planned(s *Step, own *plan.Step) []plan.Step {
	if s.Resolved != nil {
		if c := l.trace.Components[s.Resolved.Key()]; c != nil {
			return c.Definition.Steps
		}
		if s.Definition != nil {
			return s.Definition.Definition.Steps
		}
	}
	switch {
	case own == nil:
		return nil
	case own.Inline != nil:
		return own.Inline.Definition.Steps
	}
	return own.Parallel
}

// chunk passes on a chunk of a log, and before it what came before.
func (l *timeline) chunk(c Chunk) error {
	path := WithoutRounds(c.Step)
	at := c.Time
	if b, known := l.at[c.Step]; known {
		at = b.within(at)
	}
	n := l.passed
	for n < len(l.events) && !l.events[n].Time.After(at) && !ends(l.events[n], path) {
		n++
	}
	if err := l.until(n); err != nil {
		return err
	}
	return l.pass(event.Event{Time: c.Time, Step: path, Body: event.Log{Stream: c.Stream, Offset: c.Offset, Data: c.Data}})
}

// ends reports whether no log of the step at the path follows the event.
func ends(e event.Event, path string) bool {
	switch e.Body.(type) {
	case event.StepFinished:
		return e.Step == path
	case event.RunFinished:
		return true
	}
	return false
}

// until passes on the events before the nth.
func (l *timeline) until(n int) error {
	for ; l.passed < n; l.passed++ {
		if err := l.pass(l.events[l.passed]); err != nil {
			return err
		}
	}
	return nil
}

func (l *timeline) pass(e event.Event) error {
	l.seq++
	e.Seq = l.seq
	return l.visit(e)
}
