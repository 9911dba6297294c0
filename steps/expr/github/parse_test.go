package github

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMistakesInExpressions(t *testing.T) {
	for _, c := range []struct {
		source string
		want   string // the message
		offset int    // in characters
		length int
		hint   string
	}{
		{"", "expected an expression", 0, 1, ""},
		{"  ", "expected an expression", 0, 2, ""},
		{"1 <", "the expression ends too early", 3, 1, ""},
		{"(1", "the expression ends too early: its closing ) is missing", 2, 1, ""},
		{"github.list[0", "the expression ends too early: its closing ] is missing", 13, 1, ""},
		{"format('a',", "the expression ends too early", 11, 1, ""},
		{"'a", "the string is not closed: its second ' is missing", 0, 1, "write '' for a quote"},
		{"'é' == 'b", "the string is not closed: its second ' is missing", 7, 1, ""},
		{`github.ref == "main"`, `unexpected symbol "\"main\""`, 14, 6, "single quotes"},
		{"github.ref = 'a'", `unexpected symbol "="`, 11, 1, "compare with =="},
		{"a & b", `unexpected symbol "&"`, 2, 1, "&&"},
		{"1 + 2", `unexpected symbol "+"`, 2, 1, "no arithmetic"},
		{"github.run and 1", `unexpected symbol "and"`, 11, 3, "&&"},
		{"'a' ? 'b'", `unexpected symbol "?"`, 4, 1, "case("},
		{"${{ github.ref }}", `unexpected symbol "${{"`, 0, 3, "as it is"},
		{"1_000", `unexpected symbol "1_000"`, 0, 5, ""},
		{"0xg", `unexpected symbol "0xg"`, 0, 3, ""},
		{"1.2.3", `unexpected symbol "1.2.3"`, 0, 5, ""},
		{"'a'.b", `unexpected symbol "."`, 3, 1, ""},
		{"'a'[0]", `unexpected symbol "["`, 3, 1, ""},
		{"github.'a'", `unexpected symbol "'a'"`, 7, 3, ""},
		{"github.1", `unexpected symbol "1"`, 7, 1, ""},
		{"github.()", `unexpected symbol "("`, 7, 1, ""},
		{"github ref", `unexpected symbol "ref"`, 7, 3, ""},
		{"* 1", `unexpected symbol "*"`, 0, 1, ""},
		{"a!b", `unexpected symbol "!"`, 1, 1, ""},
		{"format('a',)", `unexpected symbol ")"`, 11, 1, ""},
		{"(1, 2)", `unexpected symbol ","`, 2, 1, ""},
		{"[1]", `unexpected symbol "["`, 0, 1, ""},
		{"github.ref)", `unexpected symbol ")"`, 10, 1, ""},
		{"True", `unrecognized named-value "True"`, 0, 4, "true is written in lower case"},
		{"!githb.ref", `unrecognized named-value "githb"`, 1, 5, "did you mean github?"},
		{"1 == Foo", `unrecognized named-value "Foo"`, 5, 3, "the contexts here are github, env"},
		{"startWith('a', 'b')", `unrecognized function "startWith"`, 0, 9, "did you mean startsWith?"},
		{"contains('a')", "too few parameters for contains: it takes 2, not 1", 0, 13, ""},
		{"1 == join()", "too few parameters for join: it takes 1 to 2, not 0", 5, 6, ""},
		{"format()", "too few parameters for format: it takes 1 or more, not 0", 0, 8, ""},
		{"toJSON(1, 2)", "too many parameters for toJSON: it takes 1, not 2", 0, 12, ""},
		{"always(1)", "too many parameters for always: it takes 0, not 1", 0, 9, ""},
		{"case(true, 1)", "too few parameters for case: it takes 3 or more, not 2", 0, 13, ""},
		{"case(true, 1, false, 2)", "an even number of parameters for case", 0, 23, "write case(condition"},
		{strings.Repeat("!", 60) + "true", "the expression nests deeper than 50 levels", 10, 54, "split it"},
		{"a" + strings.Repeat(".b", 60), "the expression nests deeper than 50 levels", 0, 101, ""},
		{strings.Repeat("a", 100_000), "the expression is longer than 21000 characters", 0, 1, "split it"},
	} {
		t.Run(fmt.Sprintf("%.40s", c.source), func(t *testing.T) {
			_, err := Parse(c.source, nil)
			e, ok := err.(*Error)
			if !ok {
				t.Fatalf("error %v", err)
			}
			if !strings.HasPrefix(e.Message, c.want) || e.Offset != c.offset || e.Length != c.length || !strings.Contains(e.Hint, c.hint) {
				t.Errorf("%q at %d+%d, hint %q; want %q at %d+%d", e.Message, e.Offset, e.Length, e.Hint, c.want, c.offset, c.length)
			}
		})
	}
}

