package engine_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
)

// kinds are a step of every kind that prints its whole environment.
var kinds = map[string]string{
	"script":                 "{name: s, script: env%s}",
	"script with sh":         "{name: s, shell: sh, script: env%s}",
	"exec":                   "{name: s, exec: {command: [env]}%s}",
	"component":              "{name: s, step: ./env%s}",
	"func":                   "{name: s, func: ./env%s}",
	"dynamic reference":      "{name: s, step: '${{ \"./env\" }}'%s}",
	"composite":              "{name: s, step: ./composite%s}",
	"nested run":             "{name: s, run: [{name: i, script: env}]%s}",
	"parallel":               "{name: s, parallel: [{name: i, script: env}, {name: j, step: ./env}]}",
	"retried":                "{name: s, retry: 1, script: 'env; test -e again || { touch again; exit 1; }'%s}",
	"delegate":               "{name: s, step: ./delegate%s}",
	"step with other rights": "{name: s, step: ./asks, secrets: [OTHER]}",
}

var envSteps = map[string]string{
	"env/step.yml":       "spec: {}\n---\nexec: {command: [env]}\n",
	"composite/step.yml": "spec: {}\n---\nrun: [{name: i, step: ../env}, {name: k, script: env}]\n",
	"delegate/step.yml":  "spec: {outputs: delegate}\n---\nrun: [{name: i, step: ../env}]\ndelegate: i\n",
	"asks/step.yml":      "spec: {secrets: {OTHER: {}}}\n---\nexec: {command: [env]}\n",
}

