package workflow_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/plan"
)

// corpus are workflows as projects have them.
func corpus(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatal("there is no corpus: ", err)
	}
	out := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(file)] = string(text)
	}
	return out
}

// everything is what contexts hold for the corpus.
const everything = `{
	"github": {"repository": "o/r", "ref": "refs/heads/main", "ref_name": "main", "sha": "0123456789012345678901234567890123456789", "event_name": "push", "run_id": "1", "workflow": "w", "actor": "me",
		"event": {"pull_request": {"number": 7, "head": {"ref": "x"}}, "inputs": {}}},
	"inputs": {"environment": "staging", "dry-run": true, "version": "1.2", "retries": 2},
	"vars": {"RUNNER": "[\"self-hosted\"]", "REGION": "eu"},
	"secrets": {"TOKEN": "t", "REGISTRY_PASSWORD": "p"},
	"needs": {
		"plan": {"result": "success", "outputs": {"matrix": "{\"package\":[\"a\",\"b\"]}", "changed": "true"}},
		"build": {"result": "success", "outputs": {"image": "i", "digest": "sha256:0"}},
		"test": {"result": "success", "outputs": {}}, "lint": {"result": "success", "outputs": {}}, "call": {"result": "success", "outputs": {"url": "u"}}
	}
}`

func TestTheCorpusBecomesPlans(t *testing.T) {
	t.Parallel()
	for name, text := range corpus(t) {
		t.Run(name, func(t *testing.T) {
			w, err := workflow.Parse(name, []byte(text))
			if err != nil {
				t.Fatal(diag.Of(err).Render())
			}
			c := contexts(t, everything)
			var told strings.Builder
			for _, j := range w.Order() {
				all := legs(t, j, c)
				for _, l := range all.List {
					told.WriteString(l.Name + "\n")
					if _, err := j.Settings(l, c); err != nil {
						t.Fatal(diag.Of(err).Render())
					}
					if j.Call != nil {
						if _, err := j.CallArguments(l, c); err != nil {
							t.Fatal(diag.Of(err).Render())
						}
						continue
					}
					compiled, err := workflow.Compile(j, l, c, workflow.CompileOptions{WorkTree: "/src"})
					if err != nil {
						t.Fatal(diag.Of(err).Render())
					}
					checkTemplates(t, compiled.Plan)
				}
			}
			want, _, ok := strings.Cut(strings.TrimPrefix(text, "# legs: "), "\n")
			if !ok || want != strings.ReplaceAll(strings.TrimSpace(told.String()), "\n", " | ") {
				t.Error(cmp.Diff(want, strings.ReplaceAll(strings.TrimSpace(told.String()), "\n", " | ")))
			}
		})
	}
}

// checkTemplates checks that every text of a plan is one of our language.
func checkTemplates(t *testing.T, c *plan.Component) {
	t.Helper()
	fields := []map[string]plan.Field{c.Definition.Env, c.Definition.Outputs, c.Definition.Context}
	for _, s := range c.Definition.Steps {
		fields = append(fields, s.Inputs, s.Env)
		if s.Inline != nil {
			checkTemplates(t, s.Inline)
		}
	}
	if x := c.Definition.Exec; x != nil && x.Script != nil {
		fields = append(fields, map[string]plan.Field{"script": x.Script.Text})
	}
	for _, group := range fields {
		for name, f := range group {
			if err := expr.Check(f.Value); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range corpus(f) {
		f.Add(text)
	}
	f.Add("on: push\njobs: {a: {runs-on: x, steps: [{run: 'a ${{ b'}]}}")
	f.Add("on: {push: {branches: ['[a', '!**', 'a+?']}}\njobs: {a: {needs: [a, b], strategy: {matrix: {include: [{}]}}}}")
	f.Add("on: &a [*a]\njobs: {<<: *a}")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := workflow.Parse("ci.yml", []byte(text))
		if err != nil {
			if len(diag.Of(err)) == 0 {
				t.Fatalf("an error that is not a list of diagnostics: %v", err)
			}
			return
		}
		w.On.Matches(workflow.Event{Name: "push", Ref: "refs/heads/main", ChangedFiles: []string{"a"}})
		_, _, _ = w.Dispatch(nil)
		if len(w.Order()) != len(w.Jobs) {
			t.Fatal("some jobs have no place in the order")
		}
		for _, j := range w.Jobs {
			_, _, _ = j.Runs(workflow.Status{}, nil)
			legs, err := j.Legs(nil)
			if err != nil || len(legs.List) == 0 {
				continue
			}
			_, _ = j.Settings(legs.List[0], nil)
			if j.Call != nil {
				_, _ = j.CallArguments(legs.List[0], nil)
				continue
			}
			if c, err := workflow.Compile(j, legs.List[0], nil, workflow.CompileOptions{WorkTree: "/src"}); err == nil {
				if _, err := plan.Canonical(c.Plan); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

func BenchmarkParseAndCompile(b *testing.B) {
	text := "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n" + strings.Repeat("      - run: 'true ${{ github.ref }}'\n", 100)
	for b.Loop() {
		w, err := workflow.Parse("ci.yml", []byte(text))
		if err != nil {
			b.Fatal(err)
		}
		legs, err := w.Jobs[0].Legs(nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := workflow.Compile(w.Jobs[0], legs.List[0], nil, workflow.CompileOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
