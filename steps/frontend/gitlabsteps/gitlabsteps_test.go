package gitlabsteps_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
)

func TestGeneratedNames(t *testing.T) {
	for _, tt := range []struct{ step, name, title string }{
		{"step: ./hello", "hello", "./hello"},
		{"step: ../../a/hello-world", "hello_world", "../../a/hello-world"},
		{"step: ./", "step", "./"},
		{"step: /", "step", "/"},
		{"step: ./a/greet.yml", "greet", "./a/greet.yml"},
		{"step: ./a/func.yml", "a", "./a/func.yml"},
		{"step: ./${{ inputs.a }}", "step", "./${{ inputs.a }}"},
		{"step: ./3d", "_3d", "./3d"},
		{"step: ./…", "step", "./…"},
		{"step: gitlab.com/a/component-hello-steppy@master", "component_hello_steppy", "gitlab.com/a/component-hello-steppy@master"},
		{"step: gitlab.com/a/b/-/sub@v1", "sub", "gitlab.com/a/b/-/sub@v1"},
		{"step: https://user:password@host/a/b.git@v1", "b", "https://host/a/b.git@v1"},
		{"step: user:password@host/a/b.git@v1", "b", "host/a/b.git@v1"},
		{"step: {git: {url: gitlab.com/a/b, rev: v1, dir: x}}", "x", "https://gitlab.com/a/b@v1 x"},
		{"step: docker.io/a/b:v1", "b", "docker.io/a/b:v1"},
		{"step: builtin://cache/save", "save", "builtin://cache/save"},
		{"action: actions/checkout@v4", "checkout", "actions/checkout@v4"},
		{"action: ./.github/actions/build", "build", "./.github/actions/build"},
		{`script: "\n  \n  make all  \nmake install"`, "script", "make all  "},
		{"script: " + strings.Repeat("x", 100), "script", strings.Repeat("x", 59) + "…"},
		{"exec: {command: [/usr/bin/go, build]}", "go", "/usr/bin/go build"},
		{`exec: {command: ['C:\Go\go.exe', build]}`, "go", `C:\Go\go.exe build`},
		{`exec: {command: ["${{ env.A }}"]}`, "exec", "${{ env.A }}"},
		{"run: [script: a]", "run", ""},
		{"parallel: [script: a]", "parallel", ""},
		{"{name: given, script: a}", "given", ""},
	} {
		t.Run(tt.step, func(t *testing.T) {
			s := mustSteps(t, "- "+tt.step+"\n").Definition.Steps[0]
			if s.Name != tt.name || s.Title != tt.title {
				t.Errorf("got name %q, title %q; want %q, %q", s.Name, s.Title, tt.name, tt.title)
			}
		})
	}
	t.Run("numbers tell them apart, and names that are given come first", func(t *testing.T) {
		c := mustSteps(t, `
- script: a
- parallel:
  - script: b
  - {name: script_2, script: c}
- script: d
- run: [script: e, script: f]
- {name: script, script: g}
`)
		var got []string
		for _, s := range c.Definition.Steps {
			got = append(got, s.Name)
			for _, member := range s.Parallel {
				got = append(got, member.Name)
			}
			if s.Inline != nil {
				for _, inner := range s.Inline.Definition.Steps {
					got = append(got, "inner "+inner.Name)
				}
			}
		}
		want := []string{"script_3", "parallel", "script_4", "script_2", "script_5", "run", "inner script", "inner script_2", "script"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1m30s": 90 * time.Second, "90": 90 * time.Second, "'90'": 90 * time.Second, "1.5": 1500 * time.Millisecond, "90 seconds": 90 * time.Second,
		"1h 30m": 90 * time.Minute, "1 hour 30 minutes": 90 * time.Minute, "1 hour, 30 mins and 5 secs": 90*time.Minute + 5*time.Second,
		"2 days": 48 * time.Hour, "1 week": 7 * 24 * time.Hour, "1.5 Hours": 90 * time.Minute, "100ms": 100 * time.Millisecond, "1h30m": 90 * time.Minute,
	} {
		t.Run(text, func(t *testing.T) {
			s := mustSteps(t, "- script: a\n  timeout: "+text+"\n").Definition.Steps[0]
			if got := time.Duration(s.Timeout); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	for _, text := range []string{"''", "soon", "1 fortnight", "-1s", "0s", "1 hour and", "1 2", "1.2.3s", "5 weeks", "1e300", "99999999999999999999999h", "99999999999999999999999 hours", "true"} {
		t.Run(text+" is refused", func(t *testing.T) {
			if _, err := gitlabsteps.ParseSteps("job.yml", []byte("- script: a\n  timeout: "+text+"\n")); len(diag.Of(err)) != 1 {
				t.Errorf("got %v, want one diagnostic", err)
			}
		})
	}
}

func TestBothVocabulariesGiveTheSamePlan(t *testing.T) {
	want := string(canonical(t, mustFile(t, "spec: {}\n---\nrun:\n- {name: a, func: ./a}\n")))
	for _, text := range []string{
		"{}\n---\nrun:\n- {name: a, step: ./a}\n",
		"{}\n---\ntype: steps\nsteps:\n- {name: a, step: ./a}\n",
		"---\n---\nrun:\n- name: a\n  step: ./a\n  inputs:\n  env:\n",
	} {
		if diff := cmp.Diff(want, string(canonical(t, mustFile(t, text)))); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
	exec := string(canonical(t, mustFile(t, "{}\n---\nexec: {command: [a], work_dir: b}\n")))
	for _, text := range []string{"{}\n---\ntype: exec\nexec: {command: [a], workdir: b}\n", "{}\n---\nexec: {command: [a], working_dir: b}\n"} {
		if diff := cmp.Diff(exec, string(canonical(t, mustFile(t, text)))); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestJobsCanBeWrittenInThreeWays(t *testing.T) {
	list := string(canonical(t, mustSteps(t, "- {name: a, script: b}\n")))
	document := string(canonical(t, mustSteps(t, "run:\n- {name: a, script: b}\n")))
	if diff := cmp.Diff(list, document); diff != "" {
		t.Errorf("a list and a document with run differ: %s", diff)
	}
	file := "spec: {inputs: {x: {type: string}}}\n---\nrun:\n- {name: a, script: b}\n"
	if diff := cmp.Diff(string(canonical(t, mustFile(t, file))), string(canonical(t, mustSteps(t, file)))); diff != "" {
		t.Errorf("two documents are not what they are in a file: %s", diff)
	}
	c := mustSteps(t, "run:\n- {name: a, script: b}\nenv: {A: b}\noutputs: {x: \"${{ steps.a.outputs.y }}\"}\n")
	if !c.Spec.AnyOutputs || len(c.Definition.Outputs) != 1 || len(c.Definition.Env) != 1 {
		t.Errorf("got %+v", c)
	}
	if mustSteps(t, "run:\n- {name: a, script: b}\ndelegate: a\n").Definition.Delegate != "a" {
		t.Error("a job cannot delegate")
	}
}

func TestSecretsAreRequestedByWhatIsWrittenInline(t *testing.T) {
	for _, kind := range []string{"script: a", "exec: {command: [a]}", "run: [script: a]"} {
		s := mustSteps(t, "- "+kind+"\n  secrets: {T: TOKEN}\n").Definition.Steps[0]
		if diff := cmp.Diff(map[string]string{"T": "TOKEN"}, s.Secrets); diff != "" {
			t.Error(kind, diff)
		}
		if diff := cmp.Diff(map[string]plan.SecretRequest{"T": {}}, s.Inline.Spec.Secrets, compare); diff != "" {
			t.Error(kind, diff)
		}
	}
	if s := mustSteps(t, "- step: ./a\n  secrets: [T]\n").Definition.Steps[0]; s.Secrets["T"] != "T" {
		t.Errorf("got %v", s.Secrets)
	}
}

func TestAliasesAndMergeKeys(t *testing.T) {
	c := mustSteps(t, `
- &base
  name: a
  script: echo
  env: &env {A: "1"}
- <<: *base
  name: b
  env: {<<: *env, B: "2"}
`)
	b := c.Definition.Steps[1]
	if len(b.Env) != 2 || b.Inline == nil {
		t.Errorf("got %+v", b)
	}
}

func TestNamesOfInputsAndVariablesMayBeExpressions(t *testing.T) {
	s := mustSteps(t, "- step: ./a\n  inputs: {'${{ vars.A }}': 1}\n  env: {'B_${{ vars.A }}': b}\n").Definition.Steps[0]
	if _, ok := s.Inputs["${{ vars.A }}"]; !ok {
		t.Errorf("got %v", s.Inputs)
	}
	if _, ok := s.Env["B_${{ vars.A }}"]; !ok {
		t.Errorf("got %v", s.Env)
	}
	for _, text := range []string{"inputs: {'${{ a. }}': 1}", "inputs: {x: {'${{ a. }}': 1}}", "env: {'${{ a. }}': x}"} {
		if _, err := gitlabsteps.ParseSteps("job.yml", []byte("- step: ./a\n  "+text)); len(diag.Of(err)) != 1 {
			t.Errorf("%s: got %v, want one diagnostic", text, err)
		}
	}
}

func TestErrorsAreListsWithPlaces(t *testing.T) {
	_, err := gitlabsteps.ParseFile("dir/func.yml", []byte("{}\n---\nexec: {comand: [a]}\n"))
	var list diag.List
	if !errors.As(err, &list) {
		t.Fatalf("got %T", err)
	}
	for _, d := range list {
		if d.File != "dir/func.yml" || d.Line != 3 || d.Source == "" || d.Length < 1 {
			t.Errorf("got %+v", d)
		}
	}
}

// TestLargeFiles has no clock: what is not linear in them would not end.
func TestLargeFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const steps = 50_000
	t.Run("50,000 steps of 10 MB", func(t *testing.T) {
		c := mustSteps(t, manySteps(steps))
		if got := c.Definition.Steps[steps-1].Name; got != fmt.Sprintf("script_%d", steps) {
			t.Errorf("the last step is named %q", got)
		}
	})
	t.Run("50,000 named steps with expressions", func(t *testing.T) {
		var b strings.Builder
		for i := range steps {
			fmt.Fprintf(&b, "- {name: s%d, step: ./a, inputs: {x: '${{ env.A }}'}}\n", i)
		}
		mustSteps(t, b.String())
	})
	t.Run("50,000 mistakes", func(t *testing.T) {
		_, err := gitlabsteps.ParseSteps("job.yml", []byte(strings.Repeat("- {name: a, scirpt: b, env: {A: '${{'}}\n", steps)))
		if got := len(diag.Of(err)); got != 101 {
			t.Errorf("got %d diagnostics, want 101", got)
		}
	})
	t.Run("a script of 10 MB", func(t *testing.T) {
		mustSteps(t, "- script: |\n"+strings.Repeat("    echo hello world\n", 500_000))
	})
	t.Run("a bomb of aliases", func(t *testing.T) {
		text := "- &a0 {name: a, script: b}\n"
		for i := 1; i < 30; i++ {
			text += fmt.Sprintf("- &a%d {run: [*a%d, *a%d]}\n", i, i-1, i-1)
		}
		if _, err := gitlabsteps.ParseSteps("job.yml", []byte(text)); err == nil || !strings.Contains(err.Error(), "which is the limit") {
			t.Errorf("got %v", err)
		}
	})
}

func manySteps(n int) string {
	return strings.Repeat("- script: |\n    echo "+strings.Repeat("hello ", 30)+"\n", n)
}

func BenchmarkParse50000Steps(b *testing.B) {
	data := []byte(manySteps(50_000))
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := gitlabsteps.ParseSteps("job.yml", data); err != nil {
			b.Fatal(err)
		}
	}
}