func TestCanary(t *testing.T) {
	t.Parallel()
	for name, step := range kinds {
		t.Run("no "+name+" step sees the host's environment or a secret it was not granted", func(t *testing.T) {
			t.Parallel()
			if strings.Contains(step, "%s") {
				step = fmt.Sprintf(step, "")
			}
			r := job{
				steps: "- " + step + "\n",
				files: envSteps,
				opts: engine.Options{
					HostEnv: []string{"CANARY=host-canary", "AWS_SECRET_ACCESS_KEY=host-canary", "CI_JOB_TOKEN=host-canary", "HOME=/host-canary", "XDG_CONFIG_HOME=/host-canary", "GIT_CONFIG_GLOBAL=/host-canary", "TMPDIR=/host-canary"},
					Secrets: map[string]string{"TOKEN": "secret-canary", "OTHER": "other-secret"},
					Job:     map[string]engine.Variable{"CI_JOB_TOKEN": {Value: "job-canary", Sensitive: true}, "CI_JOB_ID": {Value: "job-id-canary"}},
				},
			}.run(t).succeeds()
			if !strings.Contains(r.log(), "PATH=") {
				t.Fatal("the step did not print its environment")
			}
			for _, canary := range []string{"host-canary", "secret-canary", "job-canary", "job-id-canary", "TOKEN=", "CANARY"} {
				if strings.Contains(r.log(), canary) {
					t.Errorf("the step was given %q:\n%s", canary, r.log())
				}
			}
			if strings.Contains(name, "other rights") != strings.Contains(r.log(), "OTHER=[MASKED]") {
				t.Errorf("the secret OTHER is in the wrong place:\n%s", r.log())
			}
		})
	}
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	secret := engine.Options{Secrets: map[string]string{"TOKEN": "s3cr3t-value"}}
	show := "printf '%s' \"${TOKEN:-none}\" | tr a-z A-Z"
	t.Run("a script gets the secret it is granted", func(t *testing.T) {
		t.Parallel()
		job{steps: "- {name: a, secrets: [TOKEN], script: " + quote(show) + "}\n", opts: secret}.run(t).succeeds().logs("S3CR3T-VALUE")
	})
	t.Run("a component gets what it requests and is granted, under its own name for it", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{"use/step.yml": "spec: {secrets: {KEY: {description: for signing}}}\n---\nexec: {command: [sh, -c, 'printf %s \"$KEY\" | rev']}\n"}
		job{steps: "- {name: a, step: ./use, secrets: {KEY: TOKEN}}\n", files: files, opts: secret}.run(t).succeeds().logs("eulav-t3rc3s")
	})
	t.Run("a component that requests a secret which is not granted does not run", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{"use/step.yml": "spec: {secrets: {TOKEN: {}}}\n---\nexec: {command: [env]}\n"}
		job{steps: "- {name: a, step: ./use}\n", files: files, opts: secret}.run(t).
			fails(event.ErrorDenied, "requests the secret TOKEN, which was not granted", "secrets: [TOKEN]").logs("")
	})
	t.Run("an optional secret may be missing", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{"use/step.yml": "spec: {secrets: {TOKEN: {optional: true}}}\n---\nexec: {command: [sh, -c, 'echo ${TOKEN-none}']}\n"}
		job{steps: "- {name: a, step: ./use}\n", files: files}.run(t).succeeds().logs("none\n")
	})
	t.Run("a secret that the run does not have cannot be granted", func(t *testing.T) {
		t.Parallel()
		job{steps: "- {name: a, secrets: [NOPE], script: env}\n", opts: secret}.run(t).fails(event.ErrorDenied, "NOPE", "--secret NOPE")
	})
	t.Run("a secret is not granted to a component that does not request it", func(t *testing.T) {
		t.Parallel()
		job{steps: "- {name: a, step: ./env, secrets: [TOKEN]}\n", files: envSteps, opts: secret}.run(t).fails(event.ErrorDefinition, "does not request")
	})
	t.Run("the default of a sensitive input or output is in no event, nor in the source of an error", func(t *testing.T) {
		t.Parallel()
		spec := "spec: {inputs: {p: {type: string, sensitive: true, default: d3fault-text}, n: {type: number, sensitive: true, default: 31337421}}, outputs: {o: {type: string, sensitive: true, default: d3fault-output}}}\n---\n"
		files := map[string]string{"use/step.yml": spec + "{exec: {command: [sh, -c, 'echo ${{ inputs.p }}; exit 1', d3fault-text]}}\n"}
		r := job{steps: "- {name: a, step: ./use}\n", files: files}.run(t)
		r.fails(event.ErrorStep)
		for _, e := range r.events {
			data, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			for _, secret := range []string{"d3fault-text", "31337421", "d3fault-output"} {
				if strings.Contains(string(data), secret) {
					t.Errorf("an event holds %s:\n%s", secret, data)
				}
			}
		}
	})
	t.Run("a component passes a secret on only by granting it", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{"outer/step.yml": "spec: {secrets: {TOKEN: {}}}\n---\nrun:\n  - {name: without, script: " + quote(show) + "}\n  - {name: with, secrets: [TOKEN], script: " + quote(show) + "}\n"}
		job{steps: "- {name: a, step: ./outer, secrets: [TOKEN]}\n", files: files, opts: secret}.run(t).succeeds().logs("NONES3CR3T-VALUE")
	})
	t.Run("a component cannot read the job's sensitive variables", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{"peek/step.yml": "spec: {}\n---\nexec: {command: [echo, '${{ job.CI_JOB_TOKEN }}']}\n"}
		opts := engine.Options{Job: map[string]engine.Variable{"CI_JOB_TOKEN": {Value: "glcbt-123456", Sensitive: true}}}
		job{steps: "- {name: a, step: ./peek}\n", files: files, opts: opts}.run(t).fails(event.ErrorDefinition, "CI_JOB_TOKEN", "was not found")
		job{steps: "- {name: a, script: 'echo ${{ job.CI_JOB_TOKEN }}'}\n", opts: opts}.run(t).succeeds().logs("[MASKED]\n")
	})
}

// quote makes a YAML string of any text.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

