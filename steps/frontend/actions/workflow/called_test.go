package workflow_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/value"
)

func TestInputsOfADispatch(t *testing.T) {
	t.Parallel()
	w := parse(t, `on:
  workflow_dispatch:
    inputs:
      level: {type: choice, options: [low, high], description: d}
      must: {required: true}
      flag: {type: boolean, default: true}
      count: {type: number}
      where: {type: environment}
      text: {default: 010}
      bare:
`+jobs)
	inputs, event, err := w.Dispatch(map[string]string{"MUST": "x", "count": "3.5", "level": "high"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(inputs.AppendJSON(nil)), `{"bare":"","count":3.5,"flag":true,"level":"high","must":"x","text":"10","where":""}`; got != want {
		t.Errorf("inputs are %s, want %s", got, want)
	}
	if got, want := string(event.AppendJSON(nil)), `{"bare":"","count":"3.5","flag":"true","level":"high","must":"x","text":"10","where":""}`; got != want {
		t.Errorf("the event's are %s, want %s", got, want)
	}
	inputs, _, _ = w.Dispatch(map[string]string{"must": ""})
	if got := inputs.Fields()["level"].Str(); got != "low" {
		t.Errorf("a choice that nobody makes is %q", got)
	}
	for name, c := range map[string]struct {
		given map[string]string
		want  string
	}{
		"a required one is missing": {nil, `ci.yml:5:7: the input "must" is required, and not given`},
		"an option that is none":    {map[string]string{"must": "", "level": "middle"}, "must be one of low, high"},
		"a truth that is none":      {map[string]string{"must": "", "flag": "yes"}, "must be true or false"},
		"a number that is none":     {map[string]string{"must": "", "count": "x"}, "must be a number"},
		"one that there is not":     {map[string]string{"must": "", "more": "x"}, "has no input more"},
	} {
		if _, _, err := w.Dispatch(c.given); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if in := w.DispatchInputs()[0]; in.Name != "level" || in.Description != "d" || len(in.Options) != 2 {
		t.Errorf("%+v", in)
	}
}

const callee = `on:
  workflow_call:
    inputs:
      name: {type: string, required: true}
      flag: {type: boolean}
      count: {type: number, default: 2}
      ref: {type: string, default: "on ${{ github.ref }}"}
    secrets:
      token: {required: true, description: d}
      other:
    outputs:
      sum: {value: "${{ jobs.a.outputs.x }}-${{ inputs.name }}"}
` + jobs

func TestCallsOfWorkflows(t *testing.T) {
	t.Parallel()
	w := parse(t, callee)
	c := contexts(t, `{"github": {"ref": "main"}, "needs": {"b": {"outputs": {"n": "9"}}}, "secrets": {"GITHUB_TOKEN": "t0", "T": "t1", "X": "t2"}}`)
	call := func(t *testing.T, keys string) (*workflow.Called, error) {
		t.Helper()
		j := parse(t, "on: push\njobs:\n  b: {runs-on: x, outputs: {n: x}, steps: [{run: x}]}\n  a:\n    uses: ./.github/workflows/w.yml\n    needs: b\n    strategy: {matrix: {v: [1]}}\n"+indent(keys+"\n", "    ")).Job("a")
		args, err := j.CallArguments(legs(t, j, c).List[0], c)
		if err != nil {
			t.Fatal(diag.Of(err).Render())
		}
		return w.AsCalled(j, args, c)
	}
	for name, s := range map[string]struct{ keys, inputs, secrets string }{
		"all that must be":       {"with: {name: n}\nsecrets: {token: '${{ secrets.T }}'}", `{"count":2,"flag":false,"name":"n","ref":"on main"}`, "GITHUB_TOKEN=t0 token=t1"},
		"values of contexts":     {"with: {name: '${{ needs.b.outputs.n }}-${{ matrix.v }}', count: '${{ matrix.v }}', flag: '${{ true }}'}\nsecrets: {token: x}", `{"count":1,"flag":true,"name":"9-1","ref":"on main"}`, "GITHUB_TOKEN=t0 token=x"},
		"numbers for strings":    {"with: {name: 5, ref: true}\nsecrets: {token: x, other: y}", `{"count":2,"flag":false,"name":"5","ref":"true"}`, "GITHUB_TOKEN=t0 other=y token=x"},
		"a secret that is empty": {"with: {name: n}\nsecrets: {token: '${{ secrets.NONE }}'}", `{"count":2,"flag":false,"name":"n","ref":"on main"}`, "GITHUB_TOKEN=t0 token="},
		"secrets are inherited":  {"with: {name: n}\nsecrets: inherit", `{"count":2,"flag":false,"name":"n","ref":"on main"}`, "GITHUB_TOKEN=t0 T=t1 X=t2"},
		"names in upper case":    {"with: {NAME: n}\nsecrets: {TOKEN: x}", `{"count":2,"flag":false,"name":"n","ref":"on main"}`, "GITHUB_TOKEN=t0 token=x"},
	} {
		t.Run(name, func(t *testing.T) {
			called, err := call(t, s.keys)
			if err != nil {
				t.Fatal(diag.Of(err).Render())
			}
			if got := string(called.Inputs.AppendJSON(nil)); got != s.inputs {
				t.Errorf("inputs are %s, want %s", got, s.inputs)
			}
			var secrets []string
			for _, name := range value.OfStruct(called.Secrets).Keys() {
				secrets = append(secrets, name+"="+called.Secrets[name].Str())
			}
			if diff := cmp.Diff(s.secrets, strings.Join(secrets, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
	for name, s := range map[string]struct{ keys, want string }{
		"an input is missing":   {"secrets: {token: x}", `ci.yml:5:11: ci.yml requires the input "name"`},
		"an input that is not":  {"with: {name: n, nme: x}\nsecrets: {token: x}", `ci.yml:8:21: ci.yml has no input "nme"`},
		"a string for a truth":  {"with: {name: n, flag: 'true'}\nsecrets: {token: x}", `"flag" of ci.yml must be true or false, not "true"`},
		"a string for a number": {"with: {name: n, count: '3'}\nsecrets: {token: x}", `"count" of ci.yml must be a number, not "3"`},
		"a secret is missing":   {"with: {name: n}", "demands the secret token"},
		"a secret that is not":  {"with: {name: n}\nsecrets: {token: x, toke: y}", "has no secret toke"},
	} {
		if _, err := call(t, s.keys); err == nil || !strings.Contains(err.Error(), s.want) {
			t.Errorf("%s: %v, want %q", name, err, s.want)
		}
	}
	t.Run("one that nobody may call", func(t *testing.T) {
		j := parse(t, "on: push\njobs: {a: {uses: ./.github/workflows/w.yml}}\n").Jobs[0]
		if _, err := parse(t, "on: push\n"+jobs).AsCalled(j, &workflow.Arguments{}, nil); err == nil || !strings.Contains(err.Error(), "cannot be called") {
			t.Error(err)
		}
	})
	t.Run("all secrets are passed on", func(t *testing.T) {
		j := parse(t, "on: push\njobs: {a: {uses: ./.github/workflows/w.yml, secrets: inherit, with: {name: n}}}\n").Jobs[0]
		c := contexts(t, `{"secrets": {"TOKEN": "t", "MORE": "m"}}`)
		args, err := j.CallArguments(legs(t, j, c).List[0], c)
		if err != nil {
			t.Fatal(err)
		}
		called, err := w.AsCalled(j, args, c)
		if err != nil || called.Secrets["MORE"].Str() != "m" || called.Secrets["token"].Str() != "t" {
			t.Error(called, err)
		}
	})
	t.Run("what it gives", func(t *testing.T) {
		out, err := w.Outputs(contexts(t, `{"jobs": {"a": {"result": "success", "outputs": {"x": "1"}}}, "inputs": {"name": "n"}}`))
		if err != nil || out["sum"].Str() != "1-n" {
			t.Error(out, err)
		}
	})
	if len(w.CallInputs()) != 4 {
		t.Error(w.CallInputs())
	}
}
