package github

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/value"
)

// begun is a session, and what came of it.
type begun struct {
	*Session
	masked []string
	log    bytes.Buffer
}

func begin(t *testing.T, env map[string]string) *begun {
	t.Helper()
	b := &begun{}
	session, err := Begin(Process{
		Dir: t.TempDir(), TempDir: "/tmp-dir", WorkDir: "/work-dir", ActionDir: "/action-dir",
		Getenv: func(name string) string { return env[name] },
		Mask: func(secret string) {
			if !slices.Contains(b.masked, secret) {
				b.masked = append(b.masked, secret)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Session = session
	return b
}

// writes puts text into one of the session's files, as the process would.
func (b *begun) writes(t *testing.T, variable, text string) {
	t.Helper()
	if err := os.WriteFile(b.Env()[variable], []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func texts(outputs map[string]value.Value) map[string]string {
	out := map[string]string{}
	for name, v := range outputs {
		out[name] = v.Str()
	}
	return out
}

func TestFiles(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       map[string]string
		err        string
	}{
		{"an empty file has nothing", "", map[string]string{}, ""},
		{"a line is a name and a value", "a=1\nb=two words\n", map[string]string{"a": "1", "b": "two words"}, ""},
		{"the last line needs no end", "a=1", map[string]string{"a": "1"}, ""},
		{"blank lines do not count", "\n\na=1\n\n", map[string]string{"a": "1"}, ""},
		{"a value may be empty, and may hold = and <<", "a=\nb=c=d\ne=f<<g\n", map[string]string{"a": "", "b": "c=d", "e": "f<<g"}, ""},
		{"the last of a name wins", "a=1\na=2\n", map[string]string{"a": "2"}, ""},
		{"a heredoc keeps its lines", "a<<EOF\none\n\n two=2\nEOF\nb=1\n", map[string]string{"a": "one\n\n two=2", "b": "1"}, ""},
		{"a heredoc may be empty", "a<<EOF\nEOF\n", map[string]string{"a": ""}, ""},
		{"a heredoc of one empty line", "a<<EOF\n\nEOF\n", map[string]string{"a": ""}, ""},
		{"a delimiter may hold =", "a<<E=F\nx\nE=F", map[string]string{"a": "x"}, ""},
		{"only a whole line is the delimiter", "a<<EOF\nEOF \n EOF\nEOF\n", map[string]string{"a": "EOF \n EOF"}, ""},
		{"a byte order mark does not count", "\uFEFFa=1\n", map[string]string{"a": "1"}, ""},
		{"expressions are text", "a=${{ secrets.X }}\n", map[string]string{"a": "${{ secrets.X }}"}, ""},
		{"a heredoc without end", "x=1\na<<EOF\none\ntwo\n", nil, `GITHUB_OUTPUT: line 2: invalid value: matching delimiter not found: no line below is "EOF"`},
		{"a heredoc without delimiter", "a<<\nx\n", nil, `line 1: invalid format "a<<": neither the name nor the delimiter may be empty`},
		{"a heredoc without name", "<<EOF\nEOF\n", nil, `line 1: invalid format "<<EOF"`},
		{"a line that is neither", "a=1\nb<<X\n1\n2\nX\n{\"name\": 1}\n", nil, `line 6: invalid format "{\"name\": 1}": write name=value`},
		{"a line without name", "=1\n", nil, `line 1: invalid format "=1": the name must not be empty`},
		{"UTF-16", "\xff\xfea\x00", nil, "the file is in UTF-16"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := begin(t, nil)
			b.writes(t, "GITHUB_OUTPUT", c.text)
			outputs, _, err := b.End()
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, texts(outputs)); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("a file that was removed has nothing", func(t *testing.T) {
		b := begin(t, nil)
		if err := os.Remove(b.Env()["GITHUB_OUTPUT"]); err != nil {
			t.Fatal(err)
		}
		if outputs, _, err := b.End(); err != nil || len(outputs) > 0 {
			t.Errorf("%v, %v", outputs, err)
		}
	})
	t.Run("a folder in its place is refused", func(t *testing.T) {
		b := begin(t, nil)
		path := b.Env()["GITHUB_OUTPUT"]
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.End(); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Error(err)
		}
	})
}

func TestVariablesForLaterSteps(t *testing.T) {
	list := string(os.PathListSeparator)
	for _, c := range []struct {
		name, env, path string
		want            map[string]string
		err             string
	}{
		{"variables", "A=1\nB<<X\n1\n2\nX\n", "", map[string]string{"A": "1", "B": "1\n2"}, ""},
		{"the folder that was added last comes first", "", "/a\n/b\n\n/a\n", map[string]string{"PATH": "/a" + list + "/b" + list + "/bin"}, ""},
		{"folders go before a PATH that was set", "PATH=/own\n", "/a\n", map[string]string{"PATH": "/a" + list + "/own"}, ""},
		{"NODE_OPTIONS is refused", "A=1\nnode_options=--require=/x\n", "", nil, "GITHUB_ENV: line 2: node_options cannot be set for later steps"},
		{"the runner's own are refused", "RUNNER_TEMP=/x\n", "", nil, "line 1: RUNNER_TEMP cannot be set"},
		{"GitHub's own are refused", "GITHUB_WORKSPACE<<X\n/x\nX\n", "", nil, "line 1: GITHUB_WORKSPACE cannot be set"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := begin(t, map[string]string{"PATH": "/bin"})
			b.writes(t, "GITHUB_ENV", c.env)
			b.writes(t, "GITHUB_PATH", c.path)
			_, exports, err := b.End()
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				return
			}
			if diff := cmp.Diff(c.want, exports); err != nil || diff != "" {
				t.Error(err, diff)
			}
		})
	}
}

func TestCommands(t *testing.T) {
	const deprecated = "Warning: the command ::set-output:: is deprecated; write to the file in $GITHUB_OUTPUT\n"
	for _, c := range []struct {
		name, output, log string
		masked            []string
		outputs           map[string]string
		err               string
	}{
		{name: "text passes", output: "a\n\n b::c\n:d\nlast", log: "a\n\n b::c\n:d\nlast"},
		{name: "what is no command is text", output: "::nothing::x\n::\n::error\n:: ::\n", log: "::nothing::x\n::\n::error\n:: ::\n"},
		{name: "a mask is taken out", output: "::add-mask::hush\n  ::ADD-MASK::two%0Alines\nend\n", log: "end\n", masked: []string{"hush", "two\nlines", "two", "lines"}},
		{name: "an empty mask is a mistake that does not matter", output: "::add-mask:: \n", log: "Warning: ::add-mask:: has nothing to mask\n"},
		{name: "messages are text", output: "::notice::a\n::warning file=x.js,line=2,col=3::b%25%0Ac\n::error title=T::d::e\n", log: "Notice: a\nWarning: x.js:2:3: b%\nc\nError: d::e\n"},
		{name: "debug is not shown", output: "::debug::a\nb\n", log: "b\n"},
		{name: "groups are their titles", output: "::group::Title\nin\n::endgroup::\n", log: "Title\nin\n"},
		{name: "an output, with a warning once", output: "::set-output name=a::1\n::set-output name=b%2Cc::2\n", log: deprecated, outputs: map[string]string{"a": "1", "b,c": "2"}},
		{name: "a command without line end", output: "::set-output name=a::1", log: deprecated, outputs: map[string]string{"a": "1"}},
		{name: "lines end in several ways", output: "a\r\n::debug::x\r\nb\r::debug::y\rc\n::debug::z\n", log: "a\r\nb\rc\n"},
		{name: "an output without name", output: "::set-output::1\n", log: "Error: ::set-output:: has no name\n", err: "::set-output:: has no name"},
		{name: "state goes nowhere", output: "::save-state name=a::1\n", log: "Warning: the command ::save-state:: is deprecated; write to the file in $GITHUB_STATE\n"},
		{name: "problem matchers are taken out", output: "::add-matcher::x.json\n::remove-matcher owner=x::\n", log: ""},
		{name: "set-env is disabled", output: "::set-env name=A::1\n", log: "Error: the command ::set-env:: is disabled; write to the file in $GITHUB_ENV\n", err: "::set-env:: is disabled"},
		{name: "add-path is disabled", output: "::add-path::/x\n", log: "Error: the command ::add-path:: is disabled; write to the file in $GITHUB_PATH\n", err: "::add-path:: is disabled"},
		{
			name:   "commands can be stopped, and go on",
			output: "::stop-commands::s3cr3t-word\n::add-mask::text\n::stop-commands::x\n::S3cr3t-Word::\n::add-mask::hush\n",
			log:    "::stop-commands::s3cr3t-word\n::add-mask::text\n::stop-commands::x\n::S3cr3t-Word::\n", masked: []string{"s3cr3t-word", "hush"},
		},
		{name: "a command is no word to stop with", output: "::stop-commands::add-mask\n::add-mask::hush\n", log: "::stop-commands::add-mask\n", masked: []string{"hush"}, err: "needs a word that nobody can guess"},
		{name: "commands are shown on request", output: "::echo::on\n::set-output name=a::1\n::add-mask::hush\n::echo::off\n::set-output name=a::2\n", log: "::set-output name=a::1\n" + deprecated, masked: []string{"hush"}, outputs: map[string]string{"a": "2"}},
		{name: "echo is on or off", output: "::echo::maybe\n", log: "Error: ::echo:: takes on or off, not \"maybe\"\n", err: "takes on or off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, size := range []int{1, 2, 7, 1 << 20} {
				b := begin(t, nil)
				w := b.Output(&b.log)
				for rest := c.output; rest != ""; {
					n := min(size, len(rest))
					if _, err := w.Write([]byte(rest[:n])); err != nil {
						t.Fatal(err)
					}
					rest = rest[n:]
				}
				outputs, _, err := b.End()
				if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
					t.Errorf("pieces of %d: error %v, want %q", size, err, c.err)
				}
				if diff := cmp.Diff(c.log, b.log.String()); diff != "" {
					t.Errorf("pieces of %d: log (-want +got):\n%s", size, diff)
				}
				if diff := cmp.Diff(c.masked, b.masked); diff != "" {
					t.Errorf("pieces of %d: masked (-want +got):\n%s", size, diff)
				}
				if c.outputs != nil {
					if diff := cmp.Diff(c.outputs, texts(outputs)); diff != "" {
						t.Errorf("pieces of %d: outputs (-want +got):\n%s", size, diff)
					}
				}
			}
		})
	}
	t.Run("debug is shown to those who ask", func(t *testing.T) {
		b := begin(t, map[string]string{"RUNNER_DEBUG": "1"})
		_, _ = b.Output(&b.log).Write([]byte("::debug::a\n"))
		if b.log.String() != "Debug: a\n" {
			t.Errorf("%q", b.log.String())
		}
	})
	t.Run("text passes before its line is complete", func(t *testing.T) {
		b := begin(t, nil)
		_, _ = b.Output(&b.log).Write([]byte("50 %"))
		if b.log.String() != "50 %" {
			t.Errorf("%q", b.log.String())
		}
	})
}

