package github

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/internal/mask/masktest"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
)

// fileCases are those of actions/runner for the files of pairs, and more.
var fileCases = []struct {
	name, text string
	want       map[string]string
	err        string
}{
	{"an empty file has nothing", "", nil, ""},
	{"simple", "MY_ENV=MY VALUE", map[string]string{"MY_ENV": "MY VALUE"}, ""},
	{"simple: skip empty lines", "\nMY_ENV=my value\n\nMY_ENV_2=my second value\n", map[string]string{"MY_ENV": "my value", "MY_ENV_2": "my second value"}, ""},
	{"simple: empty value", "MY_ENV=", map[string]string{"MY_ENV": ""}, ""},
	{"simple: multiple values", "A=my value\nB=\nC=third", map[string]string{"A": "my value", "B": "", "C": "third"}, ""},
	{"simple: special characters", "A==abc\nB=def=ghi\nC=jkl=\nD=f<<g\nE=a=<<b", map[string]string{"A": "=abc", "B": "def=ghi", "C": "jkl=", "D": "f<<g", "E": "a=<<b"}, ""},
	{"the last of a name wins", "a=1\na=2\n", map[string]string{"a": "2"}, ""},
	{"heredoc", "A<<EOF\nline one\nline two\nline three\nEOF", map[string]string{"A": "line one\nline two\nline three"}, ""},
	{"heredoc: empty value", "A<<EOF\nEOF", map[string]string{"A": ""}, ""},
	{"heredoc: one empty line", "A<<EOF\n\nEOF\n", map[string]string{"A": ""}, ""},
	{"heredoc: skip empty lines around", "\nA<<EOF\nhello\nworld\nEOF\n\nB<<EOF\nHELLO\nAGAIN\nEOF\n\n", map[string]string{"A": "hello\nworld", "B": "HELLO\nAGAIN"}, ""},
	{
		"heredoc: special characters", "A<<=EOF\nhello\none\n=EOF\nB<<<EOF\nhello\ntwo\n<EOF\nC<<EOF\nhello\n\nthree\n\nEOF\nD<<EOF\nhello=four\nEOF\nE<<EOF\n EOF\nEOF",
		map[string]string{"A": "hello\none", "B": "hello\ntwo", "C": "hello\n\nthree\n", "D": "hello=four", "E": " EOF"}, "",
	},
	{"heredoc: only a whole line is the delimiter", "a<<EOF\nEOF \n EOF\nEOF\n", map[string]string{"a": "EOF \n EOF"}, ""},
	{"heredoc: what looks like pairs is text", "a<<EOF\nb=1\nc<<X\nEOF\n", map[string]string{"a": "b=1\nc<<X"}, ""},
	{"a byte order mark does not count", "\uFEFFa=1\n", map[string]string{"a": "1"}, ""},
	{"expressions are text", "a=${{ secrets.X }}\n", map[string]string{"a": "${{ secrets.X }}"}, ""},
	{"names are not trimmed", " a =1\n", map[string]string{" a ": "1"}, ""},
	{"what is before a mistake counts", "a=1\nb\nc=2", map[string]string{"a": "1"}, `line 2: invalid format "b"`},
	{"heredoc: missing new line", "A<<EOF line one line two line three EOF", nil, "line 1: invalid value: matching delimiter not found"},
	{"heredoc: missing new line, multiple lines", "A<<EOF line one\n line two\n line three EOF", nil, "EOF marker missing new line"},
	{"heredoc: no end", "x=1\na<<EOF\none\ntwo\n", map[string]string{"x": "1"}, `line 2: invalid value: matching delimiter not found: no line below is "EOF"`},
	{"heredoc: no delimiter", "a<<\nx\n", nil, `line 1: invalid format "a<<": neither the name nor the delimiter may be empty`},
	{"heredoc: no name", "<<EOF\nEOF\n", nil, `line 1: invalid format "<<EOF"`},
	{"a line that is neither", "a=1\nb<<X\n1\n2\nX\n{\"name\": 1}\n", map[string]string{"a": "1", "b": "1\n2"}, `line 6: invalid format "{\"name\": 1}": write name=value`},
	{"a line without name", "=1\n", nil, `line 1: invalid format "=1": the name must not be empty`},
	{"UTF-16", "\xff\xfea\x00", nil, "the file is in UTF-16"},
}

