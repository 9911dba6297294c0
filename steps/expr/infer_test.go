package expr_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/value"
)

// known is what the expressions of the test see.
type known map[string]expr.Type

func (k known) Type(name string) (expr.Type, bool) { t, ok := k[name]; return t, ok }

func (k known) Names() []string {
	var names []string
	for name := range k {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (known) HasFunction(name string) bool { return name == "always" }

func TestMistakesAreFoundBeforeTheEvaluation(t *testing.T) {
	t.Parallel()
	step := expr.ClosedStruct(map[string]expr.Type{"status": expr.OfKind(value.String), "outputs": expr.ClosedStruct(map[string]expr.Type{"n": expr.OfKind(value.Number)})})
	scope := known{
		"steps": expr.ClosedStruct(map[string]expr.Type{"slow": step}),
		"vars":  expr.OfKind(value.Struct),
	}
	for source, want := range map[string]string{
		"steps.slow.outputs.n + 1":       "",
		"vars.ANY.thing + 1":             "",
		"vars[vars.NAME]":                "",
		"steps[vars.NAME].outputs.x":     "",
		"always() && vars.x == 1":        "",
		"{a: 1}.a + 1":                   "",
		`steps.slow.outputs.n == "1"`:    "",
		"steps.slwo.outputs.n":           `steps.slwo: "slwo" was not found; steps has "slow" @6+4 did you mean "slow"?`,
		`steps["slwo"]`:                  `steps["slwo"]: "slwo" was not found; steps has "slow" @5+8 did you mean "slow"?`,
		"vars.x && steps.slow.outputs.m": `steps.slow.outputs.m: "m" was not found; steps.slow.outputs has "n" @29+1 did you mean "n"?`,
		"steps.slow.status.x":            `steps.slow.status.x: "x" was not found; steps.slow.status is a string @18+1`,
		`steps.slow.outputs.n + "1"`:     `"+" takes two numbers or two strings, not a number and a string @0+26 str(value) makes a string, num(text) a number`,
		"-steps.slow.status":             `"-" takes a number, not a string @0+18 num(text) makes a number`,
		"alway()":                        `there is no function "alway"; the functions are str, num, bool, always, success, failure, cancelled @0+7 did you mean "always"?`,
		"str(1, 2)":                      `str takes one value, not 2 @0+9`,
		"inptus.x":                       `inptus: "inptus" was not found; available are "steps", "vars" @0+6`,
		`"${{ steps.nope }}" + {a: 1}.b`: `steps.nope: "nope" was not found; steps has "slow" @11+4|{a: 1}.b: "b" was not found; {a: 1} has "a" @29+1 did you mean "a"?`,
		"[steps.nope, !(steps.no)][0]":   `steps.nope: "nope" was not found; steps has "slow" @7+4|steps.no: "no" was not found; steps has "slow" @21+2`,
	} {
		e, err := expr.Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		_, found := e.Infer(scope)
		for _, m := range found {
			got = append(got, strings.TrimSpace(m.Message+" "+place(m.Error)+" "+m.Hint))
		}
		if text := strings.Join(got, "|"); text != want {
			t.Errorf("%s:\n got %s\nwant %s", source, text, want)
		}
	}
}

func TestConstants(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{"false": "false", "1 == 2": "false", "!true": "false", "false && steps.x": "false", "always()": "", "vars.x": "", "true || x": "true"} {
		e, err := expr.Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if v, ok := e.Constant(); ok {
			got = v.Text()
		}
		if got != want {
			t.Errorf("%s is %q, want %q", source, got, want)
		}
	}
}

func place(e *expr.Error) string { return fmt.Sprintf("@%d+%d", e.Offset, e.Length) }
