package script

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/value"
)

// shells are those that the texts are tried in.
var shells = []string{"bash", "dash"}

// program finds a shell, or skips the test.
func program(t testing.TB, shell string) string {
	t.Helper()
	path, err := exec.LookPath(shell)
	if err != nil {
		t.Skipf("needs %s: %v", shell, err)
	}
	return path
}

// ran is what came of a text: its output and exit code.
type ran struct {
	out  string
	code int
}

// run runs a text as the engine does: as the argument of -c, with nothing on its standard input.
func run(t testing.TB, shell, text string) ran {
	t.Helper()
	cmd := exec.Command(program(t, shell), "-c", text)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir, "LC_ALL=C.UTF-8"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return ran{out.String(), cmd.ProcessState.ExitCode()}
}

// shown is how a line is shown.
func shown(line string) string { return green + "$ " + line + reset + "\n" }

func TestLinesMeanWhatTheyMeanToGitLabsRunner(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		want  string // § stands for the line that is shown
		code  int
		bash  bool // for bash only
	}{
		{name: "each line is shown before it runs", lines: []string{"echo a", "echo b"}, want: "§echo a\na\n§echo b\nb\n"},
		{name: "no lines are fine", want: ""},
		{name: "an empty line is an empty line of the log", lines: []string{"", "  \n ", "echo a"}, want: "\n\n§echo a\na\n"},
		{name: "space around a line is taken off", lines: []string{"  echo a \n"}, want: "§echo a\na\n"},
		{name: "the first line of several is shown", lines: []string{"echo a\necho b"}, want: "§echo a # collapsed multi-line command\na\nb\n"},
		{name: "so is that of a text from Windows", lines: []string{"echo a #\r\necho b"}, want: "§echo a # # collapsed multi-line command\na\nb\n"},

		{name: "a line that fails ends the script with its code", lines: []string{"(exit 7)", "echo b"}, want: "§(exit 7)\n", code: 7},
		{name: "so does one in the midst of several", lines: []string{"echo a\nfalse\necho b"}, want: "§echo a # collapsed multi-line command\na\n", code: 1},
		{name: "so does the last one of several", lines: []string{"echo a\n(exit 4)", "echo b"}, want: "§echo a # collapsed multi-line command\na\n", code: 4},
		{name: "so does the last line", lines: []string{"echo a", "(exit 9)"}, want: "§echo a\na\n§(exit 9)\n", code: 9},
		{name: "exit ends the script", lines: []string{"exit 3", "echo b"}, want: "§exit 3\n", code: 3},
		{name: "exit 0 ends it well", lines: []string{"exit 0", "false"}, want: "§exit 0\n"},
		{name: "a failure that is asked for is none", lines: []string{"false || echo no", "if false; then echo yes; fi", "! true || echo c"}, want: "§false || echo no\nno\n§if false; then echo yes; fi\n§! true || echo c\nc\n"},
		{name: "a pipeline fails when a part of it does", lines: []string{"false | cat", "echo b"}, want: "§false | cat\n", code: 1, bash: true},
		{name: "set +e lets lines fail, but not the last one", lines: []string{"set +e", "false", "(exit 5)"}, want: "§set +e\n§false\n§(exit 5)\n", code: 5},
		{name: "set +e and a last line that is well", lines: []string{"set +e", "false", "true"}, want: "§set +e\n§false\n§true\n"},
		{name: "set -u finds what is not set", lines: []string{"set -u", ": $nothing 2>/dev/null"}, code: -1},

		{name: "a folder stays for the next line", lines: []string{"mkdir d && cd d", "basename $PWD"}, want: "§mkdir d && cd d\n§basename $PWD\nd\n"},
		{name: "a variable does", lines: []string{"a='x  y'", `echo "$a"`}, want: "§a='x  y'\n§echo \"$a\"\nx  y\n"},
		{name: "an exported one does", lines: []string{"export A=1", "sh -c 'echo $A'"}, want: "§export A=1\n§sh -c 'echo $A'\n1\n"},
		{name: "a function does", lines: []string{"f() { echo \"f $1\"; }", "f x"}, want: "§f() { echo \"f $1\"; }\n§f x\nf x\n"},
		{name: "a trap does", lines: []string{"trap 'echo bye' EXIT", "echo a"}, want: "§trap 'echo bye' EXIT\n§echo a\na\nbye\n"},
		{name: "a job in the background can be waited for", lines: []string{"(exit 6) & p=$!", "wait $p"}, want: "§(exit 6) & p=$!\n§wait $p\n", code: 6},

		{name: "single quotes are shown as they are", lines: []string{`echo 'it'"'"'s'`}, want: "§echo 'it'\"'\"'s'\nit's\n"},
		{name: "double quotes, dollars and backslashes are", lines: []string{`echo "a\$b" \\ $(echo c) ` + "`echo d`"}, want: "§echo \"a\\$b\" \\\\ $(echo c) `echo d`\na$b \\ c d\n"},
		{name: "percents are", lines: []string{`printf '%s%%\n' x`}, want: "§printf '%s%%\\n' x\nx%\n"},
		{name: "unicode is", lines: []string{"echo 'grüß 世界 🚀 ‘’'"}, want: "§echo 'grüß 世界 🚀 ‘’'\ngrüß 世界 🚀 ‘’\n"},
		{name: "an expression of ours is text", lines: []string{"echo '${{ inputs.a }}'"}, want: "§echo '${{ inputs.a }}'\n${{ inputs.a }}\n"},
		{name: "exclamation marks are no history", lines: []string{"echo a!b!!"}, want: "§echo a!b!!\na!b!!\n"},

		{name: "a comment at the end of a line ends there", lines: []string{"echo a # b", "echo c"}, want: "§echo a # b\na\n§echo c\nc\n"},
		{name: "a line can be a comment", lines: []string{"# a", "echo b"}, want: "§# a\n§echo b\nb\n"},
		{name: "a here-document in a line", lines: []string{"cat <<EOF\na $((1+1))\nEOF", "echo b"}, want: "§cat <<EOF # collapsed multi-line command\na 2\n§echo b\nb\n"},
		{name: "a quoted one", lines: []string{"cat <<'EOF'\n$a `b`\nEOF"}, want: "§cat <<'EOF' # collapsed multi-line command\n$a `b`\n"},
		{name: "a list over several lines of YAML", lines: []string{"if true; then\n  echo a\nfi"}, want: "§if true; then # collapsed multi-line command\na\n"},
		{name: "standard input is empty", lines: []string{"cat", "echo a"}, want: "§cat\n§echo a\na\n"},
		{name: "noclobber is off", lines: []string{"echo a > f", "echo b > f", "cat f"}, want: "§echo a > f\n§echo b > f\n§cat f\nb\n"},
		{name: "a command that is not there", lines: []string{"no-such-command-here 2>/dev/null", "echo b"}, want: "§no-such-command-here 2>/dev/null\n", code: 127},
		{name: "arrays of bash", lines: []string{"a=(1 2)", "echo ${a[1]}"}, want: "§a=(1 2)\n§echo ${a[1]}\n2\n", bash: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, shell := range shells {
				if c.bash && shell != "bash" {
					continue
				}
				for _, named := range []string{"", map[string]string{"bash": "bash", "dash": "sh"}[shell]} {
					got := run(t, shell, Text(c.lines, Options{Shell: named}))
					if c.code == -1 {
						if got.code == 0 {
							t.Errorf("%s: it should have failed", shell)
						}
						continue
					}
					want := regexp.MustCompile(`(?m)§(.*)$`).ReplaceAllStringFunc(c.want, func(line string) string {
						return strings.TrimSuffix(shown(strings.TrimPrefix(line, "§")), "\n")
					})
					if diff := cmp.Diff(ran{want, c.code}, got, cmp.AllowUnexported(ran{})); diff != "" {
						t.Errorf("%s as %q: -want +got\n%s", shell, named, diff)
					}
				}
			}
		})
	}
}

