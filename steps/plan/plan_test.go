package plan_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

func example() *plan.Component {
	span := diag.Span{File: "step.yml", Line: 3, Column: 5, Length: 2}
	text := func(s string) plan.Field { return plan.Field{Value: value.OfString(s), Span: span} }
	number := value.OfInt(9007199254740993)
	where := text("dir")
	return &plan.Component{
		Spec: plan.Spec{
			Inputs:  map[string]plan.Input{"n": {Type: value.Number, Default: &number, Span: span}},
			Outputs: map[string]plan.Output{"o": {Type: value.Struct, Sensitive: true, Span: span}},
			Secrets: map[string]plan.SecretRequest{"TOKEN": {Optional: true, Span: span}},
		},
		Definition: plan.Definition{
			Env: map[string]plan.Field{"A": text("${{ inputs.n }}")},
			Steps: []plan.Step{
				{Name: "a", Ref: &plan.Reference{Kind: plan.RefLocal, Text: "./a", Path: []string{".", "a"}, Span: span}, Timeout: plan.Duration(90 * time.Second), Span: span},
				{Name: "b", Inline: &plan.Component{Spec: plan.Spec{AnyOutputs: true}, Definition: plan.Definition{
					Exec: &plan.Exec{Script: &plan.Script{Text: text("echo")}, WorkDir: &where},
				}}, If: &plan.Field{Value: value.OfBool(false), Span: span}},
				{Name: "c", Parallel: []plan.Step{{Name: "d", Inline: &plan.Component{Definition: plan.Definition{
					Exec: &plan.Exec{Command: []plan.Field{text("true")}},
				}}, Span: span}}},
			},
			Span: span,
		},
	}
}

func TestCanonicalTextDependsOnMeaningAlone(t *testing.T) {
	t.Parallel()
	first, err := plan.Canonical(example())
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := plan.Parse(first)
	if err != nil {
		t.Fatal(err)
	}
	second, err := plan.Canonical(parsed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(first), string(second)); diff != "" {
		t.Errorf("reading and writing changes the text:\n%s", diff)
	}
	spanned, err := plan.WithSpans(example())
	if err != nil {
		t.Fatal(err)
	}
	if parsed, err = plan.Parse(spanned); err != nil {
		t.Fatal(err)
	}
	again, err := plan.WithSpans(parsed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(spanned), string(again)); diff != "" {
		t.Errorf("spans do not survive reading and writing:\n%s", diff)
	}
}

func TestAFieldIsNotTakenForItsSpannedForm(t *testing.T) {
	t.Parallel()
	var f plan.Field
	text := `{"span":1,"value":2}`
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		t.Fatal(err)
	}
	if got := string(f.Value.AppendJSON(nil)); got != text {
		t.Errorf("the value is %s, want %s", got, text)
	}
}

func TestParseIsStrict(t *testing.T) {
	t.Parallel()
	if _, err := plan.Parse([]byte(`{"spec":{},"definition":{},"more":1}`)); err == nil {
		t.Error("an unknown key is accepted")
	}
}
