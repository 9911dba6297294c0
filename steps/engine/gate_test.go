package engine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
)

// TestAComponentSeesWhatItRequests is the wall on the way in.
func TestAComponentSeesWhatItRequests(t *testing.T) {
	t.Parallel()
	const prints = "---\nexec: {script: 'echo \"${A-none} ${B_ONE-none} ${B_TWO-none} ${PATH:+path} ${HOME:+home}\"'}\n"
	secret := map[string]engine.Variable{"TOKEN": {Value: "t0ken-of-the-job", Sensitive: true}, "CI_PIPELINE": {Value: "7"}}
	for _, test := range []struct{ name, spec, step, want string }{
		{"nothing, of a list's environment and of exports", "{}", "", "none none none path home"},
		{"by name", "{env: {A: {}}}", "", "a none none path home"},
		{"by a pattern", `{env: {"B_*": {}}}`, "", "none one two path home"},
		{"what may be missing", "{env: {A: {optional: true}, C: {optional: true}}}", "", "a none none path home"},
		{"what its caller passes", "{}", ", env: {A: passed}", "passed none none path home"},
		{"everything, if its caller says so", "{}", ", inherit_env: true", "a one two path home"},
		{"no sensitive variable by a pattern", `{env: {"*": {}}}`, "", "a one two path home"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			job{steps: `
env: {A: a, B_ONE: one, HIDDEN: "${{ job.TOKEN }}"}
run:
  - script: echo '{"name":"B_TWO","value":"two"}' >${{ export_file }}
  - {name: call, step: ./c` + test.step + `}
`, files: map[string]string{"c/func.yml": "spec: " + test.spec + "\n" + prints}, opts: engine.Options{Job: secret}}.run(t).succeeds().logs(test.want + "\n")
		})
	}
	t.Run("no sensitive variable by a pattern, but by name", func(t *testing.T) {
		t.Parallel()
		const c = "---\nexec: {script: 'echo ${HIDDEN:+given}'}\n"
		files := map[string]string{"any/func.yml": `spec: {env: {"*": {}}}` + "\n" + c, "named/func.yml": "spec: {env: {HIDDEN: {}}}\n" + c}
		job{steps: "env: {HIDDEN: '${{ job.TOKEN }}'}\nrun: [{step: ./any}, {step: ./named}]\n", files: files, opts: engine.Options{Job: secret}}.
			run(t).succeeds().logs("\ngiven\n")
	})
	t.Run("what its own expressions name", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{"c/func.yml": `spec: {}
---
run:
  - {script: 'echo ${{ env.A }} $A ${B:-none}', if: env.WANTED == "yes"}
  - {name: deeper, step: ../deeper}
`, "deeper/func.yml": "spec: {}\n---\nexec: {script: 'echo deeper ${A:-none}'}\n"}
		job{steps: "env: {A: a, B: b, WANTED: yes}\nrun: [{step: ./c}]\n", files: files}.run(t).succeeds().logs("a a none\ndeeper none\n")
	})
	t.Run("job variables by a pattern", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{"c/func.yml": `spec: {env: {"CI_*": {}}}` + "\n---\nexec: {script: 'echo $CI_PIPELINE'}\n"}
		job{steps: "- {step: ./c}\n", files: files, opts: engine.Options{Job: secret}}.run(t).succeeds().logs("7\n")
	})
	t.Run("everything in a run that inherits", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{"c/func.yml": "spec: {}\n---\nexec: {script: 'echo $A; echo ''{\"name\":\"NEW\",\"value\":\"new\"}'' >${{ export_file }}'}\n"}
		r := job{steps: "env: {A: a}\nrun: [{step: ./c}, {script: echo $NEW}]\n", files: files, opts: engine.Options{InheritEnv: true}}.run(t)
		r.succeeds().logs("a\nnew\n")
		if !bodies[event.RunStarted](r)[0].InheritEnv {
			t.Error("the record does not say so")
		}
	})
	t.Run("and its failure names what it reads without a request", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{"c/func.yml": "spec: {}\n---\nexec: {script: 'set -u; echo \"$MODE\"'}\n"}
		r := job{steps: "env: {MODE: fast}\nrun: [{step: ./c}]\n", files: files}.run(t).fails(event.ErrorStep, "exit status")
		if hint := r.Error.Hint; !strings.Contains(hint, "reads MODE, which its spec does not request") {
			t.Errorf("the hint is %q", hint)
		}
	})
}