func TestWhatCanBeLong(t *testing.T) {
	for name, source := range map[string]string{
		"parentheses":         strings.Repeat("(", 10_000) + "1" + strings.Repeat(")", 10_000),
		"a chain of one kind": strings.Repeat("1 && ", 4_000) + "1",
		"a chain in parts":    strings.Repeat("(1 && ", 1_000) + "1" + strings.Repeat(")", 1_000),
		"a string":            "'" + strings.Repeat("é", MaxLength-2) + "'",
	} {
		if _, err := Parse(source, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Run("the text that an evaluation makes has a limit", func(t *testing.T) {
		source := "'0123456789'"
		for range 8 {
			source = "format('{0}{0}{0}{0}{0}{0}{0}{0}{0}{0}', " + source + ")"
		}
		e, err := Parse(source, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Eval(nil); err == nil || !strings.Contains(err.Error(), "more than 16777216 bytes") {
			t.Error(err)
		}
	})
}

func TestAvailable(t *testing.T) {
	some := &Available{Contexts: []string{"github", "steps"}, Functions: []string{"success"}}
	for _, c := range []struct{ source, want string }{
		{"github.ref && steps.a.outputs.b && success()", ""},
		{"contains(github.ref, 'a')", ""},
		{"secrets.A && github.ref", `unrecognized named-value "secrets"`},
		{"github[Env.A]", `unrecognized named-value "Env"`},
		{"hashFiles('x')", "the function hashFiles cannot be used here"},
		{"matrix.x || ALWAYS()", `unrecognized named-value "matrix"`},
		{"always() || matrix.x", "the function always cannot be used here"},
	} {
		for range 2 { // the second time from the cache
			_, err := Parse(c.source, some)
			if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
				t.Errorf("%s: %v, want %q", c.source, err, c.want)
			}
		}
	}
	if _, err := Parse("jobs.a.outputs.b && hashFiles('x') && failure()", nil); err != nil {
		t.Errorf("without a list everything is available: %v", err)
	}
	if _, err := Parse("github.ref", &Available{}); err == nil || err.(*Error).Hint != "there are no contexts here" {
		t.Errorf("with an empty list nothing is: %v", err)
	}
}

func TestReferences(t *testing.T) {
	for _, c := range []struct {
		source string
		want   []string
	}{
		{"github", []string{"github @0+6"}},
		{"Steps.my-id.outputs['two words'].x", []string{"steps|my-id|outputs|two words|x @0+34"}},
		{"steps[matrix.id].outputs", []string{"steps @0+5", "matrix|id @6+9"}},
		{"needs.*.result == 'é' && env.A", []string{"needs @0+5", "env|A @25+5"}},
		{"fromJSON(inputs.list)[0].x", []string{"inputs|list @9+11"}},
		{"github.list[0].x", []string{"github|list @0+11"}},
		{"('steps.a')", nil},
	} {
		e, err := Parse(c.source, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range e.References() {
			got = append(got, fmt.Sprintf("%s @%d+%d", strings.Join(r.Path, "|"), r.Offset, r.Length))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.source, diff)
		}
	}
}

func TestRename(t *testing.T) {
	for source, want := range map[string]string{
		" steps.a.outputs.a ":              "steps.b.outputs.a",
		"steps . A . outputs":              "steps .b . outputs",
		"steps['a'].outputs['a']":          "steps.b.outputs['a']",
		"steps.dash":                       "steps['it''s']",
		"steps[ 'dash' ] == 'steps.a'":     "steps['it''s'] == 'steps.a'",
		"steps[steps.a.outputs.x].a":       "steps[steps.b.outputs.x].a",
		"a || steps.a && env.a":            "a || steps.b && env.a",
		"github.steps.a":                   "github.steps.a",
		"format('{0}', steps.a, steps.a)":  "format('{0}', steps.b, steps.b)",
		"steps.dash[steps.a.x] || steps.a": "steps['it''s'][steps.b.x] || steps.b",
	} {
		e, err := parse(source, 0, len(source))
		if err != nil {
			t.Fatal(err)
		}
		got := e.Rename(func(path []string) {
			if path[0] == "steps" && len(path) > 1 {
				switch strings.ToLower(path[1]) {
				case "a":
					path[1] = "b"
				case "dash":
					path[1] = "it's"
				}
			}
		})
		if got != want {
			t.Errorf("%s became %s, want %s", source, got, want)
		}
	}
}

func TestStatusFunctions(t *testing.T) {
	for source, want := range map[string]bool{
		"success()": true, "github.ref == 'x' || FAILURE()": true, "github[always()]": true, "case(cancelled(), 1, 2)": true,
		"'success()'": false, "github.success": false, "hashFiles('x')": false,
	} {
		if e, err := Parse(source, nil); err != nil || e.CallsStatus() != want {
			t.Errorf("%s: %v, %v", source, !want, err)
		}
	}
}
