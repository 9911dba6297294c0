package github

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/value"
)

// TestParse holds the cases of actions/runner for both forms of a command.
func TestParse(t *testing.T) {
	for _, c := range []struct {
		line       string
		properties map[string]string
		data       string
		none       bool
	}{
		{line: "##[do-something k1=v1;]msg", properties: map[string]string{"k1": "v1"}, data: "msg"},
		{line: "##[do-something]"},
		{line: "##[do-something k1=%3B=%0D=%0A=%5D;]%3B-%0D-%0A-%5D", properties: map[string]string{"k1": ";=\r=\n=]"}, data: ";-\r-\n-]"},
		{line: "##[do-something k1=%253B=%250D=%250A=%255D;]%253B-%250D-%250A-%255D", properties: map[string]string{"k1": "%3B=%0D=%0A=%5D"}, data: "%3B-%0D-%0A-%5D"},
		{line: "##[do-something k1=;k2=;]"},
		{line: ">>>   ##[do-something k1=v1;]msg", properties: map[string]string{"k1": "v1"}, data: "msg"},
		{line: "::do-something k1=v1,::msg", properties: map[string]string{"k1": "v1"}, data: "msg"},
		{line: "::do-something::"},
		{line: "::do-something k1=;=%2C=%0D=%0A=]=%3A,::;-%0D-%0A-]-:-,", properties: map[string]string{"k1": ";=,=\r=\n=]=:"}, data: ";-\r-\n-]-:-,"},
		{line: "::do-something k1=;=%252C=%250D=%250A=]=%253A,::;-%250D-%250A-]-:-,", properties: map[string]string{"k1": ";=%2C=%0D=%0A=]=%3A"}, data: ";-%0D-%0A-]-:-,"},
		{line: "::do-something k1=,k2=,::"},
		{line: "::do-something k1=v1::", properties: map[string]string{"k1": "v1"}},
		{line: "   ::DO-Something K1=v1,::msg", properties: map[string]string{"k1": "v1"}, data: "msg"},
		{line: "::do-something k1=a b=c,k2=x::y::z", properties: map[string]string{"k1": "a b=c", "k2": "x"}, data: "y::z"},
		{line: "   >>>   ::do-something k1=v1,::msg", none: true},
		{line: "::do-something", none: true},
		{line: "##[do-something", none: true},
	} {
		got, ok := parseColons(c.line)
		if !ok {
			got, ok = parseBracket(c.line)
		}
		if ok == c.none {
			t.Errorf("%q is a command: %v", c.line, ok)
		}
		if c.none {
			continue
		}
		if c.properties == nil {
			c.properties = map[string]string{}
		}
		if got.name != "do-something" || got.data != c.data || !cmp.Equal(got.properties, c.properties) || got.before+got.text != c.line {
			t.Errorf("%q: %+v", c.line, got)
		}
	}
}

