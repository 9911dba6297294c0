package tracefile

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/trace"
	"github.com/rungci/rung/ui/joblog"
)

// jobEvents are those of a job with steps in a step, an attempt that failed, warnings, two streams and a request to stop.
func jobEvents() []event.Event {
	var events []event.Event
	at := func(step string, body event.Body) {
		start := time.Date(2026, 3, 1, 12, 0, 0, 1500, time.UTC)
		events = append(events, event.Event{Seq: int64(len(events) + 1), Time: start.Add(time.Duration(len(events)) * 100 * time.Millisecond), Step: step, Body: body})
	}
	offsets := map[string]int64{}
	log := func(step string, stream event.Stream, text string) {
		at(step, event.Log{Stream: stream, Offset: offsets[step], Data: []byte(text)})
		offsets[step] += int64(len(text))
	}
	failed := &event.Error{Kind: event.ErrorStep, Message: "exec: exit status 1"}
	one := 1
	at("", event.RunStarted{ID: "r1", Runtime: event.Runtime{Version: "1.2.3", OS: "linux", Arch: "amd64"}, Component: &plan.Component{Definition: plan.Definition{
		Steps: []plan.Step{{Name: "get_sources"}, {Name: "flaky", Retry: &plan.Retry{Max: 2}}, {Name: "skipped"}, {Name: "script"}},
	}}})
	at("1", event.StepStarted{Name: "get_sources", Kind: event.KindComponent, Ref: "builtin://git/checkout"})
	at("1.1", event.StepStarted{Name: "clone", Kind: event.KindExec})
	log("1.1", event.Stderr, "Checking out 1ecfd275\n")
	at("", event.Warning{Message: "the clone is shallow"})
	log("1.1", event.Stdout, "done")
	at("1.1", event.StepFinished{Status: event.Success, Duration: 350 * time.Millisecond})
	at("1", event.StepFinished{Status: event.Success, Duration: 600 * time.Millisecond}) // a little more than there is between the events
	at("2", event.StepStarted{Name: "flaky", Kind: event.KindScript})
	at("2", event.ExecStarted{Command: []string{"bash"}})
	log("2", event.Stdout, "first ")
	log("2", event.Stdout, "try\nglpat-abcdefghijklmnopqrst\n")
	at("2", event.ExecFinished{ExitCode: 1})
	at("2", event.StepRetrying{Attempt: 1, Max: 3, Error: failed})
	at("2", event.ExecStarted{Command: []string{"bash"}})
	log("2", event.Stdout, "second try\n")
	at("2", event.ExecFinished{})
	at("2", event.StepFinished{Status: event.Success, Duration: 800 * time.Millisecond})
	at("3", event.StepSkipped{Name: "skipped", Reason: "if: false"})
	at("4", event.StepStarted{Name: "script", Kind: event.KindScript})
	for i := range 40 {
		log("4", event.Stdout, strings.Repeat("ünïcode ", 900)+"\n")
		if i%10 == 0 {
			log("4", event.Stderr, "noise")
		}
	}
	at("", event.Stopping{Code: event.CodeInterrupted, Reason: "interrupted"})
	log("4", event.Stdout, "bye\n")
	at("4", event.StepFinished{Status: event.Failure, ExitCode: &one, Error: failed, Duration: 4800 * time.Millisecond})
	at("", event.RunFinished{Status: event.Failure, ExitCode: &one, Error: failed, Duration: 7 * time.Second})
	return events
}

func exported(t *testing.T, of *trace.Trace) string {
	t.Helper()
	var out bytes.Buffer
	if err := Export(&out, of, formatGitLabLog); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTheJobLogOfATraceThatWasCutIsTheBeginningOfTheWholeOne(t *testing.T) {
	t.Parallel()
	events := jobEvents()
	path := filepath.Join(t.TempDir(), "trace.json")
	rec, err := trace.NewRecorder(path, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		rec.Event(e)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	document, err := trace.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	whole, last := exported(t, document), ""
	for n := 1; n <= len(events); n++ {
		cut, err := trace.Of(func(visit func(event.Event) error) error {
			for _, e := range events[:n] {
				if err := visit(e); err != nil {
					return err
				}
			}
			return nil
		}, trace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		now := exported(t, cut)
		if !strings.HasPrefix(whole, now) || len(now) < len(last) {
			t.Fatalf("after %d events (%T):\n%s", n, events[n-1].Body, cmp.Diff(whole[:min(len(now), len(whole))], now))
		}
		last = now
	}
	if last != whole {
		t.Errorf("the whole events give another log than the document:\n%s", cmp.Diff(whole, last))
	}
}

func TestTheJobLogOfATraceIsThatOfItsEvents(t *testing.T) {
	t.Parallel()
	events := jobEvents()
	document, err := trace.Of(func(visit func(event.Event) error) error {
		for _, e := range events {
			if err := visit(e); err != nil {
				return err
			}
		}
		return nil
	}, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	render := func(each func(visit func(event.Event) error) error) string {
		r := joblog.New(joblog.Options{}) // a trace has the time of every chunk, and not of every line
		var out []byte
		if err := each(func(e event.Event) error {
			var err error
			out, err = r.Append(out, e)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	live := render(func(visit func(event.Event) error) error {
		for _, e := range events {
			if err := visit(e); err != nil {
				return err
			}
		}
		return nil
	})
	if diff := cmp.Diff(live, render(document.Events)); diff != "" {
		t.Error(diff)
	}
	for _, want := range []string{"attempt 1 of 3 failed", "Skipped skipped: if: false", "glpat-[MASKED]", "the job is stopped"} {
		if !strings.Contains(live, want) {
			t.Errorf("the log has no %q", want)
		}
	}
}
