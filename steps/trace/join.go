package trace

import (
	"errors"
	"fmt"
	"maps"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
)

// Join makes one trace of the traces of a run that was stopped at boundaries and went on as other runs. They may come in any order, and
// must be all there is from the first step on. The trace is that of the last one, as if the run had never moved; Run.Parts says which runs
// it was made of. Logs stay where they are.
func Join(parts ...*Trace) (*Trace, error) {
	chain, err := chained(parts)
	if err != nil {
		return nil, err
	}
	first, last := chain[0], chain[len(chain)-1]
	whole := *last
	run := &whole.Run
	run.Continues, run.Pauses, run.Stopping = nil, nil, nil
	run.Started, run.Duration, run.FreshWorkDir = first.Run.Started, 0, first.Run.FreshWorkDir
	run.Env, run.Job, run.Environment, run.Source = first.Run.Env, first.Run.Job, first.Run.Environment, first.Run.Source
	run.Identity = first.Run.Identity
	whole.Components, whole.Warnings, whole.Steps = map[string]*plan.Component{}, nil, []*Step{}
	logs := joinedLogs{}
	for _, part := range chain {
		run.Parts = append(run.Parts, Part{
			ID: part.Run.ID, Started: part.Run.Started, Duration: part.Run.Duration, Runtime: part.Runtime, Folders: part.OwnFolders(),
		})
		run.Duration += part.Run.Duration
		if len(run.Pauses) > 0 {
			run.Pauses[len(run.Pauses)-1].Resumed = part.Run.Started
		}
		run.Pauses = append(run.Pauses, part.Run.Pauses...)
		if part.Run.Stopping != nil {
			run.Stopping = part.Run.Stopping
		}
		maps.Copy(whole.Components, part.Components)
		whole.Warnings = append(whole.Warnings, part.Warnings...)
		whole.Steps = append(whole.Steps, part.Steps...)
		if part.logs != nil {
			logs = append(logs, part.logs)
		}
	}
	if len(whole.Components) == 0 {
		whole.Components = nil
	}
	whole.logs = logs
	if whole.Incomplete {
		run.Counts = count(&whole)
	}
	return &whole, nil
}

// chained puts the parts of a run in order.
func chained(parts []*Trace) ([]*Trace, error) {
	var chain []*Trace
	next := map[string]*Trace{} // by the ID of the run before
	for _, part := range parts {
		before := part.Run.Continues
		switch {
		case before == nil && chain != nil:
			return nil, fmt.Errorf("the runs %s and %s both begin with their first step: they are not parts of one run", chain[0].Run.ID, part.Run.ID)
		case before == nil:
			chain = append(chain, part)
		case next[before.Run] != nil:
			return nil, fmt.Errorf("the runs %s and %s both continue the run %s: pass one of them", next[before.Run].Run.ID, part.Run.ID, before.Run)
		default:
			next[before.Run] = part
		}
	}
	if chain == nil {
		return nil, errors.New("the first part is missing: every run given continues another one")
	}
	for range next {
		last := chain[len(chain)-1]
		part := next[last.Run.ID]
		if part == nil {
			return nil, fmt.Errorf("the run that continues the run %s is missing", last.Run.ID)
		}
		if !stoodAt(last, part.Run.Continues.Before) {
			return nil, fmt.Errorf("the run %s did not end at the boundary before step %s, where the run %s goes on", last.Run.ID, part.Run.Continues.Before, part.Run.ID)
		}
		chain = append(chain, part)
	}
	return chain, nil
}

// stoodAt reports whether a trace ends at the boundary before a step.
func stoodAt(t *Trace, before string) bool {
	n := len(t.Run.Pauses)
	return t.Run.Status == event.Running && n > 0 && t.Run.Pauses[n-1].Before == before && t.Run.Pauses[n-1].Resumed.IsZero()
}

// joinedLogs are the logs of runs that follow each other.
type joinedLogs []logSource

func (l joinedLogs) chunks(yield func(Chunk) error) error {
	for _, part := range l {
		if err := part.chunks(yield); err != nil {
			return err
		}
	}
	return nil
}
