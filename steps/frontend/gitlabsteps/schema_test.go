package gitlabsteps

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rungci/rung/internal/schematest"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

type language struct {
	schema *schematest.Schema
	parse  func(string, []byte) (*plan.Component, error)
}

// languages are that of a job's steps and that of step files.
func languages(t *testing.T) (steps, file language) {
	t.Helper()
	a, err := StepsSchema()
	if err != nil {
		t.Fatal(err)
	}
	b, err := FileSchema()
	if err != nil {
		t.Fatal(err)
	}
	return language{schematest.Compile(t, a), ParseSteps}, language{schematest.Compile(t, b), ParseFile}
}

func TestTheSchemasHaveTheKeysOfTheParser(t *testing.T) {
	t.Parallel()
	steps, _ := languages(t)
	for name, keys := range mapKeys {
		steps.schema.CheckKeys(t, keys, "$defs", name)
	}
	steps.schema.CheckKeys(t, stepKeys(), "$defs", "step")
	for path, words := range map[string][]string{
		"toolkit": toolkits, "type": value.KindNames,
	} {
		var have []string
		for _, word := range steps.schema.At("$defs", path, "enum").([]any) {
			have = append(have, word.(string))
		}
		if !slices.Equal(have, words) {
			t.Errorf("%s: the schema has %q, and the parser %q", path, have, words)
		}
	}
}

// minimal has a step of each kind.
var minimal = map[string]string{
	"step": "step: ./a", "func": "func: ./a", "script": "script: a", "exec": "exec: {command: [a]}", "run": "run: [{name: b, script: a}]",
	"action": "action: a/b@v1", "parallel": "parallel: [{script: a}]", "wait": "wait: all", "cancel": "cancel: all",
}

// ownValues has a value for each key that only steps of some kinds have.
var ownValues = map[string]string{
	"inputs": "{a: b}", "secrets": "[a]", "shell": "bash", "log_file": "a.log", "toolkit": "github", "background": "true",
	"outputs": "{a: b}", "delegate": "b", "max_parallel": "2", "inherit_env": "true", "allow_exports": "[A]", "permissions": "{contents: read}", "confine": "true", "allow_access": "[/a]",
}

