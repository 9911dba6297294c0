package engine_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
)

func TestAPlaceholderIsMaskedAndRecordedAsWhatItIs(t *testing.T) {
	t.Parallel()
	const placeholder = "placeholder-of-a-test"
	r := job{
		opts: engine.Options{
			Job:          map[string]engine.Variable{"TOKEN": {Value: placeholder, Sensitive: true}, "KEY": {Value: "given-key", Sensitive: true}, "URL": {Value: "pg://" + placeholder + "@db"}},
			Secrets:      map[string]string{"GRANTED": placeholder},
			Placeholders: []string{placeholder},
		},
		steps: `- {name: a, env: {T: '${{ job.TOKEN }}', U: 'x ${{ job.TOKEN }}', K: '${{ job.KEY }}'}, script: 'echo "token $T"; printf %s "$U" | tr a-z A-Z'}` + "\n",
	}.run(t).succeeds().logs("token [MASKED]\nX PLACEHOLDER-OF-A-TEST")
	for _, e := range r.events {
		data, err := json.Marshal(e.Body)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), placeholder) {
			t.Errorf("the event %s has the placeholder", data)
		}
	}
	const want, digest = "[sensitive " + event.Placeholder + "]", "[sensitive pbkdf2-sha256:"
	started := bodies[event.RunStarted](r)[0]
	if started.Job["TOKEN"] != want || started.Job["URL"] != want || started.Secrets["GRANTED"] != event.Placeholder || !strings.HasPrefix(started.Job["KEY"], digest) {
		t.Errorf("recorded are the job variables %v and the secrets %v", started.Job, started.Secrets)
	}
	if env := bodies[event.StepInputs](r)[0].Env; env["T"] != want || env["U"] != want || !strings.HasPrefix(env["K"], digest) {
		t.Errorf("the environment of the step is recorded as %v", env)
	}
}
