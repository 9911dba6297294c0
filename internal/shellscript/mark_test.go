package shellscript

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Each script fails on the line that ends in "#HERE", or says nothing of it when there is none.
var failing = []struct{ name, script string }{
	{"a command of many", "set -e\necho a\nfalse #HERE\necho b"},
	{"the last command decides without -e", "false\necho a\nfalse #HERE"},
	{"exit in the middle", "echo a\nexit 3 #HERE\necho b"},
	{"a command that does not exist", "set -e\necho a\nno-such-command #HERE\necho b"},
	{"a pipeline", "set -e\necho a\necho b | grep -q c #HERE\necho c"},
	{"an and-list before it", "set -e\n[ -z x ] && echo a\nfalse #HERE"},
	{"inside an if", "set -e\nif true; then\n  echo a\n  false #HERE\nfi\necho b"},
	{"inside an else", "set -e\nif false; then\n  echo a\nelif true; then\n  false #HERE\nelse\n  echo b\nfi"},
	{"after an if", "set -e\nif true; then\n  echo a\nelse\n  echo b\nfi; false #HERE"},
	{"inside a case", "set -e\ncase x in\n  y) true;;\n  x)\n    echo a\n    false #HERE\n    ;;\nesac"},
	{"inside braces", "set -e\n{\n  echo a\n  false #HERE\n}"},
	{"inside a subshell", "set -e\n(\n  echo a\n  exit 4 #HERE\n)\necho b"},
	{"a function, at its call", "set -e\nf() {\n  echo in\n  false\n}\necho a\nf #HERE\necho b"},
	{"a loop, at its head", "set -e\necho a\nfor i in 1 2 3; do #HERE\n  echo $i\n  [ $i != 2 ]\ndone"},
	{"after a here-document", "set -e\ncat <<EOF\nfalse\nexit 9\nEOF\nfalse #HERE"},
	{"a here-document itself", "set -e\necho a\n(cat; exit 2) <<EOF #HERE\nb\nEOF"},
	{"after text over several lines", "set -e\necho 'a\nfalse\nb'\nfalse #HERE"},
	{"a command over several lines", "set -e\necho a\ntest a = \\\n  b #HERE^"},
	{"the script's own EXIT trap", "set -e\ntrap 'echo bye $?' EXIT\necho a\nfalse #HERE\necho b"},
	{"a trap that sets the code", "trap 'exit 7' EXIT\necho a\necho b #HERE"},
	{"tracing", "set -ex\necho a\nfalse #HERE\necho b"},
	{"noclobber", "set -eC\necho a\nfalse #HERE"},
	{"unset variables are errors", "set -eu\necho a\necho $nothing_here #HERE"},
	{"output that goes elsewhere", "set -e\nexec >/dev/null 2>&1\necho a\nfalse #HERE"},
	{"reading the status", "false\nrc=$?\necho rc=$rc\nexit $rc #HERE"},
	{"the status in a condition", "false #HERE\nif [ $? -ne 0 ]; then\n  echo failed\n  exit 5\nfi"},
	{"a function that reads the status", "check() { rc=$?; echo \"$rc\"; return $rc; }\nfalse #HERE\ncheck"},
	{"a bare exit", "echo a\nfalse #HERE\nexit"},
	{"a background process", "set -e\nsleep 0 &\necho a\nwait\nfalse #HERE"},
	{"syntax that only the shell refuses", "set -e\necho a\nif then"},
	{"showing the script's text", "set -ev\necho a\nfalse"},
	{"no line fails", "set -e\necho a\necho \"$LINENO\"\ncat <<EOF | sort\nb\na\nEOF\necho \"$-\"; trap; set -- 1 2; echo $#"},
	{"reading standard input", "set -e\ncat\nread -r x || true\nfalse #HERE"},
}

var bashFailing = []struct{ name, script string }{
	{"a bash ERR trap", "set -eE\ntrap 'echo trapped $LINENO' ERR\necho a\nfalse #HERE"},
	{"PIPESTATUS", "true | false | true\necho ${PIPESTATUS[1]}\nfalse #HERE"},
	{"the last argument", "mkdir -p sub\ncd $_\npwd | sed 's,.*/,,'\nfalse #HERE"},
	{"a DEBUG trap", "trap 'echo debug' DEBUG\necho a\nfalse"},
	{"arrays and tests", "set -e\na=(1\n2)\n[[ ${#a[@]} == 2 ]]\n(( ${#a[@]} == 3 )) #HERE"},
	{"a process substitution", "set -e\nsort <(echo b\necho a)\nfalse #HERE"},
}

var zshFailing = []struct{ name, script string }{
	{"zsh's name of the status", "false #HERE\nexit $status"},
	{"zsh's pipestatus", "true | false\nprint $pipestatus[2]\nfalse #HERE"},
	{"a TRAPZERR function", "TRAPZERR() { print trapped }\nprint a\nfalse"},
	{"a ZERR trap", "trap 'print trapped' ZERR\nprint a\nfalse"},
	{"tracing by name", "setopt X_TRACE\nprint a\nfalse"},
	{"arrays count from 1", "set -e\na=(x y)\n[[ $a[1] == y ]] #HERE"},
}

