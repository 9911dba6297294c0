package actions

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

func parse(t *testing.T, text string) *plan.Component {
	t.Helper()
	c, err := Parse("action.yml", []byte(text))
	if err != nil {
		t.Fatalf("%s\n%s", diag.Of(err).Render(), text)
	}
	return c
}

func TestJavaScriptActions(t *testing.T) {
	c := parse(t, `
name: Greet
author: somebody
description: Greets.
branding: {icon: heart, color: red}
inputs:
  who-to-greet:
    description: Whom.
    required: true
  two words: {default: 1.50, deprecationMessage: use another}
  flag: {default: true}
  empty:
outputs:
  greeting: {description: What it said.}
  other:
runs:
  using: node20
  main: dist/${{ index.js
`)
	empty, number, truth := value.OfString(""), value.OfString("1.5"), value.OfString("true")
	want := &plan.Component{
		Spec: plan.Spec{
			Description: "Greets.",
			Inputs: map[string]plan.Input{
				"who-to-greet": {Type: value.String, Description: "Whom."},
				"two words":    {Type: value.String, Default: &number, Description: "(deprecated: use another)"},
				"flag":         {Type: value.String, Default: &truth},
				"empty":        {Type: value.String, Default: &empty},
			},
			Outputs: map[string]plan.Output{
				"greeting": {Type: value.String, Default: &empty, Description: "What it said."},
				"other":    {Type: value.String, Default: &empty},
			},
			AnyOutputs: true,
		},
		Definition: plan.Definition{
			Env: map[string]plan.Field{
				"INPUT_WHO-TO-GREET": field("${{ inputs['who-to-greet'] }}"),
				"INPUT_TWO_WORDS":    field("${{ inputs['two words'] }}"),
				"INPUT_FLAG":         field("${{ inputs.flag }}"),
				"INPUT_EMPTY":        field("${{ inputs.empty }}"),
			},
			Exec: &plan.Exec{
				Command: []plan.Field{field("node"), field(`${{ func_dir }}/dist/\${{ index.js`)},
				Toolkit: plan.ToolkitGitHub,
			},
		},
	}
	compare(t, want, c)
}

func TestCompositeActions(t *testing.T) {
	c := parse(t, `
name: Both
inputs:
  my-word: {default: x}
outputs:
  all: {description: d, value: "${{ steps.my-step.outputs.res-ult }} and ${{ inputs.MY-WORD }}"}
  same: {value: "${{ steps.my_step.outcome == 'Success' }}"}
runs:
  using: composite
  steps:
    - id: my-step
      name: First
      run: |
        echo ${{ inputs.my-word }}
      shell: bash
      working-directory: ${{ github.action_path }}/sub
      env: {A: "${{ env.B }}", N: 5, E: }
    - id: my_step
      if: always() && steps.my-step.outputs.res-ult
      continue-on-error: true
      run: ${{ inputs.my-word }}
      shell: sh
    - uses: ./tools/greet
      if: ${{ steps.my_step.conclusion != 'failure' }}
      with: {who-to-greet: "${{ github.workspace }}", n: 1}
    - run: exit 1
      if: false
      shell: pwsh
`)
	empty, word := value.OfString(""), value.OfString("x")
	inline := func(x plan.Exec) *plan.Component {
		x.Toolkit = plan.ToolkitGitHub
		return &plan.Component{Spec: plan.Spec{AnyOutputs: true}, Definition: plan.Definition{Exec: &x}}
	}
	script := func(shell, text string) *plan.Script { return &plan.Script{Shell: shell, Text: field(text)} }
	pointer := func(f plan.Field) *plan.Field { return &f }
	want := &plan.Component{
		Spec: plan.Spec{
			Inputs:  map[string]plan.Input{"my-word": {Type: value.String, Default: &word}},
			Outputs: map[string]plan.Output{"all": {Type: value.String, Default: &empty, Description: "d"}, "same": {Type: value.String, Default: &empty}},
		},
		Definition: plan.Definition{
			Outputs: map[string]plan.Field{
				"all":  field("${{ github_get('steps', 'my_step', 'outputs', 'res-ult') }} and ${{ inputs['my-word'] }}"),
				"same": field("${{ str(github_compare('==', steps.my_step_2.status, 'Success')) }}"),
			},
			Steps: []plan.Step{
				{
					Name: "my_step", Title: "First",
					Inline: inline(plan.Exec{Script: script("bash", "set -eo pipefail; echo ${{ inputs['my-word'] }}\n"), WorkDir: pointer(field("${{ func_dir }}/sub"))}),
					Env:    map[string]plan.Field{"A": field("${{ github_get('env', 'B') }}"), "N": field("5"), "E": field("")},
				},
				{
					Name: "my_step_2", Title: "Run ${{ inputs.my-word }}",
					Inline:       inline(plan.Exec{Script: script("sh", `set -e; eval "${{ inputs['my-word'] }}"`)}),
					If:           pointer(field("(always() && github_get('steps', 'my_step', 'outputs', 'res-ult'))")),
					AllowFailure: &plan.AllowFailure{},
				},
				{
					Name: "step_3", Title: "./tools/greet",
					Ref:    &plan.Reference{Kind: plan.RefAction, Text: "./tools/greet", Action: "${{ work_dir }}/tools/greet"},
					If:     pointer(field("github_compare('!=', (steps.my_step_2.status == 'failure' && 'success' || steps.my_step_2.status), 'failure')")),
					Inputs: map[string]plan.Field{"who-to-greet": field("${{ work_dir }}"), "n": field("1")},
				},
				{
					Name: "step_4", Title: "Run exit 1", If: &plan.Field{Value: value.OfBool(false)},
					Inline: inline(plan.Exec{Script: script("pwsh", "$ErrorActionPreference = 'stop'; exit 1"+epilogue)}),
				},
			},
		},
	}
	compare(t, want, c)
}

