package workflow_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// compile makes the plan of the first leg of the first job.
func compile(t *testing.T, text string, c workflow.Contexts, o workflow.CompileOptions) *workflow.Compiled {
	t.Helper()
	j := parse(t, text).Jobs[0]
	out, err := workflow.Compile(j, legs(t, j, c).List[0], c, o)
	if err != nil {
		t.Fatal(diag.Of(err).Render())
	}
	return out
}

// canonical is a plan as text.
func canonical(t *testing.T, c *plan.Component) string {
	t.Helper()
	text, err := plan.Canonical(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func text(s string) plan.Field { return plan.Field{Value: value.OfString(s)} }

func TestAJobAsAPlan(t *testing.T) {
	t.Parallel()
	c := contexts(t, `{"github": {"ref": "r", "token": "t", "event": {"title": "${{ secrets.X }}"}}, "vars": {"v": "1"}, "secrets": {"S": "s"}, "env": {"E": "e"}, "steps": {}}`)
	out := compile(t, `
on: push
env: {A: 1, B: "${{ github.ref }}", C: "${{ secrets.S }}"}
defaults: {run: {shell: bash, working-directory: w}}
jobs:
  a:
    runs-on: x
    strategy: {matrix: {os: [l]}}
    env: {A: true, D: }
    defaults: {run: {working-directory: "${{ matrix.os }}"}}
    outputs: {o: "${{ steps.my-id.outputs.o }}", p: q}
    environment: {name: e, url: "https://x/${{ steps.my-id.outputs.o }}"}
    steps:
      - id: my-id
        name: Build on ${{ matrix.os }} with ${{ secrets.S }}${{ steps.x.outputs.y }}
        run: make ${{ matrix.os }}
      - run: x
        working-directory: here
        if: failure()
`, c, workflow.CompileOptions{Rung: map[string]string{"artifacts": "${{ work_dir }}/a"}})
	script := func(text, dir string) *plan.Component {
		where := plan.Field{Value: value.OfString(dir)}
		return &plan.Component{Spec: plan.Spec{AnyOutputs: true}, Definition: plan.Definition{Exec: &plan.Exec{
			Script: &plan.Script{Text: plan.Field{Value: value.OfString(text)}, Shell: "bash"}, WorkDir: &where, Toolkit: plan.ToolkitGitHub,
		}}}
	}
	object := func(text string) plan.Field { return plan.Field{Value: object(t, text)} }
	failed := text("github_holds('failure()')")
	want := &plan.Component{Spec: plan.Spec{AnyOutputs: true}, Definition: plan.Definition{
		Env: map[string]plan.Field{"A": text("true"), "B": text("${{ github_text('github.ref') }}"), "C": text("${{ github_text('secrets.S') }}"), "D": text("")},
		Steps: []plan.Step{
			{Name: "my_id", Title: "Build on l with", Inline: script("set -eo pipefail; make ${{ github_text('matrix.os') }}", "${{ github_text('matrix.os') }}")},
			{Name: "step_2", Title: "Run x", Inline: script("set -eo pipefail; x", "here"), If: &failed, When: plan.Always},
		},
		Outputs: map[string]plan.Field{
			"o": text("${{ github_text('steps.my-id.outputs.o') }}"), "p": text("q"),
			workflow.OutputEnvironmentURL: text("https://x/${{ github_text('steps.my-id.outputs.o') }}"),
		},
		Context: map[string]plan.Field{
			"github":   object(`{"ref": "r", "event": {"title": "\\${{ secrets.X }}"}}`),
			"vars":     object(`{"v": "1"}`),
			"matrix":   object(`{"os": "l"}`),
			"strategy": object(`{"fail-fast": true, "job-index": 0, "job-total": 1, "max-parallel": 1}`),
			"rung":     object(`{"artifacts": "${{ work_dir }}/a", "permissions": {"contents": "read", "packages": "read"}}`),
		},
	}}
	if diff := cmp.Diff(canonical(t, want), canonical(t, out.Plan)); diff != "" {
		t.Error(diff)
	}
	if len(out.Notes) > 0 || out.Checkout {
		t.Error(out.Notes)
	}
}

func TestAPlanHoldsNoSecrets(t *testing.T) {
	t.Parallel()
	c := contexts(t, `{"github": {"token": "s3cret"}, "secrets": {"A": "s3cret"}}`)
	hidden := value.OfString("s3cret").Mark(true)
	c["needs"] = value.OfStruct(map[string]value.Value{"b": value.OfStruct(map[string]value.Value{"outputs": value.OfStruct(map[string]value.Value{"o": hidden, "p": value.OfString("fine")})})})
	c["inputs"] = value.OfStruct(map[string]value.Value{"list": value.OfArray([]value.Value{hidden}), "all": value.OfStruct(map[string]value.Value{"x": hidden}).Mark(true)})
	out := compile(t, withJob("env: {A: '${{ secrets.A }}'}\n"), c, workflow.CompileOptions{})
	shown := canonical(t, out.Plan)
	if strings.Contains(shown, "s3cret") || !strings.Contains(shown, "fine") {
		t.Error(shown)
	}
	if diff := cmp.Diff([]string{"needs.b.outputs.o holds a secret, and is empty in the job", "inputs.all holds a secret, and is empty in the job", "inputs.list[0] holds a secret, and is empty in the job"}, out.Notes); diff != "" {
		t.Error(diff)
	}
}

// firstStep compiles a job whose first step is the one given.
func firstStep(t *testing.T, step string, o workflow.CompileOptions) (plan.Step, *workflow.Compiled) {
	t.Helper()
	c := contexts(t, `{"github": {"repository": "o/r", "ref": "refs/heads/main", "sha": "0123456789", "ref_name": "main"}, "vars": {"d": "sub"}}`)
	out := compile(t, "on: push\njobs:\n  a: {runs-on: x, steps: ["+step+"]}\n", c, o)
	return out.Plan.Definition.Steps[0], out
}

func TestACheckoutOfWhatWasDeliveredNeedsNoGit(t *testing.T) {
	t.Parallel()
	s, _ := firstStep(t, "{uses: actions/checkout@v6}", workflow.CompileOptions{WorkTree: "/tree", Delivered: true})
	if in := s.Inline.Definition.Steps[0].Inputs; !in["ignored"].Value.Truthy() {
		t.Errorf("its inputs are %v", in)
	}
}

func TestCheckoutOfTheWorkTree(t *testing.T) {
	t.Parallel()
	o := workflow.CompileOptions{WorkTree: "/src", ExcludesFile: "/ex"}
	for name, c := range map[string]struct {
		with string
		want string // inputs of the built-in step; "" lets the action run
		note string
	}{
		"nothing more":             {"", `{"excludes_file":"/ex","tracking":"main","work_tree":"/src"}`, "a copy of the work tree"},
		"a folder":                 {"path: ./a/b", `{"excludes_file":"/ex","path":"a/b","tracking":"main","work_tree":"/src"}`, ""},
		"a computed folder":        {"path: '${{ vars.d }}'", `{"excludes_file":"/ex","path":"sub","tracking":"main","work_tree":"/src"}`, ""},
		"submodules":               {"submodules: recursive", `{"excludes_file":"/ex","submodules":"recursive","tracking":"main","work_tree":"/src"}`, ""},
		"submodules, one level":    {"submodules: true", `{"excludes_file":"/ex","submodules":"normal","tracking":"main","work_tree":"/src"}`, ""},
		"how to get in":            {"token: '${{ secrets.T }}', fetch-depth: 0, persist-credentials: false, lfs: true", `{"excludes_file":"/ex","tracking":"main","work_tree":"/src"}`, ""},
		"the repository itself":    {"repository: '${{ github.repository }}'", `{"excludes_file":"/ex","tracking":"main","work_tree":"/src"}`, ""},
		"its own ref":              {"ref: '${{ github.sha }}'", `{"excludes_file":"/ex","tracking":"main","work_tree":"/src"}`, ""},
		"its own branch":           {"ref: main", `{"excludes_file":"/ex","tracking":"main","work_tree":"/src"}`, ""},
		"inputs that are empty":    {"ref: '', repository: '${{ vars.none }}', path: ''", `{"excludes_file":"/ex","tracking":"main","work_tree":"/src"}`, ""},
		"clean, as it is anyway":   {"clean: true", `{"excludes_file":"/ex","tracking":"main","work_tree":"/src"}`, ""},
		"another repository":       {"repository: a/b", "", ""},
		"another ref":              {"ref: v1", "", ""},
		"a ref of a step":          {"ref: '${{ steps.x.outputs.y }}'", "", `its input "ref" is known only at run time`},
		"a folder of the runner":   {"path: '${{ runner.temp }}'", "", `its input "path" is known only`},
		"a part of the repository": {"sparse-checkout: src", "", `does not support its input "sparse-checkout"`},
		"what is left there":       {"clean: false", "", `does not support its input "clean"`},
		"a folder outside":         {"path: ../x", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, out := firstStep(t, "{id: c, uses: actions/checkout@v6, if: always(), with: {"+c.with+"}}", o)
			if s.Name != "c" || s.When != plan.Always || s.If == nil {
				t.Errorf("%+v", s)
			}
			if c.note != "" && !strings.Contains(strings.Join(out.Notes, "\n"), c.note) {
				t.Errorf("notes are %q, want %q", out.Notes, c.note)
			}
			if out.Checkout != (c.want != "") {
				t.Errorf("the work tree is used: %t", out.Checkout)
			}
			if c.want == "" {
				if s.Ref == nil || s.Ref.Action != "actions/checkout@v6" {
					t.Errorf("%+v", s.Ref)
				}
				return
			}
			fields := map[string]value.Value{}
			for name, f := range s.Inline.Definition.Steps[0].Inputs {
				fields[name] = f.Value
			}
			if got := string(value.OfStruct(fields).AppendJSON(nil)); got != c.want {
				t.Errorf("inputs are %s, want %s", got, c.want)
			}
			if ref := s.Inline.Definition.Steps[0].Ref; ref.Kind != plan.RefBuiltin || s.Inline.Definition.Outputs["ref"].Value.Str() != "refs/heads/main" {
				t.Errorf("%+v %+v", ref, s.Inline.Definition.Outputs)
			}
		})
	}
	t.Run("the action itself", func(t *testing.T) {
		if s, out := firstStep(t, "{uses: actions/checkout@v6}", workflow.CompileOptions{}); s.Ref == nil || out.Checkout || len(out.Notes) > 0 {
			t.Error(s, out.Notes)
		}
	})
	t.Run("an action that is only called so", func(t *testing.T) {
		for _, uses := range []string{"other/checkout@v1", "actions/checkout/sub@v1", "https://host/actions/checkout@v1"} {
			if s, _ := firstStep(t, "{uses: '"+uses+"'}", o); s.Ref == nil {
				t.Errorf("%s is answered", uses)
			}
		}
	})
	t.Run("in a parallel group", func(t *testing.T) {
		s, out := firstStep(t, "{parallel: [{uses: actions/checkout@v6}, {run: x}]}", o)
		if !out.Checkout || s.Parallel[0].Inline == nil {
			t.Errorf("%+v", s.Parallel)
		}
	})
}

func TestActionsOfTheRepositoryItself(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o    workflow.CompileOptions
		want string
	}{
		"in the work directory":   {workflow.CompileOptions{}, "${{ work_dir }}/.github/actions/x"},
		"where the repository is": {workflow.CompileOptions{Root: "/src/"}, "/src/.github/actions/x"},
		"in another one's commit": {workflow.CompileOptions{Root: "/src", Source: &workflow.Source{Repository: "o/r", Ref: "v1"}}, "o/r/.github/actions/x@v1"},
	} {
		if s, _ := firstStep(t, "{uses: $/.github/actions/x}", c.o); s.Ref.Action != c.want {
			t.Errorf("%s: %s, want %s", name, s.Ref.Action, c.want)
		}
	}
}

