package shellscript

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

// place is a script with one slot (or several for the same value). When shows is set, the output is the value in its %s.
type place struct {
	script   string
	shows    string
	bashOnly bool
}

var places = []place{
	{"echo «x»", "", false},
	{"echo foo«x»bar", "", false},
	{`printf '%s' "«x»"`, "%s", false},
	{`printf '%s' "a«x»b«x»c"`, "a%[1]sb%[1]sc", false},
	{`printf '%s' 'a«x»b'`, "a%sb", false},
	{`printf '%s' 'a "«x»" $b'`, `a "%s" $b`, false},
	{`printf '%s' '«x»'; echo '' «x»`, "", false},
	{"cat <<EOF\n«x»\nEOF\n", "%s\n", false},
	{"cat <<'EOF'\n$a «x» `b` \\\nEOF\n", "$a %s `b` \\\n", false},
	{"cat <<-'EOF'\n\t«x»\n\tEOF\n", "%s\n", false},
	{"cat <<\"EOF\"\n\"«x»\"\nEOF\n", "\"%s\"\n", false},
	{"# «x»\necho done", "done\n", false},
	{"echo done # «x»\n", "done\n", false},
	{`printf '%s' "$(printf '%s' "«x»")"`, "%s", false},
	{`printf '%s' "$(printf '%s' '«x»')"`, "%s", false},
	{"printf '%s' \"`printf '%s' \"«x»\"`\"", "%s", false},
	{"printf '%s' \"`printf '%s' '«x»'`\"", "%s", false},
	{"printf '%s' `echo «x»`", "", false},
	{`printf '%s' "${U:-«x»}"`, "%s", false},
	{`echo ${U:-«x»} ${U:-"«x»"} ${U:-'«x»'}`, "", false},
	{`v=abc; echo "${v%«x»}" "${v#"«x»"}" ${v%'«x»'}`, "", false},
	{`v=«x»; printf '%s' "$v"`, "%s", false},
	{`v='«x»'; printf '%s' "$v"`, "%s", false},
	{`export v="«x»"; printf '%s' "$v"`, "%s", false},
	{`v="«x»" sh -c 'printf "%s" "$v"'`, "%s", false},
	{"«x»", "", false},
	{"foo«x» a", "", false},
	{"case «x» in «x») echo a;; *) echo b;; esac", "", false},
	{`case "«x»" in '«x»') printf same;; esac`, "same", false},
	{"for i in «x»; do echo $i; done", "", false},
	{`for i in "«x»"; do printf '%s' "$i"; done`, "%s", false},
	{`f() { printf '%s' "«x»"; }; f «x»`, "%s", false},
	{`f() { printf '%s' "$1"; }; f "«x»"`, "%s", false},
	{"echo «x» | cat; { echo «x»; } ; ( echo «x» )", "", false},
	{"[ «x» = y ]", "", false},
	{"[ y = «x» ]; test «x»", "", false},
	{`[ "«x»" = y ] || [ -z "«x»" ] || [ "«x»" ]`, "", false},
	{`[ "«x»" -eq 1 ]`, "", false},
	{"test -v «x»; [ -v «x» ]", "", false},
	{`test -v "«x»"; [ "«x»" "«x»" ]`, "", false},
	{"echo $((«x»))", "", false},
	{"echo $((1 + «x» * 2))", "", false},
	{"cat < «x»", "", false},
	{`cat < "«x»"`, "", false},
	{"read v «x» <<EOF\na b\nEOF\n", "", false},
	{`read -r -p "«x»" v < /dev/null`, "", false},
	{"printf «x» a", "", false},
	{`printf "«x»" a; printf "«x»" "«x»" "«x»"`, "", false},
	{"unset «x»; unset \"«x»\"", "", false},
	{"export «x»; export «x»=1; export \"«x»\"", "", false},
	{"readonly «x»; readonly v=«x»", "", false},
	{`eval "echo «x»"`, "", false},
	{`eval "x=«x»"; eval "echo '«x»'"; eval echo «x»`, "", false},
	{`trap 'echo «x»' EXIT`, "", false},
	{`trap "echo '«x»'" EXIT`, "", false},
	{`sh -c "echo '«x»'"; sh -c 'echo «x»'; env sh -e -c "echo «x»"`, "", false},
	{`sh -c 'printf "%s" "$1"' sh "«x»"`, "%s", false},
	{"sh <<EOF\necho «x»\nEOF\nsh -s <<'EOF'\necho «x»\nEOF\n", "", false},
	{`alias a="echo «x»"`, "", false},
	{`PS4="«x»"; set -x; :`, "", false},
	{`ENV="«x»" BASH_ENV="«x»" sh -c :; BASH_ENV=«x» bash -c :`, "", false},
	{"OPTIND=«x»; RANDOM=«x»; SECONDS=«x»", "", false},
	{"set -- «x»; shift «x»; echo \"$1\"", "", false},
	{"exit «x»", "", false},
	{"cat <<< «x»", "", true},
	{`cat <<< "«x»"`, "%s\n", true},
	{`cat <<< '«x»'`, "%s\n", true},
	{`printf '%s' $'a\t«x»\'b'`, "a\t%s'b", true},
	{`printf '%s' $"«x»"`, "%s", true},
	{"[[ «x» == y ]]; [[ y == «x» ]]; [[ y =~ «x» ]]; [[ -n «x» ]]; [[ -e «x» ]]", "", true},
	{"[[ «x» -eq 1 ]]", "", true},
	{"[[ 1 -lt '«x»' ]]", "", true},
	{"[[ -v «x» ]]", "", true},
	{"[[ -R «x» ]]", "", true},
	{"(( «x» )); (( v = «x» + 1 ))", "", true},
	{"let v=«x»; let '«x»'", "", true},
	{"for ((i=0; i<«x»; i++)); do break; done", "", true},
	{"a[«x»]=1", "", true},
	{"a=([«x»]=1)", "", true},
	{"a=(1); echo ${a[«x»]} ${a[\"«x»\"]}", "", true},
	{"a=(«x» \"«x»\"); declare -a b=(«x» \"«x»\"); declare -A m=(«x»)", "", true},
	{`a=("«x»"); printf '%s' "${a[0]}"`, "%s", true},
	{"v=abc; echo ${v:«x»} ${v:0:«x»} ${v/«x»/«x»} ${v/'«x»'/'«x»'} ${v^^«x»}", "", true},
	{"echo $[«x»]", "", true},
	{"declare «x»; declare \"«x»\"", "", true},
	{"declare «x»=1; typeset \"«x»=1\"", "", true},
	{"declare -i n=«x»", "", true},
	{"declare -i n; n=«x»; n+=«x»", "", true},
	{"declare -a v=«x»", "", true},
	{"declare -a v=\"(«x»)\"; declare -a \"v=«x»\"", "", true},
	{"declare -a v; declare v=«x»", "", true},
	{"v=(1); export v=«x»; w[0]=1; readonly w=\"«x»\"; read -a u <<< 1; declare u=«x»; coproc c { :; }; declare c=«x» GROUPS=«x»", "", true},
	{"declare -n r=«x»; echo $r", "", true},
	{"declare -«x» v=1", "", true},
	{"f() { local v=«x» w=\"«x»\"; local \"«x»\"; }; f", "", true},
	{`f() { local v="a«x»"; printf '%s' "$v"; }; f`, "a%s", true},
	{"printf -v «x» a; printf -v \"«x»\" a", "", true},
	{"read -a «x» <<< a; mapfile «x» <<< a; readarray -t \"«x»\" <<< a", "", true},
	{"getopts a «x» -a; sleep 0 & wait -n -p «x»", "", true},
	{"compgen -W «x»; builtin declare «x»; command eval echo «x»", "", true},
	{"diff <(echo «x») <(echo '«x»')", "", true},
	{"case foo in @(«x»|bar)) echo yes;; esac; echo !(«x»)", "", true},
	{"coproc c { echo «x»; }; select v in «x»; do break; done", "", true},
	{"exec {fd}> /dev/null; echo «x» >&$fd; echo «x» &> /dev/null", "", true},
	{"bash <<< \"echo «x»\"; bash -c $'echo «x»'", "", true},
	{"echo {a,«x»}", "", true},
	{"while read -r «x»; do :; done < /dev/null; if «x»; then :; fi", "", true},
}

