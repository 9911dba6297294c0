package problems_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/problems"
)

func all() []problems.Problem {
	at := diag.Span{File: ".gitlab-ci.yml", Line: 3, Column: 5, Length: 6}
	return problems.Problems(
		diag.List{{Span: at, Message: "unknown key", Hint: "delete it", Source: "    scirpt: x"}, {Message: "no file"}},
		diag.List{{Span: at, Message: "a <stage> without jobs"}},
	)
}

func decode(t *testing.T, text []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := problems.JSON(&out, all()); err != nil {
		t.Fatal(err)
	}
	want := []any{
		map[string]any{"severity": "error", "file": ".gitlab-ci.yml", "line": 3., "column": 5., "length": 6., "message": "unknown key", "hint": "delete it", "source": "    scirpt: x"},
		map[string]any{"severity": "error", "message": "no file"},
		map[string]any{"severity": "warning", "file": ".gitlab-ci.yml", "line": 3., "column": 5., "length": 6., "message": "a <stage> without jobs"},
	}
	if diff := cmp.Diff(want, decode(t, out.Bytes())); diff != "" {
		t.Error(diff)
	}
}

func TestCodeQuality(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := problems.CodeQuality(&out, all()); err != nil {
		t.Fatal(err)
	}
	items := decode(t, out.Bytes()).([]any)
	first := items[0].(map[string]any)
	if len(items) != 3 || first["description"] != "unknown key" || first["severity"] != "major" || first["check_name"] != "invalid" {
		t.Errorf("the report is %s", out.Bytes())
	}
	if diff := cmp.Diff(map[string]any{"path": ".gitlab-ci.yml", "lines": map[string]any{"begin": 3.}}, first["location"]); diff != "" {
		t.Error(diff)
	}
	prints := map[any]bool{}
	for _, item := range items {
		prints[item.(map[string]any)["fingerprint"]] = true
	}
	if len(prints) != 3 {
		t.Error("two problems have one fingerprint")
	}
}

func TestAFingerprintDoesNotDependOnTheLine(t *testing.T) {
	t.Parallel()
	moved := all()
	moved[0].Line = 30
	var a, b bytes.Buffer
	if err := problems.CodeQuality(&a, all()[:1]); err != nil {
		t.Fatal(err)
	}
	if err := problems.CodeQuality(&b, moved[:1]); err != nil {
		t.Fatal(err)
	}
	one, two := decode(t, a.Bytes()).([]any)[0].(map[string]any), decode(t, b.Bytes()).([]any)[0].(map[string]any)
	if one["fingerprint"] != two["fingerprint"] {
		t.Error("the fingerprint changes with the line")
	}
}

func TestSARIF(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := problems.SARIF(&out, all(), "step-runner", "1.0"); err != nil {
		t.Fatal(err)
	}
	log := decode(t, out.Bytes()).(map[string]any)
	run := log["runs"].([]any)[0].(map[string]any)
	results := run["results"].([]any)
	if log["version"] != "2.1.0" || len(results) != 3 {
		t.Fatalf("the log is %s", out.Bytes())
	}
	first := results[0].(map[string]any)
	want := []any{map[string]any{"physicalLocation": map[string]any{
		"artifactLocation": map[string]any{"uri": ".gitlab-ci.yml"},
		"region":           map[string]any{"startLine": 3., "startColumn": 5., "endColumn": 11.},
	}}}
	if diff := cmp.Diff(want, first["locations"]); diff != "" {
		t.Error(diff)
	}
	if first["level"] != "error" || first["message"].(map[string]any)["text"] != "unknown key (delete it)" {
		t.Errorf("the first result is %v", first)
	}
	if _, placed := results[1].(map[string]any)["locations"]; placed {
		t.Error("a problem without a place has one")
	}
	out.Reset()
	if err := problems.SARIF(&out, nil, "step-runner", ""); err != nil || !bytes.Contains(out.Bytes(), []byte(`"results": []`)) {
		t.Errorf("without problems the log is %s", out.Bytes())
	}
}

func TestProblemsThatOthersFound(t *testing.T) {
	t.Parallel()
	list := []problems.Problem{
		{Diagnostic: diag.Diagnostic{Span: diag.Span{File: "a.ts", Line: 1}, Message: "x"}, Rule: "TS2304"},
		{Diagnostic: diag.Diagnostic{Message: "y"}, Rule: "notice", Note: true},
		{Diagnostic: diag.Diagnostic{Message: "z"}, Rule: "notice", Note: true},
	}
	var report, log bytes.Buffer
	if err := problems.CodeQuality(&report, list); err != nil {
		t.Fatal(err)
	}
	item := decode(t, report.Bytes()).([]any)[1].(map[string]any)
	if item["severity"] != "info" || item["check_name"] != "notice" {
		t.Errorf("the note is %v", item)
	}
	if err := problems.SARIF(&log, list, "step-runner", "1.0"); err != nil {
		t.Fatal(err)
	}
	run := decode(t, log.Bytes()).(map[string]any)["runs"].([]any)[0].(map[string]any)
	rules := run["tool"].(map[string]any)["driver"].(map[string]any)["rules"]
	if diff := cmp.Diff([]any{map[string]any{"id": "TS2304"}, map[string]any{"id": "notice"}}, rules); diff != "" {
		t.Error(diff)
	}
	if level := run["results"].([]any)[1].(map[string]any)["level"]; level != "note" {
		t.Errorf("the level is %v", level)
	}
}