func TestLockedActions(t *testing.T) {
	t.Parallel()
	pin := func(repository, ref string) (string, error) {
		switch repository + "@" + ref {
		case "o/a@v1":
			return "c0ffee", nil
		case "o/b@v1":
			return "", nil
		}
		return "", errors.New("not in the lock: " + repository + "@" + ref)
	}
	o := workflow.CompileOptions{Pin: pin, WorkTree: "/src"}
	for uses, want := range map[string]string{"o/a@v1": "o/a@c0ffee", "o/a/sub@v1": "o/a/sub@c0ffee", "o/b@v1": "o/b@v1", "./x": "${{ work_dir }}/x", "https://host/o/c@v1": "https://host/o/c@v1"} {
		if s, _ := firstStep(t, "{uses: '"+uses+"'}", o); s.Ref.Action != want || s.Ref.Text != uses {
			t.Errorf("%s becomes %s, want %s", uses, s.Ref.Action, want)
		}
	}
	j := parse(t, "on: push\njobs: {a: {runs-on: x, steps: [{uses: o/c@v1}]}}\n").Jobs[0]
	if _, err := workflow.Compile(j, legs(t, j, nil).List[0], nil, o); err == nil || !strings.Contains(err.Error(), "ci.yml:2:39: not in the lock: o/c@v1") {
		t.Error(err)
	}
}