func TestFilesOfPairs(t *testing.T) {
	kinds := map[string]func(engine.ToolkitResult) map[string]string{
		"GITHUB_OUTPUT": func(r engine.ToolkitResult) map[string]string { return texts(r.Outputs) },
		"GITHUB_ENV":    func(r engine.ToolkitResult) map[string]string { return r.Exports },
		"GITHUB_STATE":  func(r engine.ToolkitResult) map[string]string { return r.State },
	}
	for variable, read := range kinds {
		for _, c := range fileCases {
			t.Run(variable+"/"+c.name, func(t *testing.T) {
				b := begin(t, nil)
				b.writes(t, variable, c.text)
				result, err := b.End()
				if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || !strings.HasPrefix(err.Error(), variable)) {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				if c.want == nil {
					c.want = map[string]string{}
				}
				if diff := cmp.Diff(c.want, read(result)); diff != "" {
					t.Error(diff)
				}
			})
		}
		t.Run(variable+"/a file that was removed has nothing", func(t *testing.T) {
			b := begin(t, nil)
			if err := os.Remove(b.Env()[variable]); err != nil {
				t.Fatal(err)
			}
			if result, err := b.End(); err != nil || len(read(result)) > 0 {
				t.Errorf("%v, %v", result, err)
			}
		})
		t.Run(variable+"/a folder in its place is refused", func(t *testing.T) {
			b := begin(t, nil)
			path := b.Env()[variable]
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
			if _, err := b.End(); err == nil || !strings.Contains(err.Error(), "not a regular file") {
				t.Error(err)
			}
		})
	}
	t.Run("a carriage return ends lines on Windows only", func(t *testing.T) {
		b := begin(t, nil)
		b.writes(t, "GITHUB_OUTPUT", "a=1\r\n")
		want := "1\r"
		if runtime.GOOS == "windows" {
			want = "1"
		}
		if result, err := b.End(); err != nil || result.Outputs["a"].Str() != want {
			t.Errorf("%q, %v", result.Outputs["a"].Str(), err)
		}
	})
	t.Run("a mistake in one file leaves the others, and is said in the log", func(t *testing.T) {
		b := begin(t, nil)
		b.prints(t, "text\n", 100)
		b.writes(t, "GITHUB_OUTPUT", "nonsense")
		b.writes(t, "GITHUB_STATE", "a=1")
		result, err := b.End()
		if err == nil || result.State["a"] != "1" {
			t.Errorf("%v, %v", result.State, err)
		}
		if want := "text\nError: " + err.Error() + "\n"; b.log.String() != want {
			t.Errorf("log %q, want %q", b.log.String(), want)
		}
	})
}

func TestVariablesForLaterSteps(t *testing.T) {
	list := string(os.PathListSeparator)
	for _, c := range []struct {
		name, env, path string
		want            map[string]string
		say             string
	}{
		{"variables", "A=1\nB<<X\n1\n2\nX\n", "", map[string]string{"A": "1", "B": "1\n2"}, ""},
		{"the folder that was added last comes first", "", "/a\n/b\n\n/a\n", map[string]string{"PATH": "/a" + list + "/b" + list + "/bin" + list + "/usr/bin"}, ""},
		{"a folder that PATH has moves to the front", "", "/usr/bin\n", map[string]string{"PATH": "/usr/bin" + list + "/bin"}, ""},
		{"folders go before a PATH that was set", "PATH=/own\n", "/a\n", map[string]string{"PATH": "/a" + list + "/own"}, ""},
		{"NODE_OPTIONS is refused, and the step goes on", "A=1\nnode_options=--require=/x\n", "", map[string]string{"A": "1"}, "NODE_OPTIONS cannot be set for later steps"},
		{"NODE_OPTIONS is refused in a heredoc", "NODE_OPTIONS<<EOF\nasdf\nEOF\n", "", map[string]string{}, "NODE_OPTIONS cannot be set for later steps"},
		{"what the runner sets stays", "RUNNER_TEMP=/x\nGITHUB_WORKSPACE<<X\n/x\nX\nB=1", "", map[string]string{"B": "1"}, "RUNNER_TEMP was not set for later steps: it is the runner's own"},
		{"other names are free", "GITHUB_TOKEN_FILE=/x\nCI=false\nACTIONS_ALLOW_UNSECURE_COMMANDS=true", "", map[string]string{"GITHUB_TOKEN_FILE": "/x", "CI": "false", "ACTIONS_ALLOW_UNSECURE_COMMANDS": "true"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := begin(t, map[string]string{"PATH": "/bin" + list + "/usr/bin"})
			b.writes(t, "GITHUB_ENV", c.env)
			b.writes(t, "GITHUB_PATH", c.path)
			result, err := b.End()
			if diff := cmp.Diff(c.want, result.Exports); err != nil || diff != "" {
				t.Error(err, diff)
			}
			if told := b.told(); (c.say == "") != (len(told) == 0) || c.say != "" && !strings.Contains(told[0].Message, c.say) {
				t.Errorf("annotations %+v, want %q", told, c.say)
			}
		})
	}
}

