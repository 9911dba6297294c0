package reference_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/reference"
)

func all(t *testing.T) []reference.Keyword {
	t.Helper()
	keywords, err := reference.All()
	if err != nil {
		t.Fatal(err)
	}
	return keywords
}

func TestEveryKeywordIsDescribed(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, k := range all(t) {
		if known[k.Name] {
			t.Errorf("%s is defined twice", k.Name)
		}
		known[k.Name] = true
		if k.Text == "" || k.Form == "" || len(k.Where) == 0 || k.Test == "" {
			t.Errorf("%s lacks something: %+v", k.Name, k)
		}
		for _, where := range k.Where {
			if !slices.Contains([]string{"top", "header", "job", "default"}, where) {
				t.Errorf("%s may stand in %q, which is not a place", k.Name, where)
			}
		}
		if k.Support != reference.Full && k.Support != reference.Simulated && k.Support != reference.Named {
			t.Errorf("%s is supported as %q", k.Name, k.Support)
		}
		for parent := k.Name; strings.Contains(parent, ":"); {
			parent = parent[:strings.LastIndex(parent, ":")]
			if !known[parent] && !slices.Contains([]string{"workflow:auto_cancel", "needs:parallel", "release:assets"}, parent) {
				t.Errorf("%s stands before, or without, %s", k.Name, parent)
			}
		}
	}
	for _, name := range config.JobKeywords() {
		if !known[name] {
			t.Errorf("jobs may have %s, which is not described", name)
		}
	}
	for _, name := range config.DefaultKeywords() {
		i := slices.IndexFunc(all(t), func(k reference.Keyword) bool { return k.Name == name })
		if i < 0 || !slices.Contains(all(t)[i].Where, "default") {
			t.Errorf("default may have %s, which is not described so", name)
		}
	}
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// folders are where the tests of keywords stand, by the name of their package.
var folders = map[string]string{
	"config": "../config", "keyword": "../keyword", "pipeline": "../pipeline",
	"include": "../../../../local/include", "repository": "../../../../local/repository",
}

func TestEveryKeywordHasATest(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{}
	for name, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		golden, err := filepath.Glob(filepath.Join(folder, "testdata", "*.txtar"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range golden { // TestGolden has a subtest for each
			tests[name+".TestGolden/"+strings.TrimSuffix(filepath.Base(file), ".txtar")] = true
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
	for _, k := range all(t) {
		if !tests[k.Test] {
			t.Errorf("%s: there is no test %s", k.Name, k.Test)
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"script": "script", "artifacts:reports:dotenv": "artifacts:reports:dotenv", "artifacts.reports.dotenv": "artifacts:reports:dotenv",
		"dotenv": "artifacts:reports:dotenv", "Changes:": "rules:changes", ".pre": "stage:.pre", "!reference": "!reference",
	} {
		if k, _, _ := reference.Find(all(t), name); k == nil || k.Name != want {
			t.Errorf("%s finds %v, want %s", name, k, want)
		}
	}
	if k, _, near := reference.Find(all(t), "chache"); k != nil || !slices.Contains(near, "cache") {
		t.Errorf("chache finds %v, near %v", k, near)
	}
	if _, below, _ := reference.Find(all(t), "pages"); len(below) != 3 {
		t.Errorf("below pages are %v", below)
	}
}

var update = flag.Bool("update", false, "write the table in the documents anew")

func TestTheTableInTheDocuments(t *testing.T) {
	t.Parallel()
	const file, head = "../../../../docs/gitlab-ci-keywords.md", "| keyword |"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(text), "\n"+head)
	want := before + "\n" + reference.Table(all(t))
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("the table is not what keywords.yml says; go test ./steps/frontend/gitlabci/reference -update writes it:\n%s", diff)
	}
}

// schema compiles the schema, with an independent validator.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := reference.Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

func validate(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	v, err := yamlsource.Value(".gitlab-ci.yml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var plain any
	if err := json.Unmarshal(v.AppendJSON(nil), &plain); err != nil {
		t.Fatal(err)
	}
	return s.Validate(plain)
}

func TestTheSchema(t *testing.T) {
	t.Parallel()
	s := schema(t)
	t.Run("accepts every example", func(t *testing.T) {
		for _, k := range all(t) {
			if k.Example == "" {
				continue
			}
			if err := validate(t, s, k.Example); err != nil {
				t.Errorf("%s: %v", k.Name, err)
			}
		}
	})
	t.Run("accepts our own pipelines", func(t *testing.T) {
		for _, file := range []string{"../../../../.gitlab-ci.yml", "../../../../examples/pipeline/.gitlab-ci.yml"} {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := validate(t, s, string(text)); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	})
	t.Run("refuses", func(t *testing.T) {
		for name, text := range map[string]string{
			"a keyword that there is not":    "a: {scirpt: x}",
			"a job that is a text":           "a: x",
			"a stage that is a number":       "a: {script: x, stage: 3}",
			"a policy of images":             "a: {script: x, image: {name: i, pull_policy: sometimes}}",
			"five caches":                    "a: {script: x, cache: [{}, {}, {}, {}, {}]}",
			"a hundred retries":              "a: {script: x, retry: 100}",
			"a when that there is not":       "a: {script: x, when: sometimes}",
			"an include without a place":     "include: [{file: x}]",
			"coverage that is not a pattern": "a: {script: x, coverage: 'x'}",
			"a release without a tag":        "a: {script: x, release: {name: n}}",
			"a report that there is not":     "a: {script: x, artifacts: {reports: {what: x}}}",
			"a parallel of 300":              "a: {script: x, parallel: 300}",
			"an environment's odd action":    "a: {script: x, environment: {name: e, action: jump}}",
			"a rule with an unknown keyword": "a: {script: x, rules: [{unless: x}]}",
		} {
			if validate(t, s, text) == nil {
				t.Errorf("%s is accepted", name)
			}
		}
	})
}