func TestCommands(t *testing.T) {
	const deprecated = "Warning: the command ::set-output:: is deprecated; write to the file in $GITHUB_OUTPUT\n"
	unsecure := map[string]string{"ACTIONS_ALLOW_UNSECURE_COMMANDS": "true", "PATH": "/bin"}
	for _, c := range []struct {
		name, output, log string
		env               map[string]string
		masked            []string
		outputs, exports  map[string]string
		err               string
	}{
		{name: "text passes", output: "a\n\n b::c\n:d\nlast", log: "a\n\n b::c\n:d\nlast"},
		{name: "what is no command is text", output: "::nothing::x\n::\n::error\n:: ::\n##\n##[\n##[x]\n##[error\n#", log: "::nothing::x\n::\n::error\n:: ::\n##\n##[\n##[x]\n##[error\n#"},
		{name: "the older form stands anywhere", output: "a ##[notice]b\n  ##[NOTICE]c\n::std##[notice]d\nx ## y # ##[z]\n", log: "a \nNotice: b\nNotice: c\n::std\nNotice: d\nx ## y # ##[z]\n"},
		{name: "only the first of a line is one", output: "##[nothing]##[error]x\n::nothing::##[notice]y\n::debug::##[error]z\n", log: "##[nothing]##[error]x\n::nothing::\nNotice: y\n"},
		{name: "what runners put around actions is text", output: "##[start-action id=x]a\n##[internal-set-repo-path repoFullName=a/b;workspaceRepo=true]p\n", log: "##[start-action id=x]a\n##[internal-set-repo-path repoFullName=a/b;workspaceRepo=true]p\n"},
		{name: "a mask is taken out", output: "::add-mask::hush\n  ::ADD-MASK::two1%0A lines%0D%0A\nend\n", log: "end\n", masked: []string{"hush", "two1\n lines\r\n", "two1", "lines"}},
		{name: "nothing masks an empty mask", output: "::add-mask:: \n::add-mask:: %0D  %0A   %0D%0A    %0D\n", log: strings.Repeat("Warning: ::add-mask:: has nothing to mask\n", 2)},
		{name: "a mask that is too short stays readable", output: "::add-mask::abc\n", log: "Warning: ::add-mask:: has a value of 3 bytes, which stays readable: shorter ones than 4 are in any text\n", masked: []string{"abc"}},
		{name: "messages are text", output: "::notice::a\n::warning file=x.js,line=2,col=3::b%25%0Ac\n::error title=T::d::e\n", log: "Notice: a\nWarning: x.js:2:3: b%\nc\nError: d::e\n"},
		{name: "debug is not shown", output: "::debug::a\nb\n", log: "b\n"},
		{name: "debug is shown to those who ask", env: map[string]string{"RUNNER_DEBUG": "1"}, output: "::debug::a\n", log: "Debug: a\n"},
		{name: "groups are their titles", output: "::group::Title\nin\n::endgroup::\n", log: "Title\nin\n"},
		{name: "an output, with a warning once", output: "::set-output name=a::1\n::set-output name=b%2Cc::2\n", log: deprecated, outputs: map[string]string{"a": "1", "b,c": "2"}},
		{name: "a command without line end", output: "::set-output name=a::1", log: deprecated, outputs: map[string]string{"a": "1"}},
		{name: "lines end in several ways", output: "a\r\n::debug::x\r\nb\r::debug::y\rc\r\n\n::debug::z\n", log: "a\r\nb\rc\r\n\n"},
		{name: "bytes that are no text pass", output: "\xff\x00\n::notice::\xfe\n", log: "\xff\x00\nNotice: \xfe\n"},
		{name: "an output without name", output: "::set-output::1\n", log: deprecated + "Error: ::set-output:: has no name\n", err: "::set-output:: has no name"},
		{name: "set-env is disabled", output: "::set-env name=A::1\n", log: "Error: the command ::set-env:: is disabled; write to the file in $GITHUB_ENV, or set ACTIONS_ALLOW_UNSECURE_COMMANDS to true\n", err: "::set-env:: is disabled"},
		{name: "add-path is disabled", output: "::add-path::/x\n", log: "Error: the command ::add-path:: is disabled; write to the file in $GITHUB_PATH, or set ACTIONS_ALLOW_UNSECURE_COMMANDS to true\n", err: "::add-path:: is disabled"},
		{name: "set-env and add-path can be allowed", env: unsecure, output: "::set-env name=A::1\n::add-path::/x\n", exports: map[string]string{"A": "1", "PATH": "/x" + string(os.PathListSeparator) + "/bin"}},
		{name: "set-env sets no NODE_OPTIONS", env: unsecure, output: "::set-env name=NODE_OPTIONS::1\n", log: "Error: NODE_OPTIONS cannot be set for later steps: it would put code into every Node program\n", exports: map[string]string{}},
		{
			name:   "commands can be stopped, and go on",
			output: "::stop-commands::s3cr3t-word\n::add-mask::text\n##[set-output name=a]1\n::stop-commands::x\n::S3cr3t-Word::\n::add-mask::hush\n",
			log:    "::stop-commands::s3cr3t-word\n::add-mask::text\n##[set-output name=a]1\n::stop-commands::x\n::S3cr3t-Word::\n", masked: []string{"s3cr3t-word", "hush"},
		},
		{name: "both forms stop", output: "##[stop-commands]token1\n::notice::a\n##[token1]\n::notice::b\n", log: "##[stop-commands]token1\n::notice::a\n##[token1]\nNotice: b\n"},
		{name: "a command is not a token", output: "::stop-commands::add-mask\n::add-mask::hush\n", log: "::stop-commands::add-mask\nError: ::stop-commands:: needs a token that nobody can guess: not \"add-mask\", which is empty or a command\n", masked: []string{"hush"}, err: "needs a token that nobody can guess"},
		{name: "nothing is not a token", output: "::stop-commands::\n::debug::x\n", log: "::stop-commands::\nError: ::stop-commands:: needs a token that nobody can guess: not \"\", which is empty or a command\n", err: "needs a token"},
		{name: "pause-logging is not a token", output: "::stop-commands::Pause-Logging\n", log: "::stop-commands::Pause-Logging\nError: ::stop-commands:: needs a token that nobody can guess: not \"Pause-Logging\", which is empty or a command\n", err: "needs a token"},
		{name: "bad tokens can be allowed", env: map[string]string{"ACTIONS_ALLOW_UNSECURE_STOPCOMMAND_TOKENS": "1"}, output: "::stop-commands::debug\n::notice::x\n::debug::\n::notice::y\n", log: "::stop-commands::debug\n::notice::x\n::debug::\nNotice: y\n"},
		{name: "commands are shown on request", output: "::echo::on\n::set-output name=a::1\n::add-mask::hush\n::notice::n\n::echo::Off   \n::set-output name=a::2\n", log: "::set-output name=a::1\n" + deprecated + "::add-mask::***\nNotice: n\n::echo::Off   \n", masked: []string{"hush"}, outputs: map[string]string{"a": "2"}},
		{name: "echo is on or off", output: "::echo::invalid\n", log: "Error: ::echo:: takes on or off, not \"invalid\"\n", err: "takes on or off"},
		{name: "echo needs a value", output: "::echo::\n", log: "Error: ::echo:: takes on or off, not \"\"\n", err: "takes on or off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, size := range []int{1, 2, 7, 1 << 20} {
				b := begin(t, c.env)
				b.prints(t, c.output, size)
				result, err := b.End()
				if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
					t.Errorf("pieces of %d: error %v, want %q", size, err, c.err)
				}
				if diff := cmp.Diff(c.log, b.log.String()); diff != "" {
					t.Errorf("pieces of %d: log (-want +got):\n%s", size, diff)
				}
				if diff := cmp.Diff(c.masked, b.masked); diff != "" {
					t.Errorf("pieces of %d: masked (-want +got):\n%s", size, diff)
				}
				if diff := cmp.Diff(c.outputs, texts(result.Outputs)); c.outputs != nil && diff != "" {
					t.Errorf("pieces of %d: outputs (-want +got):\n%s", size, diff)
				}
				if diff := cmp.Diff(c.exports, result.Exports); c.exports != nil && diff != "" {
					t.Errorf("pieces of %d: exports (-want +got):\n%s", size, diff)
				}
			}
		})
	}
	t.Run("text passes before its line is complete", func(t *testing.T) {
		b := begin(t, nil)
		b.prints(t, "50 %", 10)
		if b.log.String() != "50 %" {
			t.Errorf("%q", b.log.String())
		}
	})
	t.Run("a line that is longer than a command may be is text", func(t *testing.T) {
		b := begin(t, nil)
		long := "::add-mask::" + strings.Repeat("x", MaxCommand) + "\n"
		b.prints(t, long, 1<<20)
		if b.log.Len() != len(long) || len(b.masked) > 0 {
			t.Errorf("%d bytes, %d masks", b.log.Len(), len(b.masked))
		}
	})
}

