package engine_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// greetAction is a JavaScript action on plain Node, which speaks the toolkit's protocol by itself.
const greetAction = `
name: Greet
description: Greets somebody.
inputs:
  who-to-greet: {description: Whom., required: true}
  times: {default: 1}
outputs:
  greeting: {description: What it said.}
  other: {description: Never set.}
runs: {using: node20, main: dist/index.js}
`

const greetScript = `
const fs = require('fs')
const env = process.env
const greeting = Array(Number(env.INPUT_TIMES)).fill('hello ' + env['INPUT_WHO-TO-GREET']).join('\n')
fs.appendFileSync(env.GITHUB_OUTPUT, 'greeting<<END\n' + greeting + '\nEND\n')
fs.appendFileSync(env.GITHUB_ENV, 'GREETED=' + env['INPUT_WHO-TO-GREET'] + '\n')
fs.appendFileSync(env.GITHUB_PATH, env.GITHUB_ACTION_PATH + '/bin\n')
fs.appendFileSync(env.GITHUB_STATE, 'a=b\n')
fs.appendFileSync(env.GITHUB_STEP_SUMMARY, '# nobody sees this\n')
fs.writeFileSync(env.RUNNER_TEMP + '/seen', 'x')
`

var greetFiles = map[string]string{
	"greet/action.yml":    greetAction,
	"greet/dist/index.js": greetScript,
	"greet/bin/shout.sh":  "#!/bin/sh\necho \"SHOUT $1\"\n",
}

func needNode(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("there is no node to run JavaScript actions with")
	}
}

