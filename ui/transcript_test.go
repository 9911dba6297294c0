package ui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

func failingRun(s *script) {
	s.begin()
	s.start("1", "build")
	s.out("1", "compiling\n")
	s.ok("1")
	s.start("2", "lint")
	s.out("2", "checking\n")
	s.err("2", "main.go:3: unused variable\n")
	s.exit("2", 2)
	s.event("3", event.StepSkipped{Name: "deploy", Reason: "a step before it failed"})
	s.end(event.Failure, stepError(2), event.Counts{Success: 1, Failure: 1, Skipped: 1})
}

func nestedRun(s *script) {
	s.begin()
	s.startKind("1", "build", event.KindComponent)
	s.start("1.1", "compile")
	s.out("1.1", "compiling\n")
	s.ok("1.1")
	s.startKind("1.2", "checks", event.KindSteps)
	s.start("1.2.1", "lint")
	s.exit("1.2.1", 1)
	s.event("1.2", event.StepFinished{Status: event.Failure, Error: stepError(1), Duration: 15 * time.Second})
	s.event("1", event.StepFinished{Status: event.Failure, Error: stepError(1), Duration: 16 * time.Second})
	s.end(event.Failure, stepError(1), event.Counts{Success: 1, Failure: 1})
}

func parallelRun(s *script) {
	s.begin()
	s.startKind("1", "checks", event.KindParallel)
	s.start("1.1", "lint")
	s.start("1.2", "test")
	s.out("1.1", "lint 1\nlin")
	s.out("1.2", "test 1\n")
	s.err("1.1", "a warning\n")
	s.out("1.1", "t 2\n")
	s.out("1.2", "partial test")
	s.ok("1.2")
	s.out("1.1", "lint 3\n")
	s.ok("1.1")
	s.ok("1")
	s.end(event.Success, nil, event.Counts{Success: 2})
}

func foldedRun(s *script) {
	s.begin()
	s.startKind("1", "build", event.KindComponent)
	s.start("1.1", "compile: 100%")
	s.out("1.1", "compiling\n")
	s.ok("1.1")
	s.ok("1")
	s.start("2", "database") // goes on in the background
	s.startKind("3", "checks", event.KindParallel)
	s.start("3.1", "lint")
	s.start("3.2", "test")
	s.out("3.1", "a\n")
	s.ok("3.2")
	s.ok("3.1")
	s.ok("3")
	s.ok("2")
	s.start("4", "deploy")
	s.out("4", "::group::its own\n")
	s.event("4", event.StepFinished{Status: event.Failure, Duration: time.Second, Error: &event.Error{
		Kind: event.ErrorStep, Step: "4", StepName: "deploy", Message: "exit status 2: 50%,\na:b", Hint: "look",
		Diagnostics: diag.List{{Span: diag.Span{File: "a,b:c.yml", Line: 7, Column: 3, Length: 2}, Message: "exit status 2", Source: "  - deploy"}},
	}})
	s.end(event.Failure, &event.Error{Kind: event.ErrorStep, Step: "4", StepName: "deploy", Message: "exit status 2"}, event.Counts{Success: 4, Failure: 1})
}

func silentRun(s *script) {
	s.begin()
	s.start("1", "build")
	for range 150 { // seconds: reminders after 30 s, 1 min and 2 min
		s.pass(time.Second)
	}
	s.out("1", "still here\n")
	for range 45 {
		s.pass(time.Second)
	}
	s.ok("1")
	s.end(event.Success, nil, event.Counts{Success: 1})
}

func verboseRun(s *script) {
	s.begin()
	s.startKind("1", "release", event.KindComponent)
	s.event("1", event.StepResolved{Ref: "gitlab.com/steps/release@v1", Dir: "/cache/release", File: "step.yml", Digest: "sha256:abc"})
	s.event("1", event.StepInputs{
		Inputs: map[string]value.Value{
			"tag": value.OfString("v1\x1b[2J"), "token": event.Redacted("hmac:1"), "key": value.OfString("k").Mark(true),
		},
		Env: map[string]string{"GOFLAGS": "-v"}, Secrets: []string{"TOKEN"},
	})
	s.event("1", event.ExecStarted{
		Attempt: 1, Command: []string{"release", "--name", "a b"}, WorkDir: "/work",
		Env: map[string]string{"GOFLAGS": "-v", "TOKEN": "?"}, Unset: []string{"HOME"},
	})
	s.event("1", event.ExecFinished{Attempt: 1})
	s.event("1", event.StepFinished{
		Status: event.Success, Duration: time.Second, Outputs: map[string]value.Value{"url": value.OfString("https://example.com")},
	})
	s.end(event.Success, nil, event.Counts{Success: 1})
}