func TestMarksFindTheFailingLineAndChangeNothing(t *testing.T) {
	for _, shell := range [][]string{{"bash"}, {"sh"}, {"dash"}, {"busybox", "sh"}, {"ksh"}, {"mksh"}, {"zsh"}} {
		program, err := exec.LookPath(shell[0])
		if err != nil {
			continue // bash and sh are on every machine that tests this
		}
		cases := failing
		if shell[0] == "bash" {
			cases = append(cases, bashFailing...)
		}
		dialect := Sh
		if shell[0] == "zsh" {
			dialect, cases = Zsh, append(cases, zshFailing...)
		}
		for _, test := range cases {
			t.Run(strings.Join(shell, " ")+"/"+test.name, func(t *testing.T) {
				want := ""
				for i, line := range strings.Split(test.script, "\n") {
					if strings.HasSuffix(line, "#HERE") {
						want = string(rune('0' + i + 1))
					} else if strings.HasSuffix(line, "#HERE^") {
						want = string(rune('0' + i))
					}
				}
				file := filepath.Join(t.TempDir(), "it's the line")
				marked := Mark(test.script, dialect, file, func(int) bool { return true })
				run := func(text string) (string, string, int) {
					var out, errs strings.Builder
					c := exec.Command(program, append(shell[1:], "-c", text)...)
					c.Dir, c.Stdin, c.Stdout, c.Stderr = t.TempDir(), strings.NewReader("one\ntwo\n"), &out, &errs
					err := c.Run()
					var exit *exec.ExitError
					if err != nil && !errors.As(err, &exit) {
						t.Fatal(err)
					}
					return out.String(), errs.String(), c.ProcessState.ExitCode()
				}
				wantOut, wantErr, wantCode := run(test.script)
				out, errs, code := run(marked)
				if out != wantOut || errs != wantErr || code != wantCode {
					t.Errorf("exit %d, was %d\noutput %q\n   was %q\nerrors %q\n   was %q\n%s", code, wantCode, out, wantOut, errs, wantErr, marked)
				}
				if want == "" || shell[0] == "zsh" && marked == test.script && strings.Contains(test.name, "trac") {
					return
				}
				if got, _ := os.ReadFile(file); !strings.HasSuffix(","+string(got), ","+want+",") {
					t.Errorf("line %s is recorded, not %s\n%s", got, want, marked)
				}
			})
		}
	}
}

func TestATextThatNoShellCanReadToItsEndFailsWhereThatBegins(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		script       string
		line, before int
	}{
		"what has no end":                  {"echo a\necho b\nif true; then\n  echo c\n", 3, 2},
		"a quote that has none":            {"set -e\necho a\necho 'x\necho b\n", 3, 2},
		"what means nothing":               {"echo a\nif then\necho b\n", 2, 1},
		"after what has lines of its own":  {"if true; then\n  echo a\nfi\n)\n", 4, 1},
		"after what has no mark":           {"echo a\nf() { true; }\nfi\n", 3, 1},
		"a line of which nothing is run":   {"echo a\necho b; )\n", 2, 1},
		"the first line":                   {"fi\necho a\n", 1, 0},
		"nothing: it can be read":          {"echo a\n[[ -n x ]]\n", 0, 0},
		"nothing: only some shells can it": {"echo a\nfunction f() { true; }\n", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := func(int) bool { return true }
			if line, before := Broken(test.script, Bash, all); line != test.line || before != test.before {
				t.Errorf("it is broken at %d after %d, want %d after %d", line, before, test.line, test.before)
			}
			if line, _ := Broken(test.script, Zsh, all); line != 0 {
				t.Errorf("zsh has a language of its own, and line %d", line)
			}
			if test.line == 0 {
				return
			}
			file := filepath.Join(t.TempDir(), "line")
			var exit *exec.ExitError
			if err := exec.Command("bash", "-c", Mark(test.script, Bash, file, all)).Run(); !errors.As(err, &exit) || exit.ExitCode() != 2 {
				t.Fatalf("it ends with %v", err)
			}
			got, _ := os.ReadFile(file)
			marks := strings.Split(strings.TrimSuffix(string(got), ","), ",")
			if last, _ := strconv.Atoi(marks[len(marks)-1]); last < test.before || last >= test.line {
				t.Errorf("it records %s, want at least %d", got, test.before)
			}
		})
	}
}

func TestOnlyWantedLinesOfKnownLanguagesAreMarked(t *testing.T) {
	text := "echo a\necho b\necho c"
	if got := strings.Count(Mark(text, Bash, "f", func(line int) bool { return line > 1 }), "printf"); got != 2 {
		t.Errorf("%d lines are marked", got)
	}
	for _, d := range []Dialect{Pwsh, Powershell, Cmd, ""} {
		if Mark(text, d, "f", func(int) bool { return true }) != text {
			t.Errorf("a text for %q is changed", d)
		}
	}
}
