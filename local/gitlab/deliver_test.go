package gitlab_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest/forged"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/local/gitlab"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/value"
)

// Places of an environment in which jobs leave files.
const (
	cacheAt     = forged.Temp + "/store/cache/"
	artifactsAt = forged.Temp + "/store/out/artifacts/"
	releasesAt  = forged.Temp + "/store/out/releases/"
	pagesAt     = forged.Temp + "/store/out/pages/"
)

// forgery is a project on a branch that is not protected, whose jobs run where environments lie.
type forgery struct {
	t     *testing.T
	dir   string
	level *forged.Level
}

func newForgery(t *testing.T, definition string, run func(env *forged.Environment) []event.Event) *forgery {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("needs git")
	}
	f := &forgery{t: t, dir: t.TempDir(), level: &forged.Level{Dir: t.TempDir(), Run: run}}
	f.write(".gitlab-ci.yml", definition)
	for _, args := range []string{
		"init -q -b main .", "add .gitlab-ci.yml",
		"-c user.name=A -c user.email=a@example.com commit -q --no-gpg-sign -m first", "switch -q -c feature",
	} {
		command := exec.Command(git, strings.Fields(args)...)
		command.Dir = f.dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", args, err, out)
		}
	}
	return f
}

func (f *forgery) write(name, text string) {
	f.t.Helper()
	path := filepath.Join(f.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// run runs all jobs of the project and returns how they ended.
func (f *forgery) run(ctx context.Context, variables ...variable.Variable) []local.Result {
	f.t.Helper()
	p, err := gitlab.Open(f.t.Context(), gitlab.Options{Dir: f.dir, Env: os.Environ(), Variables: variables})
	if err != nil {
		f.t.Fatal(err)
	}
	container := func() (executor.Executor, error) { return f.level, nil }
	return p.Run(ctx, gitlab.RunOptions{
		Options: local.Options{Isolation: local.IsolateContainer, Container: container, Observer: &local.Notes{}}, Jobs: p.Pipeline.Jobs,
	})
}

// kept are the files of the store below a folder, with their content. Names of runs are RUN.
func (f *forgery) kept(folder string) map[string]string {
	f.t.Helper()
	out := map[string]string{}
	root := filepath.Join(f.dir, ".rung", folder)
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, _ := filepath.Rel(root, path)
		text, err := os.ReadFile(path)
		out[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		f.t.Fatal(err)
	}
	return out
}

// lie writes files in an environment, and returns what is reported.
func (f *forgery) lie(env *forged.Environment, files map[string]string, claims ...forged.Claim) (told []event.Event) {
	for path, text := range files {
		if err := env.Write(path, text); err != nil {
			f.t.Error(err)
		}
	}
	for i, c := range claims {
		told = append(told, forged.Step(fmt.Sprint(i+1), c)...)
	}
	return told
}

var saved = map[string]value.Value{"saved": value.OfBool(true)}

func TestAForgedStepRunnerWritesNoCacheButThoseThatTheJobWasCompiledToSave(t *testing.T) {
	var f *forgery
	f = newForgery(t, "build:\n  image: forged\n  cache: {key: k, paths: [x]}\n  script: [make]\n", func(env *forged.Environment) []event.Event {
		key := func(name string) map[string]value.Value { return forged.Texts("key", name) }
		return f.lie(env, map[string]string{
			cacheAt + "k-non_protected/cache.zip": "mine", cacheAt + "k-non_protected/inner-protected/cache.zip": "poison",
			cacheAt + "k-non_protected/other": "junk", cacheAt + "k-protected/cache.zip": "poison", cacheAt + "cache.zip": "poison",
		},
			forged.Claim{Name: "save_cache", Ref: "builtin://cache/save", Inputs: key("k-protected"), Outputs: saved},
			forged.Claim{Name: "save_cache_2", Ref: "builtin://cache/save", Inputs: key("k-protected"), Outputs: saved},
			forged.Claim{Name: "save_cache_3", Ref: "builtin://cache/save", Inputs: key("k-non_protected/inner-protected"), Outputs: saved},
		)
	})
	f.write(".rung/cache/k-protected/cache.zip", "of the main branch")
	if results := f.run(t.Context()); results[0].Status != local.Success {
		t.Fatalf("%+v", results[0])
	}
	want := map[string]string{"k-protected/cache.zip": "of the main branch", "k-non_protected/cache.zip": "mine"}
	if diff := cmp.Diff(want, f.kept("cache")); diff != "" {
		t.Errorf("the caches (-want +got):\n%s", diff)
	}
}

func TestAJobGetsTheCachesOfItsOwnKeysAndNoneBelowThem(t *testing.T) {
	var f *forgery
	got := map[string]string{}
	f = newForgery(t, "build:\n  image: forged\n  cache: {key: k, paths: [x], fallback_keys: [old]}\n  variables: {CACHE_FALLBACK_KEY: shared}\n  script: [make]\n",
		func(env *forged.Environment) []event.Event {
			root := env.Path(cacheAt)
			_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
				if err == nil && !e.IsDir() {
					text, _ := os.ReadFile(path)
					name, _ := filepath.Rel(root, path)
					got[filepath.ToSlash(name)] = string(text)
				}
				return err
			})
			return nil
		})
	for _, key := range []string{"k-non_protected", "old-non_protected", "shared", "shared/main-protected", "other-non_protected"} {
		f.write(".rung/cache/"+key+"/cache.zip", key)
	}
	f.run(t.Context())
	want := map[string]string{
		"k-non_protected/cache.zip": "k-non_protected", "old-non_protected/cache.zip": "old-non_protected", "shared/cache.zip": "shared",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the caches in the environment (-want +got):\n%s", diff)
	}
}

