package ui

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
)

var update = flag.Bool("update", false, "write the golden files anew")

// clock is a clock that only tests move.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) Now() time.Time { return c.now }

// script tells a view the events of a made-up run.
type script struct {
	view  View
	clock *clock
	seq   int64
}

func (s *script) event(path string, b event.Body) {
	s.seq++
	s.view.Event(event.Event{Seq: s.seq, Time: s.clock.now, Step: path, Body: b})
}

// pass lets time go by, and the view's clock tick once at the end of it.
func (s *script) pass(d time.Duration) {
	s.clock.now = s.clock.now.Add(d)
	if r, ok := s.view.(*reporter); ok {
		r.tick()
	}
}

const sourceText = "- name: build\n  script: |\n    make all\n- name: lint\n  script: make lint\n"

func (s *script) begin() {
	s.event("", event.RunStarted{
		ID: "7f3a", WorkDir: "/work", Source: sourceText, Runtime: event.Runtime{OS: "linux", Arch: "amd64"},
		Component: &plan.Component{Definition: plan.Definition{Span: diag.Span{File: "steps.yml", Line: 1, Column: 1}}},
	})
}

func (s *script) start(path, name string) { s.startKind(path, name, event.KindScript) }

func (s *script) startKind(path, name string, kind event.StepKind) {
	s.event(path, event.StepStarted{
		Name: name, Kind: kind, Span: diag.Span{File: "steps.yml", Line: 4, Column: 3, Length: 4},
	})
}

func (s *script) out(path, text string) {
	s.event(path, event.Log{Stream: event.Stdout, Data: []byte(text)})
}

func (s *script) err(path, text string) {
	s.event(path, event.Log{Stream: event.Stderr, Data: []byte(text)})
}

func (s *script) ok(path string) {
	s.event(path, event.StepFinished{Status: event.Success, Duration: 1200 * time.Millisecond})
}

func (s *script) exit(path string, code int) { s.exitWith(path, code, false) }

func (s *script) exitWith(path string, code int, allowed bool) {
	s.event(path, event.ExecFinished{Attempt: 1, ExitCode: code})
	s.event(path, event.StepFinished{
		Status: event.Failure, ExitCode: &code, Allowed: allowed, Duration: 14800 * time.Millisecond, Error: stepError(code),
	})
}

func stepError(code int) *event.Error {
	return &event.Error{
		Kind: event.ErrorStep, Message: "the script exited with status " + strconv.Itoa(code), Hint: "run it again with -v",
	}
}

func (s *script) end(status event.Status, err *event.Error, c event.Counts) {
	s.event("", event.RunFinished{Status: status, Error: err, Counts: c, Duration: 17300 * time.Millisecond})
}

// transcript is what a view wrote, as it is compared with a golden file.
type transcript struct{ out, err bytes.Buffer }

// play gives a script to a view that has no goroutine.
func play(t *testing.T, o Options, tell func(*script)) *transcript {
	t.Helper()
	var got transcript
	c := newClock()
	o.Now = c.Now
	o.Stdout, o.Stderr = &got.out, &got.err
	if o.StdoutTTY {
		o.Stdout = &got.err
	}
	o = o.withDefaults()
	s := &script{clock: c}
	if o.Mode == ModeJSON {
		s.view = New(o)
	} else {
		s.view = newReporter(o)
	}
	tell(s)
	for range 2 {
		if err := s.view.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	return &got
}

// compare compares with testdata/NAME.txtar, or writes it.
func (got *transcript) compare(t *testing.T, name, comment string) {
	t.Helper()
	a := &txtar.Archive{Comment: []byte(comment + "\n\n")}
	for _, f := range []struct {
		name string
		data []byte
	}{{"stdout", got.out.Bytes()}, {"stderr", got.err.Bytes()}} {
		if len(f.data) > 0 {
			a.Files = append(a.Files, goldenFile(f.name, f.data))
		}
	}
	text, path := txtar.Format(a), filepath.Join("testdata", name+".txtar")
	if *update {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want = bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n"))
	if diff := cmp.Diff(string(want), string(text)); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

// goldenFile quotes line by line what a text file cannot hold as it is.
func goldenFile(name string, data []byte) txtar.File {
	special := !utf8.Valid(data) || data[len(data)-1] != '\n' || bytes.ContainsFunc(data, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\t' || r == 0x7f
	})
	if !special {
		return txtar.File{Name: name, Data: data}
	}
	var b strings.Builder
	for line := range strings.Lines(string(data)) {
		b.WriteString(strconv.Quote(line) + "\n")
	}
	return txtar.File{Name: name + " quoted", Data: []byte(b.String())}
}
