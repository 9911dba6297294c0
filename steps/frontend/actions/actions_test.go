package actions

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// must compiles an action that is the user's own.
func must(t *testing.T, text string) *plan.Component {
	t.Helper()
	c, err := Parse("action.yml", []byte(text))
	if err != nil {
		t.Fatalf("%s\n%s", diag.Of(err).Render(), text)
	}
	return c
}

func field(text string) plan.Field { return plan.Field{Value: value.OfString(text)} }

func fields(texts ...string) (list []plan.Field) {
	for _, text := range texts {
		list = append(list, field(text))
	}
	return list
}

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

func TestJavaScriptActions(t *testing.T) {
	t.Parallel()
	c := must(t, `
name: Greet
author: somebody
description: Greets.
branding: {icon: heart, color: red}
inputs:
  who-to-greet:
    description: Whom.
    required: true
    type: string
  two words: {default: 1.50, deprecationMessage: use another}
  flag: {default: true}
  token: {required: true, default: "${{ github.token }}"}
  empty:
outputs:
  greeting: {description: What it said.}
  other:
runs:
  using: node20
  main: ./dist/${{ index.js
  pre: ../setup.js
  post: dist/cleanup.js
  post-if: success() || inputs.flag
`)
	empty, number, truth := value.OfString(""), value.OfString("1.5"), value.OfString("true")
	token := field("${{ github_text('github.token') }}")
	node := func(file string) *plan.Exec {
		return &plan.Exec{Command: fields("node", "${{ func_dir }}/"+file), Toolkit: plan.ToolkitGitHubAction}
	}
	condition := field("github_holds('success() || inputs.flag')")
	want := &plan.Component{
		Spec: plan.Spec{
			Description: "Greets.",
			Inputs: map[string]plan.Input{
				"who-to-greet": {Type: value.String, Description: "Whom."},
				"two words":    {Type: value.String, Default: &number, Deprecated: "use another"},
				"flag":         {Type: value.String, Default: &truth},
				"token":        {Type: value.String, Computed: &token},
				"empty":        {Type: value.String, Default: &empty},
			},
			Outputs: map[string]plan.Output{
				"greeting": {Type: value.String, Default: &empty, Description: "What it said."},
				"other":    {Type: value.String, Default: &empty},
			},
			AnyOutputs: true,
			AnyInputs:  true,
			Env:        map[string]plan.EnvRequest{"*": {Optional: true}},
			Exports:    []string{"*"},
			Home:       plan.HomeJob,
		},
		Definition: plan.Definition{
			Exec:        node(`dist/\${{ index.js`),
			Pre:         &plan.Hook{Exec: node("../setup.js")},
			Post:        &plan.Hook{Exec: node("dist/cleanup.js"), If: &condition},
			InputPrefix: "INPUT_",
			Context:     map[string]plan.Field{UsingContext: field("node20")},
		},
	}
	compare(t, want, c)
}

