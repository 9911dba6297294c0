package expr_test

import (
	"testing"

	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/value"
)

// lenient takes missing variables for null.
type lenient struct{ expr.Values }

func (lenient) Lenient(name string) bool { return name == "vars" }

func TestALenientScopeHasNullForWhatIsMissing(t *testing.T) {
	t.Parallel()
	scope := lenient{expr.Values{
		"vars":   value.OfStruct(map[string]value.Value{"SET": value.OfString("x")}),
		"inputs": value.OfStruct(nil),
	}}
	for text, want := range map[string]string{
		"vars.SET": `"x"`, "vars.NOPE": "null", `vars["NOPE"]`: "null", "!vars.NOPE": "true", `vars.NOPE || "default"`: `"default"`,
		"inputs.nope": "", "vars.NOPE.deeper": "", "vars[0]": "", "nope.vars": "",
	} {
		e, err := expr.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Eval(scope)
		switch {
		case want == "" && err == nil:
			t.Errorf("%s is %s, want an error", text, got.AppendJSON(nil))
		case want != "" && (err != nil || string(got.AppendJSON(nil)) != want):
			t.Errorf("%s is %s (%v), want %s", text, got.AppendJSON(nil), err, want)
		}
	}
}
