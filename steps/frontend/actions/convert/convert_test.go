package convert_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/actions/convert"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
)

var update = flag.Bool("update", false, "write what the tests want anew")

// notes are notes as the command prints them.
func notes(list diag.List) string {
	var b strings.Builder
	for _, d := range list {
		fmt.Fprintf(&b, "%d: %s\n", d.Span.Line, d.Message)
	}
	return b.String()
}

// TestGolden converts the workflow of every file in testdata, and compares the pipeline and the notes. The comment of a file is what it is about;
// a line "job: NAME" in it names the only job.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no golden files", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			o := convert.Options{}
			for line := range strings.SplitSeq(string(archive.Comment), "\n") {
				if job, ok := strings.CutPrefix(line, "job: "); ok {
					o.Job = job
				}
			}
			r, err := convert.Convert("ci.yml", archive.Files[0].Data, o)
			if err != nil {
				var wrong *convert.WrittenError
				if errors.As(err, &wrong) {
					t.Logf("%s", wrong.Text)
				}
				t.Fatal(diagnosed(err))
			}
			lint(t, r.YAML)
			got := []txtar.File{archive.Files[0], {Name: ".gitlab-ci.yml", Data: r.YAML}, {Name: "notes", Data: []byte(notes(r.Notes))}}
			if *update {
				text := txtar.Format(&txtar.Archive{Comment: archive.Comment, Files: got})
				if err := os.WriteFile(file, text, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(archive.Files, got); diff != "" {
				t.Errorf("the conversion differs (-want +got); write it with -update:\n%s", diff)
			}
		})
	}
}

func diagnosed(err error) string {
	if list := diag.Of(err); list != nil {
		return list.Render()
	}
	return err.Error()
}

// lint fails unless the pipeline is one of GitLab's, without a warning but for those that a note tells.
func lint(t *testing.T, text []byte) {
	t.Helper()
	c, err := config.Resolve(context.Background(), ".gitlab-ci.yml", text, config.Options{})
	if err != nil {
		t.Fatalf("%s\n%s", diagnosed(err), text)
	}
	d, wrong := keyword.Read(c)
	if len(wrong) > 0 {
		t.Fatalf("%s\n%s", wrong.Render(), text)
	}
	for _, w := range keyword.Lint(d, c) {
		if !strings.HasPrefix(w.Message, "GitLab refuses `") && !strings.HasPrefix(w.Message, "a push to a branch with a merge request makes two pipelines") {
			t.Errorf("%s\n%s", w.Render(), text)
		}
	}
}

func TestWhatCannotBeConverted(t *testing.T) {
	t.Parallel()
	job := "\n  a: {runs-on: x, steps: [{run: make}]}\n"
	tests := map[string]struct{ text, job, want string }{
		"a job that is not there":       {"on: push\njobs:" + job, "b", `there is no job "b"`},
		"a workflow with a mistake":     {"on: push\njobs:\n  a: {runs-on: x, steps: [{rum: make}]}\n", "", `unknown key "rum"`},
		"nothing but calls":             {"on: push\njobs: {a: {uses: ./.github/workflows/b.yml}}\n", "", "no job has steps"},
		"the only job calls a workflow": {"on: push\njobs:" + job + "  b: {uses: ./.github/workflows/b.yml}\n", "b", "no job has steps"},
		"text that is not YAML":         {"a: [", "", "error"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := convert.Convert("ci.yml", []byte(tt.text), convert.Options{Job: tt.job})
			if err == nil {
				t.Fatalf("it was converted:\n%s", r.YAML)
			}
			if got := diagnosed(err); !strings.Contains(got, tt.want) {
				t.Errorf("want %q in:\n%s", tt.want, got)
			}
		})
	}
}

// FuzzConvert looks for workflows whose conversion is no .gitlab-ci.yml, or not the same twice.
func FuzzConvert(f *testing.F) {
	for _, pattern := range []string{"testdata/*.txtar", "../workflow/testdata/*/*.yml", "../workflow/testdata/*.yml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			if archive := txtar.Parse(data); len(archive.Files) > 0 {
				data = archive.Files[0].Data
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := convert.Convert("ci.yml", data, convert.Options{})
		var wrong *convert.WrittenError
		if errors.As(err, &wrong) {
			t.Fatalf("%v\n%s", err, wrong.Text)
		}
		if err != nil {
			return
		}
		again, err := convert.Convert("ci.yml", data, convert.Options{})
		if err != nil || string(first.YAML) != string(again.YAML) || notes(first.Notes) != notes(again.Notes) {
			t.Errorf("the second conversion differs: %v", err)
		}
	})
}

// TestJobsThatNeedManyOthers would not end if every way from a job to those that it needs were walked.
func TestJobsThatNeedManyOthers(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("on: push\njobs:\n  a0: {runs-on: x, if: \"github.ref == 'refs/heads/main'\", steps: [{run: make}]}\n")
	var before []string
	for i := 1; i < 60; i++ {
		before = append(before, fmt.Sprintf("a%d", i-1))
		fmt.Fprintf(&b, "  a%d: {runs-on: x, needs: [%s], steps: [{run: make}]}\n", i, strings.Join(before, ", "))
	}
	r, err := convert.Convert("ci.yml", []byte(b.String()), convert.Options{})
	if err != nil {
		t.Fatal(diagnosed(err))
	}
	if got := strings.Count(string(r.YAML), `- if: $CI_COMMIT_BRANCH == "main"`); got != 60 {
		t.Errorf("%d jobs have the condition of the first, want all 60", got)
	}
}
