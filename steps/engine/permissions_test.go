package engine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
)

// TestPermissionsAreRequestedAndGranted is about what components may do with the tokens of a job.
func TestPermissionsAreRequestedAndGranted(t *testing.T) {
	t.Parallel()
	const talks = "exec: {script: 'true', toolkit: github}\n"
	files := map[string]string{
		"quiet/func.yml":  "spec: {}\n---\n" + talks,
		"reads/func.yml":  "spec: {permissions: {contents: read}}\n---\n" + talks,
		"writes/func.yml": "spec: {permissions: {contents: write, id-token: https://vault.example.com}}\n---\n" + talks,
		"outer/func.yml": "spec: {permissions: {contents: write}}\n---\nrun:\n- {name: own, script: 'true', toolkit: github}\n" +
			"- {name: reads, func: ../reads, permissions: {contents: read}}\n- {name: quiet, func: ../quiet}\n- {name: act, action: owner/act@v1}\n",
		"greedy/func.yml": "spec: {permissions: {contents: read}}\n---\nrun: [{name: writes, func: ../writes, permissions: {contents: write, id-token: write}}]\n",
		"act/func.yml":    "spec: {home: job}\n---\n" + talks,
	}
	for name, test := range map[string]struct {
		steps string
		want  []map[string]string // nil is all that the job may
	}{
		"a step of the job may do all that the job may":          {"{name: a, script: 'true', toolkit: github}", []map[string]string{nil}},
		"a component without a request may do nothing":           {"{name: a, func: ./quiet}", []map[string]string{{}}},
		"even if its caller grants something":                    {"{name: a, func: ./quiet, permissions: {contents: write}}", []map[string]string{{}}},
		"it may do what it requests, of what it is granted":      {"{name: a, func: ./reads, permissions: {contents: write}}", []map[string]string{{"contents": "read"}}},
		"an audience is part of what all tokens may be for":      {"{name: a, func: ./writes, permissions: {contents: write, id-token: write}}", []map[string]string{{"contents": "write", "id-token": "https://vault.example.com"}}},
		"an action may do what the list may that its step is in": {"{name: a, action: owner/act@v1}", []map[string]string{nil}},
		"or what its step grants":                                {"{name: a, action: owner/act@v1, permissions: {contents: read}}", []map[string]string{{"contents": "read"}}},
		"a component in a component may do no more": {
			"{name: a, func: ./outer, permissions: {contents: write}}", []map[string]string{{"contents": "write"}, {"contents": "read"}, {}, {"contents": "write"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, said, _ := job{steps: "- " + test.steps + "\n", files: files}.talking(t)
			r := j.run(t).succeeds()
			var got []map[string]string
			for _, p := range said.processes {
				got = append(got, p.Permissions)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if given := bodies[event.StepInputs](r); name == "it may do what it requests, of what it is granted" && (len(given) != 1 || given[0].Permissions["contents"] != "read") {
				t.Errorf("the record has %+v", given)
			}
		})
	}
	for name, test := range map[string]struct{ step, want, hint string }{
		"more than was granted":            {"{func: ./reads}", "requests the permission contents: read, which was not granted", "permissions: {contents: read}"},
		"writing where reading is granted": {"{func: ./writes, permissions: {contents: read, id-token: write}}", "contents: write, which was not granted", ""},
		"another audience":                 {"{func: ./writes, permissions: {contents: write, id-token: https://other.example.com}}", "id-token: https://vault.example.com", ""},
		"more than the component around":   {"{func: ./greedy, permissions: {contents: read}}", "contents: write cannot be granted", "spec: {permissions"},
	} {
		t.Run(name+" is refused before anything starts", func(t *testing.T) {
			t.Parallel()
			job{steps: "- {name: first, script: echo started}\n- " + test.step + "\n", files: files}.run(t).fails(event.ErrorDenied, test.want, test.hint).logs("")
		})
	}
	t.Run("and by a component that is known only when its step is reached", func(t *testing.T) {
		t.Parallel()
		j, _, _ := job{steps: "- {name: first, script: echo started}\n- {name: a, func: '${{ \"./reads\" }}'}\n", files: files, opts: engine.Options{}}.talking(t)
		j.run(t).fails(event.ErrorDenied, "which was not granted").logs("started\n")
	})
}
