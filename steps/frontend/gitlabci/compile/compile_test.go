package compile_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/frontend/gitlabci/compile"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
)

var update = flag.Bool("update", false, "write what the golden tests get into their files")

// vars makes variables of NAME=value.
func vars(pairs ...string) *variable.Collection {
	c := variable.New()
	for _, pair := range pairs {
		name, text, _ := strings.Cut(pair, "=")
		c.Set(name, text)
	}
	return c
}

// masked adds a masked variable.
func masked(c *variable.Collection, name, text string) *variable.Collection {
	c.Add(variable.Variable{Name: name, Value: text, Masked: true})
	return c
}

// signing is a store that signs all keys but one.
type signing struct{}

func (signing) Get(key compile.CacheKey) (compile.CacheAddress, error) {
	if key.Key == "refused" {
		return compile.CacheAddress{}, errors.New("there are no credentials")
	}
	return compile.CacheAddress{URL: "https://s3.example/bucket/" + key.Key + "?method=GET&signature=s3cr3t-" + key.Key}, nil
}

func (s signing) Put(key compile.CacheKey) (compile.CacheAddress, error) {
	address, err := s.Get(key)
	address.URL = strings.Replace(address.URL, "GET", "PUT", 1)
	address.Headers, address.MaxSize = map[string]string{"x-amz-meta-cachekey": key.Text}, 1000
	return address, err
}

// fromGitLab is where the files of a job come from that GitLab sent.
func fromGitLab() compile.Source {
	return compile.Source{
		URL: "https://gitlab-ci-token:glcbt-0123456789@gitlab.example.com/a/b.git", Ref: "main", SHA: strings.Repeat("a", 40), Depth: 20,
		Refspecs: []string{"+refs/heads/main:refs/remotes/origin/main"}, AllowFetch: true,
	}
}

