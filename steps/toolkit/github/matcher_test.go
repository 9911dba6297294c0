package github

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
)

// one is a file with one matcher.
func one(fields, patterns string) string {
	return `{"problemMatcher": [{"owner": "my", ` + fields + `"pattern": [` + patterns + `]}]}`
}

// TestMatcherFiles holds the cases of actions/runner for files that are wrong, and more.
func TestMatcherFiles(t *testing.T) {
	const message = `{"regexp": "(.+)", "message": 1}`
	for _, c := range []struct{ name, text, err, refused string }{
		{"message is allowed in the first pattern", one("", message+`, {"regexp": "(.+)", "file": 1}`), "", ""},
		{"a default severity", one(`"severity": "Notice", `, message), "", ""},
		{"named groups, and escapes of ECMAScript's", one("", `{"regexp": "^(?<all>\\/\\u0041\\cA[\\b\\s]\\S\\:\\-\\_\\\"+)\\>$", "message": 1}`), "", ""},
		{"an empty file of matchers", `{}`, "", ""},
		{"loop may not be set on a single pattern", one("", `{"regexp": "(.+)", "message": 1, "loop": true}`), "only the last of several patterns may set 'loop'", ""},
		{"loop is for the last pattern", one("", `{"regexp": "(.+)", "message": 1, "loop": true}, {"regexp": "(.+)", "file": 1}`), "only the last of several patterns may set 'loop'", ""},
		{"loop must set message", one("", message+`, {"regexp": "(.+)", "file": 1, "loop": true}`), "the pattern with 'loop' must set 'message'", ""},
		{"message is required", one("", `{"regexp": "(.+)", "file": 1}`), "no pattern sets 'message'", ""},
		{"owners are distinct", `{"problemMatcher": [{"owner": "a", "pattern": [` + message + `]}, {"owner": "A", "pattern": [` + message + `]}]}`, `two matchers have the owner "A"`, ""},
		{"an owner is required", `{"problemMatcher": [{"owner": "", "pattern": [` + message + `]}]}`, "a matcher has no owner", ""},
		{"a pattern is required", one("", ""), `the matcher "my" has no pattern`, ""},
		{"a property may not be set twice", one("", message+`, {"regexp": "(.+)", "message": 1}`), `"message" is set twice`, ""},
		{"a group out of range", one("", `{"regexp": "(.+)", "message": 2}`), `"message" is 2, and the expression has no such group`, ""},
		{"a group less than zero", one("", `{"regexp": "(.+)", "message": -1}`), `"message" is -1`, ""},
		{"another default severity", one(`"severity": "fatal", `, message), `the severity "fatal"`, ""},
		{"no JSON", "nonsense", "invalid character", ""},
		{"null", `{"problemMatcher": [null]}`, "a matcher is null", ""},
		{"a null pattern", one("", "null"), "pattern 1 is null", ""},
		{"too many patterns", one("", message+strings.Repeat(`, {"regexp": "x"}`, MaxMatchers)), "more than 100 patterns", ""},
		{"a lookahead is left out", one("", `{"regexp": "a(?!b)(.+)", "message": 1}`), "", `the problem matcher "my" is left out: the expression cannot be used (lookarounds and backreferences are not known): error parsing regexp: invalid or unsupported Perl syntax: ` + "`(?!`"},
		{"a lookbehind is left out", one("", `{"regexp": "(?<=a)(.+)", "message": 1}`), "", "left out"},
		{"a backreference is left out", one("", `{"regexp": "(.)\\1", "message": 1}`), "", "left out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			good, refused, err := parseMatchers([]byte(c.text))
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if c.refused != "" && (len(good) > 0 || len(refused) != 1 || !strings.Contains(refused[0].Error(), c.refused)) || c.refused == "" && len(refused) > 0 {
				t.Errorf("refused %v, want %q", refused, c.refused)
			}
		})
	}
}

