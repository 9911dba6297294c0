package compile_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/compile"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/value"
)

// commit is a commit with two files.
type commit struct{}

func (commit) Files() ([]string, error)               { return []string{"go.sum", "package-lock.json"}, nil }
func (commit) Blob(path string) (string, error)       { return "blob of " + path, nil }
func (commit) LastCommit(path string) (string, error) { return "commit of " + path, nil }

// resolved makes a pipeline of the text of a .gitlab-ci.yml and returns a job of it with its variables.
func resolved(t *testing.T, text, job string) (*pipeline.Job, *variable.Collection) {
	t.Helper()
	c, err := config.Resolve(t.Context(), ".gitlab-ci.yml", []byte(text), config.Options{})
	if err != nil {
		t.Fatal(diag.Of(err).Render())
	}
	d, problems := keyword.Read(c)
	if len(problems) > 0 {
		t.Fatal(problems.Render())
	}
	p, err := pipeline.New(d, pipeline.Facts{
		Ref: when.Pipeline{Kind: when.Branch, Ref: "main", Source: "push"},
		Variables: []variable.Layer{{Level: variable.Predefined, Variables: []variable.Variable{
			{Name: "CI_COMMIT_REF_SLUG", Value: "main"}, {Name: "CI_PROJECT_DIR", Value: "/builds/a/b"},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	j := p.Job(job)
	if j == nil {
		t.Fatalf("there is no job %q", job)
	}
	vars, err := j.Variables()
	if err != nil {
		t.Fatal(err)
	}
	return j, vars
}

func options() compile.Options {
	return compile.Options{
		ArtifactsDir: "/s/artifacts/this", CacheDir: "/s/cache", PagesDir: "/s/pages", ReleasesDir: "/s/releases", Temp: "/builds/a/b.tmp",
		Source: compile.Source{WorkTree: "/home/me/b", Ref: "main"}, CacheKeyFiles: commit{},
		Dependency: func(j *pipeline.Job) (string, bool) {
			return "/s/artifacts/" + j.Name + "/artifacts.zip", j.Name != "lint"
		},
	}
}

// TestFromPipeline compiles the job "test" of each .gitlab-ci.yml in testdata/pipeline. Its other file is the plan, with the notes
// before it.
func TestFromPipeline(t *testing.T) {
	paths, err := filepath.Glob("testdata/pipeline/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			from, vars := resolved(t, string(archive.Files[0].Data), "test")
			job, notes, err := compile.FromPipeline(from, vars, options())
			got := ""
			if err != nil {
				got = "error: " + err.Error() + "\n"
			} else {
				compiled, err := compile.Compile(job)
				if err != nil {
					t.Fatal(err)
				}
				notes = append(notes, compiled.Notes...)
				text, err := gitlabsteps.Write(compiled.Plan)
				if err != nil {
					t.Fatal(err)
				}
				for _, note := range notes {
					got += "# " + note + "\n"
				}
				got += string(text)
			}
			if *update {
				archive.Files = []txtar.File{archive.Files[0], {Name: "plan.yml", Data: []byte(got)}}
				if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if len(archive.Files) != 2 {
				t.Fatalf("run with -update; got\n%s", got)
			}
			want := string(bytes.ReplaceAll(archive.Files[1].Data, []byte("\r\n"), []byte("\n")))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got (-update writes it):\n%s", diff)
			}
		})
	}
}

func TestCachesOfProtectedBranchesAreKeptApart(t *testing.T) {
	from, vars := resolved(t, `
test:
  script: "true"
  cache:
    - {key: a, paths: [x], fallback_keys: [f]}
    - {key: b, paths: [x], unprotect: true}
    - {paths: [x]}
`, "test")
	o := options()
	o.Protected, o.CacheGeneration = true, 3
	j, _, err := compile.FromPipeline(from, vars, o)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range j.Cache {
		got = append(got, c.Key+" "+strings.Join(c.FallbackKeys, " "))
	}
	if diff := cmp.Diff([]string{"a-3-protected f-3-protected", "b-3-non_protected ", "default-3-protected "}, got); diff != "" {
		t.Error(diff)
	}
}

func TestInputsOfAJob(t *testing.T) {
	const text = `
test:
  inputs:
    level: {default: low, options: [low, high]}
    count: {type: number, default: 2}
  script: ['echo ${{ job.inputs.level }} ${{ job.inputs.count }}', 'echo $CI_PROJECT_DIR']
  artifacts: {name: "out-${{ job.inputs.level }}", paths: ["${{ job.inputs.level }}/"]}
`
	from, vars := resolved(t, text, "test")
	for _, c := range []struct {
		inputs map[string]value.Value
		want   string
		err    string
	}{
		{nil, "echo low 2|echo $CI_PROJECT_DIR|out-low|low/", ""},
		{map[string]value.Value{"level": value.OfString("high")}, "echo high 2|echo $CI_PROJECT_DIR|out-high|high/", ""},
		{map[string]value.Value{"other": value.OfString("x")}, "", `the job "test" has no input "other"`},
	} {
		o := options()
		o.Inputs = c.inputs
		j, _, err := compile.FromPipeline(from, vars, o)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %s", err, c.err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(append(append([]string(nil), j.Script...), j.Artifacts[0].Name, j.Artifacts[0].Paths[0]), "|")
		if got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	without, vars := resolved(t, "test: {script: 'echo ${{ job.inputs.level }}'}", "test")
	if j, _, err := compile.FromPipeline(without, vars, options()); err != nil || j.Script[0] != "echo ${{ job.inputs.level }}" {
		t.Errorf("in a job without inputs the text stays: %v, %v", j, err)
	}
}

func TestSecretsThatAreSupplied(t *testing.T) {
	const text = `
test:
  script: "true"
  secrets:
    DB: {vault: ops/db/password@kv}
    KEY: {vault: ops/key/value@kv, file: false}
`
	from, vars := resolved(t, text, "test")
	vars.Add(variable.Variable{Name: "DB", Value: "s3cr3t"}, variable.Variable{Name: "KEY", Value: "k3y"})
	j, notes, err := compile.FromPipeline(from, vars, options())
	if err != nil || len(notes) > 0 || len(j.Secrets) > 0 {
		t.Fatalf("got %v, %q, %v", j.Secrets, notes, err)
	}
	compiled, err := compile.Compile(j)
	if err != nil {
		t.Fatal(err)
	}
	if v := compiled.Files["/builds/a/b.tmp/DB"]; v.Value != "s3cr3t" || !v.Masked {
		t.Errorf("DB is a file: got %v", compiled.Files)
	}
	if got := compiled.Variables; len(got) != 1 || got[0].Name != "KEY" {
		t.Errorf("got %v", got)
	}
	if v, _ := vars.Get("DB"); v.File {
		t.Error("the caller's variables have changed")
	}
}

func TestATriggerHasNoSteps(t *testing.T) {
	from, vars := resolved(t, "test: {trigger: group/project}", "test")
	if _, _, err := compile.FromPipeline(from, vars, options()); err == nil || !strings.Contains(err.Error(), "has no steps") {
		t.Errorf("got %v", err)
	}
}

func TestMistakesInNativeStepsHaveTheirPlaces(t *testing.T) {
	c, err := config.Resolve(t.Context(), ".gitlab-ci.yml", []byte(`
.base:
  run:
    - name: hello
      script: echo ${{ nonsense( }}
    - name: hello
      fnuc: ./a
test:
  extends: .base
`), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	from := &pipeline.Job{Name: "test", Keywords: &keyword.Job{Name: "test", Run: c.Job("test").Body.Get("run")}}
	_, _, err = compile.FromPipeline(from, variable.New(), options())
	got := ""
	for _, d := range diag.Of(err) {
		got += fmt.Sprintf("%d:%d %s | %s\n", d.Span.Line, d.Span.Column, d.Message, strings.TrimSpace(d.Source))
	}
	for _, want := range []string{"5:", "6:13 the name \"hello\" is already taken", "7:7 unknown key \"fnuc\"", "by `extends: .base` at .gitlab-ci.yml:9", "fnuc: ./a"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