// TestAnnotations holds the cases of actions/runner for positions, and what else an annotation has.
func TestAnnotations(t *testing.T) {
	warning := func(change func(*event.Annotation)) event.Annotation {
		a := event.Annotation{Level: event.AnnotationWarning, Message: "m"}
		change(&a)
		return a
	}
	for _, c := range []struct {
		name, output string
		want         event.Annotation
	}{
		{"an error", "::error::a%0Ab", event.Annotation{Level: event.AnnotationError, Message: "a\nb"}},
		{"a notice with a title", "##[notice title=A%3B B]m", event.Annotation{Level: event.AnnotationNotice, Message: "m", Title: "A; B"}},
		{"columns when lines are different", "::warning line=1,endLine=2,col=1,endColumn=2::m", warning(func(a *event.Annotation) { a.Line, a.EndLine = 1, 2 })},
		{"no lines with columns", "::warning col=1,endColumn=2::m", warning(func(*event.Annotation) {})},
		{"no line with endLine", "::warning endLine=1::m", warning(func(a *event.Annotation) { a.Line, a.EndLine = 1, 1 })},
		{"no column with endColumn", "::warning line=1,endColumn=2::m", warning(func(a *event.Annotation) { a.Line, a.Column, a.EndColumn = 1, 2, 2 })},
		{"empty strings", "::warning line=,endLine=3::m", warning(func(a *event.Annotation) { a.Line, a.EndLine = 3, 3 })},
		{"nonsensical lines", "::warning line=4,endLine=3::m", warning(func(*event.Annotation) {})},
		{"nonsensical columns", "::warning line=1,endLine=1,col=3,endColumn=2::m", warning(func(a *event.Annotation) { a.Line, a.EndLine = 1, 1 })},
		{"no numbers", "::warning line=x,col=-1::m", warning(func(*event.Annotation) {})},
		{"all of them", "::warning line=1,endLine=1,col=1,endColumn=2::m", warning(func(a *event.Annotation) { a.Line, a.EndLine, a.Column, a.EndColumn = 1, 1, 1, 2 })},
		{"line and column", "::warning line=1,col=1,file=test.txt::m", warning(func(a *event.Annotation) { a.Line, a.Column, a.File = 1, 1, "test.txt" })},
		{"a file of the workspace is relative to it", "::warning file=WORK/a/b.go::m", warning(func(a *event.Annotation) { a.File = "a/b.go" })},
		{"so is one in a container", "::warning file=/github/workspace/a/b.go::m", warning(func(a *event.Annotation) { a.File = "a/b.go" })},
		{"a file elsewhere is as it is", "::warning file=/etc/x::m", warning(func(a *event.Annotation) { a.File = "/etc/x" })},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := begin(t, nil)
			b.prints(t, strings.ReplaceAll(c.output, "WORK", b.process.WorkDir)+"\n", 100)
			if _, err := b.End(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]event.Annotation{c.want}, b.told()); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("an annotation holds the beginning of a long message", func(t *testing.T) {
		t.Parallel()
		b := begin(t, nil)
		b.prints(t, "::error title="+strings.Repeat("t", MaxAnnotation+1)+"::"+strings.Repeat("x", MaxAnnotation-1)+"é\n", 1<<20)
		want := event.Annotation{Level: event.AnnotationError, Title: strings.Repeat("t", MaxAnnotation) + "…", Message: strings.Repeat("x", MaxAnnotation-1) + "…"}
		if told := b.told(); len(told) != 1 || told[0] != want || !strings.HasSuffix(b.log.String(), "xé\n") {
			t.Errorf("%d annotations", len(told))
		}
	})
	t.Run("too many are in the log only", func(t *testing.T) {
		b := begin(t, nil)
		b.prints(t, strings.Repeat("::error::m\n", MaxAnnotations+10), 1<<20)
		if lines := strings.Count(b.log.String(), "Error: m\n"); len(b.told()) != MaxAnnotations || len(b.events) != MaxAnnotations+1 || lines != MaxAnnotations+10 {
			t.Errorf("%d annotations, %d events, %d lines", len(b.told()), len(b.events), lines)
		}
	})
}

