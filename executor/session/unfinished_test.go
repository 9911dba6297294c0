package session_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/event"
)

func TestTheEndOfARunThatItsEnvironmentDidNotLiveToSay(t *testing.T) {
	list, script := event.StepStarted{Kind: event.KindSteps}, event.StepStarted{Kind: event.KindExec}
	started := event.Event{Body: event.RunStarted{ID: "run"}}
	good, allowed := event.StepFinished{Status: event.Success}, event.StepFinished{Status: event.Failure, Allowed: true}
	for name, c := range map[string]struct {
		told   []event.Event
		want   []string
		counts event.Counts
	}{
		"before it began":                 {nil, nil, event.Counts{}},
		"when it had ended":               {[]event.Event{started, {Body: event.RunFinished{Status: event.Success}}}, nil, event.Counts{}},
		"with a result that nobody knows": {[]event.Event{started, {Body: event.RunFinished{}}}, []string{" run.finished"}, event.Counts{}},
		"between two steps": {
			[]event.Event{started, {Step: "1", Body: script}, {Step: "1", Body: allowed}, {Step: "2", Body: event.StepSkipped{}}},
			[]string{" run.finished"}, event.Counts{Allowed: 1, Skipped: 1},
		},
		"in a command of a component, inner steps first": {
			[]event.Event{
				started, {Step: "1", Body: script}, {Step: "1", Body: good}, {Step: "2", Body: list}, {Step: "2.1", Body: script},
				{Step: "2.1", Body: event.ExecStarted{Attempt: 2}},
			},
			[]string{"2.1 exec.finished", "2.1 step.finished", "2 step.finished", " run.finished"}, event.Counts{Success: 1, Failure: 1},
		},
		"in a list that is tried again": {
			[]event.Event{
				started, {Step: "1", Body: list}, {Step: "1.1", Body: script}, {Step: "1.1", Body: event.StepFinished{Status: event.Failure}},
				{Step: "1", Body: event.StepRetrying{}}, {Step: "1.1", Body: script},
			},
			[]string{"1.1 step.finished", "1 step.finished", " run.finished"}, event.Counts{Failure: 1},
		},
		"in the only process of a run": {
			[]event.Event{started, {Body: event.ExecStarted{Attempt: 1}}}, []string{" exec.finished", " run.finished"}, event.Counts{Failure: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var u session.Unfinished
			at := time.Now()
			for i, e := range c.told {
				e.Seq, e.Time = int64(i+1), at
				u.Event(e)
			}
			gone := event.NewError(event.CodeEnvironmentGone, "the job's environment is gone")
			var got []string
			all := u.Ends(session.EndOf(gone))
			for i, e := range all {
				got = append(got, e.Step+" "+e.Body.Type())
				if want := int64(len(c.told) + i + 1); e.Seq != want || e.Time.Before(at) {
					t.Errorf("%s has the number %d and the time %s", got[i], e.Seq, e.Time)
				}
				if b, ok := e.Body.(event.StepFinished); ok && (b.Status != event.Failure || b.Error.Fault() != event.FaultSystem) {
					t.Errorf("step %s ends with %+v", e.Step, b)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Fatal(diff)
			}
			if len(all) == 0 {
				return
			}
			end := all[len(all)-1].Body.(event.RunFinished)
			if end.Status != event.Failure || end.Error != gone || end.Counts != c.counts {
				t.Errorf("the run ends with %+v", end)
			}
			if again := u.Ends(end); again != nil {
				t.Errorf("it ends again: %v", again)
			}
		})
	}
}

func TestARunThatWasStoppedIsNoFailure(t *testing.T) {
	var u session.Unfinished
	u.Event(event.Event{Body: event.RunStarted{}, Time: time.Now()})
	u.Event(event.Event{Step: "1", Body: event.StepStarted{}, Time: time.Now()})
	ends := slices.Collect(func(yield func(string) bool) {
		for _, e := range u.Ends(session.EndOf(event.NewError(event.CodeInterrupted, "interrupted"))) {
			switch b := e.Body.(type) {
			case event.StepFinished:
				yield(fmt.Sprint("step ", b.Status))
			case event.RunFinished:
				yield(fmt.Sprint("run ", b.Status))
			}
		}
	})
	if diff := cmp.Diff([]string{"step cancelled", "run cancelled"}, ends); diff != "" {
		t.Error(diff)
	}
}
