package ui

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/event"
)

// playJob shows a job of two steps that ends with a status.
func playJob(v JobsView, job string, status event.Status) {
	v.Started(job)
	run := v.Run(job)
	code := 3
	at := time.Unix(0, 0)
	for i, e := range []event.Event{
		{Body: event.RunStarted{}},
		{Step: "1", Body: event.StepStarted{Name: "get_sources", Kind: event.KindComponent}},
		{Step: "1", Body: event.StepFinished{Status: event.Success}},
		{Step: "2", Body: event.StepStarted{Name: "script", Kind: event.KindComponent}},
		{Step: "2", Body: event.Log{Stream: event.Stdout, Data: []byte("one\ntw")}},
		{Step: "2", Body: event.Log{Stream: event.Stdout, Data: []byte("o\nrest")}},
	} {
		e.Seq, e.Time = int64(i+1), at
		run.Event(e)
	}
	end := event.StepFinished{Status: status, Duration: time.Second}
	finished := event.RunFinished{Status: status, Duration: time.Second}
	result := JobResult{Name: job, Stage: "test", Status: JobSuccess, Attempts: 1, Duration: time.Second}
	if status == event.Failure {
		end.ExitCode, end.Error = &code, &event.Error{Kind: event.ErrorStep, Message: "script failed with exit code 3"}
		finished.ExitCode, finished.Error = &code, end.Error
		result.Status, result.Note = JobFailed, "script failed with exit code 3"
	}
	run.Event(event.Event{Seq: 7, Time: at, Step: "2", Body: end})
	run.Event(event.Event{Seq: 8, Time: at, Body: finished})
	_ = run.Close()
	v.Finished(result)
}

func results() []JobResult {
	return []JobResult{
		{Name: "build", Stage: "build", Status: JobSuccess, Attempts: 1, Duration: time.Second},
		{Name: "test: [a]", Stage: "test", Status: JobFailed, Attempts: 2, Duration: 2 * time.Second, Note: "script failed with exit code 3"},
		{Name: "deploy", Stage: "deploy", Status: JobSkipped, Note: "test: [a] failed"},
	}
}

func TestSeveralJobsAreShownLineByLine(t *testing.T) {
	var out, err bytes.Buffer
	v := NewJobs(Options{Mode: ModePlain, Stdout: &out, Stderr: &err}, []string{"build", "test: [a]"})
	playJob(v, "build", event.Success)
	playJob(v, "test: [a]", event.Failure)
	v.Say("build", "a word")
	v.Warn("", "careful", "do this")
	v.Ended(results(), 3*time.Second)
	if e := v.Close(); e != nil {
		t.Fatal(e)
	}
	wantOut := `build     │ one
build     │ two
build     │ rest
test: [a] │ one
test: [a] │ two
test: [a] │ rest
`
	if out.String() != wantOut {
		t.Errorf("the output is\n%s\nnot\n%s", out.String(), wantOut)
	}
	wantErr := `build     │ ✓ success after 1.0s
test: [a] │ ✗ script  exit 3 after 1.0s
test: [a] │ error: script failed with exit code 3
test: [a] │ ✗ failed after 1.0s  script failed with exit code 3
build     │ a word
warning: careful
hint: do this
✓ build      build   success    1.0s
✗ test: [a]  test    failed     2.0s  script failed with exit code 3  (2 attempts)
– deploy     deploy  skipped          test: [a] failed
FAILED 1 of 3 jobs (1 success, 1 skipped) in 3.0s
`
	if err.String() != wantErr {
		t.Errorf("what is said is\n%s\nnot\n%s", err.String(), wantErr)
	}
}

