package walk_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/walk"
)

// project writes files, of which the top is steps.yml, and returns their folder.
func project(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const step = "spec: {}\n---\nexec: {command: [echo]}\n"

// walkAll walks a project and returns what was found, what is dynamic and what failed.
func walkAll(t *testing.T, dir string) (found, dynamic, failed []string, err error) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "steps.yml"))
	if err != nil {
		t.Fatal(err)
	}
	definition, err := gitlabsteps.ParseSteps("steps.yml", text)
	if err != nil {
		t.Fatal(err)
	}
	w := walk.Walker{
		Source: &source.Local{Parse: gitlabsteps.ParseFile},
		Found: func(f walk.Found) error {
			in := ""
			if f.In != nil {
				in = " in " + f.In.Ref
			}
			found = append(found, f.Ref.Text+in)
			return nil
		},
		Dynamic: func(p walk.Place) error { dynamic = append(dynamic, p.Ref.Text); return nil },
		Failed:  func(p walk.Place, _ error) error { failed = append(failed, p.Ref.Text); return nil },
	}
	return found, dynamic, failed, w.Definition(t.Context(), definition, dir)
}

func TestEveryReferenceIsFollowed(t *testing.T) {
	t.Parallel()
	dir := project(t, map[string]string{
		"steps.yml": `
- step: ./a
- {step: ./b, if: "false"}
- run:
    - step: ./c
- parallel:
    - step: ./a
    - {name: again, step: ./d}
- script: echo
- step: ./${{ job.x }}
- step: {git: {url: "https://h.example/${{ job.x }}", rev: v1}}
- step: ./nowhere
`,
		"a/step.yml": step, "b/step.yml": "spec: {}\n---\nrun:\n  - step: ../a\n  - step: ../e\n", "c/step.yml": step,
		"d/step.yml": "spec: {}\n---\nrun:\n  - step: ../d\n  - step: ../b\n", "e/step.yml": step,
	})
	found, dynamic, failed, err := walkAll(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"./a", "./b", "../a in ./b", "../e in ./b", "./c", "./d", "../d in ./d", "../b in ./d"}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
	if len(dynamic) != 2 || dynamic[0] != "./${{ job.x }}" {
		t.Errorf("dynamic are %q", dynamic)
	}
	if diff := cmp.Diff([]string{"./nowhere"}, failed); diff != "" {
		t.Error(diff)
	}
}

func TestTheWalkEnds(t *testing.T) {
	t.Parallel()
	dir := project(t, map[string]string{"a/step.yml": step})
	ref, err := gitlabsteps.ParseStaticReference("./a", diag.Span{})
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("enough")
	w := walk.Walker{Source: &source.Local{Parse: gitlabsteps.ParseFile}, Found: func(walk.Found) error { return stop }}
	if err := w.Reference(t.Context(), ref, dir); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := new(walk.Walker).Reference(ctx, ref, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	ref.Path = []string{".", "nowhere"}
	var missing *source.NotFoundError
	w = walk.Walker{Source: &source.Local{Parse: gitlabsteps.ParseFile}}
	if err := w.Reference(t.Context(), ref, dir); !errors.As(err, &missing) {
		t.Errorf("got %v", err)
	}
}
