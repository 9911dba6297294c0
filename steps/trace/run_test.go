package trace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// script plays the engine: it numbers and times events by hand.
type script struct {
	sink event.Sink
	seq  int64
	now  time.Time
	log  map[string]int64
}

func newScript(sink event.Sink) *script {
	return &script{sink: sink, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), log: map[string]int64{}}
}

// at emits the event after the given number of milliseconds.
func (s *script) at(ms int, step string, body event.Body) {
	s.seq++
	s.now = s.now.Add(time.Duration(ms) * time.Millisecond)
	s.sink.Event(event.Event{Seq: s.seq, Time: s.now, Step: step, Body: body})
}

func (s *script) print(step string, stream event.Stream, text string) {
	s.at(1, step, event.Log{Stream: stream, Offset: s.log[step], Data: []byte(text)})
	s.log[step] += int64(len(text))
}

// run emits a step that is one process, from its start to its end.
func (s *script) run(step, name, output string, exit, ms int) {
	s.at(0, step, event.StepStarted{Name: name, Kind: event.KindScript})
	s.at(0, step, event.ExecStarted{Attempt: 1, Command: []string{"/bin/bash", "-c", name}, WorkDir: "/work"})
	if output != "" {
		s.print(step, event.Stdout, output)
	}
	s.at(ms, step, event.ExecFinished{Attempt: 1, ExitCode: exit})
	status := event.Success
	var err *event.Error
	if exit != 0 {
		status, err = event.Failure, &event.Error{Kind: event.ErrorStep, Message: "exit status 2"}
	}
	s.at(0, step, event.StepFinished{Status: status, ExitCode: &exit, Error: err, Duration: time.Duration(ms) * time.Millisecond,
		LogBytes: s.log[step]})
}

func text(s string) value.Value { return value.OfString(s) }

func inline(command string) *plan.Component {
	return &plan.Component{Definition: plan.Definition{Exec: &plan.Exec{Command: []plan.Field{{Value: text(command)}}}}}
}

// exampleComponent is what example runs.
func exampleComponent() *plan.Component {
	return &plan.Component{Definition: plan.Definition{Steps: []plan.Step{
		{Name: "hello", Inline: inline("echo")},
		{Name: "build", Ref: &plan.Reference{Kind: plan.RefLocal, Text: "./build"}},
		{Name: "checks", Parallel: []plan.Step{{Name: "lint", Inline: inline("lint")}, {Name: "test", Inline: inline("test")}}},
		{Name: "deploy", Inline: inline("deploy")},
	}}}
}

func started() event.RunStarted {
	return event.RunStarted{
		ID: "run-7f3a", Runtime: event.Runtime{Version: "1.0.0", OS: "linux", Arch: "amd64"}, WorkDir: "/work",
		Env: map[string]string{"PATH": "/usr/bin", "HOME": "/home/me"}, Job: map[string]string{"CI_COMMIT_SHA": "abc"},
		Secrets: map[string]string{"TOKEN": "hmac:1234"}, DigestKey: "00ff", Source: "run: []\n", Component: exampleComponent(),
	}
}