func TestErrorsOfAFailedJobAreCollectedAtTheEnd(t *testing.T) {
	var err bytes.Buffer
	v := NewJobs(Options{Mode: ModePlain, Stderr: &err}, []string{"build", "test: [a]"})
	for _, fails := range []bool{true, false} {
		job := "build"
		if fails {
			job = "test: [a]"
		}
		run := v.Run(job)
		run.Event(event.Event{Step: "1", Body: event.StepStarted{Name: "script", Kind: event.KindScript}})
		run.Event(event.Event{Step: "1", Body: event.Annotation{Level: event.AnnotationError, Message: "wrong", File: job + ".go", Line: 3}})
		run.Event(event.Event{Step: "1", Body: event.Annotation{Level: event.AnnotationWarning, Message: "odd"}})
		failure := &event.Error{Kind: event.ErrorStep, Message: "exit 1"}
		status := event.Success
		if fails {
			status = event.Failure
		} else {
			failure = nil
		}
		run.Event(event.Event{Step: "1", Body: event.StepFinished{Status: status, Error: failure}})
		run.Event(event.Event{Body: event.RunFinished{Status: status, Error: failure}})
		_ = run.Close()
	}
	v.Ended(results(), 3*time.Second)
	want := `test: [a] │   error  test: [a].go:3  wrong
test: [a] │   warning  odd
test: [a] │ ✗ script  failed after 0ms
test: [a] │ error: exit 1
build     │   error  build.go:3  wrong
build     │   warning  odd
✓ build      build   success    1.0s
✗ test: [a]  test    failed     2.0s  script failed with exit code 3  (2 attempts)
    error  test: [a].go:3  wrong
– deploy     deploy  skipped          test: [a] failed
FAILED 1 of 3 jobs (1 success, 1 skipped) in 3.0s, 2 errors, 2 warnings
`
	if diff := cmp.Diff(want, err.String()); diff != "" {
		t.Error(diff)
	}
}

func TestQuietShowsWhatWentWrong(t *testing.T) {
	var out, err bytes.Buffer
	v := NewJobs(Options{Mode: ModeQuiet, Stdout: &out, Stderr: &err}, []string{"build", "test"})
	playJob(v, "build", event.Success)
	playJob(v, "test", event.Failure)
	v.Say("build", "a word")
	v.Ended(results(), time.Second)
	text := err.String()
	if out.Len() > 0 || strings.Contains(text, "build") || strings.Contains(text, "a word") {
		t.Errorf("it says too much: %s%s", out.String(), text)
	}
	for _, want := range []string{"test  │ rest", "exit code 3", "FAILED 1 of 3 jobs"} {
		if want = strings.Replace(want, "  │", " │", 1); !strings.Contains(strings.ReplaceAll(text, "  │", " │"), want) {
			t.Errorf("it does not say %q: %s", want, text)
		}
	}
}

func TestEveryLineIsJSONWithItsJob(t *testing.T) {
	var out bytes.Buffer
	v := NewJobs(Options{Mode: ModeJSON, Stdout: &out, Now: func() time.Time { return time.Unix(0, 0) }}, []string{"build"})
	playJob(v, "build", event.Success)
	v.Ended(results(), time.Second)
	n := 0
	for line := range strings.Lines(out.String()) {
		var e struct{ Job, Type string }
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Type == "" || e.Job == "" && e.Type != "pipeline.finished" {
			t.Errorf("%s is %+v, %v", line, e, err)
		}
		n++
	}
	if n != 11 {
		t.Errorf("there are %d lines", n)
	}
}

func TestOneJobLooksAsAnyRun(t *testing.T) {
	var out, err bytes.Buffer
	v := NewJob(Options{Mode: ModePlain, Stdout: &out, Stderr: &err})
	v.Say("build", "before")
	playJob(v, "build", event.Success)
	v.Ended(results()[:1], time.Second)
	if e := v.Close(); e != nil {
		t.Fatal(e)
	}
	if out.String() != "one\ntwo\nrest" {
		t.Errorf("the output is %q", out.String())
	}
	for _, want := range []string{"before\n", "✓ script  1.0s\n"} {
		if !strings.Contains(err.String(), want) {
			t.Errorf("it does not say %q: %s", want, err.String())
		}
	}
}

func TestAManyJobsTableHasOnlyWhatDidNotSucceed(t *testing.T) {
	var err bytes.Buffer
	v := NewJobs(Options{Mode: ModePlain, Stderr: &err, ASCII: true}, nil)
	all := make([]JobResult, maxSummaryRows)
	for i := range all {
		all[i] = JobResult{Name: "ok", Stage: "test", Status: JobSuccess, Attempts: 1}
	}
	v.Ended(append(all, results()...), time.Second)
	want := `x test: [a]  test    failed     2.0s  script failed with exit code 3  (2 attempts)
- deploy     deploy  skipped          test: [a] failed
+ and 41 jobs that succeeded
FAILED 1 of 43 jobs (41 success, 1 skipped) in 1.0s
`
	if err.String() != want {
		t.Errorf("it says\n%s\nnot\n%s", err.String(), want)
	}
}
