package coverage

import (
	"io"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/catalog/programtest"
)

func TestFind(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, pattern, log, want string }{
		{"a number", `/Coverage: \d+/`, "Coverage: 80%\n", "80"},
		{"a number with a point", `/\d+\.\d+% covered/`, "98.29% covered", "98.29"},
		{"the last line that matches", `/Coverage: .*/`, "Coverage: 10%\nCoverage: 20%\nbye\n", "20"},
		{"the last match of that line", `/\d+%/`, "10% 20% 30%\n", "30"},
		{"the first number of the match", `/total.*/`, "total 12 of 34\n", "12"},
		{"the last group, where there are groups", `/(\d+) of (\d+)/`, "12 of 34\n", "34"},
		{"a match without a number does not count", `/Coverage: .*/`, "Coverage: 10%\nCoverage: none\n", "10"},
		{"nothing", `/Coverage: \d+/`, "no such line\n", ""},
		{"an empty log", `/\d/`, "", ""},
		{"a line of Windows", `/Coverage: \d+%$/`, "Coverage: 80%\r\n", "80"},
		{"the ends of a line", `/^total: (\d+)$/`, "a\ntotal: 7\nb", "7"},
		{"a pattern does not reach over lines", `/total:\s+\d+/`, "total:\n 7\n", ""},
		{"colours are no part of the text", `/Coverage: \d+/`, "\x1b[32;1mCoverage:\x1b[0m \x1b[1m80\x1b[0m%\n", "80"},
		{"nor are the marks of sections", `/^Coverage: \d+/`, "section_end:1:test\r\x1b[0K\n\x1b[0KCoverage: 80\n", "80"},
		{"nor links of a terminal", `/^Coverage: \d+/`, "\x1b]8;;http://x\x1b\\Coverage\x1b]8;;\x07: 80\n", "80"},
		{"any case, by a flag in the pattern", `/(?i)coverage: \d+/`, "COVERAGE: 80\n", "80"},
		{"slashes within the pattern", `/a/b (\d+)/`, "a/b 5\n", "5"},
		{"text that is not UTF-8", `/Coverage: \d+/`, "\xff\xfe Coverage: 80 \xff\n", "80"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			re, err := ParsePattern(tc.pattern)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := Find(t.Context(), strings.NewReader(tc.log), re); err != nil || got != tc.want {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

func TestLogsMayBeOfAnySize(t *testing.T) {
	t.Parallel()
	re, err := ParsePattern(`/(?:a|a|aa)+b|Coverage: \d+/`) // hopeless for an engine that goes back
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a", 4*MaxLine)
	got, err := Find(t.Context(), io.MultiReader(strings.NewReader("Coverage: 42\n"), strings.NewReader(long), strings.NewReader(" Coverage: 43\n")), re)
	if err != nil || got != "42" {
		t.Errorf("got %q, %v: what is behind the limit of a line does not count", got, err)
	}
}

func TestPatternsThatAreRefused(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		`\d+`:                                "must stand between slashes",
		`/\d+`:                               "must stand between slashes",
		`/\d+/i`:                             "must stand between slashes",
		"":                                   "must stand between slashes",
		"/":                                  "must stand between slashes",
		"//":                                 "nothing between the slashes",
		"/(/":                                "missing closing ): (",
		`/(?=x)/`:                            "invalid or unsupported Perl syntax: (?=",
		"/x{1001}/":                          "invalid repeat count",
		"/" + strings.Repeat("x", 1e4) + "/": "longer than 10000 bytes",
	} {
		if _, err := ParsePattern(pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: got %v, want %q", pattern, err, want)
		}
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	programtest.Write(t, dir, map[string]string{"job.log": "Coverage: 81.5%\n"})
	for _, tc := range []struct{ pattern, file, want, log, err string }{
		{`/Coverage: \d+\.\d+/`, "job.log", "81.5", "coverage: 81.5%", ""},
		{`/Lines: \d+/`, "job.log", "", `coverage: nothing in the log matches /Lines: \d+/`, ""},
		{`/\d+/`, "none.log", "", "", "reading the log"},
		{`\d+`, "job.log", "", "", "must stand between slashes"},
	} {
		r := programtest.Run(t, Run, dir, map[string]string{"pattern": tc.pattern, "file": tc.file})
		if r.Output("coverage") != tc.want || !strings.Contains(r.Log, tc.log) || (r.Err == nil) != (tc.err == "") || r.Err != nil && !strings.Contains(r.Err.Error(), tc.err) {
			t.Errorf("%s: got %q, %v\n%s", tc.pattern, r.Output("coverage"), r.Err, r.Log)
		}
	}
}

func FuzzFind(f *testing.F) {
	f.Add(`/Coverage: \d+/`, "Coverage: 80\n")
	f.Add(`/(\d+)|(x)/`, "x\r\n\x1b[31m1")
	f.Fuzz(func(t *testing.T, pattern, log string) {
		re, err := ParsePattern(pattern)
		if err != nil || len(pattern) > 200 {
			return
		}
		got, err := Find(t.Context(), strings.NewReader(log), re)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Trim(got, "0123456789.") != "" {
			t.Errorf("%q is not a number", got)
		}
	})
}