func TestB12SensitiveValuesAreNowhereInClear(t *testing.T) {
	t.Parallel()
	const secret = "hunter2/with+odd&chars\"and'quotes"
	encodings := []string{
		secret,
		base64.StdEncoding.EncodeToString([]byte(secret)),
		"hunter2%2Fwith%2Bodd%26chars%22and%27quotes",
		`hunter2/with+odd&chars\"and'quotes`,
	}
	files := map[string]string{
		"factory/step.yml": `spec: {outputs: {token: {type: string, sensitive: true}}}
---
exec:
  command: [./factory.sh, "${{ output_file }}"]
`,
		"factory.sh": "#!/bin/sh\ncat token.txt\nprintf '{\"name\":\"token\",\"value\":\"hunter2/with+odd&chars\\\\\"and'\"'\"'quotes\"}' >\"$1\"\n",
		"token.txt":  secret,
		"consumer/step.yml": `spec: {inputs: {token: {type: string, sensitive: true}, wrapped: {type: struct}}}
---
env: {HEADER: "Bearer ${{ inputs.token }}"}
exec: {command: [sh, -c, 'printf "%s\n" "$HEADER"; printf "%s\n" "$1"; exit 3', sh, "${{ inputs.wrapped }}"]}
`,
	}
	r := job{files: files, steps: `
- {name: factory, step: ./factory}
- name: encodings
  env: {T: "${{ steps.factory.outputs.token }}"}
  script: |
    printf '%s\n' "$T"; printf '%s' "$T" | base64; printf '%s' "$T" | sed 's/"/\\"/g'
    printf 'hunter2%%2Fwith%%2Bodd%%26chars%%22and%%27quotes\n'
    printf 'hunter2/'; sleep 0.05; printf 'with+odd&\033[31mchars"\033[0mand'"'"'quotes\n'
- name: title ${{ steps.factory.outputs.token }}
  script: 'true'
`[1:]}.withoutLast().run(t).succeeds()
	r2 := job{files: files, steps: `
- {name: factory, step: ./factory}
- name: consumer
  step: ./consumer
  inputs: {token: "${{ steps.factory.outputs.token }}", wrapped: {deep: ["${{ steps.factory.outputs.token }}"]}}
- name: message
  when: always
  step: ./${{ steps.factory.outputs.token }}
`}.run(t)
	for _, r := range []*ran{r, r2} {
		all := ""
		for _, e := range r.events {
			if l, ok := e.Body.(event.Log); ok {
				all += string(l.Data)
				continue
			}
			data, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			all += string(data) + "\n"
		}
		for _, form := range encodings {
			asJSON, _ := json.Marshal(form)
			if strings.Contains(all, form) || strings.Contains(all, strings.Trim(string(asJSON), `"`)) {
				t.Errorf("the secret is in the events as %s:\n%s", form, all)
			}
		}
	}
	if !strings.Contains(r.log(), "[MASKED]") {
		t.Errorf("nothing was masked:\n%s", r.log())
	}
	token := r.finished("factory").Outputs["token"]
	if digest, ok := event.IsRedacted(token); !ok || !strings.HasPrefix(digest, "pbkdf2-sha256:") {
		t.Errorf("the trace holds %s, want a keyed digest", token.Text())
	}
}

// withoutLast drops the last step of the list.
func (j job) withoutLast() job {
	j.steps = j.steps[:strings.LastIndex(j.steps, "\n- name: ")+1]
	return j
}

func TestSensitiveValuesStayOutOfTheProcessList(t *testing.T) {
	t.Parallel()
	opts := engine.Options{Secrets: map[string]string{"TOKEN": "s3cr3t-value"}}
	r := job{opts: opts, steps: `
- name: script
  secrets: [TOKEN]
  script: |
    printf '%s' "${{ env.TOKEN }}" | rev; tr '\0' ' ' </proc/$$/cmdline | rev
- name: shell
  secrets: [TOKEN]
  exec: {command: [bash, -c, 'printf "%s" "${{ env.TOKEN }}" | rev; tr "\0" " " </proc/$$/cmdline | rev']}
`}.run(t).succeeds()
	if got := strings.Count(r.log(), "eulav-t3rc3s"); got != 2 {
		t.Errorf("the secret stands in the steps' output %d times, want 2 (once from each step, never from its command line):\n%s", got, r.log())
	}
}

