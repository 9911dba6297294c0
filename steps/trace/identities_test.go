package trace

import (
	"testing"
	"time"

	"github.com/rungci/rung/steps/event"
)

func TestIdentitiesAreThoseOfTheTree(t *testing.T) {
	t.Parallel()
	events := []event.Event{
		{Body: event.RunStarted{ID: "r"}},
		{Step: "1", Body: event.StepStarted{Name: "list"}},
		{Step: "1.1", Body: event.StepStarted{Name: "once"}},
		{Step: "1.1", Body: event.StepFinished{Status: event.Failure}},
		{Step: "1.2", Body: event.StepSkipped{Name: "skipped"}},
		{Step: "1", Body: event.StepRetrying{}},
		{Step: "1.1", Body: event.StepStarted{Name: "once"}},
		{Step: "1.4", Body: event.StepStarted{Name: "in the second round only"}},
		{Step: "1.1.3", Body: event.StepStarted{Name: "inner"}},
		{Step: "1.1.3", Body: event.StepRetrying{}},
		{Step: "1.1", Body: event.StepStarted{Name: "once"}}, // again without a retry of the list
		{Step: "1.1.3", Body: event.StepStarted{Name: "inner"}},
		{Step: "2.7.1", Body: event.ExecStarted{}}, // its beginning was not recorded
		{Step: "2", Body: event.StepRetrying{}},
		{Step: "2.7", Body: event.StepStarted{Name: "late"}},
		{Step: "", Body: event.ExecStarted{}},
		{Step: "", Body: event.StepFinished{Status: event.Success}},
	}
	tree, ids := newBuilder(), newIdentities()
	for i, e := range events {
		e.Time = time.Unix(int64(i), 0)
		tree.event(e)
		if got, want := ids.event(e), tree.id(e.Step); got != want {
			t.Errorf("event %d of %q: %q, and the tree has %q", i+1, e.Step, got, want)
		}
	}
	for path := range tree.nodes {
		if got, want := ids.of(path).id, tree.id(path); got != want {
			t.Errorf("%q is %q, and the tree has %q", path, got, want)
		}
	}
	if got := ids.of("1.1").id; got != "1.1#3" {
		t.Errorf("the third run of 1.1 is %q", got)
	}
}

func TestAHeadingIsAnEventWithoutItsBody(t *testing.T) {
	t.Parallel()
	line := []byte(`{"seq":3,"time":"2026-01-02T03:04:05Z","type":"step.started","step":"1","data":{"name":"a"}}`)
	whole, err := decodeEvent(line)
	if err != nil {
		t.Fatal(err)
	}
	heading, err := decodeHeading(line)
	if err != nil {
		t.Fatal(err)
	}
	if body, ok := heading.Body.(event.StepStarted); !ok || body.Name != "" || heading.Step != whole.Step || !heading.Time.Equal(whole.Time) {
		t.Errorf("the heading of %+v is %+v", whole, heading)
	}
	if _, err := decodeHeading([]byte(`{"type":"of.tomorrow"}`)); err == nil {
		t.Error("an unknown type was accepted")
	}
}
