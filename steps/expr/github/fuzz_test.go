package github

import (
	"testing"
	"unicode/utf8"

	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/value"
)

var seeds = []string{
	"github.ref == 'refs/heads/main' && !github.event.draft", "github.event.labels.*.name[0]", "format('{0} {{ {1}', github.list, 0x1F)", "join(github.map.*.x, ', ')",
	"toJSON(fromJSON('{\"a\":[1,{}]}'))", "case(github.ref, 1, 2)", "contains(github.list, 'ONE') || failure()", "steps.a-b['c'].outputs[github.ref]", "-Infinity < .5 >= 1E+1",
	"'it''s", "((1)", "a.b.c[*].*", "!!!null", "hashFiles('**/go.sum')", "é ++ 1", "\xff", "github['", "fromJSON('[]')[0].x", "${{ 1 }}", "a\\${{ 'b' }}}} c",
}

// checkError checks that an error can be shown.
func checkError(t *testing.T, source string, err error) {
	t.Helper()
	e, ok := err.(*Error)
	if !ok || e.Message == "" || e.Length < 1 || e.Offset < 0 || e.Offset > utf8.RuneCountInString(source) {
		t.Fatalf("%q: %#v", source, err)
	}
}

func FuzzEval(f *testing.F) {
	for _, seed := range seeds {
		f.Add(seed)
	}
	scope := status{world(f), true}
	f.Fuzz(func(t *testing.T, source string) {
		e, err := Parse(source, nil)
		if err != nil {
			checkError(t, source, err)
			return
		}
		for _, r := range e.References() {
			if len(r.Path) == 0 || r.Length < 1 || r.Offset+r.Length > utf8.RuneCountInString(source) {
				t.Fatalf("%q: %+v", source, r)
			}
		}
		v, err := e.Eval(scope)
		if err != nil {
			checkError(t, source, err)
			return
		}
		// Renaming all fields and back gives an expression that means the same.
		renamed := e.Rename(func(path []string) {
			for i := 1; i < len(path); i++ {
				path[i] += " é'"
			}
		})
		again, err := Parse(renamed, nil)
		if err != nil {
			if utf8.RuneCountInString(renamed) > MaxLength {
				return
			}
			t.Fatalf("%q became %q: %v", source, renamed, err)
		}
		back, err := Parse(again.Rename(func(path []string) {
			for i := 1; i < len(path); i++ {
				path[i] = path[i][:len(path[i])-len(" é'")]
			}
		}), nil)
		if err != nil {
			t.Fatalf("%q became %q: %v", source, renamed, err)
		}
		if w, err := back.Eval(scope); err != nil || Text(w) != Text(v) {
			t.Fatalf("%q is %s, and as %q %s (%v)", source, Text(v), back, Text(w), err)
		}
	})
}

func FuzzField(f *testing.F) {
	for _, seed := range seeds {
		f.Add("x ${{ " + seed + " }}}} y")
		f.Add(seed)
	}
	scope := status{world(f), false}
	f.Fuzz(func(t *testing.T, text string) {
		tmpl, err := ParseTemplate(text, nil)
		if err != nil {
			checkError(t, text, err)
			return
		}
		want, err := tmpl.Eval(scope)
		if err != nil {
			checkError(t, text, err)
			return
		}
		ourTemplate, err := expr.ParseTemplate(tmpl.Field(nil))
		if err != nil {
			t.Fatalf("%q became %q: %v", text, tmpl.Field(nil), err)
		}
		if got, err := ourTemplate.Eval(ours{scope}); err != nil || got.Str() != Text(want) || got.Kind() != value.String {
			t.Fatalf("%q yields %q, and as %q %q (%v)", text, Text(want), tmpl.Field(nil), got.Text(), err)
		}
	})
}
