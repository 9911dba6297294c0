package engine_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// standIns answers for steps by their IDs.
func standIns(known map[string]*engine.Recorded) func(string, *plan.Step) *engine.Recorded {
	return func(id string, _ *plan.Step) *engine.Recorded { return known[id] }
}

func TestRecordedSteps(t *testing.T) {
	t.Parallel()
	success := func() *engine.Recorded { return &engine.Recorded{Reason: "recorded", Status: event.Success} }
	t.Run("what a recorded step gave and exported is seen behind it", func(t *testing.T) {
		t.Parallel()
		rec := success()
		rec.Outputs = map[string]value.Value{"a": value.OfString("one")}
		rec.Exports = map[string]engine.Variable{"B": {Value: "two"}, "C": {Value: "s3cr3t-three", Sensitive: true}}
		r := job{steps: "- {name: give, script: 'exit 9'}\n- {name: use, script: 'echo ${{ steps.give.outputs.a }} $B $C ${{ steps.give.status }}'}\n",
			opts: engine.Options{Recorded: standIns(map[string]*engine.Recorded{"1": rec})}}.run(t)
		if got := r.log(); r.Status != event.Success || got != "one two [MASKED] success\n" {
			t.Errorf("%s: %q", r.Status, got)
		}
		for _, e := range r.events {
			if skipped, ok := e.Body.(event.StepSkipped); e.Step == "1" && (!ok || skipped.Reason != "recorded") {
				t.Errorf("the step has the event %+v", e.Body)
			}
		}
	})
	t.Run("conditions see how it ended", func(t *testing.T) {
		t.Parallel()
		rec := &engine.Recorded{Reason: "recorded", Status: event.Failure, Error: &event.Error{Kind: event.ErrorStep, Message: "exec: exit status 3"}}
		r := job{steps: "- {name: fails, script: 'true'}\n- {name: never, script: echo never}\n- {name: after, when: on_failure, script: echo after}\n",
			opts: engine.Options{Recorded: standIns(map[string]*engine.Recorded{"1": rec})}}.run(t)
		if r.log() != "after\n" || r.Error == nil || r.Error.Error() != `step "fails": exec: exit status 3` {
			t.Errorf("%q, %v", r.log(), r.Error)
		}
	})
	t.Run("a list of which a step is left out ends without outputs", func(t *testing.T) {
		t.Parallel()
		left := &engine.Recorded{Reason: "after the last", LeftOut: true}
		r := job{steps: "- name: list\n  run:\n    - {name: first, script: echo first}\n    - {name: second, script: exit 3}\n  outputs: {x: '${{ steps.second.outputs.x }}'}\n- {name: third, script: exit 4}\n",
			opts: engine.Options{Recorded: standIns(map[string]*engine.Recorded{"1.2": left, "2": left})}}.run(t)
		if r.Status != event.Success || r.log() != "first\n" || len(r.Outputs) > 0 {
			t.Errorf("%s, %v, %q", r.Status, r.Error, r.log())
		}
	})
	t.Run("the members of a recorded parallel group are seen behind it", func(t *testing.T) {
		t.Parallel()
		one, two := success(), success()
		one.Outputs = map[string]value.Value{"x": value.OfInt(1)}
		two.Exports = map[string]engine.Variable{"Y": {Value: "2"}}
		r := job{steps: "- name: group\n  parallel:\n    - {name: one, script: exit 1}\n    - {name: two, script: exit 1}\n- {name: use, script: 'echo ${{ steps.one.outputs.x }} $Y'}\n",
			opts: engine.Options{Recorded: standIns(map[string]*engine.Recorded{"1": success(), "1.1": one, "1.2": two})}}.run(t)
		if r.log() != "1 2\n" {
			t.Errorf("%v, %q", r.Error, r.log())
		}
	})
	t.Run("an output that is not known is named where it is needed", func(t *testing.T) {
		t.Parallel()
		rec := success()
		rec.Withheld = []string{"password"}
		r := job{steps: "- {name: make, script: 'true'}\n- {name: fine, script: echo fine}\n- {name: use, script: 'echo ${{ steps.make.outputs.password }}'}\n",
			opts: engine.Options{Recorded: standIns(map[string]*engine.Recorded{"1": rec})}}.run(t)
		if r.log() != "fine\n" || r.Error == nil || !strings.Contains(r.Error.Message, "the output password of the step make is needed here") {
			t.Errorf("%v, %q", r.Error, r.log())
		}
	})
}

func TestDigestKey(t *testing.T) {
	t.Parallel()
	key := []byte("0123456789abcdef")
	r := job{steps: "- {script: 'true'}\n", opts: engine.Options{DigestKey: key, Secrets: map[string]string{"TOKEN": "s3cr3t-value"}}}.run(t)
	started := r.events[0].Body.(event.RunStarted)
	if started.DigestKey != hex.EncodeToString(key) || started.Secrets["TOKEN"] != engine.Digest(key, "s3cr3t-value") {
		t.Errorf("the run began with %+v", started)
	}
}
