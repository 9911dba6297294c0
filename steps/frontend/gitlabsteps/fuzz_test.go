package gitlabsteps_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
)

// seed gives a fuzz test the inputs of all golden tests.
func seed(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(archive.Files[0].Data)
	}
}

// checkResult checks what holds for every input: an error is a list that renders, and a plan survives its canonical form.
func checkResult(t *testing.T, c *plan.Component, err error) {
	if err != nil {
		if list := diag.Of(err); len(list) == 0 || list.Render() == "" {
			t.Fatalf("got %T %v, want a list", err, err)
		}
		return
	}
	text, err := plan.Canonical(c)
	if err != nil {
		t.Fatal(err)
	}
	again, err := plan.Parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if twice, err := plan.Canonical(again); err != nil || !bytes.Equal(text, twice) {
		t.Fatalf("%v: the canonical form\n%s\nbecame\n%s", err, text, twice)
	}
}

func FuzzParseFile(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := gitlabsteps.ParseFile("func.yml", data)
		checkResult(t, c, err)
	})
}

func FuzzParseSteps(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := gitlabsteps.ParseSteps("job.yml", data)
		checkResult(t, c, err)
	})
}

func FuzzParseReference(f *testing.F) {
	for _, text := range []string{"./a", "/a.yml", "a.b/c@v1", "a.b/c/-/d@v1", "a.b/c:v1 d", "builtin://a", "./${{ a }}", "git@a.b:c@v1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ref, err := gitlabsteps.ParseReference(text, diag.Span{})
		if err == nil && ref.Kind != plan.RefDynamic {
			if again, err := gitlabsteps.ParseStaticReference(ref.Text, diag.Span{}); err != nil || again.Kind != ref.Kind {
				t.Fatalf("%q is %+v, and then %+v, %v", text, ref, again, err)
			}
		}
		if err != nil && len(diag.Of(err)) != 1 {
			t.Fatalf("got %T", err)
		}
	})
}
