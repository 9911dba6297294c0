package workflow_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/actions/workflow"
)

// checked are the findings of a workflow, as `LINE:COLUMN RULE MESSAGE`.
func checked(t *testing.T, text string) (out []string) {
	t.Helper()
	w, err := workflow.Parse("ci.yml", []byte(text))
	if err != nil {
		t.Fatal(diag.Of(err).Render())
	}
	for _, d := range w.Check() {
		out = append(out, fmt.Sprintf("%d:%d %s %s", d.Line, d.Column, d.Code, d.Message))
	}
	return out
}

// oneJob is a workflow with one job, whose keys are given, from line 4 on.
func oneJob(keys string) string {
	return "on: [push, pull_request]\njobs:\n  a:\n    runs-on: x\n    " + strings.ReplaceAll(strings.TrimSpace(keys), "\n", "\n    ") + "\n"
}

func TestChecksOfWorkflows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want string // of the only finding, how it begins
	}{
		"a step that is not there":    {oneJob("steps:\n  - {id: build, run: x}\n  - run: echo ${{ steps.biuld.outputs.x }}"), "7:23 undefined-step steps.biuld is empty: no step of the job \"a\" has this id"},
		"a step that comes later":     {oneJob("steps:\n  - run: echo ${{ steps.b.outputs.x }}\n  - {id: b, run: x}"), "6:23 undefined-step steps.b is empty: the step has not ended there"},
		"a step in a condition":       {oneJob("steps:\n  - {if: steps.b.outcome == 'failure', run: x}"), "6:14 undefined-step"},
		"a step in an output":         {oneJob("outputs: {o: '${{ steps.no.outputs.x }}'}\nsteps:\n  - {id: b, run: x}"), "5:23 undefined-step"},
		"a typo of outputs":           {oneJob("steps:\n  - {id: b, run: x}\n  - run: echo ${{ steps.b.output.x }}"), "7:23 undefined-property steps.b has no field \"output\""},
		"no matrix":                   {oneJob("steps:\n  - run: echo ${{ matrix.os }}"), "6:23 undefined-matrix matrix.os is empty"},
		"another name in the matrix":  {oneJob("strategy: {matrix: {os: [a], include: [{os: a, extra: b}]}}\nsteps:\n  - run: echo ${{ matrix.platform }}"), "7:23 undefined-matrix"},
		"a field of a map in it":      {oneJob("strategy: {matrix: {p: [{arch: a}, {arch: b}]}}\nsteps:\n  - run: echo ${{ matrix.p.arhc }}"), "7:23 undefined-matrix matrix.p.arhc"},
		"an input that nobody gives":  {strings.Replace(oneJob("steps: [{run: 'echo ${{ inputs.tagg }}'}]"), "[push, pull_request]", "{workflow_dispatch: {inputs: {tag: {}}}}", 1), "5:29 undefined-input the workflow declares no input \"tagg\""},
		"an input of the event":       {strings.Replace(oneJob("steps: [{run: 'echo ${{ github.event.inputs.tagg }}'}]"), "[push, pull_request]", "{workflow_dispatch: {inputs: {tag: {}}}}", 1), "5:29 undefined-input"},
		"a typo of a context's field": {oneJob("steps: [{run: 'echo ${{ github.repositry }}'}]"), "5:29 undefined-property github has no field \"repositry\""},
		"a typo of needs":             {"on: push\njobs:\n  a: {runs-on: x, outputs: {o: '1'}, steps: [{run: x}]}\n  b: {needs: a, runs-on: x, steps: [{run: 'echo ${{ needs.a.output.o }}'}]}\n", "4:53 undefined-property needs.a has no field \"output\""},
		"a job that is not needed":    {"on: push\njobs:\n  a: {runs-on: x, steps: [{run: x}]}\n  b: {runs-on: x, steps: [{run: 'echo ${{ needs.a.result }}'}]}\n", "4:43 undefined-need"},
		"an output of no job":         {"on: push\njobs:\n  a: {runs-on: x, outputs: {o: '1'}, steps: [{run: x}]}\n  b: {needs: a, runs-on: x, steps: [{run: 'echo ${{ needs.a.outputs.p }}'}]}\n", "4:53 undefined-output"},
		"an object as text":           {oneJob("strategy: {matrix: {p: [{arch: a}]}}\nsteps:\n  - run: echo ${{ matrix.p }}"), "7:23 object-as-text matrix.p is an object"},
		"an event as text":            {oneJob("steps: [{uses: a/b@v1, with: {x: '${{ github.event }}'}}]"), "5:43 object-as-text"},
		"broken JSON":                 {oneJob("steps: [{run: \"echo ${{ fromJSON('[1') }}\"}]"), "5:29 constant-error the expression always fails"},
		"a condition with text":       {oneJob("steps:\n  - {if: '${{ false }} ', run: x}"), "6:27 constant-condition"},
		"a file of the process":       {oneJob("steps: [{run: 'echo x >> ${{ github.env }}'}]"), "5:34 empty-context"},
		"a title in a script":         {oneJob("steps:\n  - run: |\n      true\n      echo \"${{ github.event.issue.title }}\""), "8:21 script-injection anybody can write github.event.issue.title"},
		"a branch in JavaScript":      {oneJob("steps: [{uses: actions/github-script@v7, with: {script: 'x(\"${{ github.head_ref }}\")'}}]"), "5:69 script-injection"},
		"all messages":                {oneJob("steps: [{run: \"echo '${{ join(github.event.commits.*.message, ' ') }}'\"}]"), "5:35 script-injection anybody can write github.event.commits.*.message"},
		"one message":                 {oneJob("steps: [{run: \"echo ${{ github.event.commits[0].message || 'x' }}\"}]"), "5:29 script-injection"},
		"an event as JSON":            {oneJob("steps: [{run: \"echo '${{ toJSON(github.event) }}'\"}]"), "5:37 script-injection"},
		"a quote in bash":             {oneJob("steps:\n  - shell: bash\n    run: |\n      true ${{ github.sha }}\n      echo ${{ github.sha }} 'it works"), "9:34 shell-syntax the shell does not find the end of what begins here"},
		"an if in a container":        {oneJob("container: alpine\nsteps: [{run: 'if true; then echo'}]"), "6:20 shell-syntax"},
		"a here-document by default":  {strings.Replace(oneJob("steps:\n  - run: |\n      cat <<EOF\n      x"), "runs-on: x", "runs-on: [self-hosted, linux]", 1), "7:15 shell-syntax"},
		"runners of a matrix":         {strings.Replace(oneJob("strategy: {matrix: {os: [ubuntu-latest, macos-15]}}\nsteps: [{run: 'echo \"a'}]"), "runs-on: x", "runs-on: '${{ matrix.os }}'", 1), "6:25 shell-syntax"},
		"the shell of the defaults":   {oneJob("defaults: {run: {shell: 'bash -el {0}'}}\nsteps: [{run: 'echo $(true'}]"), "6:25 shell-syntax"},
		"filters of an event without": {"on: {create: {tags: [v*]}}\njobs: {a: {runs-on: x, steps: [{run: x}]}}", "1:14 ignored-key the event create takes no filters"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := checked(t, c.text)
			if len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
				t.Errorf("%s:\n%s", c.text, cmp.Diff([]string{c.want}, got))
			}
		})
	}
}

