package engine_test

import (
	"testing"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
)

func TestRequestedEnvironment(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"needs/step.yml":    "spec: {env: {REGION: {description: where to deploy}}}\n---\nexec: {command: [sh, -c, 'echo $REGION']}\n",
		"defaults/step.yml": "spec: {env: {REGION: {default: earth}}}\n---\nexec: {command: [sh, -c, 'echo $REGION']}\n",
	}
	job1 := func(step string, opts engine.Options) *ran {
		return job{steps: "- {name: a, " + step + "}\n", files: files, opts: opts}.run(t)
	}
	hosts := engine.Options{HostEnv: []string{"REGION=host-canary"}}
	t.Run("comes from the run or the caller", func(t *testing.T) {
		t.Parallel()
		job1("step: ./needs", engine.Options{Env: map[string]string{"REGION": "moon"}}).succeeds().logs("moon\n")
		job1("step: ./needs, env: {REGION: mars}", engine.Options{}).succeeds().logs("mars\n")
	})
	t.Run("comes from the job's variables, which are no environment otherwise", func(t *testing.T) {
		t.Parallel()
		job1("step: ./needs", engine.Options{Job: map[string]engine.Variable{"REGION": {Value: "venus"}}}).succeeds().logs("venus\n")
		job1("script: 'echo [$REGION]'", engine.Options{Job: map[string]engine.Variable{"REGION": {Value: "venus"}}}).succeeds().logs("[]\n")
	})
	t.Run("has a default", func(t *testing.T) {
		t.Parallel()
		job1("step: ./defaults", hosts).succeeds().logs("earth\n")
	})
	t.Run("never comes from the host, nor from a sensitive variable", func(t *testing.T) {
		t.Parallel()
		hosts := hosts
		hosts.Job = map[string]engine.Variable{"REGION": {Value: "sensitive", Sensitive: true}}
		job1("step: ./needs", hosts).fails(event.ErrorDefinition, "requires the environment variable REGION", "env: {REGION: …}").logs("")
	})
}