func TestBackgroundSteps(t *testing.T) {
	t.Parallel()
	out := compile(t, `
on: push
jobs:
  a:
    runs-on: x
    steps:
      - {id: db, run: serve, background: true}
      - {id: web, run: serve, background: true}
      - run: test
      - wait: [web]
      - cancel: db
      - wait-all:
      - parallel: [{run: x}, {uses: ./y, with: {z: 1}}]
`, nil, workflow.CompileOptions{})
	steps := out.Plan.Definition.Steps
	if !steps[0].Background || !steps[1].Background || steps[2].Background {
		t.Errorf("%+v", steps)
	}
	awaits := []*plan.Await{{Steps: []string{"web"}}, {Steps: []string{"db"}, Cancel: true}, {}}
	for i, want := range awaits {
		if diff := cmp.Diff(want, steps[3+i].Await); diff != "" {
			t.Error(diff)
		}
	}
	if group := steps[6]; len(group.Parallel) != 2 || group.Parallel[1].Ref.Action != "${{ work_dir }}/y" {
		t.Errorf("%+v", group)
	}
}

func TestACallHasNoPlan(t *testing.T) {
	t.Parallel()
	j := parse(t, "on: push\njobs: {a: {uses: ./.github/workflows/w.yml}}\n").Jobs[0]
	if _, err := workflow.Compile(j, legs(t, j, nil).List[0], nil, workflow.CompileOptions{}); err == nil {
		t.Error("it is compiled")
	}
}

