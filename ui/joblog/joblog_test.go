package joblog_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/ui/joblog"
)

// script makes events by hand, a second apart.
type script struct {
	events []event.Event
	offset map[string]int64
}

func (s *script) at(step string, body event.Body) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 1500, time.UTC)
	s.events = append(s.events, event.Event{
		Seq: int64(len(s.events) + 1), Time: start.Add(time.Duration(len(s.events)) * time.Second), Step: step, Body: body,
	})
}

func (s *script) print(step string, stream event.Stream, text string) {
	if s.offset == nil {
		s.offset = map[string]int64{}
	}
	s.at(step, event.Log{Stream: stream, Offset: s.offset[step], Data: []byte(text)})
	s.offset[step] += int64(len(text))
}

// classic is the run of a classic job whose script fails.
func classic() []event.Event {
	s := &script{}
	s.at("", event.Preparing{Phase: event.PhasePulling, Subject: "alpine:3.20", Current: 5})
	s.at("", event.Preparing{Phase: event.PhasePulling, Subject: "alpine:3.20", Current: 3000, Unit: "bytes", Done: true, Duration: 1200 * time.Millisecond})
	s.at("", event.RunStarted{Runtime: event.Runtime{Version: "1.2.3", OS: "linux", Arch: "amd64"}, Environment: &event.Environment{
		Level: "container", Image: &event.Image{Image: containers.Image{Name: "alpine:3.20"}, Found: event.Found{Digest: "sha256:beef"}},
		Services: []event.Service{{Service: containers.Service{Image: containers.Image{Name: "redis:7"}}}}}})
	s.at("1", event.StepStarted{Name: "get_sources", Kind: event.KindComponent, Ref: "builtin://git/checkout"})
	s.at("1.1", event.StepStarted{Name: "clone", Kind: event.KindExec})
	s.print("1.1", event.Stderr, "Checking out 1ecfd275 as detached HEAD\n")
	s.at("1.1", event.StepFinished{Status: event.Success})
	s.at("1", event.StepFinished{Status: event.Success})
	s.at("2", event.StepSkipped{Name: "restore_cache", Reason: "if: …"})
	s.at("3", event.StepStarted{Name: "script", Kind: event.KindScript})
	s.print("3", event.Stdout, "\x1b[32;1m$ make\x1b[0;m\nhalf a ")
	s.print("3", event.Stderr, "warning\n")
	s.print("3", event.Stdout, "line\nno line end")
	exit := 2
	s.at("3", event.StepFinished{Status: event.Failure, ExitCode: &exit, Error: &event.Error{Kind: event.ErrorStep, Step: "3", Message: "exit code 2"}})
	s.at("4", event.StepStarted{Name: "after_script", Kind: event.KindScript})
	s.print("4", event.Stdout, "bye\n")
	s.at("4", event.StepFinished{Status: event.Success})
	s.at("", event.RunFinished{Status: event.Failure, ExitCode: &exit, Error: &event.Error{Kind: event.ErrorStep, Step: "3", StepName: "script", Message: "exit code 2"}})
	return s.events
}

// render makes the log of events, and says how many bytes it has after each.
func render(t testing.TB, o joblog.Options, events []event.Event) (string, []joblog.Position) {
	t.Helper()
	r := joblog.New(o)
	var out []byte
	var at []joblog.Position
	for _, e := range events {
		var err error
		if out, err = r.Append(out, e); err != nil {
			t.Fatal(err)
		}
		at = append(at, r.Position())
	}
	return string(out), at
}

