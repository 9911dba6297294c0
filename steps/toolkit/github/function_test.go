package github

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/expr"
	ghexpr "github.com/rungci/rung/steps/expr/github"
	"github.com/rungci/rung/steps/value"
)

// fakeScope is what a function sees of a run.
type fakeScope struct {
	values            map[string]value.Value
	failed, cancelled bool
}

func (s fakeScope) Lookup(name string) (value.Value, bool) {
	v, ok := s.values[name]
	return v, ok
}

func (s fakeScope) Live() context.Context            { return context.Background() }
func (s fakeScope) Status() (failed, cancelled bool) { return s.failed, s.cancelled }

// scopeOf makes a scope of JSON.
func scopeOf(t *testing.T, text string) fakeScope {
	t.Helper()
	v, err := value.ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return fakeScope{values: v.Fields()}
}

// evaluate calls github_value.
func evaluate(t *testing.T, scope engine.FunctionScope, source string) value.Value {
	t.Helper()
	v, err := Functions[ghexpr.ValueFunction](scope, []value.Value{value.OfString(source)})
	if err != nil {
		t.Errorf("%s: %v", source, err)
	}
	return v
}

const inWorkflow = `{
	"context": {
		"github": {"sha": "abc", "ref": "refs/heads/main", "event": {"number": 5}, "token": "ghs_x"}, "matrix": {"os": "linux"}, "needs": {"build": {"outputs": {"v": "1"}, "result": "success"}},
		"strategy": {"job-total": 3}, "inputs": {"level": "high"}, "vars": {"A": "b"}, "job": {"services": {"db": {"ports": {"5432": "1"}}}}, "runner": {"name": "mine", "environment": "github-hosted", "os": "Plan9"},
		"jobs": {"a": {"result": "failure"}}, "rung": {"event_path": "/event.json"}
	},
	"inputs": {}, "env": {"Path": "x", "HOME": "/h"}, "secrets": {"KEY": "k"}, "work_dir": "/work", "func_dir": "/action", "temp_dir": "/temp",
	"step": "outer/step_4", "origin": {"url": "https://github.com/o/r", "rev": "v1"},
	"steps": {
		"my_step": {"status": "failure", "allowed": true, "outputs": {"Res-ult": "r"}},
		"other": {"status": "failure", "allowed": false, "outputs": {}}, "left_out": {"status": "skipped", "allowed": false, "outputs": {}}
	}
}`

func TestContextsOfAWorkflow(t *testing.T) {
	scope := scopeOf(t, inWorkflow)
	for _, c := range []struct{ source, want string }{
		{"github.sha", "abc"}, {"github.event.number", "5"}, {"github.workspace", "/work"}, {"github.action_path", "/action"}, {"github.token", "ghs_x"},
		{"github.server_url", "https://github.com"}, {"github.api_url", "https://api.github.com"}, {"github.graphql_url", "https://api.github.com/graphql"}, {"github.event_path", "/event.json"},
		{"github.action", "step_4"}, {"github.action_repository", "o/r"}, {"github.action_ref", "v1"},
		{"matrix.os", "linux"}, {"needs.build.outputs.v", "1"}, {"needs.*.result", `["success"]`}, {"strategy.job-total", "3"}, {"inputs.level", "high"}, {"vars.a", "b"},
		{"job.services.db.ports['5432']", "1"}, {"job.status", "success"}, {"jobs.a.result", "failure"},
		{"runner.name", "mine"}, {"runner.environment", "github-hosted"}, {"runner.temp", "/temp"}, {"runner.os", runnerOS()}, {"runner.arch", runnerArch()}, {"runner.debug", ""},
		{"steps.my-step.outcome", "failure"}, {"steps.My_Step.conclusion", "success"}, {"steps['my-step'].outputs.res-ult", "r"}, {"steps.other.conclusion", "failure"},
		{"steps.left-out.outcome", "skipped"}, {"steps.none.outcome", "<null>"}, {"steps.*.outcome", `["skipped","failure","failure"]`}, {"contains(steps.*.conclusion, 'success')", "true"},
		{"env.Path", "x"}, {"secrets.key", "k"}, {"secrets.GITHUB_TOKEN", "ghs_x"}, {"secrets.none", "<null>"},
	} {
		if got := evaluate(t, scope, c.source); got.Text() != c.want {
			t.Errorf("%s is %s, want %s", c.source, got.Text(), c.want)
		}
	}
	if runtime.GOOS != "windows" {
		if got := evaluate(t, scope, "env.PATH"); !got.IsNull() {
			t.Errorf("variables whose names differ in case are one: %s", got.Text())
		}
	}
}

