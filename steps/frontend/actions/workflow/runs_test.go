package workflow_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/frontend/actions/workflow"
)

func TestWhetherAJobRuns(t *testing.T) {
	t.Parallel()
	const (
		ok, failed, skipped, cancelled = workflow.Success, workflow.Failure, workflow.Skipped, workflow.Cancelled
	)
	type results = map[string]workflow.Result
	for name, c := range map[string]struct {
		condition string
		results   results // of first, which second needs, which the job needs
		cancelled bool
		want      string // why not; "" runs
	}{
		"all succeeded":                            {"", results{"first": ok, "second": ok}, false, ""},
		"a need failed":                            {"", results{"first": ok, "second": failed}, false, "it needs second, which failed"},
		"a need was skipped":                       {"", results{"first": ok, "second": skipped}, false, "it needs second, which was skipped"},
		"a need was cancelled":                     {"", results{"first": ok, "second": cancelled}, false, "it needs second, which was cancelled"},
		"an ancestor failed, and the need did not": {"", results{"first": failed, "second": ok}, false, "it needs first, which failed"},
		"always":                      {"always()", results{"first": failed, "second": skipped}, true, ""},
		"a condition that holds":      {"github.ref == 'main'", results{"first": ok, "second": ok}, false, ""},
		"a condition that does not":   {"github.ref == 'dev'", results{"first": ok, "second": ok}, false, "its condition does not hold: github.ref == 'dev'"},
		"a condition after a failure": {"github.ref == 'main'", results{"first": ok, "second": failed}, false, "it needs second, which failed"},
		"a condition in ${{ }}":       {"${{ needs.second.outputs.x == 'Y' }}", results{"first": ok, "second": ok}, false, ""},
		"failure":                     {"failure()", results{"first": ok, "second": failed}, false, ""},
		"failure of an ancestor":      {"failure()", results{"first": failed, "second": skipped}, false, ""},
		"failure of nothing":          {"failure()", results{"first": ok, "second": ok}, false, "its condition does not hold"},
		"failure of one by name":      {"failure('first')", results{"first": ok, "second": failed}, false, "its condition does not hold"},
		"success of one by name":      {"success('first')", results{"first": ok, "second": failed}, false, ""},
		"cancelled":                   {"cancelled()", results{"first": ok, "second": cancelled}, true, ""},
		"not cancelled":               {"!cancelled()", results{"first": failed, "second": skipped}, false, ""},
		"a cancelled run":             {"", results{"first": ok, "second": ok}, true, "the run is cancelled"},
		"success or failure":          {"success() || failure()", results{"first": ok, "second": failed}, false, ""},
		"the result of a need":        {"always() && needs.second.result == 'skipped'", results{"first": ok, "second": skipped}, false, ""},
		"true":                        {"true", results{"first": ok, "second": ok}, false, ""},
		"false":                       {"false", results{"first": ok, "second": ok}, false, "its condition does not hold: false"},
		"an empty condition":          {" ", results{"first": ok, "second": failed}, false, "it needs second, which failed"},
	} {
		t.Run(name, func(t *testing.T) {
			condition := ""
			if c.condition != "" {
				condition = `if: "` + c.condition + `", `
			}
			w := parse(t, "on: push\njobs:\n  first: {runs-on: x, steps: [{run: x}]}\n  second: {needs: FIRST, runs-on: x, outputs: {x: y}, steps: [{run: x}]}\n"+
				"  job: {needs: second, "+condition+"runs-on: x, steps: [{run: x}]}\n")
			given := contexts(t, `{"github": {"ref": "main"}, "needs": {"second": {"result": "`+string(c.results["second"])+`", "outputs": {"x": "y"}}}}`)
			runs, why, err := w.Job("job").Runs(workflow.Status{Results: c.results, Cancelled: c.cancelled}, given)
			if err != nil {
				t.Fatal(err)
			}
			if runs != (c.want == "") || !strings.HasPrefix(why, c.want) {
				t.Errorf("%t, %q; want %q", runs, why, c.want)
			}
		})
	}
	t.Run("a condition that cannot be computed", func(t *testing.T) {
		_, _, err := job(t, "if: fromJSON(vars.x)\n").Runs(workflow.Status{}, contexts(t, `{"vars": {"x": "["}}`))
		if err == nil || !strings.Contains(err.Error(), `ci.yml:6:9: the condition of the job "a" cannot be computed`) {
			t.Error(err)
		}
	})
}

func TestTheOrderOfJobs(t *testing.T) {
	t.Parallel()
	w := parse(t, "on: push\njobs:\n  d: {needs: [b, c], runs-on: x, steps: [{run: x}]}\n  a: {runs-on: x, steps: [{run: x}]}\n  b: {needs: A, runs-on: x, steps: [{run: x}]}\n  c: {needs: a, runs-on: x, steps: [{run: x}]}\n")
	var order []string
	for _, j := range w.Order() {
		order = append(order, j.ID)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, order); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"b", "a", "c"}, w.Ancestors(w.Job("d"))); diff != "" {
		t.Error(diff)
	}
	if w.Job("x") != nil || w.Job("D") != w.Jobs[0] {
		t.Error("jobs are found by their ids without regard to case")
	}
}