// TestMatch holds the cases of actions/runner for one matcher. A line of want is what was found, as field=text; "" is nothing.
func TestMatch(t *testing.T) {
	const (
		fileThenCode = `{"regexp": "^(.+)$", "file": 1}, {"regexp": "^(.+)$", "code": 1}, `
		all          = `{"regexp": "^file:(.+) fromPath:(.+)$", "file": 1, "fromPath": 2}, {"regexp": "^severity:(.+)$", "severity": 1}, {"regexp": "^line:(.+) column:(.+) code:(.+) message:(.+)$", "line": 1, "column": 2, "code": 3, "message": 4`
	)
	for _, c := range []struct{ name, patterns, lines, want string }{
		{
			"multiple patterns, loop, accumulates state per line", fileThenCode + `{"regexp": "^message:(.+)$", "message": 1, "loop": true}`,
			"file1\ncode1\nmessage:message1\nmessage:message1-2\nabc\nfile2\ncode2\nmessage:message2\nabc\nabc\nfile3\ncode3\nmessage:message3",
			"\n\nfile=file1 code=code1 message=message1\nfile=file1 code=code1 message=message1-2\n\n\n\nfile=file2 code=code2 message=message2\n\n\n\n\nfile=file3 code=code3 message=message3",
		},
		{
			"multiple patterns, loop, a broken match clears state", `{"regexp": "^(.+)$", "file": 1}, {"regexp": "^(.+)$", "severity": 1}, {"regexp": "^message:(.+)$", "message": 1, "loop": true}`,
			"my-file.cs\nreal-bad\nmessage:not-working\nmessage:problem\nother-file.cs\nmessage:not-good\nmessage:broken",
			"\n\nfile=my-file.cs severity=real-bad message=not-working\nfile=my-file.cs severity=real-bad message=problem\n\n\nfile=other-file.cs severity=message:not-good message=broken",
		},
		{
			"multiple patterns, loop, extracts properties", all + `, "loop": true}`,
			"file:my-file.cs fromPath:my-project.proj\nseverity:real-bad\nline:123 column:45 code:uh-oh message:not-working\nline:234 column:56 code:yikes message:broken",
			"\n\nfile=my-file.cs line=123 column=45 severity=real-bad code=uh-oh message=not-working fromPath=my-project.proj\nfile=my-file.cs line=234 column=56 severity=real-bad code=yikes message=broken fromPath=my-project.proj",
		},
		{
			"multiple patterns, no loop, accumulates state per line", fileThenCode + `{"regexp": "^message:(.+)$", "message": 1}`,
			"file1\ncode1\nmessage:message1\nabc\nfile2\ncode2\nmessage:message2\nmessage:message3",
			"\n\nfile=file1 code=code1 message=message1\n\n\n\nfile=file2 code=code2 message=message2\n",
		},
		{
			"multiple patterns, no loop, does not loop", `{"regexp": "^file:(.+)$", "file": 1}, {"regexp": "^message:(.+)$", "message": 1}`,
			"file:my-file.cs\nmessage:not-working\nmessage:not-working", "\nfile=my-file.cs message=not-working\n",
		},
		{
			"multiple patterns, no loop, extracts properties", all + "}",
			"file:f fromPath:p\nseverity:real-bad\nline:1 column:2 code:c message:m\nline:1 column:2 code:c message:m",
			"\n\nfile=f line=1 column=2 severity=real-bad code=c message=m fromPath=p\n",
		},
		{
			"multiple patterns, no loop, a match clears state", `{"regexp": "^(.+)$", "file": 1}, {"regexp": "^(.+)$", "severity": 1}, {"regexp": "^(.+)$", "message": 1}`,
			"a.cs\nbad\nm\nb.cs\nnot-good\nbroken", "\n\nfile=a.cs severity=bad message=m\n\n\nfile=b.cs severity=not-good message=broken",
		},
		{
			"a single pattern extracts properties", `{"regexp": "^file:(.+) line:(.+) severity:(.+)? message:(.+)$", "file": 1, "line": 2, "severity": 3, "message": 4}`,
			"file:f line:1 severity: message:m\nx", "file=f line=1 severity= message=m\n",
		},
		{"what is found first stays", `{"regexp": "^a(b)?", "severity": 1}, {"regexp": "^(.+)$", "message": 1}`, "a\nm", "\nseverity= message=m"},
	} {
		t.Run(c.name, func(t *testing.T) {
			good, refused, err := parseMatchers([]byte(one("", c.patterns)))
			if err != nil || len(refused) > 0 {
				t.Fatal(err, refused)
			}
			running := make([]*found, len(good[0].Patterns)-1)
			var got []string
			for line := range strings.SplitSeq(c.lines, "\n") {
				var fields []string
				if p := good[0].match([]byte(line), running); p != nil {
					for i, text := range p {
						if text != nil {
							fields = append(fields, fieldNames[i]+"="+*text)
						}
					}
				}
				got = append(got, strings.Join(fields, " "))
			}
			if diff := cmp.Diff(c.want, strings.Join(got, "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// matcherFile writes a file of matchers into the workspace.
func (b *begun) matcherFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(b.process.WorkDir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestProblems holds the cases of actions/runner for matchers at work.
func TestProblems(t *testing.T) {
	owned := func(owner, regexp string) string {
		return `{"problemMatcher": [{"owner": "` + owner + `", "pattern": [{"regexp": "` + regexp + `", "message": 1}]}]}`
	}
	files := map[string]string{
		"a.json":     owned("a", `^ERROR: (.+)`),
		"a2.json":    owned("A", `^BAD: (.+)`),
		"b.json":     owned("b", `^ERROR: .(.*)`),
		"blank.json": owned("c", `^ERROR:( )`),
		"full.json":  one(`"severity": "warning", "fromPath": "src/p.proj", `, `{"regexp": "^(?:(\\w+): )?([^:]+):(\\w+):(\\w+): (\\w*): (.+)$", "severity": 1, "file": 2, "line": 3, "column": 4, "code": 5, "message": 6}`),
		"lines.json": anyLine,
		"look.json":  owned("l", `a(?=b)(.+)`),
		"src/x.go":   "",
		"y.go":       "",
	}
	errors := func(messages ...string) []event.Annotation {
		var all []event.Annotation
		for _, m := range messages {
			all = append(all, event.Annotation{Level: event.AnnotationError, Message: m})
		}
		return all
	}
	for _, c := range []struct {
		name, output string
		want         []event.Annotation
		err          string
	}{
		{"a problem", "ERROR: x\n::add-matcher::a.json\nERROR: y\nerror: z\n ERROR: a\nERROR: last", errors("y", "last"), ""},
		{"the last added comes first", "::add-matcher::a.json\n::add-matcher::b.json\nERROR: xy\n", errors("y"), ""},
		{"one of the same owner replaces", "::add-matcher::a.json\n::add-matcher::a2.json\nERROR: x\nBAD: y\n", errors("y"), ""},
		{"matchers can be removed by owner", "::add-matcher::a.json\n::remove-matcher owner=A::\nERROR: x\n", nil, ""},
		{"matchers can be removed by file", "::add-matcher::a.json\n##[remove-matcher]a.json\nERROR: x\n", nil, ""},
		{"colours do not matter", "::add-matcher::a.json\n\x1b[31mERR\x1b[1;2mOR: \x1b[0mx\x1b[m\n", errors("x"), ""},
		{"commands are not seen", "::add-matcher::a.json\n::notice::ERROR: x\n", []event.Annotation{{Level: event.AnnotationNotice, Message: "ERROR: x"}}, ""},
		{"a line end of two bytes is one", "::add-matcher::lines.json\r\nfile\r\nm\r\n", errors("m"), ""},
		{"a problem without message is left to others", "::add-matcher::a.json\n::add-matcher::blank.json\nERROR: x\n", errors("x"), ""},
		{"lines that are too long are not seen", "::add-matcher::a.json\nERROR: " + strings.Repeat("x", MaxMatchedLine) + "\nERROR: y\n", errors("y"), ""},
		{
			"all of it", "::add-matcher::full.json\nNotice: x.go:3:4: E1: m\nother.go:x:-1: : m\nfatal: x.go:1:1: E: m\n../y.go:1:2: : m\n",
			[]event.Annotation{
				{Level: event.AnnotationNotice, Message: "m", File: "src/x.go", Line: 3, Column: 4, Code: "E1"},
				{Level: event.AnnotationWarning, Message: "m", File: "y.go", Line: 1, Column: 2},
			}, "",
		},
		{"a lookahead is told of", "::add-matcher::look.json\n", []event.Annotation{{Level: event.AnnotationWarning, Message: `the problem matcher "l" is left out: the expression cannot be used (lookarounds and backreferences are not known): error parsing regexp: invalid or unsupported Perl syntax: ` + "`(?=`"}}, ""},
		{"no file", "::add-matcher::\n::remove-matcher::\n::remove-matcher owner=a::a.json\n", []event.Annotation{
			{Level: event.AnnotationWarning, Message: "::add-matcher:: has no file"},
			{Level: event.AnnotationWarning, Message: "::remove-matcher:: takes an owner or a file"},
			{Level: event.AnnotationWarning, Message: "::remove-matcher:: takes an owner or a file"},
		}, ""},
		{"a file that is not there", "::add-matcher::no.json\n", nil, "problem matchers in no.json"},
		{"a folder", "::add-matcher::src\n", nil, "src is a folder, not a regular file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := begin(t, nil)
			if err := os.Mkdir(filepath.Join(b.process.WorkDir, "src"), 0o700); err != nil {
				t.Fatal(err)
			}
			for name, text := range files {
				b.matcherFile(t, name, text)
			}
			b.prints(t, c.output, 5)
			_, err := b.End()
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
				return
			}
			if diff := cmp.Diff(c.want, b.told()); err != nil || diff != "" {
				t.Error(err, diff)
			}
		})
	}
	t.Run("a problem stays in the log as it is", func(t *testing.T) {
		b := begin(t, nil)
		b.matcherFile(t, "a.json", files["a.json"])
		b.prints(t, "::add-matcher::a.json\n\x1b[31mERROR: x\r\n", 3)
		if _, err := b.End(); err != nil || b.log.String() != "\x1b[31mERROR: x\r\n" {
			t.Errorf("%q, %v", b.log.String(), err)
		}
	})
	t.Run("matchers live for the job, and each stream has its own lines", func(t *testing.T) {
		w := world{}
		first := beginIn(t, w, nil, nil)
		first.matcherFile(t, "m.json", files["lines.json"])
		first.prints(t, "::add-matcher::m.json\n", 100)
		if _, err := first.End(); err != nil {
			t.Fatal(err)
		}
		second := beginIn(t, w, nil, nil)
		out, err := second.Output(&second.log), second.Output(&second.log)
		_, _ = out.Write([]byte("file1\n"))
		_, _ = err.Write([]byte("file2\n"))
		_, _ = out.Write([]byte("m1\n"))
		if diff := cmp.Diff(errors("m1"), second.told()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a file that an action names is looked for in its folder as well", func(t *testing.T) {
		action := t.TempDir()
		if err := os.WriteFile(filepath.Join(action, "m.json"), []byte(files["a.json"]), 0o600); err != nil {
			t.Fatal(err)
		}
		b := beginIn(t, world{}, nil, func(p *engine.ToolkitProcess) { p.ActionDir = action })
		b.prints(t, "::add-matcher::m.json\nERROR: x\n::add-matcher::"+filepath.Join(action, "m.json")+"\nERROR: y\n", 100)
		if diff := cmp.Diff(errors("x", "y"), b.told()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a job has a limit of matchers", func(t *testing.T) {
		b := begin(t, nil)
		var all []string
		for i := range MaxMatchers {
			all = append(all, `{"owner": "`+strings.Repeat("x", i+1)+`", "pattern": [{"regexp": "(.)", "message": 1}]}`)
		}
		b.matcherFile(t, "all.json", `{"problemMatcher": [`+strings.Join(all, ",")+`]}`)
		b.matcherFile(t, "a.json", files["a.json"])
		b.prints(t, "::add-matcher::all.json\n::add-matcher::a.json\n", 100)
		if _, err := b.End(); err == nil || !strings.Contains(err.Error(), "more than 100 problem matchers") {
			t.Error(err)
		}
	})
}

func FuzzMatchers(f *testing.F) {
	f.Add(anyLine, "a\nb")
	f.Add(one("", `{"regexp": "^(?<a>\\u0041[\\s\\b\\cA])$", "message": 0}`), "x")
	f.Fuzz(func(t *testing.T, config, lines string) {
		good, _, err := parseMatchers([]byte(config))
		if err != nil {
			return
		}
		for _, m := range good {
			running := make([]*found, len(m.Patterns)-1)
			for line := range strings.SplitSeq(lines, "\n") {
				m.match([]byte(line), running)
			}
		}
	})
}

func TestAPatternSkipsLinesThatWouldTakeLong(t *testing.T) {
	t.Parallel()
	good, _, err := parseMatchers([]byte(one("", `{"regexp": "((ab?){900}|x)(.)", "message": 3}`)))
	if err != nil {
		t.Fatal(err)
	}
	p := good[0].Patterns[0]
	if p.longest < 1000 || p.longest >= MaxMatchedLine {
		t.Errorf("it looks at lines of %d bytes", p.longest)
	}
	for size, found := range map[int]bool{p.longest: true, p.longest + 1: false} {
		if got := good[0].match([]byte("xy"+strings.Repeat(" ", size-2)), nil); (got != nil) != found {
			t.Errorf("in a line of %d bytes it finds %v", size, got)
		}
	}
}