func TestEnv(t *testing.T) {
	b := begin(t, nil)
	env := b.Env()
	for name, want := range map[string]string{
		"CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": "/work-dir", "GITHUB_ACTION_PATH": "/action-dir", "RUNNER_TEMP": "/tmp-dir",
	} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
	for name := range fileVariables {
		if info, err := os.Stat(env[name]); err != nil || info.Size() != 0 || filepath.Dir(env[name]) != b.process.Dir {
			t.Errorf("%s is %q: %v", name, env[name], err)
		}
	}
	if runtime.GOOS == "linux" && env["RUNNER_OS"] != "Linux" || env["RUNNER_ARCH"] == "" {
		t.Errorf("RUNNER_OS is %q, RUNNER_ARCH %q", env["RUNNER_OS"], env["RUNNER_ARCH"])
	}
}

func TestFunctions(t *testing.T) {
	str, num, yes, no := value.OfString, value.OfInt, value.OfBool(true), value.OfBool(false)
	for _, c := range []struct {
		operator string
		a, b     value.Value
		want     bool
	}{
		{"==", str("Release"), str("release"), true},
		{"!=", str("a"), str("b"), true},
		{"==", str("1.0"), num(1), true},
		{"==", str("0x10"), num(16), true},
		{"==", str(""), num(0), true},
		{"==", str("x"), num(0), false},
		{"!=", str("x"), num(0), true},
		{"==", str("true"), yes, false},
		{"==", num(1), yes, true},
		{"==", value.Value{}, str(""), true},
		{"==", value.Value{}, no, true},
		{"<", str("a"), str("B"), true},
		{">=", str("10"), num(9), true},
		{">", str("10"), str("9"), false},
		{"<=", str("x"), num(9), false},
		{"==", value.OfArray(nil), value.OfArray(nil), false},
	} {
		got, err := Functions["github_compare"](nil, []value.Value{str(c.operator), c.a, c.b})
		if err != nil || got.Bool() != c.want {
			t.Errorf("%s %s %s is %v (%v), want %v", c.a.Text(), c.operator, c.b.Text(), got.Bool(), err, c.want)
		}
	}
	if _, err := Functions["github_compare"](nil, nil); err == nil {
		t.Error("a comparison of nothing")
	}
	secret := str("s").Mark(true)
	world := map[string]value.Value{
		"steps": value.OfStruct(map[string]value.Value{"a": value.OfStruct(map[string]value.Value{"outputs": value.OfStruct(map[string]value.Value{"Out": str("x"), "s": secret})})}),
		"env":   value.OfStruct(map[string]value.Value{"A": str("1")}).Mark(true),
	}
	lookup := func(name string) (value.Value, bool) { v, ok := world[name]; return v, ok }
	for _, c := range []struct {
		path      string
		want      string
		sensitive bool
	}{
		{"steps a outputs Out", "x", false},
		{"steps a outputs OUT", "x", false},
		{"steps a outputs s", "s", true},
		{"steps a outputs none", "", false},
		{"steps b outputs none", "", false},
		{"env A", "1", true},
		{"env a", "", true},
		{"nothing a", "", false},
	} {
		var args []value.Value
		for _, name := range strings.Fields(c.path) {
			args = append(args, str(name))
		}
		got, err := Functions["github_get"](lookup, args)
		if err != nil || got.Kind() != value.String || got.Str() != c.want || got.Sensitive() != c.sensitive {
			t.Errorf("%s is %q, sensitive %v (%v)", c.path, got.Text(), got.Sensitive(), err)
		}
	}
}