var hostile = []string{
	"$(touch pwned)", "`touch pwned`", "'; touch pwned; '", "\" ; touch pwned #", "; touch pwned;", "x\ntouch pwned\n#", "x\r\ntouch pwned",
	"EOF\ntouch pwned", "EOF\ntouch pwned\nEOF", "a[$(touch pwned)]", "a[$(>pwned)]", "-v a[$(>pwned)] -o x", "-v a[$(>pwned)] x", "x=(`>pwned`)",
	"($(>pwned))", "v=($(>pwned))", "a[$(>pwned)]=1", "[$(>pwned)]=1", "x a[$(>pwned)]", "-a a[$(>pwned)]", "$'\\ntouch pwned'", "\\", "\\\\", "\\'; touch pwned; \\'",
	"'\"'\"'; touch pwned; '", "!", "!!", "${IFS}", "${x:-$(touch pwned)}", "$((a[$(>pwned)]))", "<(touch pwned)", ") ; touch pwned; (", "}; touch pwned; {", ";; esac; touch pwned",
	"] ; touch pwned #", "))\ntouch pwned", "*", "?", "~", "-n", "-e \\n", "--", "%s%n", "ünïcödé 🚀 ‘’", "\xff\xfe", " ", "", "\t", "#", "&", "|touch pwned", ">pwned", "1 >pwned", "1+a[$(>pwned)]",
	"1", "x+=1", "() { :; }; touch pwned", "$__rung_0", "${__rung_0@P}", "'", "''", "\"", "`", "$", "(", "[",
}