func TestBothStreamsAtOnce(t *testing.T) {
	b := begin(t, nil)
	var wait sync.WaitGroup
	for stream := range 2 {
		w := b.Output(io.Discard)
		wait.Go(func() {
			for i := range 500 {
				fmt.Fprintf(w, "::set-output name=%d-%d::x\n", stream, i)
				fmt.Fprintf(w, "text\n::error::m\n")
			}
		})
	}
	wait.Wait()
	result, err := b.End()
	if err != nil || len(result.Outputs) != 1000 || len(b.told()) != MaxAnnotations {
		t.Errorf("%d outputs, %d annotations, %v", len(result.Outputs), len(b.told()), err)
	}
}

func FuzzOutput(f *testing.F) {
	f.Add("a\n::add-mask::xxxx\r\n::set-output name=a::b%0A\rtext", uint8(3))
	f.Add("::stop-commands::word\n::word::\n  ::debug::", uint8(1))
	f.Add(" \t##[notice a=b;]x]\n# ##[error]\r\n::x##[debug]", uint8(2))
	f.Fuzz(func(t *testing.T, output string, size uint8) {
		play := func(size int) *begun {
			b := &begun{}
			b.Session = newSession(engine.ToolkitProcess{
				Getenv: func(string) string { return "" },
				Mask:   func(secret string) { b.masked = append(b.masked, secret) },
				Emit:   func(body event.Body) { b.events = append(b.events, body) },
				Live:   t.Context(),
			}, newJob())
			if m, _, err := parseMatchers([]byte(anyLine)); err != nil || b.job.changeMatchers(nil, m) != nil {
				t.Fatal(err)
			}
			b.prints(t, output, size)
			b.filters[0].end()
			return b
		}
		whole, pieces := play(len(output)+1), play(int(size)+1)
		if whole.log.String() != pieces.log.String() || !cmp.Equal(whole.masked, pieces.masked) || !cmp.Equal(texts(whole.outputs), texts(pieces.outputs)) || !cmp.Equal(whole.events, pieces.events) {
			t.Fatalf("in pieces of %d: %q, else %q", size, pieces.log.String(), whole.log.String())
		}
		if !strings.Contains(output, "::") && !strings.Contains(output, bracket) && whole.log.String() != output {
			t.Fatalf("%q became %q", output, whole.log.String())
		}
	})
}

