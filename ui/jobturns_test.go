package ui

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rungci/rung/steps/event"
)

// playBeside shows a job of two steps, one in the other, that waits before each event until it is let on.
func playBeside(v JobsView, job string, status event.Status, on <-chan struct{}) {
	v.Started(job)
	<-on
	run := v.Run(job)
	at := time.Unix(0, 0)
	body := []event.Event{
		{Body: event.RunStarted{ID: fmt.Sprintf("%x-run", job)}},
		{Step: "1", Body: event.StepStarted{Name: "outer", Kind: event.KindComponent}},
		{Step: "1.1", Body: event.StepStarted{Name: "inner", Kind: event.KindComponent}},
	}
	for i := range 20 {
		body = append(body, event.Event{Step: "1.1", Body: event.Log{Stream: event.Stdout, Data: fmt.Appendf(nil, "%s prints %d\n", job, i)}})
	}
	body = append(body, event.Event{Step: "1.1", Body: event.StepFinished{Status: status}}, event.Event{Step: "1", Body: event.StepFinished{Status: status}},
		event.Event{Body: event.RunFinished{Status: status}})
	for i, e := range body {
		<-on
		e.Seq, e.Time = int64(i+1), at
		run.Event(e)
	}
	_ = run.Close()
	result := JobResult{Name: job, Stage: "test", Status: JobSuccess, Attempts: 1, Duration: time.Second}
	if status == event.Failure {
		result.Status, result.Note = JobFailed, "exit 3"
	}
	v.Finished(result)
}

var sectionMark = regexp.MustCompile(`section_(start|end):[0-9]+:([A-Za-z0-9_.-]+)(?:\[[a-z=]+\])?\r\x1b\[0K`)

// checkFolds checks that parts of a job log nest as the system allows, and returns what each line is in.
func checkFolds(t *testing.T, fold Fold, log string) (lines map[string]string) {
	t.Helper()
	lines = map[string]string{}
	var open []string
	seen := map[string]bool{}
	for line := range strings.Lines(log) {
		for _, mark := range sectionMark.FindAllStringSubmatch(line, -1) {
			switch name := mark[2]; {
			case fold != FoldGitLab:
				t.Errorf("a section outside of GitLab: %q", line)
			case mark[1] == "start" && seen[name]:
				t.Errorf("the section %s begins twice", name)
			case mark[1] == "start":
				seen[name] = true
				open = append(open, name)
			case len(open) == 0 || open[len(open)-1] != name:
				t.Errorf("the section %s ends in %v", name, open)
			default:
				open = open[:len(open)-1]
			}
		}
		if title, ok := strings.CutPrefix(line, "::group::"); ok {
			if fold != FoldGitHub || len(open) > 0 {
				t.Errorf("the group %q begins in %v", title, open)
			}
			open = append(open, strings.TrimSpace(title))
		}
		if line == "::endgroup::\n" {
			if len(open) != 1 {
				t.Errorf("a group ends in %v", open)
			}
			open = nil
		}
		text := strings.TrimSpace(sectionMark.ReplaceAllString(line, ""))
		if _, again := lines[text]; !again { // the end of a failed step's output comes again
			lines[text] = strings.Join(open, " > ")
		}
	}
	if len(open) > 0 {
		t.Errorf("%v is not ended", open)
	}
	return lines
}

