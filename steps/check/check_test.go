package check_test

import (
	"context"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/internal/mask/masktest"
	"github.com/rungci/rung/steps/check"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/value"
)

// found checks steps with the components in files, and returns the findings: rule, place and message.
func found(t *testing.T, steps string, files map[string]string) []string {
	t.Helper()
	component, err := gitlabsteps.ParseSteps("steps.yml", []byte(steps))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"steps.yml": steps}
	result := check.Definition(context.Background(), component, check.Options{
		Dir: "/p",
		Load: func(ref *plan.Reference, from string, _ bool) (*source.Component, error) {
			if !ref.IsLocal() {
				return nil, nil
			}
			dir := path.Join(append([]string{from}, ref.Path...)...)
			text, ok := files[strings.TrimPrefix(dir, "/p/")]
			if !ok {
				return nil, &source.NotFoundError{Ref: ref.Text}
			}
			texts[dir] = text
			c, err := gitlabsteps.ParseFile(dir, []byte(text))
			if err != nil {
				return nil, err
			}
			return &source.Component{Plan: c, Dir: dir, File: "func.yml"}, nil
		},
		HasFunction: func(name string) bool { return name == "github_text" },
		Line:        func(at diag.Span) string { return diag.LineOf([]byte(texts[at.File]), at.Line) },
	})
	var out []string
	for i, d := range result.Found {
		step := ""
		if result.Steps[i][1] != "" {
			step = " (" + result.Steps[i][1] + ")"
		}
		out = append(out, fmt.Sprintf("%s %s:%d:%d%s %s", d.Code, strings.TrimPrefix(d.File, "/p/"), d.Line, d.Column, step, d.Message))
	}
	return out
}

const typed = `spec: {inputs: {n: {type: number}, s: {type: string, default: x, options: [x, y]}}, outputs: {o: {type: number}}, secrets: {T: {optional: true}}}
---
exec: {command: [sh, -c, 'echo >"$1"', sh, "${{ output_file }}", "${{ inputs.n }}"]}
`

func TestWhatWillBeWrongIsFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		steps string
		want  []string
	}{
		"a step that is misspelled":         {"- {name: slow, script: x}\n- {name: b, script: 'echo ${{ steps.slwo.status }}'}\n", []string{`unknown-step steps.yml:2:37 (b) steps.slwo: "slwo" was not found; steps has "slow"`}},
		"a step that runs later":            {"- {name: b, script: 'echo ${{ steps.late.status }}'}\n- {name: late, script: x}\n", []string{`unknown-step steps.yml:1:37 (b) steps.late: "late" was not found; steps is empty`}},
		"an output that is not declared":    {"- {name: a, step: ./typed, inputs: {n: 1}}\n- {name: b, script: 'echo ${{ steps.a.outputs.p }}'}\n", []string{`unknown-output steps.yml:2:47 (b) steps.a.outputs.p: "p" was not found; steps.a.outputs has "o"`}},
		"an output of the wrong type":       {"- {name: a, step: ./typed, inputs: {n: 1}}\n- {name: b, script: 'echo ${{ steps.a.outputs.o + \"x\" }}'}\n", []string{`expression-type steps.yml:2:31 (b) "+" takes two numbers or two strings, not a number and a string`}},
		"inputs":                            {"- {name: a, step: ./typed, inputs: {n: one, s: z, m: 1}}\n", []string{`unknown-input steps.yml:1:54 (a) step does not accept input with name "m"`, `input-type steps.yml:1:40 (a) input "n" is declared as number but was given a string: "one"`, `input-type steps.yml:1:48 (a) input "s" is not one of its options: "z"`}},
		"an input that is missing":          {"- {name: a, step: ./typed}\n", []string{`missing-input steps.yml:1:3 (a) input "n" required, but not defined`}},
		"an input that an output gives":     {"- {name: a, step: ./typed, inputs: {n: 1}}\n- {name: b, step: ./typed, inputs: {n: 1, s: '${{ steps.a.outputs.o }}'}}\n", []string{`input-type steps.yml:2:46 (b) input "s" is declared as string but was given a number`}},
		"in a component of a component":     {"- {name: a, step: ./outer}\n", []string{`unknown-input outer:3:43 (a/in) inputs.nope: "nope" was not found; inputs is empty`}},
		"a function":                        {"- {name: a, if: alway(), script: x}\n", []string{`unknown-function steps.yml:1:17 (a) there is no function "alway"; the functions are str, num, bool, always, success, failure, cancelled`}},
		"a name":                            {"- {name: a, script: 'echo ${{ stpes.a }}'}\n", []string{`unknown-name steps.yml:1:31 (a) stpes: "stpes" was not found; available are "context", "env", "func_dir", "inputs", "job", "step_dir", "steps", "vars" and 1 more`}},
		"an output that nothing produces":   {"- {name: a, step: ./mute}\n", []string{`output-never-produced mute:1:18 (a) the output "o" is never produced: nothing in the definition uses output_file`}},
		"access":                            {"- {name: a, step: ./apart, confine: true, allow_access: [/a]}\n- {name: b, step: ./apart, confine: true, allow_access: [/a, \"/b:rw\"]}\n- {name: c, step: ./apart}\n", []string{"access-not-granted steps.yml:1:3 (a) the component is confined and requests access to /b:rw, which the step does not allow"}},
		"a secret":                          {"- {name: a, step: ./mute2, secrets: [T]}\n- {name: b, step: ./wants}\n", []string{"secret-not-requested steps.yml:1:3 (a) the secret T is granted to a step that does not request it", "secret-not-granted steps.yml:2:3 (b) the step requests the secret T, which was not granted"}},
		"a step that never runs":            {"- {name: a, if: false, script: 'echo ${{ steps.nope }}'}\n- {name: b, if: 1 == 2, script: x}\n", []string{`unreachable steps.yml:1:17 (a) the step "a" never runs: its condition is always false`, `unreachable steps.yml:2:17 (b) the step "b" never runs: its condition is always false`}},
		"a step after one that fails":       {"- {name: a, script: \"echo\\nexit 1\"}\n- {name: b, when: always, script: x}\n- {name: c, script: x}\n- {name: d, script: x}\n", []string{`unreachable steps.yml:3:3 (c) the step "c" never runs: the step "a" always fails before it`}},
		"a component that does not exist":   {"- {name: a, step: ./nowhere}\n", []string{`component-not-found steps.yml:1:19 (a) there is no step "./nowhere"`}},
		"a component that is wrong":         {"- {name: a, step: ./broken}\n", []string{`invalid broken:3:1 (a) unknown key "exce"`, "invalid broken:3:1 (a) the definition has neither run nor exec"}},
		"a member of a group sees no other": {"- name: g\n  parallel:\n  - {name: a, script: x}\n  - {name: b, script: 'echo ${{ steps.a.status }}'}\n- {script: 'echo ${{ steps.a.status }}'}\n", []string{`unknown-step steps.yml:4:39 (g/b) steps.a: "a" was not found; steps is empty`}},
		"a background step before the wait": {"- {name: a, background: true, script: x}\n- {name: b, script: 'echo ${{ steps.a.status }}'}\n- wait: [a]\n- {script: 'echo ${{ steps.a.status }}'}\n", []string{`unknown-step steps.yml:2:37 (b) steps.a: "a" was not found; steps is empty`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := found(t, c.steps, map[string]string{
				"typed": typed, "outer": "spec: {}\n---\nrun: [{name: in, script: 'echo ${{ inputs.nope }}'}]\n",
				"mute": "spec: {outputs: {o: {type: string}}}\n---\nexec: {command: [echo]}\n", "mute2": "spec: {}\n---\nexec: {command: [echo]}\n",
				"apart": "spec: {access: [/a, \"/b:rw\"]}\n---\nexec: {command: [echo]}\n", "wants": "spec: {secrets: {T: {}}}\n---\nexec: {command: [echo]}\n", "broken": "spec: {}\n---\nexce: {}\n",
			})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatARunDecidesIsNotWrong(t *testing.T) {
	t.Parallel()
	for _, steps := range []string{
		"- {script: 'echo ${{ vars.ANY }} ${{ env.X }} ${{ job.Y }} ${{ context.a.b }} ${{ work_dir }}'}\n",
		"- {name: a, script: x}\n- {script: 'echo ${{ steps.a.outputs.anything.deep[0] }}'}\n",
		"- {name: a, step: 'git.example/a/b@v1', inputs: {x: 1}}\n- {script: 'echo ${{ steps.a.outputs.o }}'}\n",
		"- {name: a, step: './${{ vars.X }}'}\n- {script: 'echo ${{ steps.a.outputs.o }}'}\n",
		"- {step: ./typed, inputs: {n: '${{ num(vars.N) }}', s: '${{ vars.S }}'}, secrets: [T]}\n",
		"- {name: a, if: failure(), script: exit 1}\n- {script: 'echo ${{ github_text(\"a\") }}'}\n",
		"- {name: a, script: 'test -e x || exit 1'}\n- {script: x}\n",
		"- {name: a, script: \"if x; then exit 0; fi\\nexit 1\"}\n- {script: x}\n",
		"- {name: a, script: exit 1, allow_failure: true}\n- {script: x}\n",
		"- {name: a, script: exit 1}\n- {if: failure(), script: x}\n",
		"- {name: a, run: [{name: i, script: x}], outputs: {o: 1}}\n- {script: 'echo ${{ steps.a.outputs.o + 1 }}'}\n",
	} {
		if got := found(t, steps, map[string]string{"typed": typed}); got != nil {
			t.Errorf("%s:\n%s", steps, strings.Join(got, "\n"))
		}
	}
}

func TestPermissionsAreGrantedOnTheWholeWay(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"wants": "spec: {permissions: {packages: write}}\n---\nexec: {command: [x]}\n",
		"outer": "spec: {permissions: {packages: read}}\n---\nrun: [{name: i, step: ../wants, permissions: {packages: write}}]\n",
	}
	for steps, want := range map[string][]string{
		"- {name: a, step: ./wants, permissions: {packages: write}}\n": nil,
		"- {name: a, step: ./wants}\n":                                 {"permission-not-granted steps.yml:1:3 (a) the step requests the permission packages: write, which was not granted"},
		"- {name: a, step: ./outer, permissions: {packages: read}}\n":  {"permission-not-granted outer:3:7 (a/i) the permission packages: write cannot be granted: the component does not have it"},
	} {
		if diff := cmp.Diff(want, found(t, steps, files)); diff != "" {
			t.Errorf("%s: %s", steps, diff)
		}
	}
}

func TestAThousandStepsAreCheckedInAnInstant(t *testing.T) {
	t.Parallel()
	var steps strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&steps, "- {name: s%d, step: ./typed, inputs: {n: %d}}\n", i, i)
	}
	done := make(chan []string, 1)
	go func() { done <- found(t, steps.String(), map[string]string{"typed": typed}) }()
	select {
	case got := <-done:
		if got != nil {
			t.Error(got[0])
		}
	case <-time.After(time.Minute): // the figure is in the bench; this is about its order
		t.Error("it takes more than a minute")
	}
}

func TestShortShowsNoSecret(t *testing.T) {
	t.Parallel()
	masktest.Shortens(t, 60, func(text string) string { return check.Short(value.OfString(text)) })
	if got := check.Short(value.OfArray([]value.Value{value.OfString("hidden").Mark(true)})); got != "(sensitive)" {
		t.Error(got)
	}
}