func TestWhatOnlyARunKnowsIsNotWrong(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		oneJob("strategy: {matrix: '${{ fromJSON(vars.M) }}'}\nsteps: [{run: 'echo ${{ matrix.any.thing }}'}]"),
		oneJob("strategy: {matrix: {os: '${{ fromJSON(vars.OS) }}'}}\nsteps: [{run: 'echo ${{ matrix.os.x }}'}]"),
		oneJob("strategy: {matrix: {include: [{a: 1}, {b: 2}]}}\nsteps: [{run: 'echo ${{ matrix.a }} ${{ matrix.b }}'}]"),
		oneJob("strategy: {matrix: {p: [{a: 1}, x]}}\nsteps: [{run: 'echo ${{ matrix.p.q }}'}]"),
		oneJob("strategy: {matrix: {os: [x]}}\nsteps: [{run: \"echo ${{ matrix.image || 'alpine' }}\"}]"),
		oneJob("outputs: {o: '${{ steps.b.outputs.x }}'}\nenvironment: {name: x, url: '${{ steps.b.outputs.u }}'}\nsteps:\n  - {id: b, run: x}"),
		oneJob("steps:\n  - parallel:\n      - {id: b, run: x}\n  - run: echo ${{ steps.b.outputs.any }} ${{ steps.B.conclusion }}"),
		oneJob("steps:\n  - run: echo \"$TITLE\"\n    env: {TITLE: '${{ github.event.issue.title }}'}"),
		oneJob("steps:\n  - {if: \"contains(github.event.issue.title, 'x')\", run: \"echo ${{ contains(github.event.issue.title, 'x') }} ${{ github.head_ref == 'a' }} ${{ github.head_ref && 'x' }}\"}"),
		oneJob("steps: [{uses: a/b@v1, with: {title: '${{ github.event.issue.title }}', all: '${{ toJSON(github) }}'}}]"),
		oneJob("steps: [{run: 'echo ${{ env.A }} ${{ secrets.B }} ${{ vars.C }} ${{ github.event.any.thing }} ${{ github.brand_new_field }} ${{ runner.os }}'}]"),
		"on:\n  workflow_call: {inputs: {os: {type: string}}}\n  workflow_dispatch: {inputs: {tag: {}}}\njobs:\n  a:\n    runs-on: ${{ inputs.os }}\n    steps: [{run: 'echo ${{ inputs.tag }} ${{ github.event.inputs.other }}'}]\n",
		oneJob("steps:\n  - {shell: pwsh, run: \"echo 'a\"}\n  - {shell: python, run: \"if x:\"}\n  - {run: \"echo 'a\"}\n  - {shell: '${{ vars.S }}', run: \"echo 'a\"}"),
		oneJob("steps:\n  - {shell: bash, run: '${{ vars.SCRIPT }}'}\n  - {shell: bash, run: \"echo '${{ github.sha }}' \\\"${{ toJSON('a') }}\\\"\"}\n  - {shell: bash, run: \"echo ${{ github.sha == ')' }} )\"}"),
		strings.Replace(oneJob("strategy: {matrix: {os: [ubuntu-latest, windows-latest]}}\nsteps: [{run: 'echo \"a'}]"), "runs-on: x", "runs-on: '${{ matrix.os }}'", 1),
		strings.Replace(oneJob("strategy: {matrix: {os: '${{ fromJSON(vars.OS) }}'}}\nsteps: [{run: 'echo \"a'}]"), "runs-on: x", "runs-on: '${{ matrix.os }}'", 1),
		"on: push\njobs:\n  a: {uses: o/r/.github/workflows/x.yml@v1}\n  b: {needs: a, runs-on: '${{ fromJSON(vars.R) }}', steps: [{run: 'echo ${{ needs.a.outputs.any }}'}]}\n",
	} {
		if got := checked(t, text); got != nil {
			t.Errorf("%s\n%s", text, strings.Join(got, "\n"))
		}
	}
}