// jobs are those whose plans stand in testdata, by what they show.
func jobs() map[string]*compile.Job {
	return map[string]*compile.Job{
		"hello": {Name: "hello", Script: []string{"echo hello"}, Source: compile.Source{WorkTree: "/home/me/project"}},
		"hello_in_place": {
			Name: "hello", Script: []string{"echo hello"}, Source: compile.Source{None: true}, Shell: "sh",
			Variables: vars("GIT_STRATEGY=none"),
		},
		"scripts": {
			Name: "test", Variables: func() *variable.Collection {
				c := vars("A=1", "B=$A-2", "C=it costs $$5", "CI_DEBUG_TRACE=true", "RUNNER_SCRIPT_TIMEOUT=30m")
				c.Add(variable.Variable{Name: "NOTE", Value: "${{ not ours }} $A", Raw: true})
				return c
			}(),
			Source: compile.Source{WorkTree: "/p"}, PreGetSources: []string{"echo before"}, PostGetSources: []string{"echo after"},
			Script:      []string{"export X=1", "cat <<'EOF'\n$A ${{ data }}\nEOF", "test -n \"$X\""},
			AfterScript: []string{"echo $CI_JOB_STATUS"}, AfterScriptTimeout: time.Minute,
		},
		"masked": {
			Name: "deploy", Source: fromGitLab(), Temp: "/builds/a/b.tmp",
			Variables: func() *variable.Collection {
				c := masked(vars("URL=https://me:$PASSWORD@example.com/", `BRACES=\$PASSWORD}}}`, "EMPTY="), "PASSWORD", "hunter2hunter2")
				c.Add(variable.Variable{Name: "KUBECONFIG", Value: "apiVersion: v1\n", File: true, Masked: true})
				c.Set("CONFIG", "$KUBECONFIG")
				return masked(c, "NOTHING", "")
			}(),
			Script: []string{"deploy"},
		},
		"git": {
			Name: "git", Source: fromGitLab(), Script: []string{"true"},
			Variables: vars("GIT_STRATEGY=clone", "GIT_DEPTH=3", "GIT_CHECKOUT=false", "GIT_CLEAN_FLAGS=none", "GIT_FETCH_EXTRA_FLAGS=--prune --tags",
				"GIT_CLONE_EXTRA_FLAGS=--filter=blob:none -c 'a b=c'", "GIT_SUBMODULE_STRATEGY=recursive", "GIT_SUBMODULE_PATHS=one two", "GIT_SUBMODULE_UPDATE_FLAGS=--jobs 4",
				"GIT_SUBMODULE_FORCE_HTTPS=true", "GIT_LFS_SKIP_SMUDGE=1", "GET_SOURCES_ATTEMPTS=3", "GIT_SSL_NO_VERIFY=true", "https_proxy=http://proxy:3128"),
		},
		"caches": {
			Name: "build", Source: compile.Source{WorkTree: "/p", Ref: "main"}, Script: []string{"make"},
			Variables: vars("CI_COMMIT_REF_SLUG=main", "CACHE_FALLBACK_KEY=default", "CACHE_COMPRESSION_FORMAT=tarzstd", "CACHE_COMPRESSION_LEVEL=fast", "RESTORE_CACHE_ATTEMPTS=2"),
			Cache: []compile.Cache{
				{Key: "$CI_COMMIT_REF_SLUG-non_protected", Paths: []string{".go/", "$CI_COMMIT_REF_SLUG/*"}, FallbackKeys: []string{"../other"}, Location: "/p/.rung/cache"},
				{Paths: []string{"node_modules/"}, Policy: "pull", Location: "/p/.rung/cache"},
				{Key: "logs", Untracked: true, Policy: "push", When: "always", Location: "s3://bucket/prefix?region=eu", Secrets: []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}},
				{Key: "nothing"},
			},
		},
		"caches_in_a_store": {
			Name: "build", Source: compile.Source{WorkTree: "/p", Ref: "main"}, Script: []string{"make"}, Variables: vars("https_proxy=http://proxy:3128"),
			Cache: []compile.Cache{
				{Key: "main-non_protected", Paths: []string{"deps/"}, FallbackKeys: []string{"refused", "../default-non_protected"}, Location: "/caches", Store: signing{}},
				{Key: "refused", Paths: []string{"deps/"}, Store: signing{}},
			},
		},
		"artifacts": {
			Name: "test", Source: compile.Source{WorkTree: "/p"}, Script: []string{"make test"},
			Variables: vars("CI_JOB_NAME=test", "ARTIFACT_COMPRESSION_LEVEL=slowest", "ARTIFACT_DOWNLOAD_ATTEMPTS=2", "RUNNER_GENERATE_ARTIFACTS_METADATA=true", "CI_PROJECT_URL=https://gitlab.example.com/a/b", "CI_RUNNER_ID=7", "CI_JOB_ID=42"),
			Dependencies: []compile.Dependency{
				{Name: "build: [linux]", File: "/p/.rung/artifacts/build/artifacts.zip"},
				{Name: "lint", URL: "https://gitlab.example.com/api/v4/jobs/3/artifacts", Token: "glcbt-dependency", Optional: true},
			},
			Artifacts: []compile.Artifact{
				{Name: "$CI_JOB_NAME-out", Paths: []string{"out/", "$NOTHING"}, Exclude: []string{"out/*.tmp"}, ExpireIn: "1 week", Access: "developer", Location: "/a"},
				{Paths: []string{"core.*"}, When: "on_failure", Location: "/a"},
				{Type: "junit", Paths: []string{"report.xml"}, When: "always", Location: "/a"},
				{Type: "sast", Paths: []string{"sast.json"}, When: "always", Location: "/a"},
				{Type: "dotenv", Paths: []string{"build.env"}, When: "always", URL: "https://gitlab.example.com/api/v4/jobs/42/artifacts", Token: "glcbt-own"},
			},
		},
		"coverage": {
			Name: "test", Source: compile.Source{WorkTree: "/p"}, Temp: "/p.tmp", Script: []string{"go test -cover"}, Coverage: `/coverage: \d+/`,
			AfterScript: []string{"echo bye"}, AfterScriptFails: true,
		},
		"release": {
			Name: "release", Source: compile.Source{WorkTree: "/p"}, Script: []string{"true"}, Variables: vars("CI_COMMIT_TAG=v1.0"),
			Release: &compile.Release{
				TagName: "$CI_COMMIT_TAG", Description: "Release $CI_COMMIT_TAG", Milestones: []string{"m1"}, Record: "/p/.rung/releases",
				Links: []compile.ReleaseLink{{Name: "binary", URL: "https://example.com/$CI_COMMIT_TAG", LinkType: "package"}},
			},
			Pages: &compile.Pages{Publish: "site", PathPrefix: "mr-$CI_COMMIT_TAG", Location: "/p/.rung/pages"},
		},
		"secrets": {
			Name: "deploy", Source: compile.Source{WorkTree: "/p"}, Temp: "/p.tmp", Script: []string{"deploy"}, Variables: masked(vars("DB=old"), "VAULT_ID_TOKEN", "eyJhbGciOi.abc.def"),
			Secrets: []compile.Secret{
				{Name: "DB", File: true, Server: "https://vault.example.com", JWT: "$VAULT_ID_TOKEN", Role: "ci", Engine: "kv-v2", EnginePath: "ops", Path: "db", Field: "password"},
			},
		},
		"native": {
			Name: "native", Source: compile.Source{WorkTree: "/p"}, Variables: masked(vars("A=1"), "TOKEN", "s3cr3ts3cr3t"), Coverage: "/x/",
			AfterScript: []string{"echo bye"},
		},
		"pwsh": {
			Name: "windows", Shell: "pwsh", Source: compile.Source{WorkTree: `C:\p`}, Temp: `C:\p.tmp`, Script: []string{"Get-Item x"},
			Variables: func() *variable.Collection {
				c := vars("FF_SCRIPT_SECTIONS=true", "FF_HASH_CACHE_KEYS=1")
				c.Add(variable.Variable{Name: "KEY", Value: "k", File: true})
				return c
			}(),
			Cache: []compile.Cache{{Key: "a/../b", Paths: []string{"x"}, Location: `C:\cache`}},
		},
	}
}