func FuzzPairs(f *testing.F) {
	for _, text := range []string{"a=1\nb<<E\nx\nE\n", "a<<\n", "=\n", "a<<b=c\nb=c", "\r\na=\r\n", "x<<y"} {
		f.Add(text)
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

func FuzzOutput(f *testing.F) {
	f.Add("a\n::add-mask::x\r\n::set-output name=a::b%0A\rtext", uint8(3))
	f.Add("::stop-commands::word\n::word::\n  ::debug::", uint8(1))
	f.Fuzz(func(t *testing.T, output string, size uint8) {
		play := func(size int) *begun {
			b := &begun{}
			b.Session = &Session{outputs: map[string]value.Value{}, warned: map[string]bool{}, process: Process{
				Getenv: func(string) string { return "" },
				Mask:   func(secret string) { b.masked = append(b.masked, secret) },
			}}
			w := b.Output(&b.log)
			for rest := output; rest != ""; {
				n := min(size, len(rest))
				_, _ = w.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			b.filters[0].end()
			return b
		}
		whole, pieces := play(len(output)+1), play(int(size)+1)
		if whole.log.String() != pieces.log.String() || !cmp.Equal(whole.masked, pieces.masked) || !cmp.Equal(texts(whole.outputs), texts(pieces.outputs)) {
			t.Fatalf("in pieces of %d: %q, else %q", size, pieces.log.String(), whole.log.String())
		}
		if !strings.Contains(output, "::") && whole.log.String() != output {
			t.Fatalf("%q became %q", output, whole.log.String())
		}
	})
}
