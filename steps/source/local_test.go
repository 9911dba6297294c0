package source_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/tree"
)

// local is a source whose plans have the file's text as their description.
func local() *source.Local {
	return &source.Local{Parse: func(_ string, text []byte) (*plan.Component, error) {
		if strings.HasPrefix(string(text), "bad") {
			return nil, errors.New("it does not parse")
		}
		return &plan.Component{Spec: plan.Spec{Description: string(text)}}, nil
	}}
}

func ref(file string, path ...string) *plan.Reference {
	return &plan.Reference{Kind: plan.RefLocal, Text: strings.Join(path, "/"), Path: path, File: file}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestLocal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "both", "func.yml"), "func")
	write(t, filepath.Join(dir, "both", "step.yml"), "step")
	write(t, filepath.Join(dir, "old", "step.yml"), "old")
	write(t, filepath.Join(dir, "named", "other.yml"), "other")
	write(t, filepath.Join(dir, "bad", "step.yml"), "bad")
	write(t, filepath.Join(dir, "file"), "")
	if err := os.MkdirAll(filepath.Join(dir, "dir", "step.yml"), 0o755); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name       string
		ref        *plan.Reference
		want, fail string
	}{
		{name: "func.yml comes before step.yml", ref: ref("", ".", "both"), want: "func"},
		{name: "step.yml will do", ref: ref("", ".", "old"), want: "old"},
		{name: "a file can be named", ref: ref("other.yml", ".", "named"), want: "other"},
		{name: "a path may go up", ref: ref("", ".", "both", "..", "old"), want: "old"},
		{name: "a path may be absolute", ref: ref("", dir, "old"), want: "old"},
		{name: "a folder that is missing", ref: ref("", ".", "nowhere"), fail: "there is no step"},
		{name: "a folder that is a file", ref: ref("", ".", "file"), fail: "file"},
		{name: "a file that is a folder", ref: ref("", ".", "dir"), fail: "is a directory"},
		{name: "a file that does not parse", ref: ref("", ".", "bad"), fail: "does not parse"},
		{name: "a reference to a repository", ref: &plan.Reference{Kind: plan.RefGit, Text: "host/p@v1"}, fail: "has no source for"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := local().Load(t.Context(), c.ref, dir)
			if c.fail != "" {
				if err == nil || !strings.Contains(err.Error(), c.fail) {
					t.Fatalf("the error is %v, want one that says %q", err, c.fail)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Plan.Spec.Description != c.want || !strings.HasPrefix(got.Digest, "sha256:") || !filepath.IsAbs(got.Dir) {
				t.Errorf("loaded %+v, want the text %q", got, c.want)
			}
		})
	}
}

func TestLocalSeesAFileThatChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "step.yml")
	l := local()
	for _, text := range []string{"first", "the second", "3rd"} {
		write(t, path, text)
		for range 2 { // the second time it is known
			got, err := l.Load(t.Context(), ref("", ".", "a"), dir)
			if err != nil {
				t.Fatal(err)
			}
			if got.Plan.Spec.Description != text {
				t.Fatalf("loaded %q, want %q", got.Plan.Spec.Description, text)
			}
		}
	}
}

func TestAMissingStepSaysWhereItWasLookedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := local().Load(t.Context(), ref("", ".", "nowhere"), dir)
	var missing *source.NotFoundError
	if !errors.As(err, &missing) || len(missing.Looked) != 2 {
		t.Fatalf("the error is %v, want a NotFoundError with two places", err)
	}
}

func TestLocalDigests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a", "step.yml"), "text")
	write(t, filepath.Join(dir, "a", "run.sh"), "echo")
	load := func(workDir string) string {
		t.Helper()
		l := local()
		l.WorkDir = workDir
		got, err := l.Load(t.Context(), ref("", ".", "a"), dir)
		if err != nil {
			t.Fatal(err)
		}
		return got.Digest
	}
	folder, err := tree.Digest(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("the digest is that of the folder", func(t *testing.T) {
		if got := load(dir); got != folder {
			t.Errorf("got %s, want %s", got, folder)
		}
	})
	t.Run("of a folder that the job runs in it is that of the definition file alone", func(t *testing.T) {
		want := tree.FileDigest("step.yml", []byte("text"))
		for _, workDir := range []string{filepath.Join(dir, "a"), filepath.Join(dir, "a", "build")} {
			if got := load(workDir); got != want {
				t.Errorf("in %s: got %s, want %s", workDir, got, want)
			}
		}
	})
	t.Run("it changes with every file of the folder", func(t *testing.T) {
		l := local()
		l.WorkDir = dir
		before, err := l.Load(t.Context(), ref("", ".", "a"), dir)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "a", "run.sh"), "echo changed")
		after, err := l.Load(t.Context(), ref("", ".", "a"), dir)
		if err != nil {
			t.Fatal(err)
		}
		if before.Digest == after.Digest {
			t.Error("the digest is the same")
		}
	})
}