func TestPasswordsOfProxiesAreMasked(t *testing.T) {
	t.Parallel()
	r := job{
		steps: "- script: echo $https_proxy\n- {script: 'echo $PROXY', env: {PROXY: 'http://user:0ther-password@proxy:3128'}}\n",
		opts:  engine.Options{HostEnv: []string{"https_proxy=http://user:pr0xy-password@proxy:3128"}},
	}.run(t).succeeds().logs("http://user:[MASKED]@proxy:3128\nhttp://user:[MASKED]@proxy:3128\n")
	if text, err := json.Marshal(r.events); err != nil || bytes.Contains(text, []byte("-password")) {
		t.Errorf("an event holds a password: %v\n%s", err, text)
	}
}

func TestLiteralsGivenToSensitiveInputsAreSecrets(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"c/func.yml": "spec: {inputs: {a: {type: string, sensitive: true}, b: {type: struct, default: {}, sensitive: true}, plain: {type: string, default: ''}}}\n" +
			"---\nexec: {script: 'true'}\n",
		"outer/func.yml": "spec: {}\n---\nrun: [{script: 'echo d33per-literal'}, {step: ../c, inputs: {a: d33per-literal}}]\n",
	}
	r := job{files: files, steps: `
- script: echo f1rst-literal n3sted-literal d33per-literal unkn0wn-literal open-literal
- {step: ./c, inputs: {a: f1rst-literal, b: {x: [n3sted-literal]}, plain: open-literal}}
- {step: ./outer}
- {step: ./made-later, if: "${{ env.NEVER == 'x' }}", inputs: {deploy_token: unkn0wn-literal}}
`}.run(t)
	r.succeeds().logs("[MASKED] [MASKED] [MASKED] [MASKED] open-literal\n[MASKED]\n")
	text, err := json.Marshal(r.events)
	if err != nil || !bytes.Contains(text, []byte("open-literal")) {
		t.Fatalf("the events lack what is no secret: %v", err)
	}
	for _, literal := range []string{"f1rst-literal", "n3sted-literal", "d33per-literal", "unkn0wn-literal"} {
		if bytes.Contains(text, []byte(literal)) {
			t.Errorf("an event holds %s", literal)
		}
	}
}

func TestTheEnvOfAStepUsesTheSecretsThatItIsGranted(t *testing.T) {
	t.Parallel()
	opts := engine.Options{Secrets: map[string]string{"TOKEN": "s3cr3t-value", "OTHER": "0ther-value"}}
	show := "printf '%s' \"${HEADER:-none}\" | tr a-z A-Z"
	t.Run("under its own name for it", func(t *testing.T) {
		t.Parallel()
		r := job{steps: "- {name: a, secrets: {KEY: TOKEN}, env: {HEADER: 'Bearer ${{ secrets.KEY }}'}, script: " + quote(show) + "}\n- {name: b, script: " + quote(show) + "}\n", opts: opts}.run(t)
		r.succeeds().logs("BEARER S3CR3T-VALUENONE")
		if text, err := json.Marshal(r.events); err != nil || bytes.Contains(text, []byte("s3cr3t-value")) {
			t.Errorf("an event holds the secret: %v", err)
		}
	})
	t.Run("and passes it to a component that requests it", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{"c/func.yml": "spec: {secrets: {KEY: {}}}\n---\nexec: {script: " + quote(show) + "}\n"}
		job{steps: "- {step: ./c, secrets: {KEY: TOKEN}, env: {HEADER: '${{ secrets.KEY }}'}}\n", files: files, opts: opts}.run(t).succeeds().logs("S3CR3T-VALUE")
	})
	for name, step := range map[string]string{
		"not one that it is not granted":    "{name: a, secrets: [TOKEN], env: {HEADER: '${{ secrets.OTHER }}'}, script: 'true'}",
		"not without a grant":               "{name: a, env: {HEADER: '${{ secrets.TOKEN }}'}, script: 'true'}",
		"not in anything but its own `env`": "{name: a, secrets: [TOKEN], script: 'echo ${{ secrets.TOKEN }}'}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job{steps: "- {name: first, script: echo started}\n- " + step + "\n", opts: opts}.run(t).fails(event.ErrorDefinition, "was not found").logs("")
		})
	}
}