func TestState(t *testing.T) {
	b := beginIn(t, world{}, nil, func(p *engine.ToolkitProcess) { p.State = map[string]string{"isPost": "true", "who is-it": "x"} })
	if env := b.Env(); env["STATE_isPost"] != "true" || env["STATE_who is-it"] != "x" {
		t.Errorf("%v", env)
	}
	b.prints(t, "::save-state name=b::2\n::save-state name=isPost::1\n", 100)
	b.writes(t, "GITHUB_STATE", "isPost=no\n")
	result, err := b.End()
	if diff := cmp.Diff(map[string]string{"isPost": "no", "who is-it": "x", "b": "2"}, result.State); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestSummary(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []event.Body
		say        string
	}{
		{"none", "", nil, ""},
		{"a summary is told as it is", "# Title\n\nrow\n", []event.Body{event.Summary{Markdown: "# Title\n\nrow\n"}}, ""},
		{"a summary of the largest size", strings.Repeat("x", MaxSummary), []event.Body{event.Summary{Markdown: strings.Repeat("x", MaxSummary)}}, ""},
		{"one that is too large is left out, and the step goes on", strings.Repeat("x", MaxSummary+1), nil, "GITHUB_STEP_SUMMARY: the file is too large: it has 1024 KiB, and the limit is 1024 KiB; the summary is left out"},
		{"bytes that are no text", "a\xffb", []event.Body{event.Summary{Markdown: "a\uFFFDb"}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := begin(t, nil)
			b.writes(t, "GITHUB_STEP_SUMMARY", c.text)
			if _, err := b.End(); err != nil {
				t.Fatal(err)
			}
			if c.say != "" {
				c.want = []event.Body{event.Annotation{Level: event.AnnotationError, Message: c.say}}
			}
			if diff := cmp.Diff(c.want, b.events); diff != "" {
				t.Error(diff[:min(len(diff), 500)])
			}
		})
	}
}

func FuzzPairs(f *testing.F) {
	for _, c := range fileCases {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		pairs, err := parsePairs(text)
		if err != nil {
			return
		}
		// What was read comes back from the form that can hold everything.
		var again strings.Builder
		for _, p := range pairs {
			if p.name == "" {
				t.Fatalf("a pair without name in %q", text)
			}
			if strings.ContainsAny(p.name, "=\n") || strings.Contains(p.name, "<<") {
				t.Fatalf("the name %q in %q", p.name, text)
			}
			if strings.HasSuffix(p.name, "<") {
				return // the form could not tell where the name ends
			}
			end := "end"
			for strings.Contains(p.text, end) {
				end += "x"
			}
			again.WriteString(p.name + "<<" + end + "\n")
			if p.text != "" {
				again.WriteString(p.text + "\n")
			}
			again.WriteString(end + "\n")
		}
		if runtime.GOOS == "windows" && strings.Contains(text, "\r") {
			return
		}
		back, err := parsePairs(again.String())
		if err != nil {
			t.Fatal(err)
		}
		if len(back) != len(pairs) {
			t.Fatalf("%d pairs, then %d", len(pairs), len(back))
		}
		for i := range pairs {
			if back[i].name != pairs[i].name || back[i].text != pairs[i].text {
				t.Fatalf("%+v became %+v", pairs[i], back[i])
			}
		}
	})
}

func TestMessagesShowNoPartOfASecret(t *testing.T) {
	masktest.Shortens(t, 60, shorten)
	masktest.Shortens(t, MaxAnnotation, cut)
}