// nativeSteps are those of the job native.
const nativeSteps = `
- name: hello
  script: echo "${{ vars.TOKEN }} $A"
- func: ./steps/build
  inputs: {level: "${{ env.A }}"}
`

func compiled(t *testing.T, name string, j *compile.Job) string {
	t.Helper()
	if name == "native" {
		steps, err := gitlabsteps.ParseSteps("run", []byte(nativeSteps))
		if err != nil {
			t.Fatal(err)
		}
		j.Steps = steps.Definition.Steps
	}
	compiled, err := compile.Compile(j)
	if err != nil {
		t.Fatal(err)
	}
	out, err := gitlabsteps.Write(compiled.Plan)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	notes := ""
	for _, note := range compiled.Notes {
		notes += "# " + note + "\n"
	}
	return notes + string(out)
}

func TestPlansOfJobs(t *testing.T) {
	for name, j := range jobs() {
		t.Run(name, func(t *testing.T) {
			got := compiled(t, name, j)
			path := filepath.Join("testdata", name+".yml")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.ReplaceAll(string(want), "\r\n", "\n"), got); diff != "" {
				t.Errorf("-want +got (-update writes it):\n%s", diff)
			}
		})
	}
}

func TestNoSecretIsInAPlan(t *testing.T) {
	for name, j := range jobs() {
		got := compiled(t, name, j)
		for _, secret := range []string{"hunter2", "glcbt-", "apiVersion", "eyJh", "s3cr3t"} {
			if strings.Contains(got, secret) {
				t.Errorf("%s: the plan holds %q:\n%s", name, secret, got)
			}
		}
	}
}