func field(text string) plan.Field { return plan.Field{Value: value.OfString(text)} }

// compare compares the canonical forms, which have no places.
func compare(t *testing.T, want, got *plan.Component) {
	t.Helper()
	var texts [2]string
	for i, c := range []*plan.Component{want, got} {
		text, err := plan.Canonical(c)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	if diff := cmp.Diff(texts[0], texts[1]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestMistakes has a file a row; in it, ^ stands before each place that a diagnostic must be about.
func TestMistakes(t *testing.T) {
	const steps = "runs:\n  using: composite\n  steps:\n  - "
	const node = "runs: {using: node20, main: a.js}\n"
	for name, c := range map[string]struct {
		text string
		want []string // message, in the order of the places
	}{
		"no text at all":        {"", []string{"has one document, not 0"}},
		"a list":                {"^- a\n", []string{"the action must be a map, not a list"}},
		"nothing to run":        {"^name: x\n", []string{"does not say what it runs"}},
		"an unknown key":        {"^inptus: {}\n" + node, []string{`unknown key "inptus"`}},
		"unknown keys anywhere": {"inputs: {a: {^type: boolean}}\noutputs: {b: {^value: x}}\nruns: {using: node20, main: a.js, ^args: []}\n", []string{`unknown key "type"`, `unknown key "value"`, `unknown key "args"`}},
		"no main":               {"runs: ^{using: node20}\n", []string{"the action has no main"}},
		"an empty main":         {"runs: {using: node20, main: ^''}\n", []string{`"main" is empty`}},
		"no using":              {"runs: ^{main: a.js}\n", []string{"does not say what it runs on"}},
		"another Node":          {"runs: {using: ^nodejs, main: a.js}\n", []string{`"nodejs" is nothing that an action can run on`}},
		"a container":           {"runs: {using: ^docker, image: Dockerfile}\n", []string{"the action runs in a container (using: docker), and this version has no containers"}},
		"pre and post":          {"runs: {using: node20, main: a.js, ^pre: b.js, ^post: c.js}\n", []string{`the action has "pre", which would not run`, `the action has "post"`}},
		"an expression in a default": {
			"inputs: {token: {default: ^'${{ github.token }}'}}\n" + node, []string{"evaluates no expressions in defaults"},
		},
		"a strange name of an input":    {"inputs: {^1a: {}, b: {}, ^B: {}}\n" + node, []string{`"1a" cannot be the name`, `"B" is declared twice`}},
		"required is no truth":          {"inputs: {a: {required: ^maybe}}\n" + node, []string{`"required" must be true or false`}},
		"no steps":                      {"runs: ^{using: composite}\n", []string{"the action has no steps"}},
		"an empty list of steps":        {"runs: {using: composite, steps: ^[]}\n", []string{"at least one step"}},
		"a step without anything to do": {steps + "^name: x\n", []string{"nothing to do"}},
		"run and uses":                  {steps + "run: a\n    shell: sh\n    uses: ^./b\n", []string{"run or uses, not both"}},
		"a run without shell":           {steps + "^run: a\n", []string{"must name its shell"}},
		"a custom shell":                {steps + "run: a\n    shell: ^perl {0}\n", []string{`no shell "perl {0}"`}},
		"a remote action":               {steps + "uses: ^actions/checkout@v4\n", []string{"from local directories (./folder), not from repositories"}},
		"a container image":             {steps + "uses: ^docker://alpine\n", []string{"the step runs a container image"}},
		"with on a run":                 {steps + "run: a\n    shell: sh\n    with: ^{a: b}\n", []string{`"with" is for actions`}},
		"a shell on an action":          {steps + "uses: ./a\n    shell: ^sh\n", []string{`"shell" is for run`}},
		"continue-on-error by chance":   {steps + "uses: ./a\n    continue-on-error: ^${{ inputs.x }}\n", []string{"must be true or false"}},
		"an id twice":                   {steps + "{uses: ./a, id: a-b}\n  - {uses: ./a, id: ^A-B}\n", []string{"already taken by the step on line 4"}},
		"a strange id":                  {steps + "{uses: ./a, id: ^1 2}\n", []string{"cannot be the id of a step"}},
		"a composite output of nothing": {"outputs: {^a: {description: x}}\n" + steps + "uses: ./a\n", []string{"has no value"}},
		"a broken expression":           {steps + "run: echo ${{ inputs.^nope }}\n    shell: sh\n", []string{`does not declare the input "nope"`}},
		"all at once":                   {steps + "{run: 'a ${{ ^contains(1) }}', shell: sh, if: ^secrets.X, env: {A: 'x ${{ steps.^late.outputs.y }}'}}\n  - {uses: ./a, id: late}\n", []string{"function contains()", "does not know secrets.X", `no step before this one has the id "late"`}},
	} {
		t.Run(name, func(t *testing.T) {
			var places []int // line * 1000 + column
			var text strings.Builder
			line, column := 1, 1
			for _, r := range c.text {
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
			_, err := Parse("action.yml", []byte(text.String()))
			list := diag.Of(err)
			if len(list) != len(c.want) {
				t.Fatalf("%d diagnostics, want %d:\n%s", len(list), len(c.want), list.Render())
			}
			for i, d := range list {
				if !strings.Contains(d.Message, c.want[i]) {
					t.Errorf("message %q, want %q", d.Message, c.want[i])
				}
				if len(places) > 0 && d.Line*1000+d.Column != places[i] {
					t.Errorf("%q is at %d:%d, want %d:%d", d.Message, d.Line, d.Column, places[i]/1000, places[i]%1000)
				}
			}
		})
	}
}

var testNames = names{
	inputs: map[string]string{"who-to-greet": "who-to-greet", "mode": "Mode"},
	steps:  map[string]stepName{"my-id": {name: "my_id", reached: true}, "soft": {name: "soft", reached: true, forgiving: true}, "late": {name: "late"}},
}

func TestExpressions(t *testing.T) {
	for _, c := range []struct{ github, ours string }{
		{"inputs.who-to-greet", "inputs['who-to-greet']"},
		{"inputs['who-to-greet']", "inputs['who-to-greet']"},
		{"INPUTS.mode", "inputs.Mode"},
		{"steps.my-id.outputs.x-y", "github_get('steps', 'my_id', 'outputs', 'x-y')"},
		{"steps['MY-ID'].outputs['x']", "github_get('steps', 'my_id', 'outputs', 'x')"},
		{"steps.my-id.outcome", "steps.my_id.status"},
		{"steps.my-id.conclusion", "steps.my_id.status"},
		{"steps.soft.conclusion", "(steps.soft.status == 'failure' && 'success' || steps.soft.status)"},
		{"github.action_path", "func_dir"},
		{"github['workspace']", "work_dir"},
		{"env.HOME", "github_get('env', 'HOME')"},
		{"runner.os", "github_runner('os')"},
		{"runner.arch", "github_runner('arch')"},
		{"'it''s \\ ${{ }} \"x\"'", `'it\'s \\ ${{ }} "x"'`},
		{"''", "''"},
		{"true", "true"},
		{"-1.50", "-1.5"},
		{"0xff", "255"},
		{"1e3", "1000"},
		{"!inputs.mode", "!inputs.Mode"},
		{"!(true && false)", "!(true && false)"},
		{"true || false && true", "(true || (false && true))"},
		{"(true || false) && true", "((true || false) && true)"},
		{"true && false && true", "((true && false) && true)"},
		{"inputs.mode == 'x'", "github_compare('==', inputs.Mode, 'x')"},
		{"inputs.mode != null", "github_compare('!=', inputs.Mode, null)"},
		{"1 < 2 == true", "github_compare('==', github_compare('<', 1, 2), true)"},
		{"true == 1 < 2", "github_compare('==', true, github_compare('<', 1, 2))"},
		{"!inputs.mode == 'x' && 'a' || 'b'", "((github_compare('==', !inputs.Mode, 'x') && 'a') || 'b')"},
		{"\n  inputs.mode\n", "inputs.Mode"},
	} {
		t.Run(c.github, func(t *testing.T) {
			got, wrong := testNames.template("a ${{" + c.github + "}} b")
			if want := "a ${{ " + c.ours + " }} b"; wrong != nil || got != want {
				t.Errorf("got %s (%+v), want %s", got, wrong, want)
			}
			if got, wrong = testNames.condition(c.github); wrong != nil || got != c.ours {
				t.Errorf("as a condition: got %s (%+v), want %s", got, wrong, c.ours)
			}
			if got, wrong = testNames.condition(" ${{ " + c.github + " }} "); wrong != nil || got != c.ours {
				t.Errorf("as a condition in ${{ }}: got %s (%+v), want %s", got, wrong, c.ours)
			}
		})
	}
	t.Run("status functions are for conditions", func(t *testing.T) {
		if got, wrong := testNames.condition("SUCCESS() || failure() && !cancelled()"); wrong != nil || got != "(success() || (failure() && !cancelled()))" {
			t.Error(got, wrong)
		}
	})
	t.Run("text without expressions stays", func(t *testing.T) {
		for _, text := range []string{"", "$X ${Y} }} {{ \\", "a $${ b"} {
			if got, wrong := testNames.template(text); wrong != nil || got != text {
				t.Error(text, got, wrong)
			}
		}
	})
}

func TestExpressionMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "the expression is empty",
		" ":                            "the expression is empty",
		"inputs.nope":                  `7: the action does not declare the input "nope"`,
		"steps.none.outputs.x":         `6: no step before this one has the id "none"`,
		"steps.late.outputs.x":         `6: no step before this one has the id "late"`,
		"steps.my-id.status":           "12: a step has outputs.NAME, outcome and conclusion",
		"steps.my-id":                  "0: this version does not know steps.my-id",
		"github.event.number":          "0: this version does not know github.event.number",
		"secrets.TOKEN":                "this version does not know secrets.TOKEN",
		"inputs":                       "this version does not know inputs",
		"runner.temp":                  "this version does not know runner.temp",
		"inputs.mode == fromJSON('1')": "15: this version does not know the function fromJSON()",
		"success()":                    "0: success() means something in `if` only",
		"steps.*.outputs":              "6: this version reads only names after .",
		"inputs[env.X]":                "7: this version reads only names after . and strings in [ ]",
		"null":                         "null can only be compared",
		"inputs.mode || null":          "null can only be compared",
		"!null":                        "null can only be compared",
		"inputs.mode ==":               "14: expected a value",
		"inputs.mode 'x'":              `12: expected an operator or the end of the expression, found "x"`,
		"(true":                        "5: expected )",
		"'abc":                         "0: the string is not closed",
		"\"abc\"":                      "0: unexpected character",
		"1 + 2":                        "2: unexpected character",
		"inputs.mode.x":                "this version does not know inputs.mode.x",
		strings.Repeat("(", 1000) + "1" + strings.Repeat(")", 1000): "nested deeper than 50 levels",
		strings.Repeat("!", 100000):                                 "nested deeper than 50 levels",
	} {
		_, wrong := testNames.template("${{" + text + "}}")
		if wrong == nil {
			t.Errorf("%s: no mistake", text)
			continue
		}
		place, message, ok := strings.Cut(want, ": ")
		if !ok || len(place) > 3 {
			message = want
		} else if got := wrong.offset - len("${{"); itoa(got) != place {
			t.Errorf("%s: the mistake is at %d, want %s", text, got, place)
		}
		if !strings.Contains(wrong.message, message) {
			t.Errorf("%s: %q, want %q", text, wrong.message, message)
		}
	}
	for text, want := range map[string]string{
		"${{ inputs.mode":       "the expression is not closed",
		"a ${{ 'x }} b":         "the string is not closed",
		`C:\${{ inputs.mode }}`: `this version reads no \ before ${{`,
	} {
		if _, wrong := testNames.template(text); wrong == nil || !strings.Contains(wrong.message, want) {
			t.Errorf("%s: %+v, want %q", text, wrong, want)
		}
	}
	for text, want := range map[string]string{
		"${{ inputs.mode }} == 'x'": "a condition is one expression",
		"a ${{ inputs.mode }}":      "unexpected character",
		"${{ inputs.mode":           "a condition is one expression",
		"inputs.mode }}":            "a condition is one expression",
	} {
		if _, wrong := testNames.condition(text); wrong == nil || !strings.Contains(wrong.message, want) {
			t.Errorf("if: %s: %+v, want %q", text, wrong, want)
		}
	}
}

func itoa(n int) string { return value.OfInt(int64(n)).Text() }

func FuzzParse(f *testing.F) {
	f.Add("inputs: {a: {default: 1}}\noutputs: {b: {value: '${{ steps.x.outputs.y }}'}}\nruns:\n  using: composite\n  steps:\n  - {id: x, run: 'echo ${{ inputs.a }}', shell: bash, if: always()}\n  - {uses: ./b, with: {c: d}}\n")
	f.Add("runs: {using: node20, main: a.js}\n")
	f.Add("runs: {using: docker}\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse("action.yml", []byte(text))
		if err != nil {
			if len(diag.Of(err)) == 0 {
				t.Fatalf("an error that is no list of diagnostics: %v", err)
			}
			return
		}
		if (c.Definition.Exec == nil) == (len(c.Definition.Steps) == 0) {
			t.Fatal("neither an exec nor steps, or both")
		}
		if _, err := plan.Canonical(c); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzTemplate(f *testing.F) {
	f.Add("a ${{ inputs.mode == 'x' && !(1 < 2) || steps.my-id.outputs.y }} b ${{ env.X }}")
	f.Add("${{ 'it''s' }}${{ null != 0x1F }}")
	f.Fuzz(func(t *testing.T, text string) {
		out, wrong := testNames.template(text)
		if wrong != nil {
			if wrong.offset < 0 || wrong.length < 1 || wrong.message == "" {
				t.Fatalf("%+v", wrong)
			}
			return
		}
		tmpl, err := expr.ParseTemplate(out)
		if err != nil {
			t.Fatalf("%q became %q: %v", text, out, err)
		}
		literal := ""
		for _, part := range tmpl.Parts() {
			literal += part.Text
		}
		if !strings.Contains(text, "${{") && literal != text {
			t.Fatalf("%q became %q", text, literal)
		}
		_, _ = testNames.condition(text)
	})
}
