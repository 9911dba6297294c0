package fakegitlab_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/dev/fakegitlab"
	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/local/repository"
	api "github.com/rungci/rung/manager/gitlab"
)

// fixture is a GitLab with a project, and a runner that does what a test says.
type fixture struct {
	*fakegitlab.Server
	t      *testing.T
	url    string
	client *api.Client
}

// runnerID is the system ID of the tests' runner.
const runnerID = "r_0123456789ab"

// start serves a folder with files.
func start(t *testing.T, files map[string]string) *fixture {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git, as jobs do")
	}
	folder := t.TempDir()
	for name, text := range files {
		full := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env := append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull)
	found, err := repository.Open(t.Context(), folder, env)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	f := &fixture{t: t, url: "http://" + server.Listener.Addr().String()}
	f.Server, err = fakegitlab.New(t.Context(), fakegitlab.Options{
		Repository: found, Folder: t.TempDir(), Env: env, URL: f.url, WaitDelayed: true,
		Open: func(ctx context.Context, id int) (*gitlab.Project, error) {
			return gitlab.Open(ctx, gitlab.Options{Dir: folder, Env: env, Event: repository.Event{PipelineID: id}})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	server.Config.Handler = f.Server
	server.Start()
	t.Cleanup(server.Close)
	go f.Run(t.Context())
	f.client, err = api.New(api.Options{URL: f.url, Info: api.Info{Features: api.Features{Refspecs: true, TwoPhaseJobCommit: true, CancelGracefully: true}}})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// pipeline starts one.
func (f *fixture) pipeline(choice fakegitlab.Selection) int {
	f.t.Helper()
	id, err := f.Start(f.t.Context(), choice)
	if err != nil {
		f.t.Fatal(err)
	}
	return id
}

// next takes the next job, and says that it runs.
func (f *fixture) next() *api.Job {
	f.t.Helper()
	got, err := f.client.RequestJob(f.t.Context(), api.Ask{Runner: api.Runner{Token: f.RunnerToken(), SystemID: runnerID}})
	if err != nil || got.Job == nil {
		f.t.Fatalf("there is no job: %v", err)
	}
	f.update(got.Job, api.Update{State: api.Running})
	return got.Job
}

func (f *fixture) update(j *api.Job, u api.Update) {
	f.t.Helper()
	if _, err := f.client.UpdateJob(f.t.Context(), api.Ref{ID: j.ID, Token: j.Token}, u); err != nil {
		f.t.Fatal(err)
	}
}

// until waits until a pipeline's jobs have these states: "build success, test created".
func (f *fixture) until(id int, want string) {
	f.t.Helper()
	deadline := time.After(time.Minute)
	for {
		changed := f.Changed()
		got := f.states(id)
		if got == want {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			f.t.Fatalf("the jobs are %q, want %q", got, want)
		}
	}
}

func (f *fixture) states(id int) string {
	v, _ := f.Pipeline(id)
	var out []string
	for _, stage := range v.Stages {
		for _, j := range stage.Jobs {
			out = append(out, j.Name+" "+string(j.State))
		}
	}
	return strings.Join(out, ", ")
}

// ended ends the next job, which has to be that of a name.
func (f *fixture) ended(name string, u api.Update) {
	f.t.Helper()
	j := f.next()
	if j.Info.Name != name {
		f.t.Fatalf("the next job is %s, want %s", j.Info.Name, name)
	}
	f.update(j, u)
}

var (
	success = api.Update{State: api.Success}
	failure = api.Update{State: api.Failed, FailureReason: api.ReasonScript, ExitCode: 3}
)

// full uses what a payload can hold.
const full = `
default:
  before_script: [echo before]
  hooks: {pre_get_sources_script: [echo hook]}
stages: [build, test]
variables:
  TEXT: "of the file"
  RAW: {value: "$TEXT", expand: false}
first:
  stage: build
  script: [echo first]
  artifacts: {paths: [out]}
job:
  stage: test
  needs: [first]
  image: {name: "node:$VERSION", entrypoint: [/init], pull_policy: [always, if-not-present], docker: {platform: linux/arm64, user: "1000"}}
  services: [{name: "postgres:16", alias: "db,database", command: [-c, x], variables: {A: b}}]
  variables: {GIT_DEPTH: "5"}
  script: [make, [one, two]]
  after_script: [echo after]
  timeout: 90 minutes
  cache:
    - {key: deps, paths: [a/], policy: pull, when: always, fallback_keys: [other]}
    - {key: {files: [lock]}, paths: [b/], untracked: true, unprotect: true}
  artifacts:
    name: it
    paths: [dist/]
    exclude: [dist/x]
    expire_in: 1 week
    when: on_failure
    reports: {junit: [a.xml, b.xml], dotenv: build.env, coverage_report: {coverage_format: cobertura, path: c.xml}}
native:
  stage: test
  run: [{name: hello, step: ./hello, inputs: {n: 1}}]
release:
  stage: test
  script: [echo]
  release: {tag_name: "v$VERSION", description: 'the "first"'}
asks:
  stage: test
  inputs: {who: {default: world}, count: {type: number, default: 2}}
  script: ["echo ${{ job.inputs.who }}"]
`

func TestPayloads(t *testing.T) {
	f := start(t, map[string]string{
		".gitlab-ci.yml": full, "lock": "1",
		".rung/variables.yml": "VERSION: 20\nPASSWORD: {value: p4ssw0rd-p4ssw0rd, masked: true}\nKEY: {value: k, file: true}\n",
	})
	id := f.pipeline(fakegitlab.Selection{})
	first := f.next()
	f.update(first, success)
	f.until(id, "first success, job pending, native pending, release pending, asks pending")
	job, native, release, asks := f.next(), f.next(), f.next(), f.next()
	v, _ := f.Pipeline(id)

	// One entry for each script; before_script is a part of script, and nested lists are flat.
	if diff := cmp.Diff([]api.Step{
		{Name: "script", Script: []string{"echo before", "make", "one", "two"}, Timeout: 5400, When: "on_success"},
		{Name: "after_script", Script: []string{"echo after"}, Timeout: 5400, When: "always", AllowFailure: true},
	}, job.Steps); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]api.Hook{{Name: "pre_get_sources_script", Script: []string{"echo hook"}}}, job.Hooks); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&api.Image{
		Name: "node:$VERSION", Entrypoint: []string{"/init"}, PullPolicies: []string{"always", "if-not-present"},
		Options: api.ImageOptions{Docker: api.DockerOptions{Platform: "linux/arm64", User: "1000"}},
	}, job.Image); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]api.Image{{Name: "postgres:16", Alias: "db database", Command: []string{"-c", "x"}, Variables: []api.Variable{{Key: "A", Value: "b", Public: true}}}}, job.Services); diff != "" {
		t.Error(diff)
	}
	// One entry for each report, with the names and forms that GitLab gives them; reports are kept always.
	if diff := cmp.Diff([]api.Artifact{
		{Name: "it", Paths: []string{"dist/"}, Exclude: []string{"dist/x"}, When: "on_failure", ExpireIn: "1 week", Type: "archive", Format: "zip"},
		{Name: "junit.xml", Paths: []string{"a.xml", "b.xml"}, When: "always", ExpireIn: "1 week", Type: "junit", Format: "gzip"},
		{Name: ".env", Paths: []string{"build.env"}, When: "always", ExpireIn: "1 week", Type: "dotenv", Format: "gzip"},
		{Name: "cobertura-coverage.xml", Paths: []string{"c.xml"}, When: "always", ExpireIn: "1 week", Type: "cobertura", Format: "gzip"},
	}, job.Artifacts); diff != "" {
		t.Error(diff)
	}
	for i := range job.Cache {
		if i == 1 {
			if !strings.HasPrefix(job.Cache[i].Key, "1-") && !strings.HasSuffix(job.Cache[i].Key, "-non_protected") {
				t.Errorf("the key of files is %q", job.Cache[i].Key)
			}
			job.Cache[i].Key = ""
		}
	}
	if diff := cmp.Diff([]api.Cache{
		{Key: "deps-protected", Paths: []string{"a/"}, Policy: "pull", When: "always", FallbackKeys: []string{"other-protected"}},
		{Paths: []string{"b/"}, Untracked: true, Policy: "pull-push", When: "on_success"},
	}, job.Cache); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]api.Dependency{{ID: first.ID, Name: "first", Token: first.Token}}, job.Dependencies); diff != "" {
		t.Error(diff)
	}
	if job.Runner.Timeout != 5400 || first.Runner.Timeout != 3600 {
		t.Errorf("timeouts are %d and %d", job.Runner.Timeout, first.Runner.Timeout)
	}

	// The repository has the job's own token in its address; a depth limits what is fetched.
	if want := strings.Replace(f.url, "://", "://gitlab-ci-token:"+job.Token+"@", 1); !strings.HasPrefix(job.Git.RepoURL, want+"/") || !strings.HasSuffix(job.Git.RepoURL, ".git") {
		t.Errorf("the repository is %s", job.Git.RepoURL)
	}
	if diff := cmp.Diff([]string{"+refs/pipelines/1:refs/pipelines/1", "+refs/heads/" + v.Ref + ":refs/remotes/origin/" + v.Ref}, job.Git.Refspecs); diff != "" {
		t.Error(diff)
	}
	if job.Git.Depth != 5 || first.Git.Depth != 20 || job.Git.SHA != v.Commit || job.Git.RefType != "branch" || job.Git.Protected == nil || !*job.Git.Protected {
		t.Errorf("%+v", job.Git)
	}

	if want := `[{"name":"hello","step":"./hello","inputs":{"n":1}}]`; native.Run != want || native.Steps != nil {
		t.Errorf("run is %q with %v", native.Run, native.Steps)
	}
	if want := `release-cli create --description "the \"first\"" --tag-name "v$VERSION"`; len(release.Steps) != 2 || release.Steps[1].Name != "release" || release.Steps[1].Script[0] != want {
		t.Errorf("%+v", release.Steps)
	}
	if diff := cmp.Diff([]api.Input{
		{Key: "who", Value: api.InputValue{Type: "string", Content: json.RawMessage(`"world"`)}},
		{Key: "count", Value: api.InputValue{Type: "number", Content: json.RawMessage(`2`)}},
	}, asks.Inputs); diff != "" || asks.Steps[0].Script[1] != "echo ${{ job.inputs.who }}" {
		t.Error(diff, asks.Steps)
	}
	variables(t, job, v.Commit)
	server(t, job)
}