func TestWhatAWorkflowUses(t *testing.T) {
	t.Parallel()
	w := parse(t, "on: push\njobs:\n  a: {runs-on: x, steps: [{uses: o/a@v1}, {parallel: [{uses: ./b}]}, {run: x}]}\n  c: {uses: o/r/.github/workflows/w.yml@v2}\n")
	var got []string
	for _, u := range w.Uses() {
		got = append(got, u.Text)
	}
	if diff := cmp.Diff([]string{"o/a@v1", "./b", "o/r/.github/workflows/w.yml@v2"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAliasesRepeatParts(t *testing.T) {
	t.Parallel()
	w := parse(t, "on: push\njobs:\n  a: &job {runs-on: &on x, env: &env {A: '${{ github.ref }}'}, steps: &steps [{run: x}]}\n  b: {runs-on: *on, env: *env, steps: *steps}\n  c: *job\n")
	for _, j := range w.Jobs {
		out, err := workflow.Compile(j, legs(t, j, nil).List[0], nil, workflow.CompileOptions{})
		if err != nil || len(out.Plan.Definition.Steps) != 1 || out.Plan.Definition.Env["A"].Value.Str() != "${{ github_text('github.ref') }}" {
			t.Error(j.ID, out, err)
		}
	}
}

func TestACalledWorkflowMayNotDoMoreThanItsCaller(t *testing.T) {
	t.Parallel()
	most := parse(t, "on: push\npermissions: {contents: read, id-token: write}\n"+jobs).Permissions
	out := compile(t, withJob("permissions: write-all\ncache-mode: read\n"), nil, workflow.CompileOptions{Most: most})
	if got, want := string(out.Plan.Definition.Context["rung"].Value.AppendJSON(nil)), `{"cache_mode":"read","permissions":{"contents":"read","id-token":"write"}}`; got != want {
		t.Errorf("the job gets %s, want %s", got, want)
	}
	out = compile(t, withJob(""), nil, workflow.CompileOptions{Most: most}) // it says nothing, and gets what its caller has
	if got, want := string(out.Plan.Definition.Context["rung"].Value.AppendJSON(nil)), `{"permissions":{"contents":"read","id-token":"write"}}`; got != want {
		t.Errorf("the job that says nothing gets %s, want %s", got, want)
	}
}

func TestVariablesThatAreOneExpression(t *testing.T) {
	t.Parallel()
	out := compile(t, `
on: push
env: ${{ fromJSON(vars.all) }}
jobs:
  a:
    runs-on: x
    strategy: {matrix: {env: [{A: "${{ vars.one }}", B: 2}]}}
    env: ${{ matrix.env }}
    steps:
      - run: x
        env: ${{ matrix.env }}
      - parallel: [{run: y, env: "${{ fromJSON('{}') }}"}]
`, contexts(t, `{"github": {}, "vars": {"one": "${{ 1 }}", "all": "{\"A\": true, \"C\": null}"}, "env": {}, "steps": {}}`), workflow.CompileOptions{})
	want := map[string]string{"A": `"\\${{ 1 }}"`, "B": `"2"`, "C": `""`}
	for name, text := range want {
		if got := string(out.Plan.Definition.Env[name].Value.AppendJSON(nil)); got != text {
			t.Errorf("%s is %s, want %s", name, got, text)
		}
	}
	if got := out.Plan.Definition.Steps[0].Env; len(got) != 2 || got["B"].Value.Str() != "2" {
		t.Errorf("the step has %v", got)
	}
	for _, s := range []struct{ keys, want string }{
		{"env: ${{ secrets }}", "before the first step"},
		{"env: ${{ fromJSON('[1]') }}", "must come to a map, not an array"},
		{"env: >-\n  ${{ fromJSON('{\"a=b\": 1}') }}", `"a=b" cannot be the name of a variable`},
		{"env: >-\n  ${{ fromJSON('{\"a\": [1]}') }}", "the variable a must be a text, not an array"},
	} {
		c := contexts(t, `{"github": {}, "secrets": {"S": "s"}}`)
		j := job(t, s.keys)
		if _, err := workflow.Compile(j, legs(t, j, c).List[0], c, workflow.CompileOptions{}); err == nil || !strings.Contains(err.Error(), s.want) {
			t.Errorf("%s: %v, want %q", s.keys, err, s.want)
		}
	}
}
