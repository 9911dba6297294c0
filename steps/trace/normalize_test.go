package trace

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/steps/event"
)

// normalCases are lines of a log of a run that began at 12:00 on 2026-03-01 and took an hour, and what is compared of them.
var normalCases = []struct{ name, line, want string }{
	{"temporary path", "using /tmp/tmp.Xy12AbQ9kL", "using /tmp/tmp.<temp>"},
	{"temporary path", "WORK=/tmp/go-build1234567890/b001", "WORK=/tmp/go-build<temp>/b001"},
	{"temporary path", "/tmp/tmpab12cd_x/file", "/tmp/tmp<temp>/file"},
	{"temporary path", "/var/folders/zz/zyxvpxvq6csfxvn/T/report.aB3dE9.txt", "/var/folders/zz/zyxvpxvq6csfxvn/T/report.aB3dE9.txt"},
	{"temporary path", "/var/folders/zz/zyxvpxvq6csfxvn/T/report.aB3dE9", "/var/folders/zz/zyxvpxvq6csfxvn/T/report.<temp>"},
	{"temporary path", "<run folder>/tmp/tmp.abcdefgh12: written", "<run folder>/tmp/tmp.<temp>: written"},
	{"temporary path", "/tmp/download12345678.zip", "/tmp/download<temp>.zip"},
	{"", "/tmp/release-notes and /tmp/v1.24.3", "/tmp/release-notes and /tmp/v1.24.3"},
	{"timestamp", "at 2026-03-01T12:00:00Z and 2026-03-01 12:00:00.123456+01:00", "at <time> and <time>"},
	{"timestamp", "2026/03/01 12:34:56 serving", "<time> serving"},
	{"timestamp", "[2026-03-02 01:30]", "[<time>]"},
	{"", "released 2019-05-06T07:08:09Z", "released 2019-05-06T07:08:09Z"},
	{"date with a month's name", "Sun Mar  1 12:00:00 UTC 2026", "<time>"},
	{"date with a month's name", "Sun, 01 Mar 2026 12:00:00 GMT", "<time>"},
	{"date with a month's name", "Mar  1 12:00:00 host daemon[12]:", "<time> host daemon[12]:"},
	{"date", "nightly build of 2026-03-01.", "nightly build of <time>."},
	{"", "the standard of 2018-12-31", "the standard of 2018-12-31"},
	{"", "version 2026-03-01-4", "version 2026-03-01-4"},
	{"time of day", "[12:00:07] done at 9:05:30.123", "[<time>] done at <time>"},
	{"", "main.go:12:34: and 10:20", "main.go:12:34: and 10:20"},
	{"", "address 00:11:22:33:44:55", "address 00:11:22:33:44:55"},
	{"duration", "--- PASS: TestX (0.03s)", "--- PASS: TestX (<duration>)"},
	{"duration", "ok  \tpkg\t0.012s", "ok  \tpkg\t<duration>"},
	{"duration", "in 12ms, 1m2.5s, 2h3m and 450µs.", "in <duration>, <duration>, <duration> and <duration>."},
	{"", "memory 512m, 10h units, the 1990s, s3, 5 items", "memory 512m, 10h units, the 1990s, s3, 5 items"},
	{"duration in words", "took 3.2 seconds", "took <duration>"},
	{"duration in words", "Finished in 2 minutes and 1 sec", "Finished in <duration> and <duration>"},
	{"seconds since 1970", "start 1772366400 end 1772366400.5 and 1772366400123", "start <time> end <time> and <time>"},
	{"seconds since 1970", "nanos 1772366400123456789", "nanos <time>"},
	{"", "id 1472366400, total 17723664", "id 1472366400, total 17723664"},
	{"", "3 tests passed, 1 failed", "3 tests passed, 1 failed"},
	{"", "version 1.24.3 of 42 files, 12.5%, port 8080, exit 3", "version 1.24.3 of 42 files, 12.5%, port 8080, exit 3"},
	{"", "sha256:0123456789abcdef 1.5 GiB/s", "sha256:0123456789abcdef 1.5 GiB/s"},
}

func TestWhatVariesInLogs(t *testing.T) {
	n := &normalizer{from: time.Unix(1772366400, 0).UTC(), to: time.Unix(1772366400, 0).UTC().Add(time.Hour)}
	rules := map[string]bool{}
	for _, c := range normalCases {
		if got := n.line(c.line); got != c.want {
			t.Errorf("%q gives\n%q, want\n%q", c.line, got, c.want)
		}
		rules[c.name] = true
	}
	page, err := os.ReadFile("../../docs/replay.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range normalRules {
		if !rules[rule.name] {
			t.Errorf("no case tries the rule %q", rule.name)
		}
		if !strings.Contains(string(page), "| "+rule.name+" |") {
			t.Errorf("docs/replay.md does not list the rule %q", rule.name)
		}
	}
}

func TestDiffWithNormalizedLogs(t *testing.T) {
	with := func(line string) *Trace {
		return read(t, record(t, func(s *script) {
			s.at(0, "", event.RunStarted{ID: "x", Component: inline("log")})
			s.at(0, "1", event.StepStarted{Name: "log", Kind: event.KindExec})
			s.at(0, "1", event.Log{Stream: event.Stdout, Data: []byte(line)})
			s.at(0, "1", event.StepFinished{Status: event.Success})
			s.at(0, "", event.RunFinished{Status: event.Success})
		}))
	}
	a, b, c := with("took 12ms\n3 files\n"), with("took 15ms\n3 files\n"), with("took 15ms\n4 files\n")
	for _, x := range []struct {
		name      string
		b         *Trace
		normalize bool
		same      bool
	}{
		{"a duration is a difference", b, false, false},
		{"a duration is not a difference when times are the same", b, true, true},
		{"a number that is no time is a difference all the same", c, true, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			d, err := Diff(a, x.b, DiffOptions{Normalize: x.normalize})
			if err != nil {
				t.Fatal(err)
			}
			if d.Same != x.same {
				t.Errorf("same is %v", d.Same)
			}
		})
	}
}

func TestDiffLeavesOutTheMirror(t *testing.T) {
	with := func(workDir, command string) *Trace {
		return read(t, record(t, func(s *script) {
			s.at(0, "", event.RunStarted{ID: "x", WorkDir: workDir, Component: inline("tool")})
			s.at(0, "1", event.StepStarted{Name: "tool", Kind: event.KindExec})
			s.at(0, "1", event.ExecStarted{Attempt: 1, Command: []string{command}, WorkDir: workDir})
			s.at(0, "1", event.ExecFinished{Attempt: 1})
			s.at(0, "1", event.StepFinished{Status: event.Success})
			s.at(0, "", event.RunFinished{Status: event.Success})
		}))
	}
	a, b := with("/home/me/job", "/home/me/job/comp/tool"), with("/srv/other", "/tmp/step-runner-5/recorded/work-dir/comp/tool")
	d, err := Diff(a, b, DiffOptions{})
	if err != nil || !d.Same {
		t.Errorf("the difference is %+v, %v", d, err)
	}
	if d, err = Diff(a, with("/srv/other", "/tmp/step-runner-5/recorded/root/home/me/job/comp/tool"), DiffOptions{}); err != nil || d.Same {
		t.Errorf("a component outside of the work directory is one in it, %v", err)
	}
}