func TestInputsOfAnActionHideThoseOfTheWorkflow(t *testing.T) {
	scope := scopeOf(t, inWorkflow)
	scope.values["inputs"] = value.OfStruct(map[string]value.Value{"who": value.OfString("me")})
	if got := evaluate(t, scope, "format('{0}{1}', inputs.WHO, inputs.level)"); got.Text() != "me" {
		t.Error(got.Text())
	}
}

func TestContextsWithoutAWorkflow(t *testing.T) {
	job := func(vars string) fakeScope {
		return scopeOf(t, `{"work_dir": "/work", "func_dir": "/action", "inputs": {}, "env": {"CI_COMMIT_SHA": "from-env"}, "vars": {`+vars+`}}`)
	}
	branch := job(`"CI_COMMIT_SHA": "abc", "CI_COMMIT_REF_NAME": "feature/x", "CI_PROJECT_PATH": "group/sub/project", "CI_PROJECT_NAMESPACE": "group/sub", "CI_PIPELINE_SOURCE": "push",
		"GITLAB_USER_LOGIN": "jo", "CI_PIPELINE_ID": "7", "CI_PIPELINE_IID": "3", "CI_JOB_NAME": "test", "CI_COMMIT_REF_PROTECTED": "false"`)
	tag := job(`"CI_COMMIT_REF_NAME": "v1", "CI_COMMIT_TAG": "v1", "CI_PIPELINE_SOURCE": "web"`)
	merge := job(`"CI_COMMIT_REF_NAME": "x", "CI_MERGE_REQUEST_REF_PATH": "refs/merge-requests/1/head", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
		"CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "x", "CI_PIPELINE_SOURCE": "merge_request_event"`)
	for _, c := range []struct {
		scope        fakeScope
		source, want string
	}{
		{branch, "github.sha", "from-env"}, {branch, "github.ref", "refs/heads/feature/x"}, {branch, "github.ref_name", "feature/x"}, {branch, "github.ref_type", "branch"},
		{branch, "github.repository", "group/sub/project"}, {branch, "github.repository_owner", "group/sub"}, {branch, "github.event_name", "push"}, {branch, "github.actor", "jo"},
		{branch, "github.run_id", "7"}, {branch, "github.run_number", "3"}, {branch, "github.run_attempt", "1"}, {branch, "github.job", "test"}, {branch, "github.ref_protected", "false"},
		{branch, "github.head_ref", "<null>"}, {branch, "github.workspace", "/work"}, {branch, "github.token", ""}, {branch, "github.event", "{}"}, {branch, "github.event_path", "<null>"},
		{branch, "runner.name", "rung"}, {branch, "runner.environment", "self-hosted"}, {branch, "strategy.job-total", "1"}, {branch, "job.status", "success"},
		{branch, "matrix.x", "<null>"}, {branch, "secrets.GITHUB_TOKEN", ""},
		{tag, "github.ref", "refs/tags/v1"}, {tag, "github.ref_type", "tag"}, {tag, "github.event_name", "workflow_dispatch"},
		{merge, "github.ref", "refs/merge-requests/1/head"}, {merge, "github.base_ref", "main"}, {merge, "github.head_ref", "x"}, {merge, "github.event_name", "pull_request"},
		{job(""), "github.ref", "<null>"}, {job(""), "github.event_name", "<null>"},
	} {
		if got := evaluate(t, c.scope, c.source); got.Text() != c.want {
			t.Errorf("%s is %s, want %s", c.source, got.Text(), c.want)
		}
	}
}

func TestContextsOfAProcess(t *testing.T) {
	p := engine.ToolkitProcess{WorkDir: "/work", ActionDir: "/action", TempDir: "/temp", Getenv: func(name string) string {
		return map[string]string{"CI_COMMIT_SHA": "abc", "CI_COMMIT_REF_NAME": "main", "RUNNER_DEBUG": "1"}[name]
	}}
	github, runner := surroundingsOf(p).github(), surroundingsOf(p).runner()
	for _, c := range []struct {
		context    value.Value
		name, want string
	}{
		{github, "sha", "abc"}, {github, "ref", "refs/heads/main"}, {github, "workspace", "/work"}, {runner, "debug", "1"}, {runner, "temp", "/temp"},
	} {
		if got := field(c.context, c.name); got.Text() != c.want {
			t.Errorf("%s is %s, want %s", c.name, got.Text(), c.want)
		}
	}
	p.Context = scopeOf(t, inWorkflow).values["context"]
	if got := field(surroundingsOf(p).github(), "event", "number"); got.Text() != "5" {
		t.Errorf("of a workflow: %s", got.Text())
	}
	if _, ok := p.Context.Fields()["github"].Fields()["workspace"]; ok {
		t.Error("the context that was given has changed")
	}
}

