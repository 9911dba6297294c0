//go:build unix

package attacks

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAHostileComponentSeesNoVariableThatItWasNotGiven prints all that it has.
func TestAHostileComponentSeesNoVariableThatItWasNotGiven(t *testing.T) {
	t.Parallel()
	canary := "canary-" + rand.Text()
	v := newVictim(t)
	v.write("hostile/func.yml", "spec: {env: {\"*\": {optional: true}}}\n---\nexec: {script: 'env >loot-of-all'}\n")
	v.write("quiet/func.yml", "spec: {}\n---\nexec: {script: 'env >loot'}\n")
	v.write("steps.yml", `
env: {PASSPHRASE: "${{ job.DEPLOY_TOKEN }}", PLAIN: plain-`+canary+`}
run:
  - script: echo '{"name":"EARLIER","value":"earlier-`+canary+`"}' >${{ export_file }}
  - step: ./quiet
  - step: ./hostile
`)
	v.env = append(v.env, "CI_PROJECT_DIR="+filepath.Join(v.dir, "work"))
	v.mustRun("run", "steps.yml", "--job", "DEPLOY_TOKEN=secret-"+canary)
	if loot := v.read("loot"); loot == "" || strings.Contains(loot, canary) {
		t.Errorf("a component that requests nothing got %s", loot)
	}
	if loot := v.read("loot-of-all"); !strings.Contains(loot, "EARLIER=earlier-"+canary) || strings.Contains(loot, "secret-"+canary) {
		t.Errorf("a component that requests everything got %s", loot)
	}
}

// TestAHostileComponentDoesNotRunInLaterSteps exports what loaders, shells and tools read, and waits for a step with a secret.
func TestAHostileComponentDoesNotRunInLaterSteps(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"BASH_ENV": "$PWD/payload", "ENV": "$PWD/payload", "LD_PRELOAD": "$PWD/payload", "PROMPT_COMMAND": ". $PWD/payload", "PATH": "$PWD/bin:$PATH",
		"GIT_SSH_COMMAND": "$PWD/payload", "PYTHONPATH": "$PWD", "NODE_OPTIONS": "--require $PWD/payload", "HOME": "$PWD",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			canary := "canary-" + rand.Text()
			v := newVictim(t, "TOKEN="+canary)
			v.write("payload", "env >loot\n")
			v.write("bin/ls", "#!/bin/sh\nenv >loot\n")
			if err := os.Chmod(filepath.Join(v.dir, "work", "bin", "ls"), 0o700); err != nil {
				t.Fatal(err)
			}
			v.write("hostile/func.yml", "spec: {exports: [\"*\"]}\n---\nexec:\n  script: |\n    echo \"{\\\"name\\\":\\\""+name+"\\\",\\\"value\\\":\\\""+value+"\\\"}\" >${{ export_file }}\n")
			v.write("deploy/func.yml", "spec: {secrets: {TOKEN: {}}}\n---\nexec: {command: [bash, -c, 'ls >/dev/null; echo deployed']}\n")
			v.write("steps.yml", "- step: ./hostile\n- {step: ./deploy, when: always, secrets: [TOKEN]}\n")
			out, _ := v.run("run", "steps.yml", "--secret", "TOKEN")
			if !strings.Contains(out, "deployed") {
				t.Fatalf("the later step did not run:\n%s", out)
			}
			if loot := v.read("loot"); loot != "" {
				t.Errorf("it ran in the later step, and got %s", loot)
			}
		})
	}
}

// TestAHostileComponentPlantsNothingInTheHomeOfLaterSteps writes files that shells and git read in a home folder.
func TestAHostileComponentPlantsNothingInTheHomeOfLaterSteps(t *testing.T) {
	t.Parallel()
	canary := "canary-" + rand.Text()
	v := newVictim(t, "TOKEN="+canary)
	v.write("payload", "env >loot\n")
	v.write("hostile/func.yml", "spec: {env: {\"*\": {optional: true}}, exports: [\"*\"]}\n---\nexec:\n  script: |\n"+
		"    printf '[alias]\\n  st = !. ./payload\\n' >$HOME/.gitconfig; echo . ./payload >$HOME/.bash_profile; cat $HOME/.netrc >>loot\n")
	v.write("deploy/func.yml", "spec: {secrets: {TOKEN: {}}}\n---\nexec: {command: [bash, -lc, 'git st; echo deployed']}\n")
	v.write("steps.yml", "- script: echo machine example.com password "+canary+" >$HOME/.netrc\n- step: ./hostile\n  when: always\n  allow_failure: true\n"+
		"- {step: ./deploy, secrets: [TOKEN]}\n- {script: 'bash -lc \"git st\" || true'}\n")
	if out, _ := v.run("run", "steps.yml", "--secret", "TOKEN"); !strings.Contains(out, "deployed") {
		t.Fatalf("the later step did not run:\n%s", out)
	}
	if loot := v.read("loot"); loot != "" {
		t.Errorf("it got %s", loot)
	}
}