// anyLine is a matcher of two lines.
const anyLine = `{"problemMatcher": [{"owner": "any", "pattern": [{"regexp": "^(.+)$", "file": 1}, {"regexp": "^(.*)$", "message": 1, "loop": true}]}]}`

// BenchmarkCommands is the cost of a line that a process prints.
func BenchmarkCommands(b *testing.B) {
	for _, c := range []struct{ name, line string }{
		{"output", "::set-output name=a::1\n"}, {"error", "::error file=a.go,line=1::m\n"}, {"text", "2026-01-02 a line of text, as logs have them\n"}, {"debug", "##[debug]x\n"},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newSession(engine.ToolkitProcess{Getenv: func(string) string { return "" }, Mask: func(string) {}, MadeUp: func(string) {}, Emit: func(event.Body) {}}, newJob())
			w := s.Output(io.Discard)
			line := []byte(c.line)
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				_, _ = w.Write(line)
			}
		})
	}
	b.Run("one line in small pieces", func(b *testing.B) {
		for b.Loop() {
			s := newSession(engine.ToolkitProcess{Getenv: func(string) string { return "" }, Context: value.Value{}}, newJob())
			w := s.Output(io.Discard)
			for range 1 << 20 {
				_, _ = w.Write([]byte(" "))
			}
		}
	})
}
