package dotenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/catalog/programtest"
)

// limits are those of GitLab.
var limits = Limits{Bytes: 5120, Variables: 20}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		want       []Variable
	}{
		{"an empty file", "", nil},
		{"a line", "KEY=value\n", []Variable{{"KEY", "value"}}},
		{"without a line break at the end", "A=1\nB=2", []Variable{{"A", "1"}, {"B", "2"}}},
		{"line breaks of Windows", "A=1\r\nB=2\r\n", []Variable{{"A", "1"}, {"B", "2"}}},
		{"space around names and values", " A \t=  1 \nB= \n", []Variable{{"A", "1"}, {"B", ""}}},
		{"space within a value", "A=1 2  3", []Variable{{"A", "1 2  3"}}},
		{"an empty value", "A=", []Variable{{"A", ""}}},
		{"more signs of equality", "A=B=C==", []Variable{{"A", "B=C=="}}},
		{"double quotes are part of the value", `A="  b  "`, []Variable{{"A", `"  b  "`}}},
		{"single quotes are, too", `A='b'`, []Variable{{"A", `'b'`}}},
		{"nothing is expanded", "A=1\nB=${A}_$A\\n", []Variable{{"A", "1"}, {"B", `${A}_$A\n`}}},
		{"a comment behind a value is part of it", "A=1  # one", []Variable{{"A", "1  # one"}}},
		{"signs of all languages in values", "A=🛹ä", []Variable{{"A", "🛹ä"}}},
		{"a name may begin with a digit", "1A=x", []Variable{{"1A", "x"}}},
		{"the last of one name counts", "A=1\nB=2\nB=3\nA=4\n", []Variable{{"A", "4"}, {"B", "3"}}},
		{"a byte order mark", "\ufeffA=1", []Variable{{"A", "1"}}},
		{"UTF-16 as PowerShell writes it", "\xff\xfeA\x00=\x00\xe4\x00\r\x00\n\x00", []Variable{{"A", "ä"}}},
		{"UTF-16 the other way round", "\xfe\xff\x00A\x00=\x001", []Variable{{"A", "1"}}},
		{"as many variables as are allowed", strings.Repeat("A=1\n", 50) + list(19), append([]Variable{{"A", "1"}}, variables(19)...)},
		{"as many bytes as are allowed", "A=" + strings.Repeat("x", 5118), []Variable{{"A", strings.Repeat("x", 5118)}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse([]byte(tc.text), limits)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		})
	}
}

// list is a file of n variables.
func list(n int) string {
	var b strings.Builder
	for _, v := range variables(n) {
		b.WriteString(v.Name + "=" + v.Value + "\n")
	}
	return b.String()
}