func annotatedRun(s *script) {
	note := func(path string, level event.AnnotationLevel, message, file string, line int) {
		s.event(path, event.Annotation{Level: level, Message: message, File: file, Line: line, Column: line})
	}
	s.begin()
	s.start("1", "lint")
	s.out("1", "linting\n")
	s.event("1", event.Annotation{Level: event.AnnotationError, Message: "Cannot find name 'foo'\nin this scope", File: "src/app.ts", Line: 14, Column: 7, Code: "TS2304"})
	note("1", event.AnnotationWarning, "careful\x1b[2J", "a\nb.ts", 3)
	s.out("1", "Warning: c.ts:5: said after\n")
	s.out("1", "Error: d.ts:6: said before\n")
	note("1", event.AnnotationError, "said before", "d.ts", 0)
	note("1", event.AnnotationWarning, "said after", "c.ts", 5)
	s.out("1", "said elsewhere\n")
	note("1", event.AnnotationWarning, "said elsewhere", "e.ts", 7)
	s.event("1", event.Annotation{Level: event.AnnotationNotice, Title: "Deprecated", Message: "node 20"})
	s.event("1", event.Summary{Markdown: "# One\n\ntwo\n"})
	s.event("1", event.Subjects{Subjects: []event.Subject{{Name: "dist/app", Digest: "sha256:ab"}}})
	s.exit("1", 2)
	s.end(event.Failure, stepError(2), event.Counts{Failure: 1})
}

