package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const passing = `{"Action":"run","Package":"example.com/m/a","Test":"TestOne"}
{"Action":"output","Package":"example.com/m/a","Test":"TestOne","Output":"=== RUN   TestOne\n"}
{"Action":"output","Package":"example.com/m/a","Test":"TestOne","Output":"chatter\n"}
{"Action":"pass","Package":"example.com/m/a","Test":"TestOne"}
{"Action":"output","Package":"example.com/m/a","Output":"PASS\n"}
{"Action":"output","Package":"example.com/m/a","Output":"ok  \texample.com/m/a\t0.1s\n"}
{"Action":"pass","Package":"example.com/m/a"}
`

const skipping = `{"Action":"output","Package":"example.com/m/a","Test":"TestTwo/part","Output":"=== RUN   TestTwo/part\n"}
{"Action":"output","Package":"example.com/m/a","Test":"TestTwo/part","Output":"    a_test.go:9: there is no tmux\n"}
{"Action":"skip","Package":"example.com/m/a","Test":"TestTwo/part"}
`

const failing = `{"Action":"output","Package":"example.com/m/a","Test":"TestThree","Output":"    a_test.go:3: wrong\n"}
{"Action":"fail","Package":"example.com/m/a","Test":"TestThree"}
{"Action":"output","Package":"example.com/m/a","Output":"FAIL\texample.com/m/a\t0.1s\n"}
{"Action":"fail","Package":"example.com/m/a"}
`

const notBuilding = `{"ImportPath":"example.com/m/b","Action":"build-output","Output":"b.go:1: syntax error\n"}
{"ImportPath":"example.com/m/b","Action":"build-fail"}
{"Action":"output","Package":"example.com/m/b","Output":"FAIL\texample.com/m/b [build failed]\n"}
{"Action":"fail","Package":"example.com/m/b","FailedBuild":"example.com/m/b"}
`

const crashing = `{"Action":"output","Package":"example.com/m/a","Test":"TestFour","Output":"panic: oh\n"}
{"Action":"fail","Package":"example.com/m/a"}
`

func TestRun(t *testing.T) {
	const none = "# nobody\n"
	tests := map[string]struct {
		in, allowed string // allowed "" is not a list
		ok          bool
		want        []string
		wantNot     string
	}{
		"what passes is a line a package":                 {passing, none, true, []string{"ok  \texample.com/m/a", "1 passed, 0 failed, 0 skipped\n"}, "chatter"},
		"what fails is shown whole":                       {passing + failing, none, false, []string{"a_test.go:3: wrong", "FAIL\texample.com/m/a", "1 passed, 1 failed"}, "chatter"},
		"what does not build fails":                       {notBuilding, none, false, []string{"b.go:1: syntax error", "[build failed]"}, ""},
		"the test that crashed is shown":                  {crashing, none, false, []string{"panic: oh"}, ""},
		"a skip that is not listed fails, with its words": {skipping, none, false, []string{"a TestTwo/part: a_test.go:9: there is no tmux", "1 skipped"}, ""},
		"a skip that is listed is fine":                   {skipping, "a TestTwo/*: needs a terminal\n", true, []string{"1 skipped"}, "there is no tmux"},
		"a list for another package does not count":       {skipping, "b TestTwo/*: needs a terminal\n", false, nil, ""},
		"without a list every skip is fine":               {skipping, "", true, []string{"1 skipped"}, ""},
		"what the go command says is passed on":           {"go: cannot find module\n" + passing, none, true, []string{"go: cannot find module\n"}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			file := ""
			if tt.allowed != "" {
				file = filepath.Join(t.TempDir(), "allowed")
				if err := os.WriteFile(file, []byte(tt.allowed), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out strings.Builder
			ok, err := run(strings.NewReader(tt.in), &out, files{skips: file}, "", "example.com/m")
			if err != nil || ok != tt.ok {
				t.Errorf("got %v, %v, want %v", ok, err, tt.ok)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not in\n%s", want, out.String())
				}
			}
			if tt.wantNot != "" && strings.Contains(out.String(), tt.wantNot) {
				t.Errorf("%q is in\n%s", tt.wantNot, out.String())
			}
		})
	}
	t.Run("a test that runs elsewhere may skip itself, whatever the list says", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "allowed")
		if err := os.WriteFile(file, []byte(none), 0o600); err != nil {
			t.Fatal(err)
		}
		for deferred, want := range map[string]bool{"no tmux": true, "no sshd": false} {
			var out strings.Builder
			ok, err := run(strings.NewReader(skipping), &out, files{skips: file}, deferred, "example.com/m")
			if err != nil || ok != want || strings.Contains(out.String(), `1 tests wait for "no tmux"`) != want {
				t.Errorf("%s: got %v, %v\n%s", deferred, ok, err, out.String())
			}
		}
	})
	t.Run("what runs elsewhere, whole or with more, is written down by its test", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "rerun")
		more := strings.NewReplacer("chatter", "no engine here: elsewhere", "TestOne", "TestOne/part").Replace(passing)
		var out strings.Builder
		ok, err := run(strings.NewReader(more+strings.ReplaceAll(skipping, "there is no tmux", "elsewhere")+strings.ReplaceAll(passing, "TestOne", "TestFive")), &out, files{rerun: file}, "elsewhere", "example.com/m")
		text, readErr := os.ReadFile(file)
		if err != nil || readErr != nil || !ok || string(text) != "example.com/m/a TestOne\nexample.com/m/a TestTwo\n" {
			t.Errorf("got %v, %v, %v, %q", ok, err, readErr, text)
		}
	})
	t.Run("what is worth a second run is written down", func(t *testing.T) {
		many := failing
		for i := range maxRetried {
			many = fmt.Sprintf(`{"Action":"fail","Package":"example.com/m/a","Test":"TestOther%d"}`, i) + "\n" + many
		}
		part := strings.ReplaceAll(failing, "TestThree", "TestThree/part")
		for name, tt := range map[string]struct{ in, want string }{
			"nothing where nothing failed":             {passing, ""},
			"a test that failed":                       {passing + failing, "example.com/m/a TestThree\n"},
			"the test of a part that failed":           {part, "example.com/m/a TestThree\n"},
			"nothing where many failed":                {many, ""},
			"nothing where a package does not build":   {failing + notBuilding, ""},
			"nothing where a test crashed":             {strings.Replace(failing, "    a_test.go:3: wrong", "panic: oh", 1), ""},
			"nothing where memory is used in two ways": {strings.Replace(failing, "    a_test.go:3: wrong", "WARNING: DATA RACE", 1), ""},
			"nothing where a test skipped itself":      {failing + skipping, ""},
		} {
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				allowed, file := filepath.Join(dir, "allowed"), filepath.Join(dir, "retry")
				if err := os.WriteFile(allowed, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if _, err := run(strings.NewReader(tt.in), &strings.Builder{}, files{skips: allowed, retry: file}, "", "example.com/m"); err != nil {
					t.Fatal(err)
				}
				if text, err := os.ReadFile(file); err != nil || string(text) != tt.want {
					t.Errorf("got %q, %v, want %q", text, err, tt.want)
				}
			})
		}
	})
	t.Run("a list without reasons is refused", func(t *testing.T) {
		if _, err := parseAllowed("a TestTwo\n"); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("got %v", err)
		}
	})
}