func TestMaskedAreTheVariablesThatARunNeeds(t *testing.T) {
	j := jobs()["masked"]
	c, err := compile.Compile(j)
	if err != nil {
		t.Fatal(err)
	}
	want := []variable.Variable{
		{Name: "PASSWORD", Value: "hunter2hunter2", Raw: true, Masked: true},
		{Name: "NOTHING", Raw: true, Masked: true},
		{Name: "RUNG_SOURCE_TOKEN", Value: "glcbt-0123456789", Raw: true, Masked: true},
	}
	if diff := cmp.Diff(want, c.Variables); diff != "" {
		t.Error(diff)
	}
	if len(c.Files) != 1 || c.Files["/builds/a/b.tmp/KUBECONFIG"].Value != "apiVersion: v1\n" {
		t.Errorf("got %v", c.Files)
	}
	j.Script, j.Steps = nil, []plan.Step{{Name: "native"}} // which may read any variable
	if c, err = compile.Compile(j); err != nil {
		t.Fatal(err)
	}
	if len(c.Variables) <= len(want) {
		t.Errorf("got %v", c.Variables)
	}
	for _, v := range c.Variables {
		if v.Name == "CONFIG" && v.Value != "/builds/a/b.tmp/KUBECONFIG" || v.Name == "KUBECONFIG" && (v.Value != "/builds/a/b.tmp/KUBECONFIG" || v.Masked) {
			t.Errorf("got %+v", v)
		}
	}
}