// TestExportsCannotTakeOverLaterSteps is the wall on the way out: a step that wants the secret of a later one.
func TestExportsCannotTakeOverLaterSteps(t *testing.T) {
	t.Parallel()
	const victim = "spec: {secrets: {TOKEN: {}}}\n---\nexec: {command: [bash, -c, 'ls >/dev/null; echo deployed']}\n"
	attack := func(t *testing.T, spec, script, allow string) *ran {
		t.Helper()
		return job{steps: `
- name: evil
  step: ./evil` + allow + `
- {name: deploy, when: always, step: ./deploy, secrets: [TOKEN]}
`, files: map[string]string{
			"evil/func.yml": "spec: " + spec + "\n---\nexec: {script: '" + strings.ReplaceAll(script, "'", "''") + "'}\n", "deploy/func.yml": victim,
			"bin/ls": "#!/bin/sh\necho $TOKEN >stolen\n", "env.sh": "echo $TOKEN >stolen\n",
		}, opts: engine.Options{Secrets: map[string]string{"TOKEN": "s3cret-of-deploy"}}}.run(t)
	}
	held := func(t *testing.T, r *ran) {
		t.Helper()
		if _, err := os.Stat(filepath.Join(r.dir, "stolen")); err == nil {
			t.Error("the secret was stolen")
		}
	}
	export := func(name, value string) string {
		return `chmod +x bin/ls; echo "{\"name\":\"` + name + `\",\"value\":\"` + value + `\"}" >${{ export_file }}`
	}
	for _, name := range []string{"BASH_ENV", "LD_PRELOAD", "GIT_SSH_COMMAND", "NODE_OPTIONS", "PYTHONPATH", "HOME", "https_proxy"} {
		t.Run(name+" is refused", func(t *testing.T) {
			t.Parallel()
			r := attack(t, `{exports: ["*"]}`, export(name, "$PWD/env.sh"), "")
			held(t, r.fails(event.ErrorStep, "exports "+name+", which can take over later steps"))
		})
	}
	t.Run("what is not declared is refused", func(t *testing.T) {
		t.Parallel()
		attack(t, "{}", export("MODE", "x"), "").fails(event.ErrorStep, "exports MODE, which its spec does not declare")
	})
	t.Run("what its caller allows is exported", func(t *testing.T) {
		t.Parallel()
		attack(t, "{exports: [GIT_AUTHOR_NAME]}", export("GIT_AUTHOR_NAME", "Ada"), "\n  allow_exports: [GIT_AUTHOR_NAME]").succeeds()
	})
	t.Run("PATH grows at its end", func(t *testing.T) {
		t.Parallel()
		r := attack(t, "{exports: [PATH]}", export("PATH", "$PWD/bin:$PATH"), "").succeeds()
		held(t, r)
		if path := r.finished("evil").Exports["PATH"]; !strings.HasSuffix(path, ":"+filepath.Join(r.dir, "bin")) {
			t.Errorf("PATH=%s", path)
		}
	})
	t.Run("PATH cannot be replaced", func(t *testing.T) {
		t.Parallel()
		held(t, attack(t, "{exports: [PATH]}", export("PATH", "$PWD/bin"), "").fails(event.ErrorStep, "exports a PATH without all entries"))
	})
	t.Run("a component does not let out what those in it export", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{
			"outer/func.yml": "spec: {}\n---\nrun: [{step: ../inner}]\n",
			"inner/func.yml": "spec: {exports: [MODE]}\n---\nexec: {script: '" + export("MODE", "x")[len("chmod +x bin/ls; "):] + "'}\n",
		}
		job{steps: "- {step: ./outer}\n", files: files}.run(t).fails(event.ErrorStep, "./outer exports MODE, which its spec does not declare")
	})
}