func with(files map[string]string, more ...string) map[string]string {
	all := map[string]string{}
	for name, text := range files {
		all[name] = text
	}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

func TestB17JavaScriptActions(t *testing.T) {
	t.Parallel()
	needNode(t)
	t.Run("B17 an action on Node runs beside scripts, which use its outputs, its variables and its programs", func(t *testing.T) {
		t.Parallel()
		r := job{files: greetFiles, steps: `
- name: greet
  action: ./greet
  inputs: {who-to-greet: world, times: 2}
- script: |
    echo "${{ steps.greet.outputs.greeting }}|${{ steps.greet.outputs.other }}|$GREETED"
    shout.sh loud
    echo "${RUNNER_TEMP:-none} ${GITHUB_OUTPUT:-none} ${CI:-none}"
`}.run(t).succeeds()
		r.logs("hello world\nhello world||world\nSHOUT loud\nnone none none\n")
		if got := outputOf(t, r.finished("greet").Outputs, "greeting"); got != `"hello world\nhello world"` {
			t.Error(got)
		}
		if got := bodies[event.ExecStarted](r)[0]; got.Command[0] != "node" || got.Env["INPUT_TIMES"] != "2" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("B17 inputs are strings: of other values an action gets the text", func(t *testing.T) {
		t.Parallel()
		job{steps: `
- action: ./show
  inputs: {text: "007", number: 1.50, flag: true, list: [1, a], map: {b: null}, none: null}
`, files: map[string]string{
			"show/action.yml": "inputs: {text: , number: , flag: , list: , map: , none: {default: d}}\nruns: {using: node24, main: a.js}\n",
			"show/a.js":       "for (const n of ['TEXT', 'NUMBER', 'FLAG', 'LIST', 'MAP', 'NONE']) console.log(process.env['INPUT_' + n])\n",
		}}.run(t).succeeds().logs("007\n1.5\ntrue\n[1,\"a\"]\n{\"b\":null}\nd\n")
	})
	t.Run("B17 an action sees nothing of the host's environment, no job variable and no secret", func(t *testing.T) {
		t.Parallel()
		r := job{
			steps: "- {action: ./show, inputs: {given: yes}}\n",
			files: map[string]string{
				"show/action.yml": "inputs: {given: {}}\nruns: {using: node20, main: a.js}\n",
				"show/a.js":       "console.log(JSON.stringify(process.env))\n",
			},
			opts: engine.Options{
				HostEnv: []string{"CANARY=canary-1", "GITHUB_TOKEN=canary-2", "INPUT_OTHER=canary-3", "NODE_OPTIONS=--canary-4"},
				Secrets: map[string]string{"TOKEN": "s3cr3t-canary"},
				Job:     map[string]engine.Variable{"CI_JOB_TOKEN": {Value: "s3cr3t-job", Sensitive: true}, "CI_X": {Value: "canary-5"}},
			},
		}.run(t).succeeds()
		var env map[string]string
		if err := json.Unmarshal([]byte(r.log()), &env); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(r.log(), "canary") || env["ACTIONS_RUNTIME_TOKEN"] != "[MASKED]" || strings.Count(r.log(), "MASKED") > 1 {
			t.Errorf("the action sees %s", r.log())
		}
		for name := range env {
			if strings.HasPrefix(name, "INPUT_") && name != "INPUT_GIVEN" {
				t.Errorf("the action sees %s", name)
			}
		}
		for _, file := range []string{"GITHUB_OUTPUT", "GITHUB_ENV", "RUNNER_TEMP"} {
			if _, err := os.Stat(env[file]); env[file] == "" || !os.IsNotExist(err) {
				t.Errorf("%s (%q) is still there after the run: %v", file, env[file], err)
			}
		}
		if env["GITHUB_WORKSPACE"] != r.dir || env["GITHUB_ACTION_PATH"] != filepath.Join(r.dir, "show") || env["INPUT_GIVEN"] != "yes" {
			t.Errorf("%v", env)
		}
	})
	t.Run("B17 what an action masks is masked from then on, in both streams and in all events", func(t *testing.T) {
		t.Parallel()
		r := job{
			steps: "- {name: m, action: ./mask}\n- script: echo hush-hush-2 '${{ steps.m.outputs.x }}'\n",
			files: map[string]string{
				"mask/action.yml": "outputs: {x: {}}\nruns: {using: node20, main: a.js}\n",
				"mask/a.js": "console.error('::add-mask::hush-hush-2'); console.log('::add-mask::hush-hush-1'); console.log('it is hush-hush-1');" +
					"require('fs').appendFileSync(process.env.GITHUB_OUTPUT, 'x=hush-hush-1')\n",
			},
		}.run(t).succeeds().logs("it is [MASKED]\n[MASKED] [MASKED]\n")
		if got := outputOf(t, r.finished("m").Outputs, "x"); got != `"[MASKED]"` {
			t.Error(got)
		}
	})
	t.Run("B17 a sensitive value stays one on its way into an action", func(t *testing.T) {
		t.Parallel()
		r := job{
			steps: "- {name: g, action: ./greet, inputs: {who-to-greet: '${{ job.TOKEN }}'}}\n- script: echo $GREETED\n",
			files: greetFiles,
			opts:  engine.Options{Job: map[string]engine.Variable{"TOKEN": {Value: "s3cr3t-job", Sensitive: true}}},
		}.run(t).succeeds().logs("[MASKED]\n")
		for _, e := range r.events {
			if data, _ := json.Marshal(e.Body); strings.Contains(string(data), "s3cr3t-job") {
				t.Errorf("%s", data)
			}
		}
	})
	for name, c := range map[string]struct{ script, err, gave string }{
		"a heredoc without end":  {"out('GITHUB_OUTPUT', 'a<<EOF\\nx\\n')", `GITHUB_OUTPUT: line 1: invalid value: matching delimiter not found`, ""},
		"a line that is neither": {"out('GITHUB_ENV', 'just text\\n')", `GITHUB_ENV: line 1: invalid format "just text"`, ""},
		"a disabled command":     {"console.log('::set-env name=A::b')", `::set-env:: is disabled`, ""},
		"a failing program":      {"out('GITHUB_OUTPUT', 'a=1\\n'); process.exit(7)", `exec: exit status 7`, `"a":"1"`}, // what it gave before counts
	} {
		t.Run("B17 fails: "+name, func(t *testing.T) {
			t.Parallel()
			r := job{steps: "- {name: a, action: ./a}\n- {if: failure(), script: \"echo 'after ${{ steps.a.outputs }}'\"}\n", files: map[string]string{
				"a/action.yml": "runs: {using: node20, main: a.js}\n",
				"a/a.js":       "const out = (file, text) => require('fs').appendFileSync(process.env[file], text);\n" + c.script + "\n",
			}}.run(t).fails(event.ErrorStep, c.err)
			if !strings.HasSuffix(r.log(), "after {"+c.gave+"}\n") {
				t.Errorf("log %q", r.log())
			}
		})
	}
}

func TestB17CompositeActions(t *testing.T) {
	t.Parallel()
	t.Run("B17 a composite action has inputs, ids, outputs, conditions and variables", func(t *testing.T) {
		t.Parallel()
		r := job{steps: `
- name: both
  action: ./both
  inputs: {my-word: one}
- script: echo "${{ steps.both.outputs['all-of-it'] }}|${{ steps.both.outputs.same }}|${{ steps.both.outputs.empty }}|$LATER"
`, files: map[string]string{
			"both/words.txt": "from the action's folder\n",
			"both/action.yaml": `
inputs:
  my-word: {}
  mode: {default: Release}
outputs:
  all-of-it: {value: "${{ steps.my-step.outputs.res-ult }}!"}
  same: {value: "${{ inputs.mode == 'release' }}"}
  empty: {value: "${{ steps.skipped.outputs.nothing }}"}
runs:
  using: composite
  steps:
    - id: my-step
      run: |
        echo "word ${{ inputs.my-word }}, workspace $([ "$GITHUB_WORKSPACE" = "${{ github.workspace }}" ] && echo same)"
        printf 'res-ult=got %s\n' "${{ inputs.my-word }}" >>"$GITHUB_OUTPUT"
        echo LATER=yes >>"$GITHUB_ENV"
      shell: bash
    - id: skipped
      if: inputs.mode != 'RELEASE'
      run: exit 1
      shell: sh
    - run: cat words.txt; echo "$LATER ${{ env.LATER }} ${{ env.NEVER }}$MINE"
      shell: sh
      working-directory: ${{ github.action_path }}
      env: {MINE: "${{ steps.skipped.outcome }}"}
    - id: soft
      run: |
        false | true
        echo not reached
      shell: bash
      continue-on-error: true
    - if: success() && steps.soft.outcome == 'failure' && steps.soft.conclusion == 'success'
      run: echo went on
      shell: bash
`,
		}}.run(t).succeeds()
		r.logs("word one, workspace same\nfrom the action's folder\nyes yes skipped\nwent on\ngot one!|true||yes\n")
		if !r.finished("soft").Allowed {
			t.Error("the failure counts")
		}
	})
	t.Run("B17 a value cannot become code in run, unless it is all of it", func(t *testing.T) {
		t.Parallel()
		hostile := `"; echo pwned; ' $(echo pwned) ` + "`echo pwned`" + ` ${{ env.HOME }} #`
		files := map[string]string{"a/action.yml": `
inputs: {x-y: {}}
runs:
  using: composite
  steps:
    - {shell: bash, run: 'echo "${{ inputs.x-y }}"'}
    - {shell: sh, run: "echo '${{ inputs.x-y }}'"}
    - {shell: bash, run: 'printf "%s\n" "$X"', env: {X: '${{ inputs.x-y }}'}}
`, "b/action.yml": `
inputs: {x-y: {}}
runs:
  using: composite
  steps:
    - {shell: bash, run: '${{ inputs.x-y }}'}
`}
		steps := "- {action: ./a, inputs: {x-y: '${{ job.X }}'}}\n"
		opts := engine.Options{Job: map[string]engine.Variable{"X": {Value: hostile}}}
		job{steps: steps, files: files, opts: opts}.run(t).succeeds().logs(strings.Repeat(hostile+"\n", 3))

		job{steps: "- {action: ./b, inputs: {x-y: \"echo one; false; echo two\"}}\n", files: files}.run(t).
			fails(event.ErrorStep, "exit status 1").logs("one\n")
	})
	t.Run("B17 an action uses another one, which it finds from the workspace", func(t *testing.T) {
		t.Parallel()
		needNode(t)
		r := job{steps: `
- name: outer
  step: ./component
`, files: with(greetFiles,
			"component/step.yml", `
spec: {outputs: {said: {type: string}}, exports: ["*"]}
---
run:
  - {name: inner, action: ./wrap, inputs: {word: you}}
outputs: {said: "${{ steps.inner.outputs.said }}"}
`,
			"component/wrap/action.yml", `
inputs: {word: {}}
outputs: {said: {value: "${{ steps.nested.outputs.greeting }}"}}
runs:
  using: composite
  steps:
    - {uses: ./greet, id: nested, with: {who-to-greet: "${{ inputs.word }}"}}
    - {run: 'echo "$GREETED ${INPUT_WORD:-none}"; test -e "$RUNNER_TEMP/seen"; shout.sh it', shell: bash}
`)}.run(t).succeeds().logs("you none\nSHOUT it\n")
		if got := outputOf(t, r.finished("outer").Outputs, "said"); got != `"hello you"` {
			t.Error(got)
		}
	})
	t.Run("B17 actions run in a parallel group, each with files of its own", func(t *testing.T) {
		t.Parallel()
		job{steps: `
- parallel:
    - {name: a, action: ./say, inputs: {word: one}}
    - {name: b, action: ./say, inputs: {word: two}}
- script: echo "${{ steps.a.outputs.word }} ${{ steps.b.outputs.word }} $WORD"
`, files: map[string]string{"say/action.yml": `
inputs: {word: {}}
outputs: {word: {value: "${{ steps.s.outputs.word }}"}}
runs:
  using: composite
  steps:
    - {id: s, shell: sh, run: 'echo "word=${{ inputs.word }}" | tee -a "$GITHUB_OUTPUT" >>"$GITHUB_ENV"; echo "WORD=${{ inputs.word }}" >>"$GITHUB_ENV"'}
`}}.run(t).succeeds().logs("one two two\n")
	})
}

func TestB17WhatActionsCannot(t *testing.T) {
	t.Parallel()
	const composite = "runs:\n  using: composite\n  steps:\n    - "
	for name, c := range map[string]struct {
		steps, action string
		kind          event.ErrorKind
		want          []string
	}{
		"a remote action":      {steps: "- action: actions/checkout@v4", kind: event.ErrorDefinition, want: []string{`"actions/checkout@v4"`, "no source for GitHub Actions from repositories"}},
		"no action":            {steps: "- action: ./nothing", kind: event.ErrorNotFound, want: []string{"action.yml", "action.yaml"}},
		"an unknown key":       {action: "run: {}\nruns: {using: node20, main: a.js}", kind: event.ErrorDefinition, want: []string{`unknown key "run"`}},
		"no main":              {action: "runs: {using: node20}", kind: event.ErrorDefinition, want: []string{"has no main"}},
		"an input twice":       {steps: "- {action: ./a, inputs: {word: x, Word: y}}", action: "inputs: {word: {}}\n" + composite + "{run: 'true', shell: sh}", kind: event.ErrorDefinition, want: []string{`"word" is given twice`}},
		"a missing input":      {action: "inputs: {word: {required: true}}\n" + composite + "{run: 'true', shell: sh}", kind: event.ErrorDefinition, want: []string{`input "word" required`}},
		"a secret":             {steps: "- {action: ./a, secrets: [TOKEN]}", action: composite + "{run: 'true', shell: sh}", kind: event.ErrorDefinition, want: []string{"does not request it"}},
		"an action in a cycle": {action: composite + "{uses: ./a}", kind: event.ErrorDefinition, want: []string{"in a cycle: ./a -> ./a"}},
		"an action that is not there, in an action": {action: composite + "{uses: ./gone}", kind: event.ErrorNotFound, want: []string{`"./gone"`}},
	} {
		t.Run("B17 refuses: "+name, func(t *testing.T) {
			t.Parallel()
			steps := c.steps
			if steps == "" {
				steps = "- action: ./a"
			}
			job{steps: steps + "\n", files: map[string]string{"a/action.yml": c.action + "\n"}}.run(t).fails(c.kind, c.want...)
		})
	}
	t.Run("B17 a mistake in an action is found before anything runs", func(t *testing.T) {
		t.Parallel()
		job{steps: "- script: echo ran\n- action: ./a\n", files: map[string]string{
			"a/action.yml": composite + "{uses: ./b}\n", "b/action.yml": "runs: {using: docker}\n",
		}}.run(t).fails(event.ErrorDefinition, "has no image").logs("")
	})
	t.Run("B17 an action file is not a step file, and a step file is not an action", func(t *testing.T) {
		t.Parallel()
		job{steps: "- action: ./a\n- step: ./a/action.yml\n", files: map[string]string{
			"a/action.yml": composite + "{run: 'true', shell: sh}\n",
		}}.run(t).fails(event.ErrorDefinition, "a step file has two documents")
	})
	t.Run("B17 a toolkit that nobody plugged in", func(t *testing.T) {
		t.Parallel()
		exec := &plan.Exec{Toolkit: "other", Command: []plan.Field{{Value: value.OfString("true")}}}
		job{}.runComponent(t, &plan.Component{Definition: plan.Definition{Exec: exec}}).fails(event.ErrorDefinition, `toolkit "other"`)
	})
}
