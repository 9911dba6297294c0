package shellscript

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// split makes parts of a text in which «…» marks the slots.
func split(text string) []Part {
	var parts []Part
	for text != "" {
		before, rest, found := strings.Cut(text, "«")
		if before != "" {
			parts = append(parts, Part{Text: before})
		}
		if !found {
			break
		}
		_, text, _ = strings.Cut(rest, "»")
		parts = append(parts, Part{Slot: true})
	}
	return parts
}

// spliced is what a script was before: the values as part of the text.
func spliced(parts []Part, values []string) string {
	var b strings.Builder
	for _, p := range parts {
		if p.Slot {
			b.WriteString(values[0])
			values = values[1:]
		} else {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// execute runs a script from a file and returns its output and the names of the files it left.
func execute(t testing.TB, shell, script string) (stdout string, files []string) {
	t.Helper()
	return executeIn(t, t.TempDir(), shell, script)
}

// executeIn runs the script from a file beside the work directory. It leaves the work directory empty.
func executeIn(t testing.TB, top, shell, script string) (stdout string, files []string) {
	t.Helper()
	dir, file := filepath.Join(top, "dir"), filepath.Join(top, "script")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.Command(shell, file)
	cmd.Dir, cmd.Stdout = dir, &out
	_ = cmd.Run() // many scripts fail with hostile values; what counts is what they did
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, _ := os.ReadFile(filepath.Join(dir, e.Name()))
		files = append(files, e.Name()+": "+string(data))
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return out.String(), files
}

// runners are the shells to try scripts in: the real bash, and a real sh.
func runners(t testing.TB) map[Dialect]string {
	t.Helper()
	found := map[Dialect]string{}
	for dialect, names := range map[Dialect][]string{Bash: {"bash"}, Sh: {"dash", "sh"}} {
		for _, name := range names {
			if path, err := exec.LookPath(name); err == nil {
				found[dialect] = path
				break
			}
		}
	}
	if len(found) == 0 {
		t.Skip("there is no bash and no sh here")
	}
	return found
}

func render(t testing.TB, d Dialect, script string, values ...string) string {
	t.Helper()
	s, err := Parse(split(script), d)
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	text, err := s.Render(values)
	if err != nil {
		t.Fatalf("Render: %v", err)
	}
	return text
}

func TestTameValuesDoWhatSplicingDid(t *testing.T) {
	for _, tc := range []struct {
		script   string
		values   []string
		bashOnly bool
	}{
		{"echo «x»", []string{"hello"}, false},
		{"echo «x»", []string{"two words"}, false},
		{"echo a«x»b«y»c", []string{"1", "2"}, false},
		{`echo "hello «x»"`, []string{"big  world"}, false},
		{`echo 'hello «x»!'`, []string{"big  world"}, false},
		{`echo '«x»' '«y»'`, []string{"a  b", "c"}, false},
		{`echo '{"name":"echo","value":"«x»"}' > file`, []string{"some text"}, false},
		{`echo "{\"name\":\"«x»\"}" >> out.json`, []string{"some text"}, false},
		{"echo «x»>file", []string{"text"}, false},
		{"echo hi > «file».txt", []string{"name"}, false},
		{"cat < /dev/null > «file»", []string{"name"}, false},
		{"cat <<EOF\na «x» b\n$((1+1)) \\$HOME 'q «y»'\nEOF\n", []string{"one", "two  three"}, false},
		{"cat <<'X' «x» X", []string{"file"}, false},
		{"echo «x»; cat <<X\na «y»\n", []string{"one", "two"}, false},
		{"cat <<'X'\na $b «x»\n  X\n", []string{"one"}, false},
		{"cat <<A; cat <<'B'\na «x»\nA\nb «y»\n", []string{"one", "two"}, false},
		{"cat <<'EOF'\na «x» b\n$((1+1)) $HOME `date` \\n \\\\ \"q «y»\"\nEOF\necho after", []string{"one", "two  three"}, false},
		{"cat <<\"EOF\" | tr a-z A-Z\n«x» $HOME\\\nEOF\n", []string{"one"}, false},
		{"cat <<\\EOF\n«x» $HOME\nEOF\n", []string{"one"}, false},
		{"cat <<-'EOF'\n\t«x» $HOME\n\t\tindented\n\tEOF\necho after", []string{"one"}, false},
		{"cat <<-EOF\n\t«x»\n\tEOF\n", []string{"one"}, false},
		{"cat <<'A' - <<B\n«x»\nA\n«y»\nB\n", []string{"one", "two"}, false},
		{"cat <<'EOF'\n«x»EOF\nEOF «y»\n\nEOF\n", []string{"one", "two"}, false},
		{`echo "$(echo "<$(echo "«x»")>")"`, []string{"a  b"}, false},
		{`echo "$(echo '<«x»>')"`, []string{"a  b"}, false},
		{"echo `echo «x»` \"`echo «y»`\"", []string{"a  b", "c"}, false},
		{"echo `echo '«x»'`", []string{"a b"}, false},
		{"echo \"`echo '«x»'`\"", []string{"a  b"}, false},
		{"echo \"$(cat <<'EOF'\n«x» $HOME\nEOF\n)\"", []string{"text"}, false},
		{`case «x» in a*) echo A;; «y») echo Y;; esac`, []string{"foo", "f*"}, false},
		{`case "«x»" in "«y»") echo same;; *) echo other;; esac`, []string{"a b", "a b"}, false},
		{`if [ "«x»" = "main" ]; then echo yes; fi; [ «x2» = main ] && echo yes`, []string{"main", "main"}, false},
		{`test -n "«x»" && echo set; [ -z "«y»" ] || echo set`, []string{"a", "b"}, false},
		{`if [ «n» -gt 3 ]; then echo more; fi`, []string{"10"}, false},
		{`for i in «x»; do echo "<$i>"; done`, []string{"a b c"}, false},
		{`for i in "«x»"; do echo "<$i>"; done`, []string{"a b c"}, false},
		{`f() { echo "f: $1 «x»"; }; f «y»`, []string{"one", "two"}, false},
		{"echo «x» | cat | sed 's/«y»/X/'", []string{"abc", "b"}, false},
		{`v=«x»; echo "$v"; export W="«y»"; sh -c 'echo $W'`, []string{"one", "two  three"}, false},
		{`V=«x» W='«y»' sh -c 'echo "$V $W"'`, []string{"one", "two  three"}, false},
		{`echo ${U:-«x»} "${U:-«y»}" ${U:-'«z»'}`, []string{"a", "b c", "d"}, false},
		{`p=/a/b.c; echo "${p%.«x»}" ${p#'/«y»'}`, []string{"c", "a"}, false},
		{"echo $((«x» + 1)) $((2*«y»))", []string{"41", "-3"}, false},
		{"# a comment with «x»\necho «y» # and «z»", []string{"no'thing", "text", "`more"}, false},
		{"#!/bin/sh\nset -eu\necho «x»", []string{"text"}, false},
		{"«cmd» hello", []string{"echo"}, false},
		{"«cmd»", []string{"printf %s- a b"}, false},
		{"(cd / && echo «x»); { echo «y»; }", []string{"a", "b"}, false},
		{"echo «x» && echo «y» || echo «z»; true &", []string{"a", "b", "c"}, false},
		{"echo «x» 2>&1 1>&2 | cat", []string{"a"}, false},
		{"\n\n  echo «x»\n", []string{"a"}, false},
		{"echo \\\n  «x» \\\n  «y»\n", []string{"a", "b"}, false},
		{`trap 'echo bye «x»' EXIT; eval "echo «y»"; sh -c 'echo «z»'`, []string{"a", "b", "c"}, false},
		{`sh -c 'echo "$0 $1"' «x» "«y»"`, []string{"a", "b c"}, false},
		{`sh -c "«x»"; eval "«y»"; eval «z»`, []string{"echo 1; echo 2", "echo 'a  b'", "echo c"}, false},
		{"sh <<EOF\necho «x»\nEOF\n", []string{"a"}, false},
		{`printf '%s\n' "«x»" «y»`, []string{"[a b", "c d"}, false},
		{`printf "«x»\n" 5`, []string{"<%s>"}, false},
		{`while read -r line; do echo "$line «x»"; done < /dev/null; until echo «y»; do :; done`, []string{"a", "b"}, false},
		{"echo *«x»", []string{"nothing"}, false},
		{`echo "$«x»"`, nil, false},
		{"cat <<< «x»", []string{"a"}, true},
		{`cat <<< "a «x»"`, []string{"b  c"}, true},
		{`cat <<< '«x»'`, []string{"b  c"}, true},
		{`echo $'tab\t«x»\n' $'«y»'`, []string{"a  b", "c"}, true},
		{`[[ «x» == f* ]] && echo "glob"; [[ foo == «y» ]] && echo pattern; [[ foo =~ ^«z» ]] && echo regex`, []string{"foo", "f?o", "f"}, true},
		{`[[ «x» -eq 5 ]] && echo five; (( «y» > 3 )) && echo more; let z=«z»+1; echo $z`, []string{"5", "4", "1"}, true},
		{`for ((i=0; i<«n»; i++)); do echo $i; done`, []string{"3"}, true},
		{`a=(«x» "«y»"); echo "${#a[@]} ${a[«i»]}" "${a[@]:«n»}"`, []string{"1 2", "3  4", "1", "2"}, true},
		{`a[«i»]=«x»; echo "${a[@]}"; s=hello; echo ${s:«n»} ${s/«p»/X}`, []string{"2", "v", "2", "ll"}, true},
		{`diff <(echo «x») <(echo «y») || true`, []string{"a", "b"}, true},
		{`f() { local v="«x»"; local -r w=«y»; echo "$v$w"; }; f; declare -i n=«n»; echo $n; n=«m»; echo $n`, []string{"a b", "c", "3", "4"}, true},
		{`export «pair»; echo $A`, []string{"A=1"}, true},
		{`case foo in @(«x»|bar)) echo yes;; esac`, []string{"foo"}, true},
		{"function f { echo «x»; }; f; time -p true 2>/dev/null; echo {a,«y»}", []string{"a", "b"}, true},
		{"echo «x» |& cat; echo «y» &> file", []string{"a", "b"}, true},
		{"a«n»() { echo; }", nil, true},
	} {
		if tc.values == nil {
			continue // those are errors; see TestParseErrors
		}
		t.Run(tc.script, func(t *testing.T) {
			for dialect, shell := range runners(t) {
				if tc.bashOnly && dialect != Bash {
					continue
				}
				wantOut, wantFiles := execute(t, shell, spliced(split(tc.script), tc.values))
				text := render(t, dialect, tc.script, tc.values...)
				gotOut, gotFiles := execute(t, shell, text)
				if diff := cmp.Diff(wantOut, gotOut); diff != "" {
					t.Errorf("%s: output (-spliced +rendered):\n%s\nin\n%s", dialect, diff, text)
				}
				if diff := cmp.Diff(wantFiles, gotFiles); diff != "" {
					t.Errorf("%s: files (-spliced +rendered):\n%s\nin\n%s", dialect, diff, text)
				}
			}
		})
	}
}

func TestScriptKeepsItsLineNumbers(t *testing.T) {
	shells := runners(t)
	if shells[Bash] == "" {
		t.Skip("there is no bash here")
	}
	text := render(t, Bash, "\necho «x» $LINENO\necho $LINENO", "a\nb\r\nc")
	if got, _ := execute(t, shells[Bash], text); got != "a b\r c 2\n3\n" {
		t.Errorf("got %q from\n%s", got, text)
	}
}

func TestScriptsWithoutExpressionsAreNotParsed(t *testing.T) {
	for _, d := range []Dialect{Bash, Sh, Pwsh, Powershell, Cmd} {
		const broken = "if ' \" $( <<EOF"
		if got := render(t, d, broken); got != broken {
			t.Errorf("%s: got %q", d, got)
		}
	}
}

func TestTextThatHoldsTheVariableGetsAnotherOne(t *testing.T) {
	text := render(t, Sh, "echo «x» $__rung_0 $__rung__0", "a")
	if want := "__rung___0='a'; echo ${__rung___0} $__rung_0 $__rung__0"; text != want {
		t.Errorf("got %q, want %q", text, want)
	}
}

func TestParseErrors(t *testing.T) {
	for _, tc := range []struct {
		name    string
		dialect Dialect
		script  string
		part    int
		offset  int
		says    string
	}{
		{"text that does not parse", Bash, "echo «x»\nif true; then", 2, 10, "does not parse"},
		{"offsets count characters", Bash, "echo «x» äöü )", 2, 5, "does not parse"},
		{"the variable of a loop", Bash, "for «x» in a; do :; done", 0, 0, "does not parse"},
		{"the name of a function", Bash, "«x»() { :; }", 0, 0, "does not parse"},
		{"the name after function", Bash, "function «x» { :; }", 0, 0, "does not parse"},
		{"part of the name of a function", Bash, "a«x»() { :; }", 0, 0, "does not parse"},
		{"the left side of an assignment", Bash, "«x»=1", 0, 0, "cannot come from an expression"},
		{"part of the left side of an assignment", Sh, "A_«x»=1", 1, 0, "cannot come from an expression"},
		{"the left side of an addition", Bash, "«x»+=1", 0, 0, "cannot come from an expression"},
		{"the left side of an array item", Bash, "«x»[0]=1", 0, 0, "cannot come from an expression"},
		{"the delimiter of a here-document", Bash, "cat <<«x»\na\n«y»\n", 1, 0, ""},
		{"the quoted delimiter of a here-document", Bash, "cat <<'A«x»'\na\n«y»\n", 0, 4, ""},
		{"the name in a parameter expansion", Bash, "echo ${«x»}", 1, 0, "does not parse"},
		{"a name after a dollar", Bash, `echo "$«x»"`, 1, 0, "name of a variable"},
		{"after a backslash", Bash, `echo \«x»`, 1, 0, "backslash"},
		{"after a backslash in double quotes", Bash, `echo "C:\«x»"`, 1, 0, "backslash"},
		{"after a backslash in ANSI quotes", Bash, `echo $'a\«x»'`, 1, 0, "backslash"},
		{"a brace sequence", Bash, "echo {1..«x»}", 1, 0, "sequence"},
		{"a brace sequence with a step", Bash, "echo {«x»..9..2}", 1, 0, "sequence"},
		{"single quotes in a word in double quotes", Bash, `echo "${U:-'«x»'}"`, 1, 0, "single quotes"},
		{"a quoted here-document in backquotes", Bash, "echo `cat <<'E'\n«x»\nE\n`", 1, 0, ""},
		{"a delimiter that needs its quotes", Bash, "cat <<'E F'\n«x»\nE F\n", 1, 0, "delimiter"},
		{"cmd", Cmd, "echo «x»", 1, 0, "cmd"},
		{"a shell that does not exist", "fish", "echo «x»", 0, 0, "fish"},
		{"PowerShell: glued to a word", Pwsh, "echo a«x»", 1, 0, "stand alone"},
		{"PowerShell: glued to a member", Pwsh, "echo «x».txt", 1, 0, "stand alone"},
		{"PowerShell: after a dollar", Pwsh, "if ($«x») {}", 1, 0, "stand alone"},
		{"PowerShell: after a dollar in a string", Pwsh, `"$«x»"`, 1, 0, "name of a variable"},
		{"PowerShell: after a backtick", Pwsh, "\"a`«x»\"", 1, 0, "backtick"},
		{"PowerShell: param", Pwsh, "# c\nparam($a)\necho «x»", 0, 4, "begin with param"},
		{"PowerShell: using", Powershell, "using namespace System\necho «x»", 0, 0, "begin with param"},
		{"PowerShell: after --%", Pwsh, "tool --% «x»", 1, 0, "--%"},
		{"PowerShell: an open string", Pwsh, "echo «x» \"a", 2, 3, "inside a string"},
		{"PowerShell: an open comment", Pwsh, "echo «x» <# a", 2, 5, "inside a comment"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Parse(split(tc.script), tc.dialect)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want an error", err)
			}
			if e.Part != tc.part || e.Offset != tc.offset || !strings.Contains(e.Message, tc.says) {
				t.Errorf("got part %d, offset %d, %q; want part %d, offset %d, %q", e.Part, e.Offset, e.Error(), tc.part, tc.offset, tc.says)
			}
			if strings.Contains(e.Error(), variablePrefix) {
				t.Errorf("the message shows what the reader has not written: %q", e.Error())
			}
		})
	}
}

func TestRenderRefusesValues(t *testing.T) {
	const subscript = "a[$(touch pwned)]"
	for _, tc := range []struct{ name, script, value, says string }{
		{"arithmetic", "echo $((«x»))", subscript, "not a number"},
		{"arithmetic with a name", "echo $((«x»))", "HOME", "not a number"},
		{"old arithmetic", "echo $[«x»]", subscript, "not a number"},
		{"an arithmetic command", "(( «x» ))", subscript, "not a number"},
		{"let", `let "n=«x»"`, subscript, "not a number"},
		{"a counting loop", "for ((i=«x»;;)); do :; done", subscript, "not a number"},
		{"a subscript", "a[«x»]=1", subscript, "not a number"},
		{"a subscript that is read", "echo ${a[«x»]}", subscript, "not a number"},
		{"a subscript in a list", "a=([«x»]=1)", subscript, "not a number"},
		{"a numeric test", "[[ «x» -eq 1 ]]", subscript, "not a number"},
		{"an offset", "echo ${a:«x»}", subscript, "not a number"},
		{"a length", "echo ${a:1:'«x»'}", subscript, "not a number"},
		{"an integer variable", "declare -i n; n=«x»", subscript, "not a number"},
		{"an integer of bash", "RANDOM=«x»", subscript, "not a number"},
		{"an unset variable test", "[[ -v «x» ]]", subscript, "bracket"},
		{"a name to read", "read «x»", subscript, "bracket"},
		{"a name to print to", `printf -v "«x»" a`, subscript, "bracket"},
		{"a name to declare", `declare "«x»=1"`, subscript, "bracket"},
		{"a test without quotes", "[ «x» = y ]", "-v " + subscript, "bracket"},
		{"an array in a declaration", "declare -a v=«x»", "($(touch pwned))", "parenthesis"},
		{"eval", `eval "echo «x»"`, "a;b", "character ';'"},
		{"a trap", `trap 'rm «x»' EXIT`, "a b", "character ' '"},
		{"code for a shell", `sudo bash -ec "echo «x»"`, "$(id)", "character '$'"},
		{"a here-document for a shell", "bash <<EOF\necho «x»\nEOF\n", "`id`", "character '`'"},
		{"a here-string for a shell", `sh <<< "echo «x»"`, "a|b", "character '|'"},
		{"what bash runs at its start", "BASH_ENV=«x» tool", "$(id)", "character '$'"},
		{"arithmetic in a script that is not bash", "((«x») | a)\n((a) | b)", subscript, "not a number"},
		{"a subscript in a script that is not bash", "a[«x»]=1\n((a) | b)", subscript, "not a number"},
		{"old arithmetic in a script that is not bash", "echo $[«x»]\n((a) | b)", subscript, "not a number"},
		{"a test in a script that is not bash", "[[ «x» -eq 1 ]]\n((a) | b)", subscript, "bracket"},
		{"NUL", "echo «x»", "a\x00b", "NUL"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := Parse(split(tc.script), Bash)
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Render([]string{tc.value})
			var e *Error
			if !errors.As(err, &e) || !split(tc.script)[e.Part].Slot || !strings.Contains(e.Message, tc.says) || e.Hint == "" {
				t.Errorf("got %v, want %q", err, tc.says)
			}
		})
	}
	t.Run("a number of values that is not that of the slots", func(t *testing.T) {
		s, err := Parse(split("echo «x»"), Bash)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Render(nil); err == nil {
			t.Error("no error")
		}
	})
}