func TestAForgedStepRunnerLeavesNoArtifactsButThoseThatTheJobDeclares(t *testing.T) {
	var f *forgery
	f = newForgery(t, "build:\n  image: forged\n  script: [make]\n  artifacts: {name: $CI_JOB_NAME, paths: [x], reports: {junit: r.xml}}\nquiet:\n  image: forged\n  script: [make]\n",
		func(env *forged.Environment) []event.Event {
			return f.lie(env, map[string]string{
				artifactsAt + "build.zip": "archive", artifactsAt + "junit.gz": "report", artifactsAt + "dotenv.gz": "PATH=evil", artifactsAt + "sub/x": "junk",
				releasesAt + "v1.json": "{}", pagesAt + "index.html": "pages",
			},
				forged.Claim{Name: "upload_artifacts", Ref: "builtin://artifacts/upload", Outputs: forged.Texts("file", "../../../latest.json")},
				forged.Claim{Name: "upload_junit", Ref: "builtin://artifacts/upload", Inputs: forged.Texts("type", "dotenv"), Outputs: forged.Texts("file", "dotenv.gz")},
				forged.Claim{Name: "upload_dotenv", Ref: "builtin://artifacts/upload", Inputs: forged.Texts("type", "dotenv"), Outputs: forged.Texts("file", "dotenv.gz")},
				forged.Claim{Name: "release", Ref: "builtin://release"}, forged.Claim{Name: "pages", Ref: "builtin://pages"},
				forged.Claim{Name: "coverage", Ref: "builtin://coverage", Outputs: forged.Texts("coverage", "\x1b[2J100")},
			)
		})
	for _, r := range f.run(t.Context()) {
		if r.Status != local.Success || r.Note != "" {
			t.Errorf("%+v", r)
		}
	}
	kept := map[string]string{}
	for name, text := range f.kept("artifacts") {
		parts := strings.Split(name, "/")
		if len(parts) == 3 {
			kept[parts[0]+"/"+parts[2]] = text
		} else if parts[1] != "latest.json" {
			kept[name] = text
		}
	}
	if diff := cmp.Diff(map[string]string{"build/build.zip": "archive", "build/junit.gz": "report"}, kept); diff != "" {
		t.Errorf("the artifacts (-want +got):\n%s", diff)
	}
	if latest := f.kept("artifacts")["build/latest.json"]; strings.Contains(latest, "dotenv") || !strings.Contains(latest, "junit.gz") || !strings.Contains(latest, "build.zip") {
		t.Errorf("the manifest says %s", latest)
	}
	for _, folder := range []string{"releases", "pages", "incoming"} {
		if kept := f.kept(folder); len(kept) > 0 {
			t.Errorf("%s holds %v", folder, kept)
		}
	}
}

func TestACoverageIsANumberFromTheStepThatFindsIt(t *testing.T) {
	for name, c := range map[string]struct{ ref, text, note string }{
		"a number":                  {"builtin://coverage", "87.5", "coverage 87.5%"},
		"no number":                 {"builtin://coverage", "\x1b[2J100", ""},
		"of another component":      {"builtin://cache/save", "87.5", ""},
		"of a component of its own": {"./coverage", "87.5", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var f *forgery
			f = newForgery(t, "build:\n  image: forged\n  script: [make]\n  coverage: /x/\n", func(env *forged.Environment) []event.Event {
				return f.lie(env, nil, forged.Claim{Name: "coverage", Ref: c.ref, Outputs: forged.Texts("coverage", c.text)})
			})
			if r := f.run(t.Context())[0]; r.Status != local.Success || r.Note != c.note {
				t.Errorf("it is %s, with the note %q instead of %q", r.Status, r.Note, c.note)
			}
		})
	}
}

