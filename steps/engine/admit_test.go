package engine_test

import (
	"strings"
	"testing"

	"github.com/rungci/rung/steps/event"
)

// warnings are the warnings of a run, one a line.
func (r *ran) warnings() string {
	var b strings.Builder
	for _, e := range r.events {
		if w, ok := e.Body.(event.Warning); ok {
			b.WriteString(w.Message + "\n")
		}
	}
	return b.String()
}

func TestWhatAnActionIsGiven(t *testing.T) {
	t.Parallel()
	const action = `
inputs:
  Some Word: {default: "${{ github.action_path != '' && 'computed' }}"}
  old: {deprecationMessage: use Some Word}
outputs: {said: {value: "${{ inputs['some word'] }}"}}
runs:
  using: composite
  steps:
    - run: echo "<${{ inputs['Some Word'] }}> <${{ inputs.old }}> <${{ inputs.more }}>"
      shell: sh
`
	files := map[string]string{"a/action.yml": action}
	for name, c := range map[string]struct{ inputs, log, warnings string }{
		"nothing, so that its default is computed": {"", "<computed> <> <>\n", ""},
		"null, which is nothing":                   {"some word: null", "<computed> <> <>\n", ""},
		"an input in another case":                 {"some WORD: given", "<given> <> <>\n", ""},
		"an empty input, which is not a default":   {"some word: ''", "<> <> <>\n", ""},
		"a deprecated input":                       {"old: x", "<computed> <x> <>\n", "the input \"old\" of ./a is deprecated: use Some Word\n"},
		"an input that it does not declare":        {"more: x", "<computed> <> <x>\n", "./a does not declare the input \"more\"; its inputs are Some Word, old\n"},
		"an input that is misspelt":                {"odl: x", "<computed> <> <>\n", "./a does not declare the input \"odl\"; did you mean \"old\"?\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := job{steps: "- {action: ./a, inputs: {" + c.inputs + "}}\n", files: files}.run(t).succeeds().logs(c.log)
			if got := r.warnings(); got != c.warnings {
				t.Errorf("it warns %q, want %q", got, c.warnings)
			}
		})
	}
	t.Run("a JavaScript action finds all of it in variables", func(t *testing.T) {
		t.Parallel()
		needNode(t)
		job{steps: "- {action: ./a, inputs: {who to-greet.x: me, Free: 1}}\n", files: map[string]string{
			"a/action.yml": "inputs: {who to-greet.x: {}, other: {default: d}}\nruns: {using: node20, main: a.js}\n",
			"a/a.js":       "for (const n of Object.keys(process.env).filter(n => n.startsWith('INPUT_')).sort()) console.log(n + '=' + process.env[n])\n",
		}}.run(t).succeeds().logs("INPUT_FREE=1\nINPUT_OTHER=d\nINPUT_WHO_TO-GREET.X=me\n")
	})
}