// variables checks what a job's variables are marked as.
func variables(t *testing.T, job *api.Job, commit string) {
	t.Helper()
	got := map[string]api.Variable{}
	for _, v := range job.Variables {
		if _, twice := got[v.Key]; twice {
			t.Errorf("%s is there twice", v.Key)
		}
		got[v.Key] = v
	}
	for _, want := range []api.Variable{
		{Key: "TEXT", Value: "of the file", Public: true},
		{Key: "RAW", Value: "$TEXT", Public: true, Raw: true},
		{Key: "VERSION", Value: "20"},
		{Key: "PASSWORD", Value: "p4ssw0rd-p4ssw0rd", Masked: true},
		{Key: "KEY", Value: "k", File: true},
		{Key: "CI_JOB_NAME", Value: "job", Public: true},
		{Key: "CI_COMMIT_SHA", Value: commit, Public: true},
		{Key: "CI_JOB_TOKEN", Value: job.Token, Masked: true},
		{Key: "CI_REPOSITORY_URL", Value: job.Git.RepoURL, Masked: true},
		{Key: "CI_PIPELINE_ID", Value: "1", Public: true},
	} {
		if diff := cmp.Diff(want, got[want.Key]); diff != "" {
			t.Errorf("%s: %s", want.Key, diff)
		}
	}
}

