package github_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rungci/rung/internal/mask/masktest"
	ghexpr "github.com/rungci/rung/steps/expr/github"
)

// shape writes a tree in prefix form.
func shape(t ghexpr.Tree) string {
	if path, ok := t.Path(); ok {
		return strings.Join(path, ".")
	}
	out := string(t.Kind)
	if t.Text != "" && t.Kind != ghexpr.FunctionOf {
		out = t.Text
	} else if t.Text != "" {
		out += " " + t.Text
	}
	if t.Kind == ghexpr.Literal {
		return ghexpr.Text(t.Value)
	}
	for _, arg := range t.Args {
		out += fmt.Sprintf(" (%s)", shape(arg))
	}
	return out
}

func TestATreeIsTheExpressionTakenApart(t *testing.T) {
	tests := map[string]string{
		"github.event['pull request'].x":   "github.event.pull request.x",
		"!env.a && env.b == 'c' && true":   "&& (not (env.a)) (== (env.b) (c)) (true)",
		"startsWith(github.ref, 'x') || 1": "|| (call startsWith (github.ref) (x)) (1)",
		"steps.*.outputs":                  "index (index (steps)) (outputs)",
		"matrix[env.x]":                    "index (matrix) (env.x)",
	}
	for source, want := range tests {
		e, err := ghexpr.Parse(source, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := shape(e.Tree()); got != want {
			t.Errorf("%s is %s, want %s", source, got, want)
		}
	}
}

func TestErrorsShowNoPartOfASecret(t *testing.T) {
	t.Parallel()
	masktest.Shortens(t, 60, func(text string) string {
		_, err := ghexpr.Parse("f("+text+")", nil)
		return fmt.Sprint(err)
	})
}