// example is a run with everything in it: nesting, parallel steps, a retry, a skipped step, binary logs, redacted values.
func example(s *script) {
	s.at(0, "", started())
	s.run("1", "hello", "\x1b[32mhello\x1b[0m world\n", 0, 120)

	s.at(1, "2", event.StepStarted{Name: "build", Title: "Build it", Kind: event.KindComponent, Ref: "./${{ inputs.dir }}"})
	nested := &plan.Component{Definition: plan.Definition{Steps: []plan.Step{{Name: "compile", Inline: inline("make")}}}}
	s.at(1, "2", event.StepResolved{Ref: "./build", Dir: "/work/build", File: "func.yml", Digest: "sha256:abcd", Component: nested})
	s.at(1, "2", event.StepInputs{
		Inputs:  map[string]value.Value{"level": value.OfInt(3), "token": event.Redacted("hmac:1234")},
		Env:     map[string]string{"MODE": "fast"},
		Secrets: []string{"TOKEN"},
	})
	s.at(0, "2.1", event.StepStarted{Name: "compile", Kind: event.KindExec})
	s.at(0, "2.1", event.ExecStarted{Attempt: 1, Command: []string{"make", "all files"}, WorkDir: "/work",
		Env: map[string]string{"MODE": "fast"}, Unset: []string{"HOME"}})
	s.print("2.1", event.Stdout, "compiling caf\xc3")
	s.print("2.1", event.Stdout, "\xa9\n")
	s.print("2.1", event.Stderr, "cannot reach \xff\x00 server\n")
	s.at(800, "2.1", event.ExecFinished{Attempt: 1, ExitCode: 2, Program: &event.Program{Path: "/usr/bin/make", Digest: "sha256:beef"},
		Image: &containers.StepImage{Name: "alpine:3", Digest: "sha256:cafe"}})
	s.at(1, "2.1", event.StepRetrying{Attempt: 1, Max: 2, Error: &event.Error{Kind: event.ErrorStep, Message: "exit status 2"}})
	s.at(1, "2.1", event.ExecStarted{Attempt: 2, Command: []string{"make", "all files"}, WorkDir: "/work"})
	s.print("2.1", event.Stdout, "compiled")
	s.at(400, "2.1", event.ExecFinished{Attempt: 2, ExitCode: 0})
	zero := 0
	s.at(1, "2.1", event.StepFinished{Status: event.Success, ExitCode: &zero, Duration: 1205 * time.Millisecond})
	s.at(1, "2", event.StepFinished{Status: event.Success, Duration: 1210 * time.Millisecond,
		Outputs: map[string]value.Value{"binary": text("out/app"), "key": event.Redacted("hmac:9")},
		Exports: map[string]string{"APP": "out/app"}})

	s.at(0, "2", event.Summary{Markdown: "# Built\n\n| file | size |\n|---|--:|\n| app | 3 |\n"})
	s.at(0, "2", event.Subjects{Subjects: []event.Subject{{Name: "out/app", Digest: "sha256:0123"}}})

	s.at(1, "3", event.StepStarted{Name: "checks", Kind: event.KindParallel})
	s.at(1, "3.2", event.StepStarted{Name: "test", Kind: event.KindExec})
	s.at(1, "3.1", event.StepStarted{Name: "lint", Kind: event.KindExec})
	s.print("3.2", event.Stdout, "ok 1\n")
	s.print("3.1", event.Stderr, "main.go:1: <bad> & \x01ugly\n")
	s.at(0, "3.1", event.Annotation{Level: event.AnnotationError, Message: "<bad> & \x01ugly", File: "main.go", Line: 1, Code: "E1"})
	s.at(0, "3.1", event.Annotation{Level: event.AnnotationWarning, Title: "Style", Message: "too long\nby far", File: "/work/a.go", Line: 3, Column: 7, EndColumn: 9})
	s.at(0, "3.2", event.Annotation{Level: event.AnnotationNotice, Message: "2 tests"})
	s.print("3.2", event.Stdout, "ok 2\n")
	one := 1
	s.at(200, "3.1", event.StepFinished{Status: event.Failure, ExitCode: &one, Duration: 203 * time.Millisecond,
		Error: &event.Error{Kind: event.ErrorStep, Message: `step "lint" exited with status 1`, Hint: "look at its log"}})
	s.at(300, "3.2", event.StepFinished{Status: event.Success, ExitCode: &zero, Duration: 504 * time.Millisecond})
	s.at(1, "3", event.StepFinished{Status: event.Failure, Duration: 506 * time.Millisecond,
		Error: &event.Error{Kind: event.ErrorStep, Message: `step "lint" exited with status 1`}})
	s.at(0, "4", event.StepSkipped{Name: "deploy", Reason: "a step before it failed"})
	s.at(0, "", event.Warning{Message: "the cache is old"})
	s.at(1, "", event.RunFinished{Status: event.Failure, ExitCode: &one, Duration: 1850 * time.Millisecond,
		Error:  &event.Error{Kind: event.ErrorStep, Message: `step "lint" exited with status 1`},
		Counts: event.Counts{Success: 3, Failure: 1, Skipped: 1}})
}

// record records what play emits and returns the path of the trace.
func record(t *testing.T, play func(*script)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.json")
	r, err := NewRecorder(path, Options{RuntimeDigest: func() string { return "sha256:beef" }})
	if err != nil {
		t.Fatal(err)
	}
	play(newScript(r))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// read reads a trace that must be readable.
func read(t *testing.T, path string) *Trace {
	t.Helper()
	tr, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func logOf(t *testing.T, tr *Trace, step string) string {
	t.Helper()
	var b strings.Builder
	if err := tr.Log(step, &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func contents(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