// server checks that a job is told of the server that it is from, and not of the one that the project is on.
func server(t *testing.T, job *api.Job) {
	t.Helper()
	clone, err := url.Parse(job.Git.RepoURL)
	if err != nil {
		t.Fatal(err)
	}
	base := "http://" + clone.Host
	want := map[string]string{
		"CI_SERVER_URL": base, "CI_SERVER_FQDN": clone.Host, "CI_SERVER_HOST": clone.Hostname(), "CI_SERVER_PORT": clone.Port(), "CI_SERVER_PROTOCOL": "http",
		"CI_API_V4_URL": base + "/api/v4", "CI_API_GRAPHQL_URL": base + "/api/graphql", "CI_PROJECT_URL": base + strings.TrimSuffix(clone.Path, ".git"),
	}
	for _, v := range job.Variables {
		if text, is := want[v.Key]; is && v.Value != text {
			t.Errorf("%s is %s, want %s", v.Key, v.Value, text)
		}
		delete(want, v.Key)
	}
	if len(want) > 0 {
		t.Errorf("there is no %v", want)
	}
}

func TestWhatRunsWhen(t *testing.T) {
	f := start(t, map[string]string{".gitlab-ci.yml": `
stages: [build, test, deploy]
build: {stage: build, script: x, retry: {max: 1, when: runner_system_failure}}
lint: {stage: test, script: x, allow_failure: {exit_codes: 3}}
needs: {stage: deploy, script: x, needs: [build]}
manual: {stage: test, script: x, when: manual}
later: {stage: deploy, script: x, when: delayed, start_in: 1 day}
gate: {stage: deploy, script: x, needs: [manual]}
clean: {stage: deploy, script: x, when: on_failure}
`})
	id := f.pipeline(fakegitlab.Selection{})
	f.until(id, "build pending, lint created, manual created, needs created, later created, gate created, clean created")
	f.ended("build", api.Update{State: api.Failed, FailureReason: api.ReasonSystem})
	f.until(id, "build pending, lint created, manual created, needs created, later created, gate created, clean created")
	f.ended("build", success)
	f.until(id, "build success, lint pending, manual manual, needs pending, later created, gate skipped, clean created")
	f.ended("lint", failure)
	f.until(id, "build success, lint failed, manual manual, needs pending, later scheduled, gate skipped, clean skipped")
	if v, _ := f.Pipeline(id); !v.Stages[1].Jobs[0].Allowed || v.State != fakegitlab.Running {
		t.Errorf("%+v", v)
	}
	f.ended("needs", success)
	if err := f.Play(id, "later"); err != nil {
		t.Fatal(err)
	}
	f.ended("later", success)
	f.until(id, "build success, lint failed, manual manual, needs success, later success, gate skipped, clean skipped")
	if v, _ := f.Pipeline(id); v.State != fakegitlab.Success {
		t.Errorf("the pipeline is %s", v.State)
	}

	// Somebody starts the manual job: what waited for it goes on.
	if err := f.Play(id, "manual"); err != nil {
		t.Fatal(err)
	}
	f.ended("manual", success)
	f.until(id, "build success, lint failed, manual success, needs success, later success, gate pending, clean skipped")
	f.ended("gate", failure)
	f.until(id, "build success, lint failed, manual success, needs success, later success, gate failed, clean skipped")
	if err := f.Retry(id, "gate"); err != nil {
		t.Fatal(err)
	}
	f.ended("gate", success)
	f.until(id, "build success, lint failed, manual success, needs success, later success, gate success, clean skipped")
	if err := f.Play(id, "gate"); err == nil {
		t.Error("a job that is over was started")
	}
}