// Every value in every place takes thousands of processes. Without -everything a place gets the first values and every
// fourth of the others, another fourth in each place.
const (
	alwaysTried = 12
	thinning    = 4
)

var everything = flag.Bool("everything", false, "try every hostile value in every place")

func TestHostileValuesNeverRun(t *testing.T) {
	for dialect, shell := range runners(t) {
		for i, at := range places {
			if at.bashOnly && dialect != Bash {
				continue
			}
			t.Run(fmt.Sprintf("%s %s", dialect, at.script), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				for j, value := range hostile {
					if j < alwaysTried || (i+j)%thinning == 0 || *everything {
						tryHostile(t, dir, dialect, shell, at, value)
					}
				}
			})
		}
	}
}

// tryHostile runs the script with the value, if it is accepted, and checks what it did.
func tryHostile(t testing.TB, dir string, dialect Dialect, shell string, at place, value string) {
	t.Helper()
	parts := split(at.script)
	script, err := Parse(parts, dialect)
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	all := make([]string, len(script.slots))
	for i := range all {
		all[i] = value
	}
	text, err := script.Render(all)
	if err != nil {
		var e *Error
		if !errors.As(err, &e) || !parts[e.Part].Slot {
			t.Errorf("%q: got %v, want an *Error that names the slot", value, err)
		}
		if at.shows != "" {
			t.Errorf("%q was refused where every value is fine: %v", value, err)
		}
		return
	}
	stdout, files := executeIn(t, dir, shell, text)
	for _, file := range files {
		if strings.HasPrefix(file, "pwned") {
			t.Fatalf("%q was run by\n%s", value, text)
		}
	}
	if at.shows == "" {
		return
	}
	shown := value
	if strings.Contains(at.script, "$(") || strings.Contains(at.script, "`printf") {
		shown = strings.TrimRight(value, "\n") // the shell drops them
	}
	want := at.shows
	if strings.Contains(want, "%") {
		want = fmt.Sprintf(want, shown)
	}
	if stdout != want {
		t.Errorf("%q came out as %q, want %q, from\n%s", shorten(value), shorten(stdout), shorten(want), text[:min(len(text), 500)])
	}
}

func TestLongValuesComeOut(t *testing.T) {
	long := strings.Repeat("0123456789abcde\n", 1<<16) + "'\\$end"
	for dialect, shell := range runners(t) {
		for _, script := range []string{`printf '%s' "«x»"`, "cat <<'EOF'\n«x»\nEOF\n", "cat <<EOF\n«x»\nEOF\n"} {
			for _, at := range places {
				if at.script == script {
					tryHostile(t, t.TempDir(), dialect, shell, at, long)
				}
			}
		}
	}
}

func FuzzRender(f *testing.F) {
	for i, value := range hostile {
		f.Add(uint16(i), uint16(i*7), value)
	}
	shells := runners(f)
	f.Fuzz(func(t *testing.T, first, second uint16, value string) {
		if strings.Contains(value, "\x00") {
			t.Skip()
		}
		a, b := places[int(first)%len(places)], places[int(second)%len(places)]
		if strings.Contains(value, "pwned") && (a.script == "«x»" || b.script == "«x»" || strings.Contains(a.script+b.script, "if «x»")) {
			t.Skip() // a value that stands as the command is the author's wish
		}
		for dialect, shell := range shells {
			if (a.bashOnly || b.bashOnly) && dialect != Bash {
				continue
			}
			at := place{script: a.script + "\n" + b.script}
			checkPrelude(t, dialect, at.script, value)
			tryHostile(t, t.TempDir(), dialect, shell, at, value)
		}
	})
}

// checkPrelude checks that the text to run is assignments of plain literals, and then the same text whatever the value.
func checkPrelude(t *testing.T, dialect Dialect, script, value string) {
	t.Helper()
	s, err := Parse(split(script), dialect)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]string, len(s.slots))
	for i := range values {
		values[i] = value
	}
	text, err := s.Render(values)
	if err != nil {
		return
	}
	prelude, ok := strings.CutSuffix(text, s.text)
	if !ok {
		t.Fatalf("the text changed with the value:\n%s", text)
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(prelude), "")
	if err != nil {
		return // bytes that are not UTF-8 stop the parser, and no shell
	}
	for _, stmt := range file.Stmts {
		call, ok := stmt.Cmd.(*syntax.CallExpr)
		if !ok || len(call.Args) > 0 || len(call.Assigns) != 1 || len(stmt.Redirs) > 0 || stmt.Background {
			t.Fatalf("the values are not plain assignments:\n%s", prelude)
		}
		for node := range syntax.Preorder(call.Assigns[0].Value) {
			switch node.(type) {
			case *syntax.Word, *syntax.Lit, *syntax.SglQuoted:
			default:
				t.Fatalf("%T in the values:\n%s", node, prelude)
			}
		}
	}
}

// shorten quotes the beginning of a value.
func shorten(value string) string { return fmt.Sprintf("%.60q", value) }
