//go:build unix

package manager_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/manager/gitlab"
)

// TestHostilePayloads has jobs whose payloads are not what anybody would write. Each ends once, with the right reason, and the manager stays up.
func TestHostilePayloads(t *testing.T) {
	w := newWorld(t)
	w.start(w.configure("concurrent = 4\ncheck_interval = 1", ""))
	set := func(key string, value any) func(map[string]any) { return func(p map[string]any) { p[key] = value } }
	in := func(table, key string, value any) func(map[string]any) {
		return func(p map[string]any) {
			inner, _ := p[table].(map[string]any)
			if inner == nil {
				inner = map[string]any{}
			}
			inner[key] = value
			p[table] = inner
		}
	}
	variables := func(more ...map[string]any) func(map[string]any) {
		return func(p map[string]any) {
			for _, v := range more {
				p["variables"] = append(p["variables"].([]any), v)
			}
		}
	}
	many := make([]map[string]any, 10_000)
	for i := range many {
		many[i] = map[string]any{"key": fmt.Sprint("V", i), "value": "v"}
	}
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	const success, script, system, config = "success", "script_failure", "runner_system_failure", "runner_configuration_error"
	for name, c := range map[string]struct {
		change func(map[string]any)
		want   string
		log    string
	}{
		"every list and object is null": {func(p map[string]any) {
			for _, key := range []string{"image", "services", "artifacts", "cache", "credentials", "dependencies", "secrets", "hooks", "inputs", "run", "policy_options", "git_info", "runner_info"} {
				p[key] = nil
			}
		}, success, ""},
		"nulls within lists": {func(p map[string]any) {
			p["steps"] = append(p["steps"].([]any), nil)
			p["variables"] = append(p["variables"].([]any), nil)
		}, config, ""},
		"fields that nobody knows":       {set("new_feature", map[string]any{"a": []any{1, nil, "x"}}), success, ""},
		"fields of another type":         {set("variables", map[string]any{"A": "b"}), system, "cannot read"},
		"a number for a text":            {in("job_info", "name", 7), system, "cannot read"},
		"steps that are a text":          {set("steps", "echo hello"), system, "cannot read"},
		"depth without an end":           {set("something", json.RawMessage(deep)), success, ""},
		"depth in an input":              {set("inputs", []any{map[string]any{"key": "x", "value": map[string]any{"type": "array", "content": json.RawMessage(deep)}}}), config, ""},
		"text that is not UTF-8":         {set("odd", "\xff\xfe"), success, ""},
		"a timeout below zero":           {in("runner_info", "timeout", -5), success, ""},
		"a timeout beyond all":           {in("runner_info", "timeout", int64(1)<<62), success, ""},
		"a depth of sources below zero":  {in("git_info", "depth", -1), success, ""},
		"a project below zero":           {in("job_info", "project_id", -7), success, ""},
		"10,000 variables":               {variables(many...), success, ""},
		"a variable without a name":      {variables(map[string]any{"key": "", "value": "x"}, map[string]any{"key": "=", "value": "x"}), success, ""},
		"a variable with a NUL":          {variables(map[string]any{"key": "NUL", "value": "a\x00b"}), config, ""},
		"a name that leads upwards":      {in("job_info", "project_name", "../../../../tmp/evil"), success, ""},
		"a file variable that leads up":  {variables(map[string]any{"key": "../../evil", "value": "x", "file": true}), success, ""},
		"variables in circles":           {variables(map[string]any{"key": "A", "value": "$B"}, map[string]any{"key": "B", "value": "$A$A$A"}), success, ""},
		"variables that double":          {variables(doubling()...), success, ""},
		"a step that nobody knows":       {set("steps", []any{map[string]any{"name": "deploy_to_moon", "script": []any{"true"}}}), config, "does not know"},
		"no steps":                       {set("steps", []any{}), success, ""},
		"`run` that is no list":          {func(p map[string]any) { p["steps"], p["run"] = nil, "{}" }, config, "must be a list"},
		"`run` of a million brackets":    {func(p map[string]any) { p["steps"], p["run"] = nil, strings.Repeat("[", 1_000_000) }, config, ""},
		"an image on a host":             {set("image", map[string]any{"name": "--privileged -v /:/host busybox"}), success, ""},
		"an option of an image":          {set("image", map[string]any{"name": "a", "executor_opts": map[string]any{"docker": map[string]any{"privileged": true}}}), success, ""},
		"services on a host":             {set("services", []any{map[string]any{"name": "a"}, nil}), success, "the services of the job are not started"},
		"artifacts from outside":         {set("artifacts", []any{map[string]any{"paths": []any{"../../../../../../etc/passwd", "/etc/passwd"}, "when": "always", "artifact_type": "archive", "artifact_format": "zip"}}), success, ""},
		"a cache key that leads upwards": {set("cache", []any{map[string]any{"key": "../../../../../evil", "paths": []any{"../../.."}, "policy": "pull-push", "when": "always"}}), success, ""},
		"a policy that nobody knows":     {set("cache", []any{map[string]any{"key": "k", "paths": []any{"a"}, "policy": "steal"}}), config, ""},
		"a secret from nowhere":          {set("secrets", map[string]any{"S": nil}), config, ""},
		"a dependency on a stranger":     {set("dependencies", []any{map[string]any{"id": 999999, "token": "x", "artifacts_file": map[string]any{"filename": "a.zip"}}}), script, ""},
		"an address that is none":        {in("git_info", "repo_url", "://\x7f %zz"), success, ""},
		"a job name of control codes":    {in("job_info", "name", "\x1b]0;owned\a\r\nsection_start:1:x\r"), success, ""},
		"a refspec that is an option":    {func(p map[string]any) { in("git_info", "refspecs", []any{"--upload-pack=touch evil"})(p) }, success, ""},
	} {
		t.Run(name, func(t *testing.T) {
			from := line("echo it ran")
			from.Features.FailureReasons = []string{config, system, script}
			j := w.server.EnqueueAs(from, func(body []byte) []byte {
				var p map[string]any
				if err := json.Unmarshal(body, &p); err != nil {
					t.Error(err)
				}
				c.change(p)
				out, err := json.Marshal(p)
				if err != nil {
					t.Error(err)
				}
				return out
			})
			r := w.result(j)
			got := r.FailureReason
			if r.State == gitlab.Success {
				got = success
			}
			if finals := strings.Count(fmt.Sprint(r.Updates), "failed") + strings.Count(fmt.Sprint(r.Updates), "success"); finals != 1 {
				t.Errorf("it ended %d times: %v", finals, r.Updates)
			}
			if got != c.want || !strings.Contains(r.Log, c.log) {
				t.Errorf("it is %s, want %s\n%s", got, c.want, r.Log[:min(len(r.Log), 3000)])
			}
		})
	}
	if found, _ := filepath.Glob(filepath.Join(os.TempDir(), "evil*")); len(found) > 0 {
		t.Error("outside:", found)
	}
	if r := w.result(w.server.Enqueue(line("echo it ran"))); r.State != gitlab.Success {
		t.Errorf("the next job is %s\n%s", r.State, r.Log)
	}
}

// line is a job of one line.
func line(text string) gitlab.Job {
	j := script(text)
	j.Runner.Timeout = 30
	return j
}

// doubling are variables each of which has the one before twice.
func doubling() (out []map[string]any) {
	out = append(out, map[string]any{"key": "D0", "value": "0123456789"})
	for i := 1; i < 60; i++ {
		out = append(out, map[string]any{"key": fmt.Sprint("D", i), "value": fmt.Sprintf("$D%d$D%d", i-1, i-1)})
	}
	return out
}
