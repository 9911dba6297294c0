package step

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
)

// read reads a list of steps.
func read(t testing.TB, text string, composite bool) ([]plan.Step, *Reader, error) {
	t.Helper()
	file, err := yamlsource.Parse("steps.yml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	r := &Reader{Text: NewText(file), Composite: composite}
	steps := r.Steps(file.Documents[0])
	return steps, r, file.Err()
}

// shown writes steps as JSON without places, one line each.
func shown(t testing.TB, steps []plan.Step) string {
	t.Helper()
	text, err := plan.Canonical(&plan.Component{Definition: plan.Definition{Steps: steps}})
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Definition struct{ Steps []json.RawMessage }
	}
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, s := range c.Definition.Steps {
		var compact map[string]any
		_ = json.Unmarshal(s, &compact)
		line, _ := json.Marshal(compact)
		line = []byte(strings.NewReplacer(`\u0026`, "&", `\u003c`, "<", `\u003e`, ">").Replace(string(line)))
		b.Write(append(line, '\n'))
	}
	return b.String()
}

func TestSteps(t *testing.T) {
	t.Parallel()
	const none = `{"definition":{"exec":{"script":{"text":"set -e; true"},"toolkit":"github"}},"spec":{"any_outputs":true}}`
	for _, c := range []struct{ name, text, want string }{
		{"a script in no shell", "- run: true",
			`{"inline":` + none + `,"name":"step_1","title":"Run true"}`},
		{"an id, and a name with an expression", "- {run: true, id: My-Id, name: 'a ${{ github.ref }}'}",
			`{"inline":` + none + `,"name":"My_Id","title":"a ${{ github.ref }}"}`},
		{"a condition", "- {run: true, if: github.ref == 'x'}",
			`{"if":"github_holds('github.ref == \\'x\\'')","inline":` + none + `,"name":"step_1","title":"Run true"}`},
		{"a condition about what came before", "- {run: true, if: '${{ failure() || env.X }}'}",
			`{"if":"github_holds('failure() || env.X')","inline":` + none + `,"name":"step_1","title":"Run true","when":"always"}`},
		{"a condition that is the word always()", "- {run: true, if: \"'always()'\"}",
			`{"if":"github_holds('\\'always()\\'')","inline":` + none + `,"name":"step_1","title":"Run true"}`},
		{"a condition that is a truth", "- {run: true, if: false}",
			`{"if":false,"inline":` + none + `,"name":"step_1","title":"Run true"}`},
		{"an empty condition", "- {run: true, if: ''}",
			`{"inline":` + none + `,"name":"step_1","title":"Run true"}`},
		{"a failure that does not count", "- {run: true, continue-on-error: true}",
			`{"allow_failure":{},"inline":` + none + `,"name":"step_1","title":"Run true"}`},
		{"a failure that counts", "- {run: true, continue-on-error: false}",
			`{"inline":` + none + `,"name":"step_1","title":"Run true"}`},
		{"a failure that may count", "- {run: true, continue-on-error: '${{ matrix.soft }}'}",
			`{"allow_failure":{"if":"${{ github_holds('matrix.soft') }}"},"inline":` + none + `,"name":"step_1","title":"Run true"}`},
		{"a time", "- {run: true, timeout-minutes: 5}",
			`{"inline":` + none + `,"name":"step_1","timeout":"5m0s","title":"Run true"}`},
		{"a time beyond what there is", "- {run: true, timeout-minutes: 100000}",
			`{"inline":` + none + `,"name":"step_1","timeout":"6h0m0s","title":"Run true"}`},
		{"a time that is computed", "- {run: true, timeout-minutes: '${{ fromJSON(vars.T) }}'}",
			`{"inline":` + none + `,"name":"step_1","time_limit":"${{ github_value('fromJSON(vars.T)') }}","title":"Run true"}`},
		{"variables", "- {run: true, env: {A: 1.50, B: '${{ secrets.X }}-y', C: }}",
			`{"env":{"A":"1.5","B":"${{ github_text('secrets.X') }}-y","C":""},"inline":` + none + `,"name":"step_1","title":"Run true"}`},
		{"a folder", "- {run: true, working-directory: 'a/${{ matrix.d }}'}",
			`{"inline":{"definition":{"exec":{"script":{"text":"set -e; true"},"toolkit":"github","work_dir":"a/${{ github_text('matrix.d') }}"}},"spec":{"any_outputs":true}},"name":"step_1","title":"Run true"}`},
		{"an action", "- {uses: actions/checkout@v7, with: {fetch-depth: 0, token: '${{ github.token }}'}}",
			`{"inputs":{"fetch-depth":"0","token":"${{ github_text('github.token') }}"},"name":"step_1","ref":{"action":"actions/checkout@v7","kind":"action","text":"actions/checkout@v7"},"title":"actions/checkout@v7"}`},
		{"a local action, from the workspace", "- uses: ./.github/actions/a",
			`{"name":"step_1","ref":{"action":"${{ work_dir }}/.github/actions/a","kind":"action","text":"./.github/actions/a"},"title":"./.github/actions/a"}`},
		{"an action of the repository itself", "- uses: $/a",
			`{"name":"step_1","ref":{"action":"$/a","kind":"action","text":"$/a"},"title":"$/a"}`},
		{"a container image", "- {uses: 'docker://alpine:3', with: {args: a}}",
			`{"inputs":{"args":"a"},"name":"step_1","ref":{"action":"docker://alpine:3","kind":"action","text":"docker://alpine:3"},"title":"docker://alpine:3"}`},
		{"background steps", "- {uses: a/b@c, id: s-1, background: true}\n- wait: S-1\n- {wait: [s-1], name: now}\n- wait-all:\n- cancel: s-1",
			`{"background":true,"name":"s_1","ref":{"action":"a/b@c","kind":"action","text":"a/b@c"},"title":"a/b@c"}
{"await":{"steps":["s_1"]},"name":"step_2","title":"Wait for s_1","when":"always"}
{"await":{"steps":["s_1"]},"name":"step_3","title":"now","when":"always"}
{"await":{},"name":"step_4","title":"Wait for all background steps","when":"always"}
{"await":{"cancel":true,"steps":["s_1"]},"name":"step_5","title":"Cancel s_1","when":"always"}`},
		{"a parallel group", "- parallel:\n  - {uses: a/b@c, id: x}\n  - {uses: a/b@d, if: always()}",
			`{"limit":10,"name":"step_1","parallel":[{"name":"x","ref":{"action":"a/b@c","kind":"action","text":"a/b@c"},"title":"a/b@c"},{"if":"github_holds('always()')","name":"step_3","ref":{"action":"a/b@d","kind":"action","text":"a/b@d"},"title":"a/b@d","when":"always"}],"title":"Parallel steps"}`},
		{"a step that stands twice by an alias", "- &s {uses: a/b@c}\n- *s",
			`{"name":"step_1","ref":{"action":"a/b@c","kind":"action","text":"a/b@c"},"title":"a/b@c"}
{"name":"step_2","ref":{"action":"a/b@c","kind":"action","text":"a/b@c"},"title":"a/b@c"}`},
		{"ids that are one name, and a name that nobody may have",
			"- {uses: a/b@c, id: a-b}\n- {uses: a/b@c, id: A_B, if: steps.a-b.outcome}\n- {uses: a/b@c, id: step-4, with: {x: \"${{ steps.a_b.x }}${{ steps['A-B'].x }} ${{ 'steps.a_b' }}\"}}\n- uses: a/b@c",
			`{"name":"a_b","ref":{"action":"a/b@c","kind":"action","text":"a/b@c"},"title":"a/b@c"}
{"if":"github_holds('steps.a-b.outcome')","name":"A_B_2","ref":{"action":"a/b@c","kind":"action","text":"a/b@c"},"title":"a/b@c"}
{"inputs":{"x":"${{ github_text('steps.A_B_2.x') }}${{ github_text('steps[\\'A-B\\'].x') }} ${{ github_text('\\'steps.a_b\\'') }}"},"name":"step_4","ref":{"action":"a/b@c","kind":"action","text":"a/b@c"},"title":"a/b@c"}
{"name":"step_4_2","ref":{"action":"a/b@c","kind":"action","text":"a/b@c"},"title":"a/b@c"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			steps, _, err := read(t, c.text+"\n", false)
			if err != nil {
				t.Fatal(diag.Of(err).Render())
			}
			if diff := cmp.Diff(c.want+"\n", shown(t, steps)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestShells(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, shell, run, wantShell, wantText string }{
		{"none", "", "a ${{ env.B }}", "", "set -e; a ${{ github_text('env.B') }}"},
		{"bash", "bash", "a\nb", "bash", "set -eo pipefail; a\nb"},
		{"sh, and a script that is an expression, which is code", "sh", "${{ env.A }}", "sh", `set -e; eval "${{ github_text('env.A') }}"`},
		{"pwsh", "pwsh", "a", "pwsh", "$ErrorActionPreference = 'stop'; a" + epilogue},
		{"powershell", "powershell", "a", "powershell", "$ErrorActionPreference = 'stop'; a" + epilogue},
		{"python", "python", "print(1)", "python {0}", "print(1)"},
		{"cmd", "cmd", "dir", "cmd", "dir"},
		{"a command", "perl -w {0} --", "print 1", "perl -w {0} --", "print 1"},
		{"a command with an expression", "${{ env.P }} {0}", "print 1", "${{ github_text('env.P') }} {0}", "print 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			text := "- run: |-\n    " + strings.ReplaceAll(c.run, "\n", "\n    ") + "\n"
			if c.shell != "" {
				text += "  shell: '" + c.shell + "'\n"
			}
			steps, _, err := read(t, text, false)
			if err != nil {
				t.Fatal(diag.Of(err).Render())
			}
			script := steps[0].Inline.Definition.Exec.Script
			if script.Shell != c.wantShell || script.Text.Value.Str() != c.wantText {
				t.Errorf("the shell is %q, the text %q", script.Shell, script.Text.Value.Str())
			}
		})
	}
	t.Run("an expression, whose names stand for commands", func(t *testing.T) {
		t.Parallel()
		steps, _, err := read(t, "- {run: a, shell: '${{ env.S }}'}\n", false)
		if err != nil {
			t.Fatal(diag.Of(err).Render())
		}
		got := steps[0].Inline.Definition.Exec.Script.Shell
		if _, err := expr.ParseTemplate(got); err != nil || !strings.HasPrefix(got, `${{ github_text('(env.S) == \'bash\' && \'bash --noprofile`) {
			t.Errorf("got %s (%v)", got, err)
		}
	})
	t.Run("defaults are for steps that say nothing", func(t *testing.T) {
		t.Parallel()
		file, err := yamlsource.Parse("x", []byte("shell: bash\ndir: sub\nsteps:\n- run: a\n- {run: b, shell: sh, working-directory: other}\n"))
		if err != nil {
			t.Fatal(err)
		}
		doc := file.Documents[0]
		r := &Reader{Text: NewText(file), Shell: doc.Get("shell"), WorkDir: doc.Get("dir")}
		steps := r.Steps(doc.Get("steps"))
		for i, want := range []string{"bash sub", "sh other"} {
			x := steps[i].Inline.Definition.Exec
			if got := x.Script.Shell + " " + x.WorkDir.Value.Str(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
}

// TestMistakes has a list a row; in it, ^ stands before each place that a diagnostic must be about.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string // messages, in the order of the places
	}{
		"no list":                          {"^run: a\n", []string{"must be a list with at least one step"}},
		"a step that is none":              {"- ^a\n", []string{"a step must be a map, not a string"}},
		"nothing to do":                    {"- ^name: x\n", []string{"nothing to do"}},
		"run and uses":                     {"- run: a\n  ^uses: a/b@c\n", []string{"run or uses, not both"}},
		"a misspelt key":                   {"- run: a\n  ^working-dir: x\n", []string{`unknown key "working-dir"`}},
		"with on a run":                    {"- run: a\n  ^with: {a: b}\n", []string{`unknown key "with"`}},
		"a shell on an action":             {"- uses: a/b@c\n  ^shell: sh\n", []string{`unknown key "shell"`}},
		"a wait with a condition":          {"- wait-all:\n  ^if: always()\n", []string{`unknown key "if"`}},
		"a shell that is none":             {"- {run: a, shell: ^perl}\n", []string{`there is no shell "perl"`}},
		"an empty script":                  {"- run: ^''\n", []string{`"run" is empty`}},
		"an action without a version":      {"- uses: ^actions/checkout\n", []string{"the version is missing"}},
		"an action of no repository":       {"- uses: ^checkout@v1\n", []string{"the owner and the repository are missing"}},
		"an action above":                  {"- uses: ^../x\n", []string{"local ones begin with ./"}},
		"an action that is an expression":  {"- uses: ^${{ env.X }}\n", []string{"cannot hold expressions"}},
		"an own action with a version":     {"- uses: ^$/a@v1\n", []string{"has no version"}},
		"an id twice":                      {"- {run: a, id: x-Y}\n- {run: b, id: ^X-y}\n", []string{"already taken by the step on line 1"}},
		"a strange id":                     {"- {run: a, id: ^1 2}\n", []string{"cannot be the id of a step"}},
		"a truth that is none":             {"- {run: a, continue-on-error: ^maybe}\n", []string{"must be true or false"}},
		"half an expression for a truth":   {"- {run: a, continue-on-error: '^a${{ env.X }}'}\n", []string{"must be one expression"}},
		"no time":                          {"- {run: a, timeout-minutes: ^0}\n- {run: a, timeout-minutes: ^1.5}\n", []string{"whole number of minutes", "whole number of minutes"}},
		"variables that are an expression": {"- {run: a, env: ^'${{ fromJSON(vars.X) }}'}\n", []string{"cannot be one expression here"}},
		"a variable's name":                {"- {run: a, env: {^A=B: c}}\n", []string{"cannot be the name of the variable"}},
		"a broken expression":              {"- run: echo ${{ ^|| }}\n", []string{""}},
		"a context that is not there":      {"- {run: a, if: ^secrets.X == ''}\n", []string{"secrets"}},
		"a status outside of a condition":  {"- run: echo ${{ ^failure() }}\n", []string{"failure"}},
		"a wait for nothing":               {"- {run: a, id: x}\n- wait: ^x\n- wait: [^y]\n- wait: ^[]\n", []string{`with the id "x"`, `with the id "y"`, "no step to wait for"}},
		"a wait before the step":           {"- cancel: ^x\n- {run: a, id: x, background: true}\n", []string{"nothing to cancel"}},
		"a wait-all for something":         {"- wait-all: ^[x]\n", []string{"takes nothing"}},
		"a group in a group":               {"- parallel:\n  - ^parallel: [{run: a}]\n  - {run: b, ^background: true}\n", []string{`cannot have "parallel"`, `cannot have "background"`}},
		"an empty group":                   {"- parallel: ^[]\n", []string{"at least one step"}},
		"all at once":                      {"- {run: 'a ${{ ^nope.x }}', shell: ^nope, if: ^secrets.X}\n", []string{"nope", "nope", "secrets"}},
	} {
		t.Run(name, func(t *testing.T) { mistakes(t, c.text, c.want, false) })
	}
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"a run without a shell": {"- ^run: a\n", []string{"must name its shell"}},
		"a background step":     {"- run: a\n  shell: sh\n  ^background: true\n", []string{`a step of a composite action cannot have "background"`}},
		"a wait":                {"- ^wait-all:\n", []string{`cannot have "wait-all"`}},
		"a time":                {"- uses: a/b@c\n  ^timeout-minutes: 5\n", []string{`cannot have "timeout-minutes"`}},
		"a secret":              {"- {run: 'echo ${{ ^secrets.X }}', shell: sh}\n", []string{"secrets"}},
	} {
		t.Run("in an action: "+name, func(t *testing.T) { mistakes(t, c.text, c.want, true) })
	}
}

func mistakes(t *testing.T, marked string, want []string, composite bool) {
	t.Helper()
	var places []int // line * 1000 + column
	var text strings.Builder
	line, column := 1, 1
	for _, r := range marked {
		switch r {
		case '^':
			places = append(places, line*1000+column)
			continue
		case '\n':
			line, column = line+1, 0
		}
		text.WriteRune(r)
		column++
	}
	_, _, err := read(t, text.String(), composite)
	list := diag.Of(err)
	if len(list) != len(want) {
		t.Fatalf("%d diagnostics, want %d:\n%s", len(list), len(want), list.Render())
	}
	for i, d := range list {
		if !strings.Contains(d.Message, want[i]) {
			t.Errorf("message %q, want %q", d.Message, want[i])
		}
		if d.Line*1000+d.Column != places[i] {
			t.Errorf("%q is at %d:%d, want %d:%d", d.Message, d.Line, d.Column, places[i]/1000, places[i]%1000)
		}
	}
}

func TestAVeryLongExpressionIsAMistake(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("1||", 50_000) + "1", strings.Repeat("!", 100_000) + "1", strings.Repeat("(", 100_000)} {
		if _, _, err := read(t, "- run: echo ${{ "+text+" }}\n", false); err == nil {
			t.Errorf("%.20s… is not a mistake", text)
		}
	}
}

func FuzzSteps(f *testing.F) {
	f.Add("- {id: x, run: 'echo ${{ inputs.a }}', shell: bash, if: always()}\n- {uses: ./b, with: {c: d}}\n", true)
	f.Add("- {id: x, run: a, background: true, timeout-minutes: 5}\n- wait: [x]\n- cancel: x\n- parallel: [{run: b}, {uses: a/b@c}]\n- wait-all:\n", false)
	f.Add("- {id: a-b, run: a}\n- {id: a_b, run: '${{ steps.a_b.outputs.x }}', continue-on-error: '${{ true }}', shell: '${{ env.S }}'}\n", false)
	f.Fuzz(func(t *testing.T, text string, composite bool) {
		file, err := yamlsource.Parse("steps.yml", []byte(text))
		if err != nil || len(file.Documents) != 1 {
			return
		}
		r := &Reader{Text: NewText(file), Composite: composite}
		steps := r.Steps(file.Documents[0])
		if file.Err() != nil {
			return
		}
		names := map[string]bool{}
		var check func([]plan.Step)
		check = func(steps []plan.Step) {
			for _, s := range steps {
				if s.Name == "" || strings.Contains(s.Name, "-") || names[strings.ToLower(s.Name)] {
					t.Fatalf("a step is called %q", s.Name)
				}
				names[strings.ToLower(s.Name)] = true
				if n := btoi(s.Ref != nil) + btoi(s.Inline != nil) + btoi(len(s.Parallel) > 0) + btoi(s.Await != nil); n != 1 {
					t.Fatalf("the step %s is %d things", s.Name, n)
				}
				check(s.Parallel)
			}
		}
		check(steps)
		if _, err := plan.Canonical(&plan.Component{Definition: plan.Definition{Steps: steps}}); err != nil {
			t.Fatal(err)
		}
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