func TestWhatALineLeavesOpenGoesOnInTheNext(t *testing.T) {
	for _, shell := range shells {
		got := run(t, shell, Text([]string{"cat <<EOF", "EOF", "echo b"}, Options{}))
		if got.code != 0 || !strings.HasSuffix(got.out, shown("echo b")+"b\n") || !strings.Contains(got.out, "printf") {
			t.Errorf("%s: a here-document over two lines gave %q", shell, got.out)
		}
		if got := run(t, shell, Text([]string{"echo 'a", "echo b"}, Options{})); got.code == 0 {
			t.Errorf("%s: a quote that is never closed gave %q", shell, got.out)
		}
	}
}

func TestTraceShowsWhatTheShellDoes(t *testing.T) {
	for _, shell := range shells {
		if got := run(t, shell, Text([]string{"A=1", "echo $A"}, Options{Trace: true})); !strings.Contains(got.out, "+ echo 1\n1\n") {
			t.Errorf("%s: %q", shell, got.out)
		}
	}
}

func TestSectionsHoldACommandInFull(t *testing.T) {
	for _, shell := range shells {
		got := run(t, shell, Text([]string{"echo a", "echo 'b\nc'\nfalse"}, Options{Sections: true}))
		out := regexp.MustCompile(`section_(start|end):\d+:`).ReplaceAllString(got.out, "section_$1:0:")
		want := shown("echo a") + "a\nsection_start:0:section_script_step_1[hide_duration=true,collapsed=true]\r\x1b[0K" +
			shown("echo 'b\nc'\nfalse") + "section_end:0:section_script_step_1\r\x1b[0Kb\nc\n"
		if out != want || got.code != 1 {
			t.Errorf("%s: code %d, -want +got\n%s", shell, got.code, cmp.Diff(want, out))
		}
	}
}

