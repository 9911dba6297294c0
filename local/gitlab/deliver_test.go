package gitlab

import (
	"strings"
	"testing"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

func TestTheCachesThatAJobUsesAreKnownByItsSteps(t *testing.T) {
	text := func(s string) plan.Field { return plan.Field{Value: value.OfString(s)} }
	c := &plan.Component{Definition: plan.Definition{Steps: []plan.Step{
		{Ref: &plan.Reference{Text: restoreRef}, Inputs: map[string]plan.Field{
			"key": text("a/b"), "fallback_keys": {Value: value.OfArray([]value.Value{value.OfString("c"), value.OfString("../../d")})},
		}},
		{Ref: &plan.Reference{Text: saveRef}, Inputs: map[string]plan.Field{"key": text("a/b")}},
		{Ref: &plan.Reference{Text: "builtin://script"}, Inputs: map[string]plan.Field{"key": text("x")}},
	}}}
	if got := strings.Join(cacheKeys(c), " "); got != "a/b c d" {
		t.Errorf("the keys are %s", got)
	}
}