func TestCancel(t *testing.T) {
	f := start(t, map[string]string{".gitlab-ci.yml": `
one: {script: x, resource_group: it}
two: {script: x, resource_group: it}
last: {stage: deploy, script: x, when: always}
`})
	id := f.pipeline(fakegitlab.Selection{})
	f.until(id, "one pending, two waiting for resource, last created")
	one := f.next()
	f.until(id, "one running, two waiting for resource, last created")
	f.Cancel(id)
	f.until(id, "one canceling, two canceled, last canceled")
	f.update(one, api.Update{State: api.Failed, FailureReason: "job_canceled"})
	f.until(id, "one canceled, two canceled, last canceled")
	if v, _ := f.Pipeline(id); v.State != fakegitlab.Canceled {
		t.Errorf("the pipeline is %s", v.State)
	}
}

func TestTheSourcesNeedTheTokenOfAJobThatRuns(t *testing.T) {
	f := start(t, map[string]string{".gitlab-ci.yml": "job: {script: x}"})
	id := f.pipeline(fakegitlab.Selection{})
	j := f.next()
	status := func(address string) int {
		got, err := http.Get(address + "/info/refs?service=git-upload-pack")
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		_, _ = io.Copy(io.Discard, got.Body)
		return got.StatusCode
	}
	if got := status(j.Git.RepoURL); got != http.StatusOK {
		t.Errorf("with the token: %d", got)
	}
	if got := status(strings.Replace(j.Git.RepoURL, j.Token, "other", 1)); got != http.StatusUnauthorized {
		t.Errorf("with another token: %d", got)
	}
	f.update(j, success)
	f.until(id, "job success")
	if got := status(j.Git.RepoURL); got != http.StatusUnauthorized {
		t.Errorf("after the end of the job: %d", got)
	}
}

func TestAJobThatCannotBeSent(t *testing.T) {
	f := start(t, map[string]string{".gitlab-ci.yml": "job: {script: x, secrets: {DB: {azure_key_vault: {name: x}}}}"})
	id := f.pipeline(fakegitlab.Selection{})
	f.until(id, "job failed")
	v, _ := f.Pipeline(id)
	if j := v.Stages[0].Jobs[0]; j.Reason != "ci_configuration" || !strings.Contains(j.Note, "azure_key_vault") {
		t.Errorf("%+v", j)
	}
}