func TestFunctions(t *testing.T) {
	scope := scopeOf(t, inWorkflow)
	call := func(function, source string) (value.Value, error) {
		return Functions[function](scope, []value.Value{value.OfString(source)})
	}
	for _, c := range []struct{ function, source, want string }{
		{ghexpr.TextFunction, "github.nothing", `""`}, {ghexpr.TextFunction, "github.event.number", `"5"`}, {ghexpr.TextFunction, "github.event", `"Object"`},
		{ghexpr.ValueFunction, "github.event", `{"number":5}`}, {ghexpr.ConditionFunction, "github.sha", "true"}, {ghexpr.ConditionFunction, "github.nothing", "false"},
	} {
		if got, err := call(c.function, c.source); err != nil || string(got.AppendJSON(nil)) != c.want {
			t.Errorf("%s(%s) is %s (%v), want %s", c.function, c.source, got.AppendJSON(nil), err, c.want)
		}
	}
	t.Run("secrets stay sensitive in text", func(t *testing.T) {
		scope.values["secrets"] = value.OfStruct(map[string]value.Value{"KEY": value.OfString("k").Mark(true)})
		for _, source := range []string{"secrets.KEY", "format('x{0}', secrets.key)", "github.token", "secrets.GITHUB_TOKEN", "toJSON(secrets)"} {
			if v, err := call(ghexpr.TextFunction, source); err != nil || !v.Sensitive() {
				t.Errorf("%s: %v, %v", source, v.Sensitive(), err)
			}
		}
	})
	t.Run("the user's token is used where the workflow has none", func(t *testing.T) {
		scope := scopeOf(t, `{"context": {"github": {}}, "secrets": {"github_token": "t"}}`)
		if v := evaluate(t, scope, "format('{0}{1}', github.token, secrets.GITHUB_TOKEN)"); v.Text() != "tt" || !v.Sensitive() {
			t.Errorf("%s, sensitive %v", v.Text(), v.Sensitive())
		}
	})
	t.Run("mistakes say where they are", func(t *testing.T) {
		_, err := call(ghexpr.TextFunction, "github.sha && fromJSON('x')")
		var e *expr.Error
		if !errors.As(err, &e) || !strings.Contains(e.Message, "at character 15 of GitHub's expression github.sha && fromJSON('x')") {
			t.Error(err)
		}
		_, err = call(ghexpr.TextFunction, strings.Repeat("'x' && ", 40)+"fromJSON('x') || "+strings.Repeat("'x' && ", 40)+"1")
		if !errors.As(err, &e) || len(e.Message) > 300 || !strings.Contains(e.Message, "…") {
			t.Error(err)
		}
		for _, args := range [][]value.Value{nil, {value.OfInt(1)}, {value.OfString("1"), value.OfString("1")}} {
			if _, err := Functions[ghexpr.TextFunction](scope, args); err == nil {
				t.Errorf("%v is not a call", args)
			}
		}
	})
}

func TestStatusFunctions(t *testing.T) {
	for _, c := range []struct {
		failed, cancelled bool
		holds             string
		status            string
	}{
		{false, false, "success always", "success"}, {true, false, "failure always", "failure"}, {false, true, "cancelled always", "cancelled"}, {true, true, "cancelled always", "cancelled"},
	} {
		scope := fakeScope{failed: c.failed, cancelled: c.cancelled}
		for _, function := range ghexpr.StatusFunctions {
			if got, want := evaluate(t, scope, function+"()").Bool(), strings.Contains(c.holds, function); got != want {
				t.Errorf("failed %v, cancelled %v: %s() is %v", c.failed, c.cancelled, function, got)
			}
		}
		if got := evaluate(t, scope, "job.status").Text(); got != c.status {
			t.Errorf("job.status is %s, want %s", got, c.status)
		}
	}
	if _, err := Functions[ghexpr.ConditionFunction](fakeScope{}, []value.Value{value.OfString("failure('a')")}); err == nil || !strings.Contains(err.Error(), "no parameters") {
		t.Error(err)
	}
}

func TestHashFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	scope := fakeScope{values: map[string]value.Value{"work_dir": value.OfString(dir)}}
	if got := evaluate(t, scope, "hashFiles('a', 'b')").Text(); len(got) != 64 {
		t.Errorf("%q", got)
	}
	if got := evaluate(t, scope, "hashFiles('b')").Text(); got != "" {
		t.Errorf("%q", got)
	}
	if _, err := Functions[ghexpr.TextFunction](scope, []value.Value{value.OfString("hashFiles('../b')")}); err == nil || !strings.Contains(err.Error(), "hashFiles: the pattern") {
		t.Error(err)
	}
}
