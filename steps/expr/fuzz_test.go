package expr_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/value"
)

var fuzzSeeds = []string{
	"", "plain $ text", "${{ job.id }}", `\${{ x }}`, `${{ "a ${{ b }}" + 'c' }}`, "${{ [1, {a: -2.5e3}][1].a % 3 }}", "${{ inputs.list[1] || job.token && !a }}",
	"${{", "${{ a }}}}", "${{ {(job.name): 1,} }}\n", "${{ \"\\u00e9\\ud83d\\n\\${{\" }}", "${{ 9223372036854775807 * 3 / 7 - 1 }}", "${{ str(inputs) + str(null) }}",
	"${{ num('1e3') >= 10 == true }}", "{\"a\":{\"b\":${{ a }}}}", "\xff${{ '\xfe' }}", "${{ ((((1)))) }}", "${{ inputs.b-c }}", "${{ a[0.5] }}", "${{ success() }}",
}

func FuzzParseTemplate(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		escaped, err := expr.ParseTemplate(expr.Escape(text))
		if err != nil {
			t.Fatalf("escaped: %v", err)
		}
		if got, ok := escaped.Literal(); !ok || got != text {
			t.Fatalf("escaped and parsed: %q, %v", got, ok)
		}
		template, err := expr.ParseTemplate(text)
		if err != nil {
			checkError(t, text, err)
			return
		}
		offset := -1
		for _, part := range template.Parts() {
			if part.Offset <= offset || (part.Text == "") == (part.Expr == nil) {
				t.Fatalf("part %+v behind offset %d", part, offset)
			}
			offset = part.Offset
		}
		s := testScope(t)
		first, err := template.Eval(s)
		again, err2 := expr.Expand(value.OfString(text), s)
		if fmt.Sprint(err) != fmt.Sprint(err2) || !value.Equal(first, again) || first.Sensitive() != again.Sensitive() {
			t.Fatalf("evaluated twice: %s, %v; %s, %v", first.Text(), err, again.Text(), err2)
		}
		if err != nil {
			checkError(t, text, err)
		}
	})
}

func FuzzEval(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add(strings.TrimSuffix(strings.TrimPrefix(seed, "${{"), "}}"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := expr.Parse(text)
		if err != nil {
			checkError(t, text, err)
			return
		}
		s := testScope(t)
		v, err := e.Eval(s)
		if err != nil {
			checkError(t, text, err)
			return
		}
		if v.Kind() == value.Number {
			if _, err := value.ParseNumber(v.Text()); err != nil {
				t.Fatalf("a number that is none: %s", v.Text())
			}
		}
		whole, err := expr.Parse("[" + text + "][0]")
		if err != nil {
			return // a limit
		}
		if again, err := whole.Eval(s); err != nil || !value.Equal(v, again) || v.Sensitive() != again.Sensitive() {
			t.Fatalf("in an array: %s, %v; alone: %s", again.Text(), err, v.Text())
		}
	})
}

// checkError fails unless the error points into the text, shows no secret and has a message of sensible size.
func checkError(t *testing.T, text string, err error) {
	t.Helper()
	var e *expr.Error
	if !errors.As(err, &e) {
		t.Fatalf("the error is a %T", err)
	}
	if length := utf8.RuneCountInString(text); e.Offset < 0 || e.Length < 1 || e.Offset > length || e.Offset+e.Length > length+1 {
		t.Fatalf("the error is at %d, %d long, in %d characters", e.Offset, e.Length, length)
	}
	for _, secret := range []string{"s3cret", "hidden", "k3y"} {
		if strings.Contains(e.Message+e.Hint, secret) && !strings.Contains(text, secret) {
			t.Fatalf("the error shows a secret: %s", e.Message)
		}
	}
	if e.Message == "" || len(e.Message) > 2_000 || strings.Contains(e.Message, "\n") && !strings.Contains(text, "\n") {
		t.Fatalf("the error message is %q", e.Message)
	}
}

// thousand are as many different expressions of the usual kinds, as templates.
func thousand() []string {
	texts := make([]string, 1_000)
	for i := range texts {
		switch i % 4 {
		case 0:
			texts[i] = fmt.Sprintf("${{ steps.s%d.outputs.value }}", i%50)
		case 1:
			texts[i] = fmt.Sprintf("registry/${{ job.name }}:${{ job.id }}-%d", i)
		case 2:
			texts[i] = fmt.Sprintf(`${{ inputs.count > %d && "many" || "few ${{ inputs.text }}" }}`, i)
		default:
			texts[i] = fmt.Sprintf("${{ {a: [%d, inputs.count * 2 + 1], b: str(inputs.favorites)} }}", i)
		}
	}
	return texts
}

func benchScope(b *testing.B) scope {
	s := testScope(b)
	steps := map[string]value.Value{}
	for i := range 50 {
		steps[fmt.Sprintf("s%d", i)] = fromJSON(b, `{"outputs": {"value": "v", "other": [1, 2, 3]}, "status": "success"}`)
	}
	s.Values["steps"] = value.OfStruct(steps)
	return s
}

// BenchmarkParse parses a thousand expressions, none of which is in the cache.
func BenchmarkParse(b *testing.B) {
	texts := thousand()
	b.ReportAllocs()
	for b.Loop() {
		for _, text := range texts {
			if _, err := expr.Parse(`"` + strings.ReplaceAll(text, `"`, "'") + `"`); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkEval parses a thousand templates, or takes them from the cache, and evaluates them.
func BenchmarkEval(b *testing.B) {
	texts := thousand()
	s := benchScope(b)
	b.ReportAllocs()
	for b.Loop() {
		for _, text := range texts {
			template, err := expr.ParseTemplate(text)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := template.Eval(s); err != nil {
				b.Fatal(err)
			}
		}
	}
}