func TestCompositeActions(t *testing.T) {
	t.Parallel()
	c := must(t, `
name: Both
inputs:
  my-word: {default: x}
outputs:
  all: {description: d, value: "${{ steps.my-step.outputs.res-ult }} and ${{ inputs.MY-WORD }}"}
  same: {value: "${{ steps.my_step.outcome == 'Success' }}"}
runs:
  using: Composite
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
      continue-on-error: ${{ inputs.my-word == 'soft' }}
      uses: ./tools/greet
      with: {who-to-greet: "${{ github.workspace }}", n: 1}
    - uses: actions/cache/restore@v5
`)
	empty, word := value.OfString(""), value.OfString("x")
	pointer := func(text string) *plan.Field { f := field(text); return &f }
	want := &plan.Component{
		Spec: plan.Spec{
			Inputs:    map[string]plan.Input{"my-word": {Type: value.String, Default: &word}},
			Outputs:   map[string]plan.Output{"all": {Type: value.String, Default: &empty, Description: "d"}, "same": {Type: value.String, Default: &empty}},
			AnyInputs: true,
			Env:       map[string]plan.EnvRequest{"*": {Optional: true}},
			Exports:   []string{"*"},
			Home:      plan.HomeJob,
		},
		Definition: plan.Definition{
			Outputs: map[string]plan.Field{
				"all":  field("${{ github_text('steps.my-step.outputs.res-ult') }} and ${{ github_text('inputs.MY-WORD') }}"),
				"same": field(`${{ github_text('steps.my_step_2.outcome == \'Success\'') }}`),
			},
			Steps: []plan.Step{
				{
					Name: "my_step", Title: "First",
					Inline: &plan.Component{Spec: plan.Spec{AnyOutputs: true}, Definition: plan.Definition{Exec: &plan.Exec{
						Script:  &plan.Script{Shell: "bash", Text: field("set -eo pipefail; echo ${{ github_text('inputs.my-word') }}\n")},
						WorkDir: pointer("${{ github_text('github.action_path') }}/sub"), Toolkit: plan.ToolkitGitHub,
					}}},
					Env: map[string]plan.Field{"A": field("${{ github_text('env.B') }}"), "N": field("5"), "E": field("")},
				},
				{
					Name: "my_step_2", Title: "./tools/greet",
					Ref:          &plan.Reference{Kind: plan.RefAction, Text: "./tools/greet", Action: "${{ work_dir }}/tools/greet"},
					If:           pointer("github_holds('always() && steps.my-step.outputs.res-ult')"),
					When:         plan.Always,
					AllowFailure: &plan.AllowFailure{If: pointer(`${{ github_holds('inputs.my-word == \'soft\'') }}`)},
					Inputs:       map[string]plan.Field{"who-to-greet": field("${{ github_text('github.workspace') }}"), "n": field("1")},
				},
				{
					Name: "step_3", Title: "actions/cache/restore@v5",
					Ref: &plan.Reference{Kind: plan.RefAction, Text: "actions/cache/restore@v5", Action: "actions/cache/restore@v5"},
				},
			},
		},
	}
	compare(t, want, c)
}

func TestContainerActions(t *testing.T) {
	t.Parallel()
	const program = "step-runner builtin docker/action "
	argv := func(x *plan.Exec) string {
		texts := make([]string, len(x.Command))
		for i, f := range x.Command {
			texts[i] = f.Value.Str()
		}
		return strings.Join(texts, " ")
	}
	for _, c := range []struct{ name, text, main, pre, post string }{
		{
			"a Dockerfile, and what `with` says", "runs: {using: docker, image: Dockerfile}",
			"--dockerfile ${{ func_dir }}/Dockerfile --entrypoint ${{ inputs['entrypoint'] }} --args ${{ inputs['args'] }}", "", "",
		},
		{
			"an image, with all that there is",
			"inputs: {who: {default: x}}\nruns:\n  using: docker\n  image: docker://alpine:3\n  entrypoint: /main.sh\n  pre-entrypoint: pre.sh\n  post-entrypoint: post.sh\n" +
				"  args: ['${{ inputs.who }}', b c, '']\n  env: {A: '${{ inputs.who }}', B: 1}\n",
			"--image alpine:3 --env B=1 --entrypoint /main.sh -- ${{ github_text('inputs.who') }} b c ",
			"--image alpine:3 --env B=1 --entrypoint pre.sh -- ${{ github_text('inputs.who') }} b c ",
			"--image alpine:3 --env B=1 --entrypoint post.sh -- ${{ github_text('inputs.who') }} b c ",
		},
		{
			"inputs that it declares itself", "inputs: {Args: {}, ENTRYPOINT: {}}\nruns: {using: docker, image: sub/Dockerfile.dev}",
			"--dockerfile ${{ func_dir }}/sub/Dockerfile.dev --entrypoint ${{ inputs['ENTRYPOINT'] }} --args ${{ inputs['Args'] }}", "", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := must(t, c.text)
			d := got.Definition
			if argv(d.Exec) != program+c.main || d.Exec.Toolkit != plan.ToolkitGitHubAction || d.InputPrefix != "INPUT_" {
				t.Errorf("it runs %q", argv(d.Exec))
			}
			for want, hook := range map[string]*plan.Hook{c.pre: d.Pre, c.post: d.Post} {
				if (hook != nil) != (want != "") || hook != nil && argv(hook.Exec) != program+want {
					t.Errorf("a hook is %+v, want %q", hook, want)
				}
			}
			for name := range got.Spec.Inputs {
				if in := got.Spec.Inputs[name]; in.Default == nil {
					t.Errorf("the input %s has no default", name)
				}
			}
		})
	}
	t.Run("the variables of an action are its own", func(t *testing.T) {
		t.Parallel()
		got := must(t, "inputs: {x: {}}\nruns: {using: docker, image: 'docker://a', env: {A: '${{ inputs.x }}'}}").Definition.Env
		if len(got) != 1 || got["A"].Value.Str() != "${{ github_text('inputs.x') }}" {
			t.Errorf("got %v", got)
		}
	})
	t.Run("a Dockerfile alone is an action", func(t *testing.T) {
		t.Parallel()
		c, err := ParseFetched("/some/where/Dockerfile", []byte("FROM scratch\n"))
		if err != nil || !strings.Contains(argv(c.Definition.Exec), "--dockerfile ${{ func_dir }}/Dockerfile") {
			t.Errorf("got %v, %v", c, err)
		}
	})
}

