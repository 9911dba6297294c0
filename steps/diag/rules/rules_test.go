package rules_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/rules"
)

func TestEveryRuleHasItsSectionInTheDocuments(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range rules.All() {
		if seen[r.ID] {
			t.Errorf("%s is in the table twice", r.ID)
		}
		seen[r.ID] = true
		if !strings.Contains(string(text), "\n### "+r.ID+"\n") {
			t.Errorf("docs/rules.md has no section %q", r.ID)
		}
	}
	for line := range strings.Lines(string(text)) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "### "); ok && !seen[id] {
			t.Errorf("docs/rules.md has the section %q, and there is no such rule", id)
		}
	}
}

func TestCommentsIgnoreFindings(t *testing.T) {
	t.Parallel()
	text := "a: # rung: ignore unreachable\n# rung: ignore unknown-step, input-type\nb: 1\nc: 1\n# rung: ignore unknwn-step\n# rung: ignore invalid\n# rung: ignore\nurl: x#rung: ignore input-type\n"
	at := func(line int, rule string) diag.Diagnostic {
		return diag.Diagnostic{Span: diag.Span{File: "f", Line: line}, Code: rule, Message: "x"}
	}
	list := diag.List{
		at(1, "unreachable"), at(1, "unknown-step"), at(2, "unreachable"), at(3, "unknown-step"), at(3, "input-type"),
		at(4, "input-type"), at(7, "invalid"), at(8, "input-type"),
	}
	var got []string
	for _, d := range rules.Apply(list, []string{"f"}, func(string) []byte { return []byte(text) }) {
		got = append(got, d.Code+" "+d.Span.String()+" "+d.Message+" "+d.Hint)
	}
	want := []string{
		"unknown-step f:1:0 x ", "unreachable f:2:0 x ", "input-type f:4:0 x ", "invalid f:7:0 x ", "input-type f:8:0 x ",
		`unknown-rule f:5:3 there is no rule "unknwn-step" did you mean "unknown-step"?`,
		"unknown-rule f:6:3 invalid cannot be ignored fix what it finds: nothing would run otherwise",
		"unknown-rule f:7:3 the comment names no rule write the ID of the rule after it",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFindingsAreSortedByTheirRules(t *testing.T) {
	t.Parallel()
	errors, warnings, notes := rules.Split(diag.List{{Code: rules.Unreachable}, {Code: rules.ComponentNotCached}, {Message: "x"}, {Code: rules.UnknownStep}})
	if len(errors) != 2 || len(warnings) != 1 || len(notes) != 1 {
		t.Error(errors, warnings, notes)
	}
}
