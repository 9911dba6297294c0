package event_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// bodies are one of every type.
var bodies = []event.Body{
	event.RunStarted{ID: "1", Env: map[string]string{"A": "b"}, Component: &plan.Component{}},
	event.StepStarted{Name: "a", Kind: event.KindScript, Span: diag.Span{File: "f", Line: 1, Column: 2, Length: 3}},
	event.StepResolved{Ref: "./a", Dir: "/d", File: "step.yml", Digest: "sha256:0"},
	event.StepInputs{Inputs: map[string]value.Value{"n": value.OfInt(9007199254740993)}, Secrets: []string{"T"}},
	event.ExecStarted{Attempt: 1, Command: []string{"a"}, WorkDir: "/d", Unset: []string{"X"}, LogHeld: true},
	event.Log{Stream: event.Stderr, Offset: 7, Data: []byte("text\r\n")},
	event.ExecFinished{Attempt: 1, ExitCode: -1, Signal: "SIGKILL", Program: &event.Program{Path: "/bin/a", Digest: "sha256:00"}},
	event.StepRetrying{Attempt: 1, Max: 3, Delay: plan.Duration(time.Second), Error: &event.Error{Kind: event.ErrorStep, Message: "m"}},
	event.StepFinished{Status: event.Success, Outputs: map[string]value.Value{"o": event.Redacted("d")}, Duration: 5},
	event.StepSkipped{Name: "a", Reason: "r"},
	event.Progress{ID: "p", Title: "t", Current: 1, Total: 2, Unit: "bytes", Done: true},
	event.Masked{Digest: "pbkdf2-sha256:00"},
	event.Preparing{Phase: event.PhasePulling, Subject: "node:20", Current: 1, Total: 2, Unit: "bytes", Done: true, Duration: 7, Message: "m"},
	event.Warning{Message: "m"},
	event.Stopping{Reason: "r", Grace: plan.Duration(time.Minute), Force: true},
	event.RunFinished{Status: event.Failure, Error: &event.Error{Kind: event.ErrorTimeout}, Counts: event.Counts{Failure: 1}},
}

func TestEventsComeBackFromJSON(t *testing.T) {
	t.Parallel()
	for i, body := range bodies {
		want := event.Event{Seq: int64(i), Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Step: "1.2", Body: body}
		data, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got event.Event
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatalf("%s: %v", body.Type(), err)
		}
		again, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(data), string(again)); diff != "" {
			t.Errorf("%s changes on its way through JSON:\n%s", body.Type(), diff)
		}
	}
}

func TestLogDataIsExact(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"", "text", "\x00\xff", "\x00\x00\x00\x00", "é", "\xc3", "line\r\n\x1b[31m"} {
		encoded, err := json.Marshal(event.Log{Data: []byte(data)})
		if err != nil {
			t.Fatal(err)
		}
		var got event.Log
		if err := json.Unmarshal(encoded, &got); err != nil {
			t.Fatal(err)
		}
		if string(got.Data) != data {
			t.Errorf("%q came back as %q", data, got.Data)
		}
	}
}

func TestAnUnknownTypeIsRefused(t *testing.T) {
	t.Parallel()
	var e event.Event
	if err := json.Unmarshal([]byte(`{"seq":1,"type":"step.teleported","data":{}}`), &e); err == nil {
		t.Error("an unknown type is accepted")
	}
}

func TestRedacted(t *testing.T) {
	t.Parallel()
	if d, ok := event.IsRedacted(event.Redacted("digest")); !ok || d != "digest" {
		t.Errorf("IsRedacted gives %q, %t", d, ok)
	}
	if _, ok := event.IsRedacted(value.OfStruct(map[string]value.Value{"$sensitive": value.OfInt(1)})); ok {
		t.Error("a struct that only looks like one is taken for a redacted value")
	}
}