func TestTheSchemaAllowsAKeyInTheKindsOfStepsThatTheParserDoes(t *testing.T) {
	t.Parallel()
	steps, _ := languages(t)
	for _, kind := range kinds {
		for _, own := range ownKeys {
			text := "- {" + minimal[kind] + ", " + own.key + ": " + ownValues[own.key] + "}"
			allowed := slices.Contains(own.kinds, kind)
			if err := steps.schema.YAML(text); allowed != (err == nil) {
				t.Errorf("%s: the parser allows it: %v; the schema: %v", text, allowed, err)
			}
			if _, err := ParseSteps("steps.yml", []byte(text)); allowed && own.key != "delegate" && err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
		for _, other := range kinds {
			if other != kind && steps.schema.YAML("- {"+minimal[kind]+", "+minimal[other]+"}") == nil {
				t.Errorf("the schema accepts a step with %s and %s", kind, other)
			}
		}
	}
}

// TestTheSchemasAcceptWhatTheParserAccepts tries all YAML that the documents, the examples, the catalog and the tests of this package have.
func TestTheSchemasAcceptWhatTheParserAccepts(t *testing.T) {
	t.Parallel()
	texts := schematest.Snippets(t, "yaml", "../../../docs/*.md", "../../../README.md")
	for _, folder := range []string{"../../../examples", "../../catalog", "testdata"} {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".yml") {
				return err
			}
			text, err := os.ReadFile(path)
			texts[path] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	steps, file := languages(t)
	for _, l := range []language{steps, file} {
		valid := 0
		for place, text := range texts {
			if _, err := l.parse("text.yml", []byte(text)); err != nil {
				continue
			}
			valid++
			if err := l.schema.YAML(text); err != nil {
				t.Errorf("%s: %v", place, err)
			}
		}
		t.Logf("%d texts of %d", valid, len(texts))
		if valid < 8 {
			t.Errorf("there are only %d valid texts", valid)
		}
	}
}

func TestTheSchemaAndTheParserAgree(t *testing.T) {
	t.Parallel()
	const spec = "---\nrun: [{script: a}]\n"
	steps, _ := languages(t)
	for name, c := range map[string]struct{ right, wrong string }{
		"a key that does not exist":      {`[{script: a}]`, `[{scirpt: a}]`},
		"a step with nothing to do":      {`[{name: a, script: a}]`, `[{name: a}]`},
		"an empty list":                  {`[{script: a}]`, `[]`},
		"an empty script":                {`[{script: a}]`, `[{script: " "}]`},
		"a script that is a list":        {`[{script: a}]`, `[{script: [a]}]`},
		"a name with a dash":             {`[{name: a_b, script: a}]`, `[{name: a-b, script: a}]`},
		"a when that does not exist":     {`[{script: a, when: always}]`, `[{script: a, when: sometimes}]`},
		"a timeout of nothing":           {`[{script: a, timeout: 5}]`, `[{script: a, timeout: 0}]`},
		"a timeout of more than a month": {`[{script: a, timeout: 2592000}]`, `[{script: a, timeout: 2592001}]`},
		"a timeout in words":             {`[{script: a, timeout: 5 min}]`, `[{script: a, timeout: five}]`},
		"a time limit without a number":  {`[{script: a, time_limit: "${{ job.a }}"}]`, `[{script: a, time_limit: "5"}]`},
		"a hundred and one retries":      {`[{script: a, retry: 100}]`, `[{script: a, retry: 101}]`},
		"retries without a number":       {`[{script: a, retry: {max: 1, delay: 0}}]`, `[{script: a, retry: {delay: 0}}]`},
		"failure with exit code 0":       {`[{script: a, allow_failure: {exit_codes: 1}}]`, `[{script: a, allow_failure: {exit_codes: 0}}]`},
		"failure with no exit code":      {`[{script: a, allow_failure: true}]`, `[{script: a, allow_failure: {}}]`},
		"a shell that does not exist":    {`[{script: a, shell: "perl {0}"}]`, `[{script: a, shell: perl}]`},
		"a shell of a command":           {`[{exec: {script: a, shell: sh}}]`, `[{exec: {command: [a], shell: sh}}]`},
		"an argument that is a number":   {`[{exec: {command: [a, "1"]}}]`, `[{exec: {command: [a, 1]}}]`},
		"a variable that is a number":    {`[{script: a, env: {A: "1"}}]`, `[{script: a, env: {A: 1}}]`},
		"a thousand and one at once":     {`[{parallel: [{script: a}], max_parallel: 1000}]`, `[{parallel: [{script: a}], max_parallel: 1001}]`},
		"a group in a group":             {`[{parallel: [{script: a}]}]`, `[{parallel: [{parallel: [{script: a}]}]}]`},
		"a reference with two sources":   {`[{step: {archive: {url: https://a/b.zip}}}]`, `[{step: {archive: {url: https://a/b.zip}, git: {url: https://a, rev: b}}}]`},
		"git without a revision":         {`[{step: {git: {url: https://a/b, rev: v1}}}]`, `[{step: {git: {url: https://a/b}}}]`},
		"a definition with two bodies":   {`run: [{script: a}]`, "run: [{script: a}]\nsteps: [{script: a}]"},
		"outputs of a command":           {"run: [{script: a}]\noutputs: {a: b}", "exec: {command: [a]}\noutputs: {a: b}"},
		"a hook without a process":       {"pre: {exec: {command: [a]}}\nexec: {command: [a]}", "pre: {if: true}\nexec: {command: [a]}"},
		"an input without a type":        {"spec: {inputs: {a: {type: string}}}\n" + spec, "spec: {inputs: {a: {}}}\n" + spec},
		"a type that does not exist":     {"spec: {inputs: {a: {type: struct}}}\n" + spec, "spec: {inputs: {a: {type: text}}}\n" + spec},
		"an input with two defaults":     {"spec: {inputs: {a: {type: string, computed: b}}}\n" + spec, "spec: {inputs: {a: {type: string, default: b, computed: b}}}\n" + spec},
		"outputs in a word":              {"spec: {outputs: delegate}\n---\nrun: [{name: a, script: a}]\ndelegate: a\n", "spec: {outputs: any}\n" + spec},
		"a spec with another key":        {"spec: {description: a}\n" + spec, "spec: {descripton: a}\n" + spec},
	} {
		for text, valid := range map[string]bool{c.right: true, c.wrong: false} {
			if _, err := ParseSteps("steps.yml", []byte(text)); valid != (err == nil) {
				t.Errorf("%s: %s: the parser: %v", name, text, err)
			}
			if err := steps.schema.YAML(text); valid != (err == nil) {
				t.Errorf("%s: %s: the schema: %v", name, text, err)
			}
		}
	}
}

func TestTheSchemaOfStepFilesRefusesAList(t *testing.T) {
	t.Parallel()
	steps, file := languages(t)
	if text := "- script: a"; steps.schema.YAML(text) != nil || file.schema.YAML(text) == nil {
		t.Error("a list is for a job, and not for a step file")
	}
}