func TestTranscripts(t *testing.T) {
	tests := []struct {
		name, about string
		options     Options
		tell        func(*script)
	}{
		{"success", "A run of several steps ends with one fixed line.", Options{}, func(s *script) {
			s.begin()
			s.start("1", "build")
			s.out("1", "compiling\n")
			s.ok("1")
			s.start("2", "test")
			s.ok("2")
			s.end(event.Success, nil, event.Counts{Success: 2})
		}},
		{"single", "A run of a single step that succeeds stays terse.", Options{}, func(s *script) {
			s.begin()
			s.start("1", "hello")
			s.out("1", "hello\n")
			s.ok("1")
			s.end(event.Success, nil, event.Counts{Success: 1})
		}},
		{"failure", "The output is right above, so it is not repeated; the snippet comes from the run's own text.",
			Options{TraceFile: "trace.json"}, failingRun},
		{"failure-ascii", "Without symbols beyond ASCII.", Options{ASCII: true}, failingRun},
		{"failure-color", "In colour.", Options{Color: true}, failingRun},
		{"failure-diagnostic", "Diagnostics of an error are rendered; what the message repeats is said once.", Options{}, func(s *script) {
			s.begin()
			d := diag.Diagnostic{
				Span:    diag.Span{File: "step.yml", Line: 7, Column: 5, Length: 6},
				Message: `unknown key "scirpt"`, Hint: `did you mean "script"?`, Source: "    scirpt: echo",
			}
			err := &event.Error{Kind: event.ErrorDefinition, Message: "step.yml: unknown key \"scirpt\"", Diagnostics: diag.List{d}}
			s.end(event.Failure, err, event.Counts{})
		}},
		{"failure-far", "Other output follows the failing step's, so its last lines come again.", Options{}, func(s *script) {
			s.begin()
			s.start("1", "lint")
			for i := range 30 {
				s.out("1", fmt.Sprintf("line %d\n", i+1))
			}
			s.exit("1", 2)
			s.start("2", "cleanup")
			s.out("2", "cleaning\n")
			s.ok("2")
			s.end(event.Failure, stepError(2), event.Counts{Success: 1, Failure: 1})
		}},
		{"failure-several", "The failure that decided is told in full, others in a line.", Options{}, func(s *script) {
			s.begin()
			s.startKind("1", "checks", event.KindParallel)
			s.start("1.1", "lint")
			s.start("1.2", "test")
			s.out("1.1", "bad style\n")
			s.exit("1.1", 1)
			s.out("1.2", "1 test failed\n")
			s.exit("1.2", 3)
			s.event("1", event.StepFinished{Status: event.Failure, Duration: 15 * time.Second})
			s.end(event.Failure, stepError(1), event.Counts{Failure: 2})
		}},
		{"failure-late", "The failure that decided is the one that the error names, and not the one that came first.", Options{}, func(s *script) {
			s.begin()
			s.startKind("1", "checks", event.KindParallel)
			s.start("1.1", "lint")
			s.event("1.2", event.StepStarted{Name: "test", Title: "make test", Kind: event.KindScript})
			s.out("1.1", "bad style\n")
			s.exit("1.1", 1)
			s.out("1.2", "1 test failed\n")
			s.exit("1.2", 3)
			err := stepError(3)
			s.event("1", event.StepFinished{Status: event.Failure, Duration: 15 * time.Second})
			err.Step, err.StepName = "1.2", "checks/test"
			s.end(event.Failure, err, event.Counts{Failure: 2})
		}},
		{"annotations", "Annotations are shown where they happen, unless the output says the same, and counted in the last line.", Options{}, annotatedRun},
		{"annotations-verbose", "The level has a colour, and a summary is told of.", Options{Color: true, Verbose: 1}, annotatedRun},
		{"annotations-quiet", "Errors are shown with the failure.", Options{Mode: ModeQuiet}, annotatedRun},
		{"annotations-show-none", "Without the output, nothing says the same.", Options{Show: ShowNone}, annotatedRun},
		{"annotations-tty", "The live view says what the plain one does.", Options{Mode: ModeTTY, StdoutTTY: true, StderrTTY: true}, annotatedRun},
		{"annotations-many", "Of very many annotations the first are shown, and all are counted.", Options{}, func(s *script) {
			s.begin()
			s.start("1", "lint")
			for i := range 10_000 {
				s.event("1", event.Annotation{Level: event.AnnotationWarning, Message: fmt.Sprintf("number %d", i+1)})
			}
			s.ok("1")
			s.end(event.Success, nil, event.Counts{Success: 1})
		}},
		{"annotations-parallel", "Where several steps run, the step is named; what failed and succeeds when it is tried again is forgotten.", Options{}, func(s *script) {
			s.begin()
			s.startKind("1", "checks", event.KindParallel)
			s.start("1.1", "lint")
			s.start("1.2", "test")
			s.event("1.1", event.Annotation{Level: event.AnnotationError, Message: "bad", File: "a.ts"})
			s.event("1.1", event.StepRetrying{Attempt: 1, Max: 2, Error: stepError(1)})
			s.event("1.2", event.Annotation{Level: event.AnnotationError, Message: "worse", File: "b.ts"})
			s.ok("1.1")
			s.exit("1.2", 1)
			s.event("1", event.StepFinished{Status: event.Failure, Duration: time.Second})
			s.start("2", "cleanup")
			s.out("2", strings.Repeat("cleaning\n", 3))
			s.ok("2")
			s.end(event.Failure, stepError(1), event.Counts{Success: 2, Failure: 1})
		}},
		{"fold-gitlab", "In GitLab's job log every step is a section; one that runs in the background loses it, and those of a parallel group have none.",
			Options{Mode: ModePlain, StdoutTTY: true, StderrTTY: true, Fold: FoldGitLab}, foldedRun},
		{"fold-github", "In GitHub's job log the outermost steps are groups; the log of the failure comes again where it is not folded away, and its line is annotated.",
			Options{Mode: ModePlain, StdoutTTY: true, StderrTTY: true, Fold: FoldGitHub}, foldedRun},
		{"fold-killed", "A view that is closed before the run ends leaves no section open.", Options{Fold: FoldGitLab}, func(s *script) {
			s.begin()
			s.startKind("1", "build", event.KindComponent)
			s.start("1.1", "compile")
			s.view.Close()
		}},
		{"nested", "Steps in steps are known by their path.", Options{}, nestedRun},
		{"parallel", "While steps run in parallel, their output comes in whole, named lines.", Options{}, parallelRun},
		{"parallel-terminal", "The same where both streams are one terminal.", Options{Mode: ModePlain, StdoutTTY: true, StderrTTY: true}, parallelRun},
		{"skipped", "A skipped step says why; a title is what people see.", Options{}, func(s *script) {
			s.begin()
			s.start("1", "build")
			s.ok("1")
			s.event("2", event.StepSkipped{Name: "deploy_to_prod", Title: "Deploy to prod", Reason: "if: inputs.deploy is false"})
			s.end(event.Success, nil, event.Counts{Success: 1, Skipped: 1})
		}},
		{"retry", "A failed attempt is told, and is not the failure of the run.", Options{}, func(s *script) {
			s.begin()
			s.startKind("1", "fetch", event.KindComponent)
			s.start("1.1", "get")
			s.exit("1.1", 1)
			s.event("1", event.StepRetrying{Attempt: 1, Max: 3, Delay: plan.Duration(2 * time.Second), Error: stepError(1)})
			s.start("1.1", "get")
			s.ok("1.1")
			s.event("1", event.StepRetrying{Attempt: 2, Max: 3, Error: stepError(7)})
			s.start("1.1", "get")
			s.exit("1.1", 9)
			s.event("1", event.StepFinished{Status: event.Failure, Error: stepError(9), Duration: 20 * time.Second})
			s.end(event.Failure, stepError(9), event.Counts{Success: 1, Failure: 1})
		}},
		{"allowed", "An allowed failure is marked, and not repeated at the end.", Options{}, func(s *script) {
			s.begin()
			s.start("1", "lint")
			s.exitWith("1", 1, true)
			s.start("2", "fetch")
			s.event("2", event.StepFinished{
				Status: event.Failure, Allowed: true, Duration: time.Second,
				Error: &event.Error{Kind: event.ErrorSystem, Message: "no route to host"},
			})
			s.start("3", "test")
			s.ok("3")
			s.end(event.Success, nil, event.Counts{Success: 1, Allowed: 2})
		}},
		{"cancel", "A run that is stopped says what it waits for.", Options{TraceFile: "trace.json"}, func(s *script) {
			s.begin()
			s.start("1", "build")
			s.out("1", "compiling")
			s.event("", event.Stopping{Code: event.CodeInterrupted, Reason: "interrupted", Grace: plan.Duration(10 * time.Second)})
			s.event("", event.Stopping{Code: event.CodeInterrupted, Reason: "interrupted", Force: true})
			s.event("1", event.StepFinished{Status: event.Cancelled, Duration: 3 * time.Second})
			s.end(event.Cancelled, &event.Error{Kind: event.ErrorCancelled, Message: "interrupted"}, event.Counts{Cancelled: 1})
		}},
		{"terminated", "What stops it is named when it is not Ctrl-C; at most three steps are named.", Options{}, func(s *script) {
			s.begin()
			s.startKind("1", "all", event.KindParallel)
			for i := range 5 {
				s.start(fmt.Sprintf("1.%d", i+1), fmt.Sprintf("job_%d", i+1))
			}
			s.event("", event.Stopping{Code: event.CodeTerminated, Reason: "terminated", Grace: plan.Duration(time.Minute)})
		}},
		{"no-newline", "On one terminal a status line never continues step output.",
			Options{Mode: ModePlain, StdoutTTY: true, StderrTTY: true}, func(s *script) {
				s.begin()
				s.start("1", "hello")
				s.out("1", "no newline")
				s.ok("1")
			}},
		{"no-newline-apart", "Into different files nothing is added.", Options{}, func(s *script) {
			s.begin()
			s.start("1", "hello")
			s.out("1", "no newline")
			s.ok("1")
			s.start("2", "again")
			s.out("2", ", goes on")
			s.ok("2")
		}},
		{"binary", "Step output is passed on byte for byte.", Options{}, func(s *script) {
			s.begin()
			s.start("1", "hello")
			s.out("1", "\x00\xff\xfe\r\n\x1b[31mred\x1b[0m\x1b[2J")
			s.ok("1")
		}},
		{"hostile", "Names, titles and messages carry no control characters.", Options{}, func(s *script) {
			s.begin()
			s.event("1", event.StepStarted{Name: "a", Title: "\x1b]0;title\x07evil\x1b[2J\r\nname\u009b31m\u202e"})
			s.event("", event.Warning{Message: "look\x1b[1A out\nsecond line"})
			s.event("1", event.StepFinished{Status: event.Failure, Error: &event.Error{Message: "\x1b[Hbad\x00"}})
			s.event("2", event.StepSkipped{Name: "b", Reason: "\x1bc\x07x"})
			s.end(event.Failure, nil, event.Counts{Failure: 1, Skipped: 1})
		}},
		{"silent", "A silent step is said to be alive; output starts the silence anew.", Options{}, silentRun},
		{"progress", "Progress comes after 5 % or 5 s of change.", Options{}, func(s *script) {
			s.begin()
			for i := range 41 { // 10 seconds at 2.5 % each quarter
				s.event("", event.Progress{ID: "a", Title: "fetching x", Current: int64(i) * 250_000, Total: 10_000_000, Unit: "bytes"})
				s.pass(250 * time.Millisecond)
			}
			s.event("", event.Progress{ID: "a", Title: "fetching x", Done: true})
			for i := range 8 {
				s.event("", event.Progress{ID: "b", Title: "unpacking", Current: int64(i), Unit: "files"})
				s.pass(time.Second)
			}
			s.event("", event.Progress{ID: "c", Title: "too fast to tell", Current: 1, Total: 1})
			s.event("", event.Progress{ID: "c", Title: "too fast to tell", Done: true})
		}},
		{"warning", "Warnings have a place too.", Options{}, func(s *script) {
			s.begin()
			d := diag.Diagnostic{Span: diag.Span{File: "steps.yml", Line: 4, Column: 9, Length: 4}, Message: "the name is used twice"}
			s.event("", event.Warning{Message: "the name is used twice", Diagnostic: &d})
		}},
		{"sensitive", "Output that is held back is announced.", Options{}, func(s *script) {
			s.begin()
			s.event("1", event.StepStarted{Name: "login"})
			s.event("1", event.ExecStarted{Attempt: 1, Command: []string{"./login"}, LogHeld: true})
			s.event("1", event.ExecFinished{ExitCode: -1, Signal: "SIGKILL"})
			code := -1
			s.event("1", event.StepFinished{Status: event.Failure, ExitCode: &code, Duration: 2 * time.Second})
			s.event("2", event.StepStarted{Name: "slow"})
			s.event("2", event.StepFinished{Status: event.Failure, Duration: time.Minute, Error: &event.Error{Kind: event.ErrorTimeout, Message: "too slow"}})
		}},
		{"verbose", "-v shows inputs, outputs, references and exit codes.", Options{Verbose: 1}, verboseRun},
		{"verbose-2", "-vv shows commands and names of variables as well.", Options{Verbose: 2}, verboseRun},
		{"quiet-success", "Quiet: nothing but warnings.", Options{Quiet: true}, func(s *script) {
			s.begin()
			s.start("1", "build")
			s.out("1", "compiling\n")
			s.event("", event.Warning{Message: "the cache is full"})
			s.ok("1")
			s.start("2", "test")
			s.ok("2")
			s.end(event.Success, nil, event.Counts{Success: 2})
		}},
		{"quiet-failure", "Quiet: the failure, with the output that was not shown.", Options{Mode: ModeQuiet}, failingRun},
		{"show-fail", "Show=fail: output of steps that fail only.", Options{Show: ShowFail}, failingRun},
		{"show-none", "Show=none: the last lines of the deciding failure only.", Options{Show: ShowNone}, failingRun},
		{"json", "JSON: every event, one a line, and nothing else.", Options{Mode: ModeJSON, Quiet: true}, failingRun},
	}
	for _, test := range tests {
		t.Run(test.name+": "+strings.ToLower(test.about), func(t *testing.T) {
			play(t, test.options, test.tell).compare(t, test.name, test.about)
		})
	}
}
