package gitlabsteps_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
)

var update = flag.Bool("update", false, "write what the golden tests get into their files")

// TestGolden compiles the input of each testdata/*.txtar: func.yml and step.yml as files, job.yml as a job's steps. The
// second file is what comes of it: diagnostics as people read them ("problems"), or the canonical plan ("plan").
func TestGolden(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			input := archive.Files[0]
			kind, got := outcome(t, input.Name, input.Data)
			if *update {
				archive.Files = []txtar.File{input, {Name: kind, Data: got}}
				if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if len(archive.Files) != 2 || archive.Files[1].Name != kind {
				t.Fatalf("got %s, and the file has something else (run with -update):\n%s", kind, got)
			}
			want := bytes.ReplaceAll(archive.Files[1].Data, []byte("\r\n"), []byte("\n"))
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func outcome(t *testing.T, name string, data []byte) (kind string, text []byte) {
	t.Helper()
	parse := gitlabsteps.ParseFile
	if name == "job.yml" {
		parse = gitlabsteps.ParseSteps
	}
	c, err := parse(name, data)
	if err != nil {
		return "problems", []byte(diag.Of(err).Render())
	}
	text, err = plan.Canonical(c)
	if err != nil {
		t.Fatal(err)
	}
	return "plan", text
}