func TestAClassicJob(t *testing.T) {
	start := "\r\x1b[0K"
	for _, c := range []struct {
		name string
		o    joblog.Options
		want []string
	}{
		{"plain", joblog.Options{}, []string{
			"Running with step-runner\n",
			"\x1b[0K\x1b[36;1mPreparing the environment\x1b[0;m\x1b[0;m\n",
			"pulling alpine:3.20, 3000 bytes: 1.2s\n",
			"Isolation: container\n",
			"Using image alpine:3.20 with digest sha256:beef\n",
			"Using service redis:7\n",
			"\x1b[0K\x1b[36;1mGetting source from Git repository\x1b[0;m\x1b[0;m\n",
			"Checking out 1ecfd275 as detached HEAD\n",
			"\x1b[0K\x1b[36;1mExecuting \"step_script\" stage of the job script\x1b[0;m\x1b[0;m\n",
			"\x1b[32;1m$ make\x1b[0;m\n",
			"warning\n",
			"half a line\n",
			"no line end\n",
			"\x1b[0K\x1b[36;1mRunning after_script\x1b[0;m\x1b[0;m\n",
			"bye\n",
			"\x1b[31;1mERROR: Job failed: exit code 2\n\x1b[0;m\n",
		}},
		{"with sections, timestamps and what prepares folded", joblog.Options{Sections: true, Timestamps: true, CollapseSetup: true, Runner: "rung 9"}, []string{
			"2026-03-01T12:00:00.000001Z 00O Running with rung 9\n",
			"2026-03-01T12:00:00.000001Z 00O section_start:1772366400:prepare_executor[collapsed=true]" + start + "\n",
			"2026-03-01T12:00:00.000001Z 00O+\x1b[0K\x1b[36;1mPreparing the environment\x1b[0;m\x1b[0;m\n",
			"2026-03-01T12:00:01.000001Z 00O pulling alpine:3.20, 3000 bytes: 1.2s\n",
			"2026-03-01T12:00:02.000001Z 00O Isolation: container\n",
			"2026-03-01T12:00:02.000001Z 00O Using image alpine:3.20 with digest sha256:beef\n",
			"2026-03-01T12:00:02.000001Z 00O Using service redis:7\n",
			"2026-03-01T12:00:02.000001Z 00O section_end:1772366402:prepare_executor" + start + "\n",
			"2026-03-01T12:00:03.000001Z 00O+section_start:1772366403:get_sources[collapsed=true]" + start + "\n",
			"2026-03-01T12:00:03.000001Z 00O+\x1b[0K\x1b[36;1mGetting source from Git repository\x1b[0;m\x1b[0;m\n",
			"2026-03-01T12:00:05.000001Z 01E Checking out 1ecfd275 as detached HEAD\n",
			"2026-03-01T12:00:07.000001Z 00O section_end:1772366407:get_sources" + start + "\n",
			"2026-03-01T12:00:09.000001Z 00O+section_start:1772366409:step_script" + start + "\n",
			"2026-03-01T12:00:09.000001Z 00O+\x1b[0K\x1b[36;1mExecuting \"step_script\" stage of the job script\x1b[0;m\x1b[0;m\n",
			"2026-03-01T12:00:10.000001Z 01O \x1b[32;1m$ make\x1b[0;m\n",
			"2026-03-01T12:00:11.000001Z 01E warning\n",
			"2026-03-01T12:00:10.000001Z 01O half a line\n",
			"2026-03-01T12:00:12.000001Z 01O no line end\n",
			"2026-03-01T12:00:13.000001Z 00O section_end:1772366413:step_script" + start + "\n",
			"2026-03-01T12:00:14.000001Z 00O+section_start:1772366414:after_script" + start + "\n",
			"2026-03-01T12:00:14.000001Z 00O+\x1b[0K\x1b[36;1mRunning after_script\x1b[0;m\x1b[0;m\n",
			"2026-03-01T12:00:15.000001Z 01O bye\n",
			"2026-03-01T12:00:16.000001Z 00O section_end:1772366416:after_script" + start + "\n",
			"2026-03-01T12:00:17.000001Z 00O+\x1b[31;1mERROR: Job failed: exit code 2\n",
			"2026-03-01T12:00:17.000001Z 00O \x1b[0;m\n",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _ := render(t, c.o, classic())
			if diff := cmp.Diff(strings.Join(c.want, ""), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHowAJobEnds(t *testing.T) {
	code := 7
	for want, end := range map[string]event.RunFinished{
		"\x1b[32;1mJob succeeded\x1b[0;m\n":                                                  {Status: event.Success},
		"ERROR: Job failed: exit code 7\n":                                                   {Status: event.Failure, ExitCode: &code, Error: &event.Error{Kind: event.ErrorStep}},
		"ERROR: Job failed: the output is not a line of JSON\n":                              {Status: event.Failure, ExitCode: new(int), Error: &event.Error{Kind: event.ErrorStep, Message: "the output is not a line of JSON"}},
		"ERROR: Job failed (system failure): no disk\n":                                      {Status: event.Failure, Error: &event.Error{Kind: event.ErrorSystem, Message: "no disk"}},
		"ERROR: Job failed: canceled\n":                                                      {Status: event.Cancelled, Error: &event.Error{Kind: event.ErrorCancelled}},
		"ERROR: Job failed: aborted: the runner ends\n":                                      {Status: event.Cancelled, Error: event.NewError(event.CodeTerminated, "the runner ends")},
		"ERROR: Job failed: execution took longer than 1h0m0s seconds\n":                     {Status: event.Failure, Error: event.TimedOut(event.TimeoutRun, event.TimedOut(event.TimeoutRun, 0).Timeout.Limit+3_600_000_000_000)},
		"\x1b[31;1mERROR: Job failed: no such component\n\x1b[0;m\nhint: look at the name\n": {Status: event.Failure, Error: &event.Error{Kind: event.ErrorNotFound, Message: "no such\ncomponent", Hint: "look at the name"}},
	} {
		s := &script{}
		s.at("", event.RunStarted{})
		s.at("", end)
		if got, _ := render(t, joblog.Options{}, s.events); !strings.HasSuffix(got, want) && !strings.HasSuffix(got, want+"\x1b[0;m\n") {
			t.Errorf("%q does not end in %q", got, want)
		}
	}
}

func TestStepsBesideOthersHaveTheirNamesBeforeTheirLines(t *testing.T) {
	s := &script{}
	s.at("", event.RunStarted{})
	s.at("1", event.StepStarted{Name: "checks", Kind: event.KindParallel})
	s.at("1.1", event.StepStarted{Name: "lint", Kind: event.KindScript})
	s.at("1.2", event.StepStarted{Name: "test", Title: "Unit\ntests", Kind: event.KindScript})
	s.print("1.1", event.Stdout, "one\ntw")
	s.print("1.2", event.Stdout, "a")
	s.print("1.1", event.Stdout, "o\n")
	s.at("1.2", event.StepFinished{Status: event.Success})
	s.at("1.1", event.StepFinished{Status: event.Failure, Allowed: true, Error: &event.Error{Kind: event.ErrorStep, Message: "exit code 1"}})
	s.at("1", event.StepFinished{Status: event.Success})
	s.at("", event.RunFinished{Status: event.Success})
	got, _ := render(t, joblog.Options{}, s.events)
	_, got, _ = strings.Cut(got, "checks\x1b[0;m\x1b[0;m\n")
	want := "lint | one\nlint | two\nUnit tests | a\nUnit tests | finished\n" +
		"lint | \x1b[0;33mWARNING: lint failed, but the job goes on: exit code 1\x1b[0;m\nlint | failed\n\x1b[32;1mJob succeeded\x1b[0;m\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAnAfterScriptThatFailsIsSaidAsByGitLabRunner(t *testing.T) {
	s, code := &script{}, 3
	s.at("", event.RunStarted{})
	s.at("1", event.StepStarted{Name: "after_script", Kind: event.KindComponent, Ref: "builtin://script"})
	s.at("1", event.StepFinished{Status: event.Failure, Allowed: true, ExitCode: &code, Error: event.NewError(event.CodeExitStatus, "exec: exit status 3")})
	s.at("", event.RunFinished{Status: event.Success})
	got, _ := render(t, joblog.Options{}, s.events)
	if want := "WARNING: after_script failed, but job will continue unaffected: exit code 3\x1b[0;m\n"; !strings.Contains(got, want) {
		t.Errorf("%q has no %q", got, want)
	}
}

func TestNothingBeginsInTheLogOfAJobThatIsKilled(t *testing.T) {
	s := &script{}
	s.at("", event.RunStarted{})
	s.at("1", event.StepStarted{Name: "script", Kind: event.KindComponent, Ref: "builtin://script"})
	s.at("", event.Stopping{Reason: "the runner ends"})
	s.at("", event.Stopping{Reason: "the runner ends now", Force: true})
	s.at("1", event.StepFinished{Status: event.Cancelled})
	s.at("2", event.StepStarted{Name: "after_script", Kind: event.KindComponent, Ref: "builtin://script"})
	s.at("2", event.StepFinished{Status: event.Cancelled})
	s.at("", event.RunFinished{Status: event.Cancelled, Error: event.NewError(event.CodeTerminated, "the runner ends now")})
	got, _ := render(t, joblog.Options{Sections: true}, s.events)
	if strings.Contains(got, "after_script") || !strings.Contains(got, "the job is killed: the runner ends now") {
		t.Errorf("%q", got)
	}
}

func TestSectionsNestWhereABackgroundStepGoesOn(t *testing.T) {
	s := &script{}
	s.at("", event.RunStarted{})
	s.at("1", event.StepStarted{Name: "server", Kind: event.KindScript})
	s.print("1", event.Stdout, "ready\n")
	s.at("2", event.StepStarted{Name: "group", Kind: event.KindSteps})
	s.at("2.1", event.StepStarted{Name: "client", Kind: event.KindScript})
	s.print("1", event.Stdout, "asked\n")
	s.print("2.1", event.Stdout, "answered\n")
	s.at("2.1", event.StepFinished{Status: event.Success})
	s.at("2", event.StepFinished{Status: event.Success})
	s.at("1", event.StepFinished{Status: event.Success})
	s.at("", event.RunFinished{Status: event.Success})
	got, _ := render(t, joblog.Options{Sections: true}, s.events)
	for _, want := range []string{"ready\nsection_end:", "\nserver | asked\nanswered\nsection_end:", ":client\r\x1b[0Ksection_end:", "server | finished\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	balanced(t, got)
}

// sectionMark is how GitLab finds sections. Source: lib/gitlab/ci/trace/section_parser.rb, lib/gitlab/ci/ansi2json/line.rb.
var sectionMark = regexp.MustCompile(`section_(start|end):([1-9][0-9]*):([a-zA-Z0-9_.-]+)(\[[a-z=,]*\])?\r\x1b\[0K`)

// balanced checks that sections nest.
func balanced(t testing.TB, log string) {
	t.Helper()
	var open []string
	seen := map[string]bool{}
	for _, m := range sectionMark.FindAllStringSubmatch(log, -1) {
		name := m[3]
		if m[1] == "start" {
			if seen[name] {
				t.Fatalf("two sections have the name %s", name)
			}
			seen[name] = true
			open = append(open, name)
		} else if n := len(open); n == 0 || open[n-1] != name {
			t.Fatalf("%s ends, and open are %v: %q", name, open, log)
		} else {
			open = open[:n-1]
		}
	}
	if len(open) > 0 {
		t.Fatalf("%v do not end", open)
	}
}

func TestAMaskAppliesFromItsEventOn(t *testing.T) {
	s := &script{}
	s.at("", event.RunStarted{})
	s.at("1", event.StepStarted{Name: "a", Kind: event.KindScript})
	s.print("1", event.Stdout, "the word is secret\n")
	before := len(s.events)
	s.at("", event.Masked{Digest: "pbkdf2-sha256:00"})
	s.print("1", event.Stdout, "the word is [MASKED]\n")
	log, at := render(t, joblog.Options{}, s.events)
	if at[before].Bytes != at[before-1].Bytes {
		t.Error("a mask adds to the log")
	}
	if !strings.HasSuffix(log, "the word is secret\nthe word is [MASKED]\n") || strings.Contains(log, "pbkdf2") {
		t.Errorf("the log is %q", log)
	}
}

func TestALogThatIsTooLong(t *testing.T) {
	s := &script{}
	s.at("", event.RunStarted{})
	s.at("1", event.StepStarted{Name: "a", Kind: event.KindScript})
	whole, at := render(t, joblog.Options{}, s.events)
	begin := at[len(at)-1].Bytes
	s.print("1", event.Stdout, "aé€😀\n"+strings.Repeat("more\n", 100))
	notice := "\n\x1b[33;1mJob's log exceeded limit of %d bytes.\nJob execution will continue but no more output will be collected.\x1b[0;m\n"
	// A limit counts from the start, whatever was written before it was known: each of them cuts the same log (C31).
	for limit, want := range map[int64]string{1: "a", 2: "a", 3: "aé", 5: "aé", 6: "aé€", 9: "aé€", 10: "aé€😀", 11: "aé€😀\n"} { // C29, C30
		got, _ := render(t, joblog.Options{Limit: begin + limit}, s.events)
		if want = whole + want + fmt.Sprintf(notice, begin+limit); got != want {
			t.Errorf("limit %d: %q", limit, got[begin:])
		}
	}
}

func TestLinesAreShownWhenTheyAreCompleteOrTooLong(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"a line in two writes is one entry (C23)", "a|b\n", "T ab\n"},
		{"what a carriage return overwrites is an entry, and the next continues it (C24)", "1%\r|2%\r|3%\n", "T 1%\r\nT+2%\r\nT+3%\n"},
		{"a carriage return and a line feed are a line end (C25)", "a\r|\nb\r\n", "T a\r\nT b\r\n"},
		{"the mark of a section stays with its headline (C28)", "section_start:1:x\r|\x1b[0Khello\n", "T section_start:1:x\r\x1b[0Khello\n"},
		{"a line that does not end is ended (C27)", "a", "T a\n"},
		{"what is not UTF-8 is replaced (C32)", "a\xff\xfe\xc3|\n", "T a\ufffd\ufffd\ufffd\n"},
		{"more than 8 KiB are cut, and continue (C26)", strings.Repeat("a", 8192) + "|é\n", "T " + strings.Repeat("a", 8192) + "\nT+é\n"},
		{"but not within a character", strings.Repeat("a", 8191) + "é\n", "T " + strings.Repeat("a", 8191) + "\nT+é\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &script{}
			s.at("1", event.StepStarted{Name: "a", Kind: event.KindScript})
			head := len(s.events)
			for _, piece := range strings.Split(c.in, "|") {
				s.print("1", event.Stdout, piece)
			}
			s.at("1", event.StepFinished{Status: event.Success})
			got, at := render(t, joblog.Options{Timestamps: true}, s.events)
			got = regexp.MustCompile(`20[0-9:.TZ-]{25} 01O`).ReplaceAllString(got[at[head-1].Bytes:], "T")
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// splits calls try with the text as one piece, as bytes, and cut once anywhere.
func splits(text string, try func(pieces []string)) {
	try([]string{text})
	try(strings.Split(text, ""))
	for i := 1; i < len(text); i++ {
		try([]string{text[:i], text[i:]})
	}
}

func TestTokensAndCredentialsInURLsAreMaskedWhereverTheyAreCut(t *testing.T) {
	prefixes := []string{"tok-"}
	for i := range 30 {
		prefixes = append(prefixes, fmt.Sprintf("%d-", 10+i))
	}
	for in, want := range map[string]string{
		"glpat-abc def":                              "glpat-[MASKED] def", // C10
		"xglpat-abc":                                 "xglpat-[MASKED]",
		"glpat-impglpat-erdiet x":                    "glpat-[MASKED] x",           // C11
		"glpat-imperdiet":                            "glpat-[MASKED]",             // C12
		"glpat- imperdiet":                           "glpat- imperdiet",           // C12
		"glpat-a=b_c-d.e/f":                          "glpat-[MASKED]/f",           // C13
		"tok-abc glrt-x":                             "tok-[MASKED] glrt-[MASKED]", // C14
		"glglpat-abc":                                "glglpat-[MASKED]",
		"_gitlab_session=abc; x":                     "_gitlab_session=[MASKED]; x",
		"glpat-[MASKED] x":                           "glpat-[MASKED] x",
		"/?private_token=x y":                        "/?private_token=[MASKED] y",                       // C16
		"/?Private_TOKEN=x&a=b":                      "/?Private_TOKEN=[MASKED]&a=b",                     // C17
		"?rss_token=a&x-amz-credential=b\tc":         "?rss_token=[MASKED]&x-amz-credential=[MASKED]\tc", // C18
		"?private_token=" + strings.Repeat("x", 300): "?private_token=[MASKED]",                          // C19, and below
		"?private_token=":                            "?private_token=[MASKED]",                          // C20
		"?private_token=&x":                          "?private_token=[MASKED]&x",
		"?private_tokens=x":                          "?private_tokens=x", // C21
		"??private_token=x":                          "??private_token=[MASKED]",
		"nothing to see? go & look":                  "nothing to see? go & look",
		"20-abc 39-abc":                              "20-[MASKED] 39-[MASKED]", // C15: the reference looks for the 15 shortest only
	} {
		splits(in, func(pieces []string) { // C22
			s := &script{}
			s.at("1", event.StepStarted{Name: "a", Kind: event.KindScript})
			for _, piece := range pieces {
				s.print("1", event.Stdout, piece)
			}
			s.print("1", event.Stdout, "\nnext\n")
			got, at := render(t, joblog.Options{TokenPrefixes: prefixes}, s.events)
			if got = got[at[0].Bytes:]; got != want+"\nnext\n" {
				t.Errorf("%q: got %q, want %q", pieces, got, want)
			}
		})
	}
}

func TestALongCredentialInAURLIsMasked(t *testing.T) { // C19
	value := strings.Repeat("x", 8<<10)
	for _, cut := range []int{0, 1, 14, 15, 16, 4000, 8<<10 + 15} {
		text := "?private_token=" + value + "&a=b\n"
		s := &script{}
		s.at("1", event.StepStarted{Name: "a", Kind: event.KindScript})
		s.print("1", event.Stdout, text[:cut])
		s.print("1", event.Stdout, text[cut:])
		got, at := render(t, joblog.Options{}, s.events)
		if got = got[at[0].Bytes:]; got != "?private_token=[MASKED]&a=b\n" {
			t.Errorf("cut at %d it is %.100q", cut, got)
		}
	}
}

// anything makes the events of a run in which everything happens, in an order that an engine could emit.
func anything(seed uint64) []event.Event {
	rnd := rand.New(rand.NewPCG(seed, 2))
	texts := []string{"line\n", "half", "\r", "\n", "50%\r", "é", "\xff", "glp", "glpat-abc", "?private_token=", "&", " ", "\x1b[0K", strings.Repeat("long ", 1700), "[MASKED]"}
	s := &script{}
	if rnd.IntN(2) == 0 {
		s.at("", event.Preparing{Phase: event.PhaseCreating, Done: true, Message: "soon"})
	}
	s.at("", event.RunStarted{Runtime: event.Runtime{Version: "1"}, Environment: &event.Environment{Level: "none"}})
	type live struct {
		path string
		kids int
	}
	running := []*live{{}}
	for range rnd.IntN(80) {
		at := running[rnd.IntN(len(running))]
		switch n := rnd.IntN(12); {
		case n < 2:
			at.kids++
			path := strings.TrimPrefix(fmt.Sprintf("%s.%d", at.path, at.kids), ".")
			kind := []event.StepKind{event.KindScript, event.KindSteps, event.KindParallel, event.KindComponent}[rnd.IntN(4)]
			ref := []string{"", "", "builtin://cache/save", "./x"}[rnd.IntN(4)]
			s.at(path, event.StepStarted{Name: []string{"script", "a step", "save_cache", "section_start:1:x"}[rnd.IntN(4)], Kind: kind, Ref: ref})
			running = append(running, &live{path: path})
		case n == 2 && len(running) > 1:
			last := running[len(running)-1] // its own steps have ended
			s.at(last.path, event.StepFinished{Status: event.Failure, Allowed: rnd.IntN(2) == 0, Error: &event.Error{Kind: event.ErrorDefinition, Message: "wrong"}})
			running = running[:len(running)-1]
		case n == 3:
			at.kids++
			s.at(strings.TrimPrefix(fmt.Sprintf("%s.%d", at.path, at.kids), "."), event.StepSkipped{Name: "skipped", Reason: "because"})
		case n == 4:
			s.at(at.path, event.StepRetrying{Attempt: 1, Max: 2})
		case n == 5:
			s.at("", event.Masked{Digest: "pbkdf2-sha256:00"})
		default:
			s.print(at.path, []event.Stream{event.Stdout, event.Stderr}[rnd.IntN(2)], texts[rnd.IntN(len(texts))])
		}
	}
	s.at("", event.RunFinished{Status: event.Success})
	return s.events
}

// cutAgain cuts and joins the pieces of logs elsewhere, where no other event is between them.
func cutAgain(events []event.Event, rnd *rand.Rand) []event.Event {
	var out []event.Event
	for _, e := range events {
		log, isLog := e.Body.(event.Log)
		if !isLog {
			out = append(out, e)
			continue
		}
		if n := len(out); n > 0 && rnd.IntN(2) == 0 {
			if before, ok := out[n-1].Body.(event.Log); ok && out[n-1].Step == e.Step && before.Stream == log.Stream {
				before.Data = append(bytes.Clone(before.Data), log.Data...)
				out[n-1].Body = before
				continue
			}
		}
		for data := log.Data; len(data) > 0; {
			n := 1 + rnd.IntN(len(data))
			log.Data = data[:n]
			e.Body, data = log, data[n:]
			out = append(out, e)
		}
	}
	return out
}

func FuzzTheLogIsAFunctionOfTheEvents(f *testing.F) {
	for seed := range uint64(100) {
		f.Add(seed, seed%2 == 0, seed%3 == 0)
	}
	f.Fuzz(func(t *testing.T, seed uint64, timestamps, limited bool) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		o := joblog.Options{Timestamps: timestamps, Sections: true, CollapseSetup: true}
		events := anything(seed)
		if limited {
			o.Limit = int64(rnd.IntN(20_000))
		}
		log, at := render(t, o, events)
		if again, _ := render(t, o, events); again != log {
			t.Fatal("the same events give another log")
		}
		if !utf8.ValidString(log) {
			t.Fatal("the log is not UTF-8")
		}
		if !limited {
			balanced(t, log)
			if strings.Contains(log, "glpat-abc") {
				t.Fatalf("a token is in the log: %q", log)
			}
		}
		if !timestamps {
			if other, _ := render(t, o, cutAgain(events, rnd)); other != log {
				t.Fatal(cmp.Diff(log, other))
			}
		}
		// A prefix of the events gives a prefix of the log, and a new process goes on from any byte of it.
		for range 4 {
			n := rnd.IntN(len(events))
			before := int64(0)
			if n > 0 {
				before = at[n-1].Bytes
			}
			if part, _ := render(t, o, events[:n+1]); part != log[:at[n].Bytes] {
				t.Fatalf("after %d events the log is not the beginning of the whole", n+1)
			}
			stop := joblog.Position{Events: int64(n + 1), Bytes: before + rnd.Int64N(at[n].Bytes-before+1)}
			r := joblog.Resume(o, stop)
			var rest []byte
			for _, e := range events {
				var err error
				if rest, err = r.Append(rest, e); err != nil {
					t.Fatal(err)
				}
			}
			if string(rest) != log[stop.Bytes:] {
				t.Fatalf("from %+v the log goes on as %q, not as %q", stop, rest, log[stop.Bytes:])
			}
		}
	})
}

func TestAnotherLogIsNotResumed(t *testing.T) {
	events := classic()
	_, at := render(t, joblog.Options{Sections: true}, events)
	for _, o := range []joblog.Options{{}, {Sections: true, Timestamps: true}} {
		r := joblog.Resume(o, at[10])
		var err error
		for i := 0; i < len(events) && err == nil; i++ {
			_, err = r.Append(nil, events[i])
		}
		if err == nil || !strings.Contains(err.Error(), "cannot resume the job log") {
			t.Errorf("%+v: the error is %v", o, err)
		}
	}
}

func BenchmarkRenderer(b *testing.B) {
	line := "2026-11-21T06:20:00.000Z compiling package number 12345 of the project, with flags -O2 -g\n"
	data := []byte(strings.Repeat(line, 32<<10/len(line)))
	r := joblog.New(joblog.Options{Timestamps: true, Sections: true})
	b.SetBytes(int64(len(data)))
	var out []byte
	for b.Loop() {
		out, _ = r.Append(out[:0], event.Event{Step: "1", Time: time.Unix(0, 0), Body: event.Log{Stream: event.Stdout, Data: data}})
	}
}

func TestAJobWithoutSourcesSaysSo(t *testing.T) {
	const said = "Getting source from Git repository\x1b[0;m\x1b[0;m\nSkipping Git repository setup\n"
	s := &script{}
	s.at("", event.RunStarted{})
	s.at("1", event.StepSkipped{Name: "get_sources", Reason: "if: false"})
	if log, _ := render(t, joblog.Options{}, s.events); !strings.Contains(log, said) {
		t.Errorf("the log is %q", log)
	}
	s = &script{} // one that did not come so far
	s.at("", event.RunStarted{})
	s.at("1", event.StepStarted{Name: "pre_get_sources", Kind: event.KindScript})
	s.at("1", event.StepFinished{Status: event.Failure, Error: &event.Error{Kind: event.ErrorStep, Step: "1", Message: "exit code 2"}})
	s.at("2", event.StepSkipped{Name: "get_sources", Reason: "an earlier step failed"})
	if log, _ := render(t, joblog.Options{}, s.events); strings.Contains(log, "Skipping") {
		t.Errorf("the log is %q", log)
	}
}

func TestWhatAStepSaidIsNotSaidAgain(t *testing.T) {
	s := &script{}
	wrong := &event.Error{Kind: event.ErrorDenied, Step: "1", Message: "hello is denied", Hint: "use another",
		Diagnostics: []diag.Diagnostic{{Span: diag.Span{File: "run", Line: 1, Column: 25}, Message: "hello is denied"}}}
	s.at("", event.RunStarted{})
	s.at("1", event.StepStarted{Name: "hello", Kind: event.KindComponent, Ref: "host/hello"})
	s.at("1", event.StepFinished{Status: event.Failure, Error: wrong})
	s.at("", event.RunFinished{Status: event.Failure, Error: wrong})
	got, _ := render(t, joblog.Options{}, s.events)
	_, got, _ = strings.Cut(got, "hello\x1b[0;m\x1b[0;m\n")
	want := "\x1b[31;1mERROR: run:1:25: hello is denied\x1b[0;m\nhint: use another\n\x1b[31;1mERROR: Job failed: hello is denied\n\x1b[0;m\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