func TestWhatACallGivesIsChecked(t *testing.T) {
	t.Parallel()
	called, err := workflow.Parse("called.yml", []byte(`on:
  workflow_call:
    inputs:
      n: {type: number, required: true}
      b: {type: boolean, default: '${{ vars.B }}'}
      s: {type: string}
    secrets: {T: {required: true}}
jobs: {a: {runs-on: '${{ inputs.s }}', steps: [{run: x}]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{
		"with: {n: 1}\n    secrets: {T: x}":                                                "",
		"with: {n: '${{ fromJSON(vars.N) }}', b: '${{ inputs.x }}'}\n    secrets: inherit": "",
		"secrets: {T: x}":                                          `called.yml requires the input "n"`,
		"with: {n: one}\n    secrets: {T: x}":                      `the input "n" of called.yml must be a number, not "one"`,
		"with: {n: 1, m: 2}\n    secrets: {T: x}":                  `called.yml has no input "m"`,
		"with: {n: 1}":                                             "called.yml demands the secret T",
		"with: {n: 1}\n    secrets: {T: x, U: '${{ secrets.U }}'}": "called.yml has no secret U",
	} {
		w, err := workflow.Parse("ci.yml", []byte("on: push\njobs:\n  a:\n    uses: ./.github/workflows/called.yml\n    "+given+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, d := range diag.Of(called.CheckCall(w.Jobs[0])) {
			got += d.Message
		}
		if got != want {
			t.Errorf("%s: %q, want %q", given, got, want)
		}
	}
}

func TestSettingsThatNoRunCanHaveAreWrong(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]string{
		"runs-on: '${{ vars.X }}'":                                          "",
		"runs-on: '${{ fromJSON(vars.X).os }}'":                             "",
		"runs-on: '${{ inputs.os }}'\n    timeout-minutes: ${{ inputs.t }}": "",
		"runs-on: '${{ matrix.os }}'\n    strategy: {matrix: {os: [a, b]}}": "",
		"runs-on: '${{ matrix.so }}'\n    strategy: {matrix: {os: [a, b]}}": "the job runs on nothing",
		"runs-on: x\n    strategy: {matrix: {x: \"${{ fromJSON('1') }}\"}}": "must be",
	} {
		w, err := workflow.Parse("ci.yml", []byte("on: push\njobs:\n  a:\n    "+keys+"\n    steps: [{run: x}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := w.Jobs[0].Certain(); err != nil {
			got = err.Error()
		}
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", keys, got, want)
		}
	}
}