// TestMistakes has a file a row; in it, ^ stands before each place that a diagnostic must be about.
func TestMistakes(t *testing.T) {
	t.Parallel()
	const steps = "runs:\n  using: composite\n  steps:\n  - "
	const node = "runs: {using: node20, main: a.js}\n"
	for name, c := range map[string]struct {
		text string
		want []string // message, in the order of the places
	}{
		"no text at all":                {"", []string{"has one document, not 0"}},
		"a list":                        {"^- a\n", []string{"the action must be a map, not a list"}},
		"nothing to run":                {"^name: x\n", []string{"the action has no `runs`"}},
		"a misspelt key":                {"^inptus: {}\n" + node, []string{`unknown key "inptus"`}},
		"misspelt keys anywhere":        {"inputs: {a: {^requird: true}}\noutputs: {b: {^descripton: x}}\nruns: {using: node20, main: a.js, ^args: []}\n", []string{`unknown key "requird"`, `unknown key "descripton"`, `unknown key "args"`}},
		"no main":                       {"runs: ^{using: node20}\n", []string{"the action has no main"}},
		"an empty main":                 {"runs: {using: node20, main: ^''}\n", []string{`"main" is empty`}},
		"an empty post":                 {"runs: {using: node20, main: a.js, post: ^''}\n", []string{`"post" is empty`}},
		"no using":                      {"runs: ^{main: a.js}\n", []string{"the action has no `using`"}},
		"another Node":                  {"runs: {using: ^nodejs, main: a.js}\n", []string{`"nodejs" is nothing that an action can run on`}},
		"a condition of nothing":        {"runs: {using: node20, main: a.js, post-if: ^always()}\n", []string{`"post", which does not exist`}},
		"a broken condition":            {"runs: {using: node20, main: a.js, post: b.js, post-if: always(^}\n", []string{""}},
		"text around a condition":       {steps + "{run: a, shell: sh, if: '^!${{ true }}'}\n", []string{"one that always holds"}},
		"no image":                      {"runs: ^{using: docker}\n", []string{"the action has no image"}},
		"an image that is none":         {"runs: {using: docker, image: ^alpine:3}\n", []string{"neither a Dockerfile nor an image"}},
		"arguments that are no list":    {"runs: {using: docker, image: Dockerfile, args: ^a b}\n", []string{"the arguments must be a list"}},
		"a secret in a default":         {"inputs: {a: {default: '${{ ^secrets.X }}'}}\n" + node, []string{"secrets"}},
		"another input in a default":    {"inputs: {b: {}, a: {default: '${{ ^inputs.b }}'}}\n" + node, []string{"inputs"}},
		"a strange name of an input":    {"inputs: {^1a: {}, b: {}, ^B: {}}\n" + node, []string{`"1a" cannot be the name`, `"B" is declared twice`}},
		"required is not a truth":       {"inputs: {a: {required: ^maybe}}\n" + node, []string{`"required" must be true or false`}},
		"no steps":                      {"runs: ^{using: composite}\n", []string{"the action has no steps"}},
		"main of a composite action":    {"runs: {using: composite, ^main: x, steps: [{uses: a/b@c}]}\n", []string{`unknown key "main"`}},
		"an empty list of steps":        {"runs: {using: composite, steps: ^[]}\n", []string{"at least one step"}},
		"a run without shell":           {steps + "^run: a\n", []string{"must name its shell"}},
		"a composite output of nothing": {"outputs: {^a: {description: x}}\n" + steps + "uses: ./a\n", []string{"has no value"}},
		"all at once":                   {"outputs: {a: {value: '${{ ^secrets.X }}'}}\n" + steps + "{run: 'a ${{ ^contains(1) }}', shell: sh, if: ^secrets.X}\n", []string{"secrets", "contains", "secrets"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
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

func TestWhatPassesInAnActionThatWasFetched(t *testing.T) {
	t.Parallel()
	text := []byte(`
nmae: misspelt
inputs: {a: {required: maybe, defautl: x}, b: {required: true}}
outputs: {o: {description: without a value}}
runs:
  using: composite
  steps: [{uses: a/b@c, if: '!${{ false }}'}]
`)
	c, err := ParseFetched("action.yml", text)
	if err != nil {
		t.Fatal(diag.Of(err).Render())
	}
	for name, in := range c.Spec.Inputs {
		if in.Default == nil {
			t.Errorf("the input %s must be given, which GitHub leaves to the action", name)
		}
	}
	if _, err := Parse("action.yml", text); len(diag.Of(err)) != 5 {
		t.Errorf("in one's own action: %v", err)
	}
	t.Run("but not what GitHub refuses", func(t *testing.T) {
		t.Parallel()
		if _, err := ParseFetched("action.yml", []byte("runs: {using: node20, main: a.js, image: b}\n")); err == nil {
			t.Error("a key of runs that is unknown passes")
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("inputs: {a: {default: 1}}\noutputs: {b: {value: '${{ steps.x.outputs.y }}'}}\nruns:\n  using: composite\n  steps:\n  - {id: x, run: 'echo ${{ inputs.a }}', shell: bash, if: always()}\n  - {uses: ./b, with: {c: d}}\n")
	f.Add("runs: {using: node20, main: a.js, pre: b.js, post: c.js, post-if: failure()}\n")
	f.Add("inputs: {args: {default: '${{ github.ref }}'}}\nruns: {using: docker, image: Dockerfile, args: [a], env: {B: c}, pre-entrypoint: d}\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, parse := range []func(string, []byte) (*plan.Component, error){Parse, ParseFetched} {
			c, err := parse("action.yml", []byte(text))
			if err != nil {
				if len(diag.Of(err)) == 0 {
					t.Fatalf("an error that is not a list of diagnostics: %v", err)
				}
				continue
			}
			if d := c.Definition; (d.Exec == nil) == (len(d.Steps) == 0) || d.Exec != nil && len(d.Exec.Command) == 0 {
				t.Fatal("neither an exec nor steps, or both")
			}
			if _, err := plan.Canonical(c); err != nil {
				t.Fatal(err)
			}
		}
	})
}