func TestReleasesAndPagesOfOtherJobsStay(t *testing.T) {
	var f *forgery
	f = newForgery(t, "build:\n  image: forged\n  script: [make]\n  release: {tag_name: v2, description: d}\n  pages: {path_prefix: mine}\n",
		func(env *forged.Environment) []event.Event {
			return f.lie(env, map[string]string{
				releasesAt + "v1.json": "poison", releasesAt + "v2.json": "mine",
				pagesAt + "mine/index.html": "mine", pagesAt + "index.html": "poison", pagesAt + "other/index.html": "poison", pagesAt + ".deployments": "",
			}, forged.Claim{Name: "release", Ref: "builtin://release"}, forged.Claim{Name: "pages", Ref: "builtin://pages"})
		})
	f.write(".rung/releases/v1.json", "first")
	f.write(".rung/pages/index.html", "front")
	f.write(".rung/pages/other/index.html", "other")
	f.write(".rung/pages/.deployments", "other\n")
	f.run(t.Context())
	if diff := cmp.Diff(map[string]string{"v1.json": "first", "v2.json": "mine"}, f.kept("releases")); diff != "" {
		t.Errorf("the releases (-want +got):\n%s", diff)
	}
	want := map[string]string{"index.html": "front", "other/index.html": "other", "mine/index.html": "mine", ".deployments": "mine\nother\n"}
	if diff := cmp.Diff(want, f.kept("pages")); diff != "" {
		t.Errorf("the pages (-want +got):\n%s", diff)
	}
}

// endless is an environment that sends as long as somebody reads.
func endless(ctx context.Context, _ string, _ io.Writer) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

const keeps = "build:\n  image: forged\n  timeout: 1s\n  script: [make]\n  artifacts: {paths: [x]}\n"

func uploaded(f **forgery) func(env *forged.Environment) []event.Event {
	return func(env *forged.Environment) []event.Event {
		return (*f).lie(env, nil, forged.Claim{Name: "upload_artifacts", Ref: "builtin://artifacts/upload", Outputs: forged.Texts("file", "artifacts.zip")})
	}
}

func TestFetchingWhatAJobLeftIsPartOfItsTime(t *testing.T) {
	var f *forgery
	f = newForgery(t, keeps, uploaded(&f))
	f.level.Fetch = endless
	began := time.Now()
	r := f.run(t.Context())[0]
	if r.Status != local.Failed || r.Error == nil || r.Error.Kind != event.ErrorTimeout {
		t.Fatalf("it is %s: %+v", r.Status, r.Error)
	}
	if text := r.Error.Error(); !strings.Contains(text, "fetching artifacts.zip: the job timed out after 1s") {
		t.Errorf("it says %q after %s", text, time.Since(began))
	}
	if left := f.kept("incoming"); len(left) > 0 {
		t.Errorf("there are left %v", left)
	}
}

func TestFetchingWhatAJobLeftIsInterrupted(t *testing.T) {
	var f *forgery
	f = newForgery(t, strings.Replace(keeps, "1s", "1h", 1), uploaded(&f))
	ctx, cancel := context.WithCancelCause(t.Context())
	f.level.Fetch = func(inner context.Context, path string, out io.Writer) error {
		cancel(&event.Stop{Code: event.CodeCancelled, Reason: "interrupted"})
		return endless(inner, path, out)
	}
	r := f.run(ctx)[0]
	if r.Status != local.Cancelled {
		t.Errorf("it is %s: %+v", r.Status, r.Error)
	}
}

func TestServicesGetPublicVariablesOnly(t *testing.T) {
	f := newForgery(t, "build:\n  image: forged\n  variables: {PLAIN: text, URL: 'https://u:$SECRET@h'}\n  services: [{name: db, variables: {PASSWORD: $SECRET}}]\n  script: [make]\n",
		func(*forged.Environment) []event.Event { return nil })
	f.run(t.Context(),
		variable.Variable{Name: "SECRET", Value: "hunter2hunter2", Masked: true}, variable.Variable{Name: "KEY", Value: "a key of its own", File: true},
		variable.Variable{Name: "DOCKER_AUTH_CONFIG", Value: `{"auths":{"https://r.example.com/v1/":{"username":"me","password":"open sesame"},"r.example.com/group":{"identitytoken":"a token"}}}`},
	)
	job := f.level.Jobs()[0]
	if job.Variables["PLAIN"] != "text" || job.Variables["CI_JOB_NAME"] != "build" {
		t.Errorf("public variables are missing: %v", job.Variables)
	}
	for name, text := range job.Variables {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "sesame") || name == "KEY" {
			t.Errorf("services get %s=%s", name, text)
		}
	}
	if got := job.Services[0].Variables["PASSWORD"]; got != "hunter2hunter2" {
		t.Errorf("what is passed to a service by its own variables is %q", got)
	}
	if !strings.Contains(strings.Join(job.Masked, " "), "hunter2hunter2") {
		t.Errorf("masked are %q", job.Masked)
	}
	if diff := cmp.Diff([]containers.Registry{
		{Host: "r.example.com", Username: "me", Password: "open sesame"}, {Host: "r.example.com", Path: "group", Username: "<token>", Password: "a token"},
	}, job.Registries); diff != "" {
		t.Errorf("the puller gets (-want +got):\n%s", diff)
	}
}