func TestSeveralJobsFoldOneAfterTheOther(t *testing.T) {
	for _, fold := range []Fold{FoldGitLab, FoldGitHub} {
		t.Run(string(fold), func(t *testing.T) {
			var log bytes.Buffer
			names := []string{"build", "test: [a]", "lint"}
			v := NewJobs(Options{Mode: ModePlain, Stdout: &log, Stderr: &log, Fold: fold}, names)
			on := make(chan struct{})
			var jobs sync.WaitGroup
			for i, name := range names {
				jobs.Go(func() {
					playBeside(v, name, []event.Status{event.Success, event.Failure, event.Success}[i], on)
				})
			}
			for range 3 * 27 { // which job takes each is chance, so that they run mixed
				on <- struct{}{}
			}
			jobs.Wait()
			v.Say("", "of the pipeline")
			v.Ended([]JobResult{{Name: "build", Status: JobSuccess, Attempts: 1}, {Name: "test: [a]", Status: JobFailed, Attempts: 1}}, time.Second)
			if err := v.Close(); err != nil {
				t.Fatal(err)
			}
			lines := checkFolds(t, fold, log.String())
			for _, name := range names {
				last := -1
				for i := range 20 {
					line := fmt.Sprintf("%s prints %d", name, i)
					want := name + ": outer"
					if fold == FoldGitLab {
						want = "_" + strings.NewReplacer(":", "_", " ", "_", "[", "_", "]", "_").Replace(name) + " > rung_" + fmt.Sprintf("%x", name)[:8]
					}
					if !strings.Contains(lines[line], want) {
						t.Errorf("%q is in %q, not in %q", line, lines[line], want)
					}
					at := strings.Index(log.String(), line+"\n")
					if at < last {
						t.Errorf("%q comes too early", line)
					}
					last = at
				}
			}
			if in, ok := lines["of the pipeline"]; !ok || in != "" {
				t.Errorf("what is of the pipeline is in %q, %v", in, ok)
			}
			if t.Failed() {
				t.Log(log.String())
			}
		})
	}
}

func TestTheJobThatHasTheTurnIsShownAsItRuns(t *testing.T) {
	var log bytes.Buffer
	v := NewJobs(Options{Mode: ModePlain, Stdout: &log, Stderr: &log, Fold: FoldGitHub}, []string{"a", "b"})
	v.Started("a")
	v.Started("b")
	a, b := v.Run("a"), v.Run("b")
	say := func(view View, text string) {
		view.Event(event.Event{Step: "1", Body: event.Log{Stream: event.Stdout, Data: []byte(text)}})
	}
	for _, view := range []View{a, b} {
		view.Event(event.Event{Step: "1", Body: event.StepStarted{Name: "s", Kind: event.KindComponent}})
	}
	say(b, strings.Repeat("held\n", maxHeldMemory/2)) // more than is held in memory
	say(a, "shown\n")
	if text := log.String(); !strings.Contains(text, "shown\n") || strings.Contains(text, "held\n") {
		t.Errorf("the log is %.200q", text)
	}
	_ = b.Close()
	v.Finished(JobResult{Name: "b", Status: JobFailed, Attempts: 1, Note: "exit 3"})
	if text := log.String(); !strings.Contains(text, "b  failed after 0ms  exit 3; its log is below\n") {
		t.Errorf("that b failed is not said: %.300q", text)
	}
	_ = a.Close()
	v.Finished(JobResult{Name: "a", Status: JobSuccess, Attempts: 1})
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "held\n"); n != maxHeldMemory/2 {
		t.Errorf("%d lines of b are shown, not %d", n, maxHeldMemory/2)
	}
	checkFolds(t, FoldGitHub, log.String())
}

func TestWhatAJobPrintsAfterItsEndIsShown(t *testing.T) {
	for _, fold := range []Fold{FoldGitLab, FoldGitHub} {
		var log bytes.Buffer
		v := NewJobs(Options{Mode: ModePlain, Stdout: &log, Stderr: &log, Fold: fold}, []string{"build", "test"})
		v.Started("build")
		v.Finished(JobResult{Name: "build", Status: JobSuccess, Attempts: 1})
		v.Finished(JobResult{Name: "test", Status: JobSkipped})
		v.Warn("build", "after the end", "")
		v.Warn("test", "of a job that never began", "")
		v.Ended(nil, time.Second)
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		checkFolds(t, fold, log.String())
		for _, text := range []string{"after the end", "of a job that never began"} {
			if n := strings.Count(log.String(), text); n != 1 {
				t.Errorf("%s: %q is there %d times:\n%s", fold, text, n, log.String())
			}
		}
	}
}
