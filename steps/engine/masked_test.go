package engine_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
)

func TestAMaskIsAnEventAndAppliesFromThereOn(t *testing.T) {
	t.Parallel()
	const secret = "found-later"
	r := job{
		opts: engine.Options{Secrets: map[string]string{"TOKEN": "known-from-the-start"}},
		files: map[string]string{"find/step.yml": `spec: {outputs: {word: {type: string, sensitive: true}}}
---
exec: {command: [sh, -c, 'while [ ! -e printed ]; do sleep 0.01; done; printf "{\"name\":\"word\",\"value\":\"found-later\"}" >"$1"', sh, "${{ output_file }}"]}
`},
		steps: `
- name: printer
  background: true
  script: |
    for i in $(seq 200); do echo found-later; done
    touch printed
    while [ ! -e found ]; do echo found-later; sleep 0.001; done
- {name: find, step: ./find}
- {name: again, script: 'touch found; echo ${{ steps.find.outputs.word }} known-from-the-start'}
- {name: last, wait: printer}
`}.run(t).succeeds()
	var clear, masks, hidden int
	for _, e := range r.events {
		switch b := e.Body.(type) {
		case event.Masked:
			masks++
			if e.Step != "" || !strings.HasPrefix(b.Digest, "pbkdf2-sha256:") {
				t.Errorf("the event is %+v", e)
			}
			if digest, _ := event.IsRedacted(r.finished("find").Outputs["word"]); digest != b.Digest {
				t.Errorf("the digest is %s, and that of the output %s", b.Digest, digest)
			}
		case event.Log:
			if !bytes.Contains(b.Data, []byte(secret)) {
				hidden += bytes.Count(b.Data, []byte("[MASKED]"))
				continue
			}
			if clear++; masks > 0 {
				t.Errorf("event %d has the secret after its mask: %q", e.Seq, b.Data)
			}
		}
	}
	if masks != 1 || clear == 0 || hidden < 2 {
		t.Errorf("%d masks, %d pieces of log before, %d texts masked after", masks, clear, hidden)
	}
}

func TestTextsThatAreTooShortToMaskHaveNoEvent(t *testing.T) {
	t.Parallel()
	r := job{
		files: map[string]string{"find/step.yml": `spec: {outputs: {word: {type: string, sensitive: true}}}
---
exec: {command: [sh, -c, 'printf "{\"name\":\"word\",\"value\":\"abc\"}" >"$1"', sh, "${{ output_file }}"]}
`},
		steps: "- {name: find, step: ./find}\n- {name: again, script: 'echo ${{ steps.find.outputs.word }}'}\n",
	}.run(t).succeeds()
	for _, e := range r.events {
		if _, is := e.Body.(event.Masked); is {
			t.Errorf("an event says of a short text that it is masked: %+v", e)
		}
	}
}
