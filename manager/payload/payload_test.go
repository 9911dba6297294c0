package payload_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/payload"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/compile"
	"github.com/rungci/rung/steps/plan"
)

// runner is one whose configuration says something about everything.
var runner = payload.Runner{
	Name: "test", ShortToken: "t0_abcdef", Version: "1.2", Revision: "abc", API: "https://gitlab.example.com/api/v4", Slot: 3, ProjectSlot: 1,
	Environment: []string{"FROM_CONFIG=yes", "OVERRIDDEN=by the configuration"}, PullPolicies: []string{"if-not-present"},
}

// read reads the text of a payload.
func read(t *testing.T, text string, r payload.Runner) (*payload.Job, error) {
	t.Helper()
	var from gitlab.Job
	if err := json.Unmarshal([]byte(text), &from); err != nil {
		t.Fatal(err)
	}
	return payload.New(&from, r)
}

func mustRead(t *testing.T, text string, r payload.Runner) *payload.Job {
	t.Helper()
	j, err := read(t, text, r)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

const full = `{"id": 12, "token": "glcbt-job", "allow_git_fetch": true,
 "job_info": {"name": "build", "stage": "test", "project_id": 7, "project_name": "web", "project_full_path": "group/web", "pipeline_id": 99},
 "git_info": {"repo_url": "https://gitlab-ci-token:glcbt-git@gitlab.example.com/group/web.git", "ref": "main", "sha": "f00", "refspecs": ["+refs/heads/main:refs/remotes/origin/main"], "depth": 20},
 "runner_info": {"timeout": 3600},
 "variables": [
  {"key": "CI_PROJECT_PATH", "value": "group/web", "public": true}, {"key": "OVERRIDDEN", "value": "by the job", "public": true},
  {"key": "SECRET", "value": "hunter2hunter2", "masked": true}, {"key": "VERSION", "value": "20"}, {"key": "SETTING", "value": "$VERSION and more"},
  {"key": "DOCKER_AUTH_CONFIG", "value": "{\"auths\":{\"registry.example.com\":{\"username\":\"u\",\"password\":\"pw-of-registry\"}}}"}],
 "steps": [{"name": "script", "script": ["make"], "timeout": 3600, "when": "on_success"}, {"name": "after_script", "script": ["echo end"], "when": "always"}],
 "image": {"name": "node:$VERSION", "entrypoint": ["/init"], "pull_policy": ["always"], "executor_opts": {"docker": {"platform": "linux/arm64", "user": 1000}}},
 "services": [{"name": "postgres:$VERSION", "alias": "db, database", "command": ["-c", "x"], "variables": [{"key": "A", "value": "v$VERSION"}, {"key": "B", "value": "$VERSION", "raw": true}]}],
 "cache": [{"key": "deps-$VERSION", "paths": ["node_modules"], "policy": "pull-push", "when": "on_success"}],
 "artifacts": [{"name": "out", "paths": ["dist"], "artifact_type": "archive", "artifact_format": "zip", "when": "on_success", "expire_in": "1 week"}],
 "credentials": [{"type": "registry", "url": "registry.gitlab.example.com", "username": "gitlab-ci-token", "password": "glcbt-registry"}],
 "dependencies": [{"id": 11, "name": "compile", "token": "glcbt-other", "artifacts_file": {"filename": "artifacts.zip", "size": 10}}, {"id": 10, "name": "lint", "token": "glcbt-lint"}],
 "features": {"trace_sections": true, "token_mask_prefixes": ["tok-"]}}`

func TestThePlaceOfAJob(t *testing.T) {
	got, err := mustRead(t, full, runner).Place(true)
	if err != nil {
		t.Fatal(err)
	}
	want := &executor.Job{
		ID: "job-12-3", ProjectName: "web", ImageEnv: true, Private: []string{"VERSION", "SETTING"},
		Image: &containers.Image{Name: "node:20", Entrypoint: []string{"/init"}, PullPolicies: []string{"always"}, Platform: "linux/arm64", User: "1000"},
		Services: []containers.Service{{
			Image:   containers.Image{Name: "postgres:20", PullPolicies: []string{"if-not-present"}},
			Aliases: []string{"db", "database"}, Command: []string{"-c", "x"}, Variables: map[string]string{"A": "v20", "B": "$VERSION"},
		}},
		Registries: []containers.Registry{
			{Host: "registry.example.com", Username: "u", Password: "pw-of-registry"},
			{Host: "registry.gitlab.example.com", Username: "gitlab-ci-token", Password: "glcbt-registry", Last: true},
		},
	}
	for _, secret := range []string{"hunter2hunter2", "glcbt-job", "glcbt-git", "glcbt-registry", "glcbt-other", "pw-of-registry"} {
		if !strings.Contains(strings.Join(got.Masked, " "), secret) {
			t.Errorf("%s is not masked in what services print", secret)
		}
	}
	if got.Variables["OVERRIDDEN"] != "by the job" || got.Variables["FROM_CONFIG"] != "yes" || got.Variables["SECRET"] != "" || got.Variables["DOCKER_AUTH_CONFIG"] != "" {
		t.Errorf("services get %v", got.Variables)
	}
	got.Masked, got.Variables = nil, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheStepsOfAJob(t *testing.T) {
	j := mustRead(t, full, runner)
	got, err := j.Compile(payload.Where{Folders: payload.Folders{Project: "/builds/group/web", Builds: "/builds/group", Temp: "/builds/group/web.tmp"}, Caches: "/caches"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range got.Plan.Definition.Steps {
		names = append(names, s.Name)
	}
	want := []string{"get_sources", "restore_cache", "download_artifacts", "script", "after_script", "save_cache", "upload_artifacts"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	step := func(name string) *plan.Step {
		for i := range got.Plan.Definition.Steps {
			if s := &got.Plan.Definition.Steps[i]; s.Name == name {
				return s
			}
		}
		t.Fatalf("no step %s", name)
		return nil
	}
	for _, c := range []struct{ step, input, want string }{
		{"get_sources", "url", "https://gitlab.example.com/group/web.git"},
		{"upload_artifacts", "url", "https://gitlab.example.com/api/v4/jobs/12/artifacts"},
		{"restore_cache", "key", "deps-20"},
	} {
		if text := step(c.step).Inputs[c.input].Value.Str(); text != c.want {
			t.Errorf("%s of %s is %q, want %q", c.input, c.step, text, c.want)
		}
	}
	env := step("script").Env
	for name, want := range map[string]string{
		"CI_PROJECT_DIR": "${{ work_dir }}", "CI_CONCURRENT_ID": "3", "CI_CONCURRENT_PROJECT_ID": "1", "CI_JOB_TIMEOUT": "3600", "CI_SERVER": "yes",
		"CI_RUNNER_VERSION": "1.2", "CI_DISPOSABLE_ENVIRONMENT": "true", "FROM_CONFIG": "yes", "OVERRIDDEN": "by the job", "SECRET": "${{ vars.SECRET }}",
		"CI_JOB_IMAGE": "node:20",
	} {
		if text := env[name].Value.Str(); text != want {
			t.Errorf("%s is %q, want %q", name, text, want)
		}
	}
	text, err := json.Marshal(got.Plan)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"glcbt-", "hunter2"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the plan holds %s", secret)
		}
	}
	if j.Timeout() != time.Hour {
		t.Errorf("the timeout is %s", j.Timeout())
	}
}

func TestHowSourcesAndArtifactsMove(t *testing.T) {
	r := runner
	r.Sources = payload.Sources{Timeout: time.Minute, Trusted: true, KeepConfig: true}
	r.Uploads = payload.Uploads{Timeout: time.Hour, ResponseTimeout: 10 * time.Minute}
	got, err := mustRead(t, full, r).Compile(payload.Where{Folders: payload.Folders{Project: "/p", Temp: "/p.tmp"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range got.Plan.Definition.Steps {
		switch in := s.Inputs; s.Name {
		case "get_sources":
			if s.Timeout != plan.Duration(time.Minute) || in["clean_config"].Value.Bool() || !in["safe_directory"].Value.Bool() {
				t.Errorf("%s: %v %v", s.Name, s.Timeout, in)
			}
		case "upload_artifacts":
			if in["timeout"].Value.Text() != "3600" || in["response_timeout"].Value.Text() != "600" {
				t.Errorf("%s: %v", s.Name, in)
			}
		}
	}
}

func TestTheCertificatesOfAJob(t *testing.T) {
	r := runner
	r.TLS = payload.TLS{CA: "the CA", Certificate: "the certificate", Key: "the key $HOME"}
	every := []string{"get_sources", "download_artifacts", "upload_artifacts"}
	for _, c := range []struct {
		scheme, api, clone string
		want               []string
	}{
		{"https://", "gitlab.example.com/api/v4", "", every},
		{"http://", "gitlab.example.com/api/v4", "", nil},
		{"https://", "GitLab.example.com:443/api/v4", "", every},
		{"https://", "gitlab.example.com/api/v4", "https://gitlab.example.com:443/", every},
		{"https://", "gitlab.example.com/api/v4", "https://git.example.org", every[1:]},
		{"https://", "gitlab.example.com/api/v4", "https://gitlab.example.com:8443", every[1:]},
		{"https://", "gitlab.example.com/api/v4", "http://gitlab.example.com", every[1:]},
		{"https://", "gitlab.internal/api/v4", "", every[1:]}, // of repo_url
		{"https://", "gitlab.internal/api/v4", "https://gitlab.internal/git", every},
	} {
		r.API, r.CloneURL = c.scheme+c.api, c.clone
		got, err := mustRead(t, strings.ReplaceAll(full, "https://", c.scheme), r).Compile(payload.Where{Folders: payload.Folders{Project: "/p", Temp: "/p.tmp"}})
		if err != nil {
			t.Fatal(err)
		}
		with := map[string]string{}
		for _, s := range got.Plan.Definition.Steps {
			for _, input := range []string{"ca_file", "cert_file", "key_file"} {
				if f, ok := s.Inputs[input]; ok {
					with[s.Name+" "+input] = strings.TrimPrefix(f.Value.Str(), "${{ work_dir }}.tmp/CI_SERVER_TLS_")
				}
			}
		}
		want := map[string]string{}
		for _, name := range c.want {
			want[name+" ca_file"], want[name+" cert_file"], want[name+" key_file"] = "CA_FILE", "CERT_FILE", "KEY_FILE"
		}
		if diff := cmp.Diff(want, with); diff != "" {
			t.Errorf("%+v:\n%s", c, diff)
		}
		if key := got.Files["/p.tmp/CI_SERVER_TLS_KEY_FILE"]; key.Value != "the key $HOME" || !key.Masked || got.Files["/p.tmp/CI_SERVER_TLS_CA_FILE"].Value != "the CA" {
			t.Errorf("the files are %+v", got.Files)
		}
	}
}

func TestTheFolderThatAJobChooses(t *testing.T) {
	in := payload.Folders{Project: "/builds/web", Builds: "/builds", Temp: "/builds/web.tmp"}
	for _, c := range []struct{ asks, want, wrong string }{
		{"", "/builds/web", ""},
		{"$CI_PROJECT_DIR", "/builds/web", ""},
		{"$CI_BUILDS_DIR/go/src/$CI_PROJECT_PATH", "/builds/go/src/group/web", ""},
		{"$CI_BUILDS_DIR/$CI_CONCURRENT_ID/$CI_CONCURRENT_PROJECT_ID", "/builds/3/1", ""},
		{"/builds/a/../b", "/builds/b", ""},
		{"/elsewhere", "", "not in /builds"},
		{"$CI_BUILDS_DIR/../etc", "", "not in /builds"},
		{"/builds2/a", "", "not in /builds"},
		{"$CI_BUILDS_DIR", "", "not in /builds"},
		{"relative", "", "not in /builds"},
		{"/builds/web.tmp/x", "", "files of the job"},
	} {
		r := runner
		r.ClonePath = true
		text := strings.Replace(full, `{"key": "VERSION"`, `{"key": "GIT_CLONE_PATH", "value": "`+c.asks+`"}, {"key": "VERSION"`, 1)
		got, err := mustRead(t, text, r).Clone(in)
		if got != c.want || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %q, %v", c.asks, got, err)
		}
		if r.ClonePath = false; c.want != in.Project {
			if _, err := mustRead(t, text, r).Clone(in); err == nil || !strings.Contains(err.Error(), "cannot choose their folder") {
				t.Errorf("%s, where it is not allowed: %v", c.asks, err)
			}
		}
	}
}

func TestWhatTheConfigurationSays(t *testing.T) {
	r := runner
	r.CloneURL, r.NoDebugTrace, r.PreBuild, r.PostBuild, r.PreGetSources = "http://mirror.example.com/git", true, "echo pre", "echo post", "echo sources"
	r.FeatureFlags = map[string]bool{"FF_TIMESTAMPS": false}
	text := strings.Replace(full, `{"key": "VERSION"`, `{"key": "CI_DEBUG_TRACE", "value": "true"}, {"key": "FF_TIMESTAMPS", "value": "true"}, {"key": "VERSION"`, 1)
	j := mustRead(t, text, r)
	if j.Debug() || j.Flag("FF_TIMESTAMPS", true) {
		t.Error("the job overrides the configuration")
	}
	got, err := j.Compile(payload.Where{Folders: payload.Folders{Project: "/p", Temp: "/p.tmp"}})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := json.Marshal(got.Plan)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"http://mirror.example.com/git/group/web.git", `["echo pre","make","echo post"]`, "echo sources"} {
		if !strings.Contains(string(plan), want) {
			t.Errorf("the plan has no %s:\n%s", want, plan)
		}
	}
}

func TestTheUserOfAnImageIsThatOfTheExecutor(t *testing.T) {
	const docker, pods = `"docker": {"user": "worker"}`, `"kubernetes": {"user": "$ID:1001"}`
	for _, c := range []struct {
		options string
		pods    bool
		want    string
	}{
		{pods, true, "1000:1001"}, {docker + ", " + pods, true, "1000:1001"}, {docker, true, "worker"},
		{pods, false, ""}, {docker + ", " + pods, false, "worker"},
	} {
		r := runner
		r.Pods = c.pods
		image := `{"name": "x", "executor_opts": {` + c.options + `}}`
		place, err := mustRead(t, `{"image": `+image+`, "services": [`+image+`], "variables": [{"key": "ID", "value": "1000", "public": true}]}`, r).Place(true)
		if err != nil || place.Image.User != c.want || place.Services[0].User != c.want {
			t.Errorf("%s, in pods: %v: %+v, %v, want %q", c.options, c.pods, place, err, c.want)
		}
	}
}

// GitLab sends the `token:` of a secret as the job has it, too, and may send more some day.
func TestASecretOfAVaultMayHaveMoreBesideIt(t *testing.T) {
	j := mustRead(t, strings.Replace(full, `"id": 12,`, `"id": 12, "secrets": {"DB": {"vault": {"server": {"url": "https://vault.example.com", "auth": {"name": "jwt", "path": "jwt",
		"data": {"jwt": "$SECRET", "role": "r"}}}, "engine": {"name": "kv-v2", "path": "kv"}, "path": "db", "field": "password"}, "token": "$SECRET", "something_new": {"a": 1}, "file": false}},`, 1), runner)
	got, err := j.Compile(payload.Where{Folders: payload.Folders{Project: "/p", Temp: "/p.tmp"}})
	if err != nil {
		t.Fatal(err)
	}
	if first := got.Plan.Definition.Steps[0]; first.Name != "secret_DB" || first.Inputs["jwt"].Value.Str() != "${{ vars.SECRET }}" {
		t.Errorf("%+v", first)
	}
}

func TestWhatIsRefused(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"run and a script", `{"run": "[]", "steps": [{"name": "script", "script": ["x"]}]}`, "a script or `run`, not both"},
		{"run and STEPS", `{"run": "[]", "variables": [{"key": "STEPS", "value": "x"}]}`, "STEPS"},
		{"run that is no list", `{"run": "{\"a\": 1}"}`, "list"},
		{"a secret elsewhere", `{"secrets": {"DB": {"azure_key_vault": {"name": "x"}}}}`, "azure_key_vault"},
		{"a secret elsewhere with a token", `{"secrets": {"DB": {"token": "$ID", "file": false, "new_vault": {"name": "x"}, "akeyless": {}, "vault": null}}}`, "DB is in akeyless, new_vault, which"},
		{"a secret nowhere", `{"secrets": {"DB": {}}}`, "no place"},
		{"an input without a value", `{"inputs": [{"key": "a", "value": {"type": "string"}}]}`, "input a"},
		{"an input of another type", `{"inputs": [{"key": "a", "value": {"type": "number", "content": "notnum"}}]}`, "the job's input a is a string, and must be a number"},
		{"an input that is null", `{"inputs": [{"key": "a", "value": {"type": "string", "content": null}}]}`, "the job's input a is null, and must be a string"},
		{"an option that nobody knows", `{"image": {"name": "x", "executor_opts": {"docker": {"gpus": "all"}}}}`, "docker.gpus"},
		{"a pull policy that nobody knows", `{"image": {"name": "x", "pull_policy": ["sometimes"]}}`, "sometimes"},
		{"no image", `{}`, "the job has no image"},
		{"a step that nobody knows", `{"image": {"name": "x"}, "steps": [{"name": "deploy", "script": ["x"]}]}`, "deploy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j, err := read(t, c.text, runner)
			if err == nil {
				_, err = j.Place(true)
			}
			if err == nil {
				_, err = j.Compile(payload.Where{Folders: payload.Folders{Project: "/p", Temp: "/p.tmp"}})
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want an error with %q", err, c.want)
			}
			var own *event.Error
			if errors.As(err, &own) && own.Kind != event.ErrorDefinition {
				t.Errorf("the error is of the kind %s", own.Kind)
			}
		})
	}
}

func TestEveryListMayBeNull(t *testing.T) {
	j := mustRead(t, `{"id": 1, "token": "t", "inputs": null, "variables": null, "steps": null, "hooks": null, "image": null, "services": null, "artifacts": null,
		"cache": null, "credentials": null, "dependencies": null, "secrets": null, "git_info": null, "features": null, "run": ""}`, runner)
	if _, err := j.Compile(payload.Where{Folders: payload.Folders{Project: "/p", Temp: "/p.tmp"}}); err != nil {
		t.Error(err)
	}
	if _, err := j.Place(false); err != nil {
		t.Error(err)
	}
	if j.Timeout() != payload.DefaultTimeout {
		t.Errorf("the timeout is %s", j.Timeout())
	}
}

func TestInputsOfAJob(t *testing.T) {
	j := mustRead(t, `{"inputs": [{"key": "who", "value": {"type": "string", "content": "world"}}, {"key": "key", "value": {"type": "string", "content": "k3y-of-input", "sensitive": true}}],
		"steps": [{"name": "script", "script": ["echo ${{ job.inputs.who }} ${{ job.inputs.key }}"]}]}`, runner)
	got, err := j.Compile(payload.Where{Folders: payload.Folders{Project: "/p", Temp: "/p.tmp"}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(got.Plan)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "echo world") || strings.Contains(string(text), "k3y-of-input") {
		t.Errorf("%s", text)
	}
}

// compiled compiles a job with variables and one cache.
func compiled(t *testing.T, variables, policy string) (*compile.Compiled, error) {
	t.Helper()
	j := mustRead(t, `{"git_info": {"repo_url": "https://gitlab.example.com/a/b.git", "ref": "main", "sha": "f00"}, "variables": [`+variables+`],
		"cache": [{"key": "k", "paths": ["p"], "policy": "`+policy+`"}], "steps": [{"name": "script", "script": ["true"]}]}`, runner)
	return j.Compile(payload.Where{Folders: payload.Folders{Project: "/p", Temp: "/p.tmp"}, Caches: "/caches"})
}

// TestAttempts is case 78: attempts are 1 to 10, and the log says what became of others.
func TestAttempts(t *testing.T) {
	for _, name := range []string{"GET_SOURCES_ATTEMPTS", "RESTORE_CACHE_ATTEMPTS"} {
		for value, want := range map[string]string{"0": "using 1", "11": "using 10", "-1": "using 1", "many": "using 1", "3": "", "10": ""} {
			got, err := compiled(t, `{"key": "`+name+`", "value": "`+value+`"}`, "pull-push")
			if err != nil {
				t.Fatal(err)
			}
			if notes := strings.Join(got.Notes, "\n"); want == "" && notes != "" || !strings.Contains(notes, want) {
				t.Errorf("%s=%s: the notes are %q, want %q", name, value, notes, want)
			}
		}
	}
}

// TestCachePolicies is case 79.
func TestCachePolicies(t *testing.T) {
	for policy, want := range map[string][2]bool{"pull-push": {true, true}, "": {true, true}, "pull": {true, false}, "push": {false, true}} {
		got, err := compiled(t, "", policy)
		if err != nil {
			t.Fatal(err)
		}
		if restores, saves := len(got.Results.Restored) > 0, len(got.Results.Saved) > 0; restores != want[0] || saves != want[1] {
			t.Errorf("%q: restored %t, saved %t", policy, restores, saves)
		}
	}
	if _, err := compiled(t, "", "sometimes"); err == nil || !strings.Contains(err.Error(), `"sometimes"`) {
		t.Errorf("an unknown policy: %v", err)
	}
}

func FuzzNew(f *testing.F) {
	f.Add(full)
	f.Add(`{"run": "[{\"script\": \"x\"}]"}`)
	f.Fuzz(func(t *testing.T, text string) {
		var from gitlab.Job
		if json.Unmarshal([]byte(text), &from) != nil {
			return
		}
		j, err := payload.New(&from, runner)
		if err != nil {
			return
		}
		_, _ = j.Place(true)
		_, _ = j.Compile(payload.Where{Folders: payload.Folders{Project: "/p", Temp: "/p.tmp"}})
	})
}

func TestThePlaceOfADriver(t *testing.T) {
	text := strings.Replace(full, `{"key": "VERSION"`, `{"key": "KUBECONFIG", "value": "content", "file": true}, {"key": "WHERE", "value": "$KUBECONFIG of $SECRET"}, {"key": "CACHED", "value": "$CI_PROJECT_DIR/cache"}, {"key": "VERSION"`, 1)
	got, err := mustRead(t, text, runner).DriverPlace()
	if err != nil {
		t.Fatal(err)
	}
	if got.Image != nil || got.Services != nil || got.Variables["SECRET"] != "" {
		t.Errorf("the level is asked for what its driver decides: %+v", got)
	}
	told := got.Driver.Variables("/builds") // of config_exec
	for name, want := range map[string]string{
		"SECRET": "hunter2hunter2", "CACHED": "/builds/job-12-3/web/cache", "RUNNER_TEMP_PROJECT_DIR": "/builds/job-12-3/web.tmp", "KUBECONFIG": "/builds/job-12-3/web.tmp/KUBECONFIG", "WHERE": "/builds/job-12-3/web.tmp/KUBECONFIG of hunter2hunter2",
		"FROM_CONFIG": "yes", "OVERRIDDEN": "by the job", "CI_JOB_IMAGE": "node:20",
		"CI_JOB_SERVICES": `[{"name":"postgres:$VERSION","alias":"db","entrypoint":null,"command":["-c","x"],"variables":[{"key":"A","value":"v$VERSION","public":false,"masked":false},{"key":"B","value":"$VERSION","public":false,"masked":false,"raw":true}]}]`,
	} {
		if value := told[name]; value != want {
			t.Errorf("%s is %s, want %s", name, value, want)
		}
	}
	var response struct{ Token string }
	if err := json.Unmarshal(got.Driver.Response, &response); err != nil || response.Token != "glcbt-job" {
		t.Errorf("the response is %s (%v)", got.Driver.Response, err)
	}
}