func TestTheJobsTokenIsTheVariableThatHoldsIt(t *testing.T) {
	j := &compile.Job{Script: []string{"true"}, Source: compile.Source{URL: "https://x.example/a.git", Token: "glcbt-12345"}, Variables: masked(vars(), "CI_JOB_TOKEN", "glcbt-12345")}
	if got := compiled(t, "", j); !strings.Contains(got, "token: ${{ vars.CI_JOB_TOKEN }}") {
		t.Error(got)
	}
	if got, err := compile.Compile(j); err != nil || len(got.Variables) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestWhatCannotBeDoneIsAnError(t *testing.T) {
	native, err := gitlabsteps.ParseSteps("run", []byte(nativeSteps))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		job  compile.Job
		want string
	}{
		"script and run":       {compile.Job{Script: []string{"a"}, Steps: native.Definition.Steps}, "a script or `run`, not both"},
		"an unknown shell":     {compile.Job{Shell: "fish"}, `the shell "fish" is not known`},
		"a strategy":           {compile.Job{Variables: vars("GIT_STRATEGY=pull")}, `GIT_STRATEGY is "pull"`},
		"a submodule strategy": {compile.Job{Source: fromGitLab(), Variables: vars("GIT_SUBMODULE_STRATEGY=all")}, `GIT_SUBMODULE_STRATEGY is "all"`},
		"a cache policy":       {compile.Job{Cache: []compile.Cache{{Paths: []string{"a"}, Policy: "push-pull"}}}, `cache:policy is "push-pull"`},
		"when":                 {compile.Job{Artifacts: []compile.Artifact{{Paths: []string{"a"}, When: "never"}}}, "`when` is \"never\""},
		"a file without a folder": {compile.Job{Variables: func() *variable.Collection {
			return variable.New(variable.Variable{Name: "F", File: true})
		}()}, "the variable F is a file"},
		"coverage without a folder": {compile.Job{Coverage: "/a/"}, "no folder for the log"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := compile.Compile(&c.job); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestWhatIsDoneInAnotherWayIsSaid(t *testing.T) {
	for _, c := range []struct {
		job  compile.Job
		want string
	}{
		{compile.Job{Variables: vars("GET_SOURCES_ATTEMPTS=11"), Source: fromGitLab()}, "GET_SOURCES_ATTEMPTS is 11; using 10"},
		{compile.Job{Variables: vars("RESTORE_CACHE_ATTEMPTS=0")}, "RESTORE_CACHE_ATTEMPTS is 0; using 1"},
		{compile.Job{Variables: vars("GIT_DEPTH=all"), Source: fromGitLab()}, `GIT_DEPTH is "all", which is not a number; using 20`},
		{compile.Job{Variables: vars("GIT_CHECKOUT=maybe"), Source: fromGitLab()}, `GIT_CHECKOUT is "maybe", which is neither true nor false; using true`},
		{compile.Job{Variables: vars("RUNNER_SCRIPT_TIMEOUT=soon")}, `RUNNER_SCRIPT_TIMEOUT is "soon"`},
		{compile.Job{Variables: vars("CACHE_COMPRESSION_LEVEL=best"), Cache: []compile.Cache{{Key: "a", Paths: []string{"b"}}}}, `CACHE_COMPRESSION_LEVEL is "best"`},
		{compile.Job{Variables: vars("TRANSFER_METER_FREQUENCY=5s")}, "TRANSFER_METER_FREQUENCY changes nothing"},
		{compile.Job{Variables: vars("GIT_STRATEGY=empty"), Source: compile.Source{None: true}}, "GIT_STRATEGY is empty; ignored"},
		{compile.Job{Variables: vars("not.a.name=1")}, `"not.a.name" is not given`},
		{compile.Job{Cache: []compile.Cache{{Key: "..", Paths: []string{"a"}}}}, `the cache key ".." cannot be used`},
		{compile.Job{Variables: vars("CACHE_FALLBACK_KEY=main-protected"), Cache: []compile.Cache{{Key: "a", Paths: []string{"a"}}}}, "CACHE_FALLBACK_KEY"},
		{compile.Job{Secrets: []compile.Secret{{Name: "my-pw"}}}, `the secret "my-pw" is not given`},
		{compile.Job{Variables: vars("DSN=me:$PW@db", "PW=$PW", "OTHER=$PWD"), Secrets: []compile.Secret{{Name: "PW"}}}, "DSN refers to the secret PW"},
		{compile.Job{Pages: &compile.Pages{}}, "the pages are not published"},
	} {
		if got, err := compile.Compile(&c.job); err != nil || len(got.Notes) != 1 || !strings.Contains(got.Notes[0], c.want) {
			t.Errorf("got %+v, %v; want %q", got, err, c.want)
		}
	}
}

func TestAJobInPlaceNeverEmptiesItsFolder(t *testing.T) {
	for _, strategy := range []string{"", "clone", "empty", "none", "fetch"} {
		j := &compile.Job{Source: compile.Source{None: true, WorkTree: "/p", URL: "https://x.example/a"}, Variables: vars("GIT_STRATEGY=" + strategy)}
		compiled, err := compile.Compile(j)
		if err != nil {
			t.Fatal(err)
		}
		if got := compiled.Plan.Definition.Steps; len(got) != 1 || got[0].Name != "script" {
			t.Errorf("GIT_STRATEGY=%s gave %d steps, the first is %s", strategy, len(got), got[0].Name)
		}
	}
}

func TestReportFormat(t *testing.T) {
	for kind, want := range map[string]string{"": "zip", "archive": "zip", "lsif": "zip", "junit": "gzip", "dotenv": "gzip", "cobertura": "gzip", "sast": "raw", "codequality": "raw", "terraform": "raw", "new_one": "gzip"} {
		if got := compile.ReportFormat(kind); got != want {
			t.Errorf("%s: got %s, want %s", kind, got, want)
		}
	}
}

func TestAJobWithoutSourcesSkipsThem(t *testing.T) {
	compiled, err := compile.Compile(&compile.Job{Name: "test", Source: fromGitLab(), Variables: vars("GIT_STRATEGY=none"), Script: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	s := compiled.Plan.Definition.Steps[0]
	if s.Name != "get_sources" || s.Title != "get_sources (GIT_STRATEGY is none)" || s.If == nil || s.If.Value.Str() != "false" || len(s.Inputs) > 0 {
		t.Errorf("the first step is %+v", s)
	}
}
