package keyword_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
)

var update = flag.Bool("update", false, "write what the tests want anew")

// resolve makes a configuration of a text. What the configuration itself finds is part of the answer.
func resolve(t testing.TB, text string) (*config.Config, diag.List) {
	t.Helper()
	c, err := config.Resolve(t.Context(), "ci.yml", []byte(text), config.Options{})
	var list diag.List
	if err != nil && !errors.As(err, &list) {
		t.Fatal(err)
	}
	if c == nil {
		t.Fatalf("no configuration: %v", err)
	}
	return c, list
}

// read reads a text that must be right as far as the configuration goes.
func read(t testing.TB, text string) (*keyword.Definition, diag.List) {
	t.Helper()
	c, list := resolve(t, text)
	if len(list) > 0 {
		t.Fatalf("the configuration is wrong: %s", list.Render())
	}
	return keyword.Read(c)
}

// job adds lines to a job that has a script and is otherwise empty.
func job(lines string) string {
	return "job:\n  script: make\n" + indent(lines)
}

func indent(lines string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(lines), "\n", "\n  ") + "\n"
}

// accepts is a text that is right, and what one looks at says of it.
type accepts struct {
	name string
	text string
	// look returns what is compared with want.
	look func(d *keyword.Definition) any
	want any
}

// refuses is a text that is wrong, and a part of what is said of it: "line:column: message", or a part of the hint.
type refuses struct {
	name string
	text string
	want string
}

// check runs the tables of one keyword as "keyword/accepts …" and "keyword/refuses …".
func check(t *testing.T, name string, good []accepts, bad []refuses) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		for _, tt := range good {
			t.Run("accepts "+tt.name, func(t *testing.T) {
				d, problems := read(t, tt.text)
				if len(problems) > 0 {
					t.Fatal(problems.Render())
				}
				if tt.look == nil {
					return
				}
				if diff := cmp.Diff(tt.want, tt.look(d)); diff != "" {
					t.Errorf("want (-), got (+):\n%s", diff)
				}
			})
		}
		for _, tt := range bad {
			t.Run("refuses "+tt.name, func(t *testing.T) {
				_, problems := read(t, tt.text)
				if len(problems) == 0 {
					t.Fatal("nothing is said of it")
				}
				if !strings.Contains(tell(problems), tt.want) {
					t.Errorf("want %q in:\n%s", tt.want, tell(problems))
				}
				if len(problems) > 1 && !strings.Contains(tt.want, "\nci.yml") {
					t.Errorf("want one problem, got %d:\n%s", len(problems), tell(problems))
				}
			})
		}
	})
}

// tell is a list of diagnostics with their hints.
func tell(list diag.List) string {
	var b strings.Builder
	for _, d := range list {
		b.WriteString(d.Error() + "\n")
		if d.Hint != "" {
			b.WriteString("  hint: " + d.Hint + "\n")
		}
	}
	return b.String()
}

// first is the first job of a definition.
func first(d *keyword.Definition) *keyword.Job { return d.Jobs[0] }

// texts are the texts of lines.
func texts(lines []keyword.Line) []string {
	var out []string
	for _, l := range lines {
		out = append(out, l.Text)
	}
	return out
}

// TestGolden reads the files in testdata whose names end in .yml, each of which holds mistakes or questionable things of many kinds, and
// compares all that is said of them.
func TestGolden(t *testing.T) {
	names, err := filepath.Glob("testdata/*.yml")
	if err != nil || len(names) == 0 {
		t.Fatal("no files", err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			c, list := resolve(t, string(data))
			d, problems := keyword.Read(c)
			got := list.Render() + problems.Render()
			if warnings := keyword.Lint(d, c); len(warnings) > 0 {
				got += "--- warnings\n" + tell(warnings)
			}
			golden := strings.TrimSuffix(name, ".yml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzRead reads whatever can be resolved: nothing may make it fail, and it always says the same.
func FuzzRead(f *testing.F) {
	f.Add("job:\n  script: make\n  needs: [job]\n")
	f.Add("a: {script: [[x]], rules: [{if: $A}, []], cache: [{key: {files: [a]}}], parallel: {matrix: [{A: [1, 2]}]}}\n")
	f.Add("b: {trigger: {include: [{artifact: a, job: b}]}, needs: {pipeline: x}}\n")
	f.Add("c: {run: [{name: a}], only: [/a/], environment: {name: x, on_stop: c}, secrets: {A: {vault: a/b@c}}, inputs: {a: {default: b}}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			return
		}
		c, _ := config.Resolve(t.Context(), "ci.yml", []byte(text), config.Options{})
		if c == nil {
			return
		}
		d, problems := keyword.Read(c)
		_, again := keyword.Read(c)
		if problems.Error() != again.Error() {
			t.Fatalf("first %s, then %s", problems.Error(), again.Error())
		}
		keyword.Lint(d, c)
	})
}
