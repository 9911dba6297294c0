package engine_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
)

func TestAShellMayBeACommand(t *testing.T) {
	t.Parallel()
	need := func(t *testing.T, program string) {
		t.Helper()
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: it is not in PATH", program)
		}
	}
	env := engine.Options{Env: map[string]string{"EVIL": "$(touch evil); `touch evil`' \"x", "NAME": "v1.2/x-y_z", "WORDS": "two words"}}
	t.Run("that runs the script from a file, which is gone afterwards", func(t *testing.T) {
		t.Parallel()
		r := job{steps: "- {script: 'echo $0 \"${{ env.EVIL }}\"', shell: 'sh -e {0}'}\n", opts: env}.run(t).succeeds()
		file := r.command()[2]
		if got := r.log(); got != file+" "+env.Env["EVIL"]+"\n" {
			t.Errorf("%q", got)
		}
		if _, err := os.Stat(file); !os.IsNotExist(err) || !strings.HasSuffix(file, "-script.sh") {
			t.Errorf("%s: %v", file, err)
		}
		if _, err := os.Stat(filepath.Join(r.dir, "evil")); err == nil {
			t.Error("a value was run")
		}
	})
	t.Run("that fails where its options say so", func(t *testing.T) {
		t.Parallel()
		need(t, "bash")
		job{steps: "- {script: \"false | true\\necho no\", shell: 'bash --noprofile --norc -eo pipefail {0}'}\n"}.run(t).fails(event.ErrorStep, "exit status 1").logs("")
	})
	t.Run("with quotes, and other programs around it", func(t *testing.T) {
		t.Parallel()
		r := job{steps: `- {script: 'echo "${{ env.EVIL }}"', shell: 'env "A=b c" sh -c ". {0}; echo \"$A\""'}` + "\n", opts: env}.run(t).succeeds()
		r.logs(env.Env["EVIL"] + "\nb c\n")
	})
	t.Run("alone, when the script says what runs it", func(t *testing.T) {
		t.Parallel()
		job{steps: "- {script: \"#!/bin/sh\\necho ran\\n\", shell: '{0}'}\n"}.run(t).succeeds().logs("ran\n")
	})
	t.Run("from an expression", func(t *testing.T) {
		t.Parallel()
		job{steps: "- {script: 'echo ${{ env.NAME }}', shell: \"${{ 'sh {0}' }}\"}\n", opts: env}.run(t).succeeds().logs("v1.2/x-y_z\n")
	})
	t.Run("of a language in which only plain values can stand in the text", func(t *testing.T) {
		t.Parallel()
		need(t, "python3")
		python := func(text string) *ran {
			return job{steps: "- {script: \"" + text + "\", shell: 'python3 {0}'}\n", opts: env}.run(t)
		}
		python("print('${{ env.NAME }}')").succeeds().logs("v1.2/x-y_z\n")
		python("print('${{ env.WORDS }}', ${{ 3 + 4 }})").succeeds().logs("two words 7\n")
		r := python("print('${{ env.EVIL }}')").fails(event.ErrorDefinition, "cannot be inserted into a script for python3", "pass it as a variable").logs("")
		if strings.Contains(r.Error.Message, "touch") || len(r.Error.Diagnostics) != 1 {
			t.Errorf("%+v", r.Error)
		}
		job{steps: "- {script: '${{ env.CODE }}', shell: 'python3 {0}'}\n", opts: engine.Options{Env: map[string]string{"CODE": "print(3 * 4)"}}}.run(t).succeeds().logs("12\n")
	})
	t.Run("of a language that nobody knows", func(t *testing.T) {
		t.Parallel()
		job{steps: "- {script: 'a ${{ env.NAME }}', shell: 'cat {0}'}\n", opts: env}.run(t).succeeds().logs("a v1.2/x-y_z")
		job{steps: "- {script: 'a ${{ env.WORDS }}', shell: 'cat {0}'}\n", opts: env}.run(t).fails(event.ErrorDefinition, "a script for cat")
	})
	t.Run("whose program is not there", func(t *testing.T) {
		t.Parallel()
		job{steps: "- {script: 'x', shell: 'no-such-program {0}'}\n"}.run(t).fails(event.ErrorStep, "no-such-program")
	})
}