func TestTextOfOtherShells(t *testing.T) {
	lines := []string{"go test ./...", "", "echo 'it’s'\nGet-Item x", "echo 100% \"a&b\" | more"}
	for _, c := range []struct {
		name, file string
		options    Options
	}{
		{"PowerShell", "pwsh.txt", Options{Shell: "pwsh"}},
		{"Windows PowerShell", "powershell.txt", Options{Shell: "powershell", Trace: true}},
		{"PowerShell with sections", "pwsh_sections.txt", Options{Shell: "pwsh", Sections: true}},
		{"cmd", "cmd.txt", Options{Shell: "cmd"}},
		{"cmd with trace", "cmd_trace.txt", Options{Shell: "cmd", Trace: true, Sections: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Text(lines, c.options)
			path := filepath.Join("testdata", c.file)
			if os.Getenv("UPDATE") != "" {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.ReplaceAll(string(want), "\r\n", "\n"), got); diff != "" {
				t.Errorf("-want +got (UPDATE=1 writes it)\n%s", diff)
			}
		})
	}
}

func TestTextThatIsGivenIsTakenAsItIs(t *testing.T) {
	call := func(args ...value.Value) (value.Value, error) { return Functions["script_text"](args) }
	no, none := value.OfBool(false), value.OfArray(nil)
	if got, err := call(value.OfString("a"), none, value.OfString(""), no, no); err != nil || got.Str() != "a" {
		t.Errorf("got %v, %v", got, err)
	}
	secret := value.OfArray([]value.Value{value.OfString("echo s3cret").Mark(true)})
	if got, err := call(value.OfString(""), secret, value.OfString("sh"), no, no); err != nil || !got.Sensitive() {
		t.Errorf("a text with a sensitive line is sensitive: got %v, %v", got, err)
	}
	for _, args := range [][]value.Value{nil, {value.OfString("")}, {no, none, value.OfString(""), no, no}} {
		if _, err := call(args...); err == nil {
			t.Errorf("%v: there should be an error", args)
		}
	}
}

// FuzzShowingALineNeverRunsIt shows any line in real shells: what comes out is the line, and nothing else happens.
func FuzzShowingALineNeverRunsIt(f *testing.F) {
	for _, line := range []string{"echo a", "$(touch pwned)", "`touch pwned`", "'; touch pwned; '", `\'; touch pwned #`, "a'b'c", "!!", "%s%n\\033", "‘; touch pwned", "-n", "\xff'"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if strings.ContainsRune(line, 0) || len(line) > 10_000 {
			return
		}
		for _, shell := range shells {
			w := &posix{}
			w.echo(line)
			if got := run(t, shell, w.text()); got.out != green+line+reset+"\n" || got.code != 0 {
				t.Fatalf("%s: %q became %q, %d", shell, line, got.out, got.code)
			}
		}
	})
}