func TestPowershellText(t *testing.T) {
	for _, tc := range []struct{ name, script, value, want string }{
		{"a word", "Write-Output «x»", "a b", "$__rung_0='a b'; Write-Output ${__rung_0}"},
		{"a string", `Write-Output "a«x»b"`, "$(evil)", `$__rung_0='$(evil)'; Write-Output "a${__rung_0}b"`},
		{"single quotes become double ones", "echo './«x»/a'", "v", "$__rung_0='v'; echo \"./${__rung_0}/a\""},
		{"what means something in double quotes is escaped", "f '$a `n \"q\" it''s «x»' '$b'", "v", "$__rung_0='v'; f \"`$a ``n `\"q`\" it's ${__rung_0}\" '$b'"},
		{"typographic quotes", "echo ‘a «x»’", "v", "$__rung_0='v'; echo \"a ${__rung_0}\""},
		{"a number in quotes is a string", "if ('«x»' -eq '5') {}", "5", "$__rung_0=5; if (\"${__rung_0}\" -eq '5') {}"},
		{"a single-quoted here-string", "echo @'\n$a 'b' «x»\n'@\necho c", "v", "$__rung_0='v'; echo @\"\n`$a 'b' ${__rung_0}\n\"@\necho c"},
		{"single quotes in a subexpression", "echo \"a $(echo '«x»') b\"", "v", "$__rung_0='v'; echo \"a $(echo \"${__rung_0}\") b\""},
		{"every single quote is doubled", `"«x»"`, "'‘’‚‛", "$__rung_0='''‘‘’’‚‚‛‛'; \"${__rung_0}\""},
		{"a whole number is a number", "if («x» -gt 3) {}", "10", "$__rung_0=10; if (${__rung_0} -gt 3) {}"},
		{"a number with a leading zero is text", `"«x»"`, "010", `$__rung_0='010'; "${__rung_0}"`},
		{"a here-string", "@\"\n'«x»'\n\"@", "\"@; evil", "$__rung_0='\"@; evil'; @\"\n'${__rung_0}'\n\"@"},
		{"a subexpression", `"a $(f «x») ' b"`, "v", `$__rung_0='v'; "a $(f ${__rung_0}) ' b"`},
		{"a doubled quote does not end a string", `"a "" ' «x»"`, "v", `$__rung_0='v'; "a "" ' ${__rung_0}"`},
		{"an escaped quote does not end a string", "\"a `\" ' «x»\"", "v", "$__rung_0='v'; \"a `\" ' ${__rung_0}\""},
		{"a comment is left alone", "# it's «x»\nls", "a\nb", "# it's ${__rung_0}\nls"},
		{"a # in a word is not a comment", `a#'b' "«x»"`, "v", `$__rung_0='v'; a#'b' "${__rung_0}"`},
		{"a block comment is left alone", "<# it's «x» #> ls", "#> evil", "<# it's ${__rung_0} #> ls"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, render(t, Pwsh, tc.script, tc.value)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	parts := split(strings.Repeat("echo «x» \"b «y»\"\n", 10) + "cat <<'EOF'\n«z»\nEOF\n")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(parts, Bash); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleScript_Render() {
	script, err := Parse([]Part{{Text: "echo 'hello "}, {Slot: true}, {Text: "'"}}, Sh)
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := script.Render([]string{"it's $(me)"})
	fmt.Println(text, err)
	// Output: __rung_0='it'\''s $(me)'; echo 'hello '"${__rung_0}"'' <nil>
}
