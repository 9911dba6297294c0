package reference_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/frontend/actions/reference"
)

// root is the repository's.
const root = "../../../.."

// folders are where the tests of features stand.
var folders = map[string]string{
	"workflow":  "steps/frontend/actions/workflow",
	"lockfile":  "steps/frontend/actions/lockfile",
	"step":      "steps/frontend/actions/step",
	"actions":   "steps/frontend/actions",
	"ghexpr":    "steps/expr/github",
	"toolkit":   "steps/toolkit/github",
	"hashfiles": "steps/toolkit/github/hashfiles",
	"service":   "steps/toolkit/github/service",
	"engine":    "steps/engine",
	"docker":    "steps/catalog/docker",
	"local":     "local/github",
	"mask":      "internal/mask",
	"packages":  "e2e/actions",
	"e2e":       "e2e",
}

const scripts = "cmd/step-runner/testdata/script"

func all(t *testing.T) []reference.Feature {
	t.Helper()
	features, err := reference.All()
	if err != nil {
		t.Fatal(err)
	}
	return features
}

func TestEveryFeatureIsDescribed(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, f := range all(t) {
		if f.Name == "" || f.How == "" || f.Test == "" || f.Area == "" {
			t.Errorf("it lacks something: %+v", f)
		}
		if f.Support != reference.Full && f.Support != reference.Partly && f.Support != reference.Not {
			t.Errorf("%s is supported as %q", f.Name, f.Support)
		}
		if known[f.Name] {
			t.Errorf("%s is defined twice", f.Name)
		}
		known[f.Name] = true
	}
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

func TestEveryFeatureHasATest(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{}
	for name, folder := range folders {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(folder), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range testFunction.FindAllStringSubmatch(string(text), -1) {
				tests[name+"."+found[1]] = true
			}
		}
	}
	for _, f := range all(t) {
		if script, ok := strings.CutPrefix(f.Test, "script/"); ok {
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(scripts), script+".txtar")); err != nil {
				t.Errorf("%s: %v", f.Name, err)
			}
			continue
		}
		if !tests[f.Test] {
			t.Errorf("%s: there is no test %s", f.Name, f.Test)
		}
	}
}

var update = flag.Bool("update", false, "write the page in the documents anew")

func TestThePageInTheDocuments(t *testing.T) {
	t.Parallel()
	file := filepath.Join(root, "docs", "github-actions-features.md")
	want := reference.Page(all(t))
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("the page is not what features.yml says; go test ./steps/frontend/actions/reference -update writes it:\n%s", diff)
	}
}