func variables(n int) []Variable {
	out := make([]Variable, n)
	for i := range out {
		out[i] = Variable{fmt.Sprintf("KEY_%d", i), fmt.Sprint(i)}
	}
	return out
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, want string }{
		{"an empty line", "A=1\n\nB=2\n", "line 2: it is empty"},
		{"a line of space", "A=1\n  \nB=2\n", "line 2: it is empty"},
		{"a comment", "# a comment\n", "line 1: it is not NAME=VALUE; comments"},
		{"a comment with a sign of equality", "A=1\n# B=2\n", "line 2: comments are not supported"},
		{"a value of several lines", "A=\"1\n2\"\n", "line 2: it is not NAME=VALUE"},
		{"JSON", "{ 'KEY1': 'VAR1' }", "line 1: it is not NAME=VALUE"},
		{"no name", "=1", "line 1: there is no name"},
		{"a name with a space", "K E Y=1", `line 1: the name "K E Y" can have only letters, digits and _`},
		{"a name with export", "export A=1", `the name "export A"`},
		{"a name with a hyphen", "A-B=1", `the name "A-B"`},
		{"a name of other letters", "🛹=1", "can have only letters"},
		{"a name that is too long", strings.Repeat("A", 256) + "=1", "longer than 255"},
		{"text that is not UTF-8", "A=1\nB=\xff\n", "line 2: it is not UTF-8"},
		{"UTF-16 that is cut short", "\xff\xfeA\x00=", "cut short"},
		{"a zero byte", "A=1\x002", "zero byte"},
		{"too many variables", list(21), "it has 21 variables; at most 20 are allowed"},
		{"too many bytes", "A=" + strings.Repeat("x", 5119), "it has 5121 bytes; at most 5120 are allowed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got, err := Parse([]byte(tc.text), limits); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, %v, want %q", got, err, tc.want)
			}
		})
	}
	if _, err := Parse([]byte(list(1000)), Limits{}); err != nil {
		t.Errorf("without limits: %v", err)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	programtest.Write(t, dir, map[string]string{"a.env": "A=1\nB=2\n", "b.env": "B=3", "bad.txt": "A=1\n\n", "sub/": "", "big.txt": list(21), "../outside.env": "A=1"})
	run := func(in map[string]any) *programtest.Result {
		all := map[string]any{"paths": []string{}, "export": true, "max_variables": 20, "max_bytes": 5120}
		for name, v := range in {
			all[name] = v
		}
		return programtest.Run(t, Run, dir, all)
	}
	r := run(map[string]any{"paths": []string{"*.env"}})
	if diff := cmp.Diff(map[string]string{"A": "1", "B": "3"}, r.Exports); r.Err != nil || diff != "" {
		t.Errorf("%v, want (-), got (+):\n%s", r.Err, diff)
	}
	if got := string(r.Outputs["variables"].AppendJSON(nil)); got != `{"A":"1","B":"3"}` {
		t.Errorf("the variables are %s", got)
	}
	if r = run(map[string]any{"paths": []string{"*.env"}, "export": false}); r.Err != nil || len(r.Exports) > 0 || len(r.Outputs["variables"].Fields()) != 2 {
		t.Errorf("without export: %v, %v, %v", r.Err, r.Exports, r.Outputs)
	}
	if r = run(map[string]any{"paths": []string{"none.env", "../outside.env"}}); r.Err != nil || len(r.Exports) > 0 || !strings.Contains(r.Log, "warning: ") {
		t.Errorf("without a file: %v, %v\n%s", r.Err, r.Exports, r.Log)
	}
	for _, in := range []map[string]any{{"paths": []string{"bad.txt"}}, {"paths": []string{"big.txt"}}, {"paths": []string{"*.env"}, "max_bytes": 10}, {"paths": []string{"*.env"}, "max_variables": 1}} {
		if r = run(in); r.Err == nil || len(r.Exports) > 0 {
			t.Errorf("%v: got %v, %v", in, r.Err, r.Exports)
		}
	}
	if runtime.GOOS == "windows" {
		return // symbolic links need rights there
	}
	if err := os.Symlink("../outside.env", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if r = run(map[string]any{"paths": []string{"link"}}); r.Err == nil || len(r.Exports) > 0 {
		t.Errorf("a link out of the work directory gives %v, %v", r.Err, r.Exports)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"A=1\n", "A=1\r\nB=\"2\"", "\xff\xfeA\x00=\x001\x00", "\ufeffA=1", "# x", "=", "A\x00=1", list(21), "A=\xff"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Parse(data, limits)
		if err != nil {
			var parse *ParseError
			var limit *LimitError
			if !errors.As(err, &parse) && !errors.As(err, &limit) || !utf8.ValidString(err.Error()) {
				t.Errorf("the error is %v", err)
			}
			return
		}
		if len(data) > limits.Bytes || len(got) > limits.Variables {
			t.Errorf("%d bytes and %d variables are taken", len(data), len(got))
		}
		var again strings.Builder
		seen := map[string]bool{}
		for _, v := range got {
			if v.Name == "" || strings.Trim(v.Name, letters) != "" || seen[v.Name] || strings.ContainsAny(v.Value, "\x00\n") || strings.Trim(v.Value, space) != v.Value || !utf8.ValidString(v.Value) {
				t.Errorf("there is %+v", v)
			}
			seen[v.Name] = true
			again.WriteString(v.Name + "=" + v.Value + "\n")
		}
		same, err := Parse([]byte(again.String()), Limits{})
		if diff := cmp.Diff(got, same); err != nil || diff != "" {
			t.Errorf("written and read again: %v\n%s", err, diff)
		}
	})
}
