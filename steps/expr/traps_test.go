package expr_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/value"
)

// TestTraps holds what early versions of the language got wrong, each once.
func TestTraps(t *testing.T) {
	t.Run("the right side of && and || is not evaluated eagerly", func(t *testing.T) {
		yields{"false && nope": "false", "true || nope": "true"}.check(t)
	})
	t.Run("negative numbers are true", func(t *testing.T) {
		yields{"bool(-1)": "true", "-0.001 && 1": "1", "!-5": "false"}.check(t)
	})
	t.Run("numbers print with more than six digits", func(t *testing.T) {
		yields{"str(1234567)": `"1234567"`, "str(3.14159265358979)": `"3.14159265358979"`, `"${{ 123456.789 }}"`: `"123456.789"`}.check(t)
	})
	t.Run("a fractional index is an error", func(t *testing.T) {
		fails{
			"[1, 2][0.9]": "[1, 2][0.9]: the index 0.9 is not a whole number", "[1, 2][-0.5]": "[1, 2][-0.5]: the index -0.5 is not a whole number",
		}.check(t)
	})
	t.Run("a mark deep inside survives", func(t *testing.T) {
		for _, text := range []string{"str([[[[job.token]]]])", "[{a: [{b: job.token}]}]", "[{a: [{b: job.token}]}] == 1"} {
			if v, err := eval(t, text); err != nil || !v.Sensitive() {
				t.Errorf("%s is not sensitive, %v", text, err)
			}
		}
	})
	t.Run("a sign takes a number only", func(t *testing.T) {
		fails{`-"x"`: `"-" takes a number, not a string`, `+"x"`: `"+" takes a number, not a string`, `-null`: `"-" takes a number, not null`}.check(t)
	})
	t.Run("!= is the opposite of == for every pair", func(t *testing.T) {
		all := []string{"null", "true", "1", `"1"`, "[]", "[1]", "{}", "{a: 1}", "inputs", "0.5"}
		for _, x := range all {
			for _, y := range all {
				equal, err := eval(t, x+" == "+y)
				different, err2 := eval(t, x+" != "+y)
				if err != nil || err2 != nil || equal.Bool() == different.Bool() || equal.Bool() != (x == y) {
					t.Errorf("%s and %s: == is %v, != is %v, %v, %v", x, y, equal.Bool(), different.Bool(), err, err2)
				}
			}
		}
	})
	t.Run("a lone dollar opens nothing", func(t *testing.T) {
		templates{"echo $": `"echo $"`, "echo $ ${{ a }}": `"echo $ 1"`, `${{ "$" }}`: `"$"`, `${{ '$' }}`: `"$"`}.check(t)
	})
	t.Run("|| does not swallow a missing name or an index out of range", func(t *testing.T) {
		for _, text := range []string{"inputs.missing || 1", "inputs.foods[5] || 1", "missing || 1"} {
			if _, err := eval(t, text); err == nil {
				t.Errorf("%s: no error", text)
			}
		}
	})
	t.Run("single-quoted strings do not interpolate", func(t *testing.T) {
		yields{`'${{ a }}'`: `"${{ a }}"`}.check(t)
	})
	t.Run("a value in a template need not be a string", func(t *testing.T) {
		templates{"n=${{ 1 }}": `"n=1"`}.check(t)
	})
	t.Run("a string has no items", func(t *testing.T) {
		fails{`"abc"[0]`: `"abc"[0]: 0 was not found; "abc" is a string`}.check(t)
	})
}

func TestDataIsNeverEvaluated(t *testing.T) {
	const hostile = `${{ job.token }} \${{ x }} ${{`
	s := expr.Values{
		"job":    fromJSON(t, `{"token": "s3cret"}`),
		"inputs": value.OfStruct(map[string]value.Value{"x": value.OfString(hostile), "l": value.OfArray([]value.Value{value.OfString(hostile)})}),
		"key":    value.OfString("${{ job.token }}"),
	}
	t.Run("B11 not when it is the result", func(t *testing.T) {
		for text, want := range map[string]string{
			"${{ inputs.x }}": hostile, "<${{ inputs.x }}>": "<" + hostile + ">", `${{ "${{ inputs.x }}" }}`: hostile, `${{ inputs.x + "" }}`: hostile,
			"${{ str(inputs.x) }}": hostile, "${{ inputs.l[0] }}": hostile, `${{ '${{ job.token }}' }}`: "${{ job.token }}", "${{ {(key): 1} }}": `{"${{ job.token }}":1}`,
		} {
			out, err := expr.Expand(value.OfString(text), s)
			if err != nil || out.Text() != want {
				t.Errorf("%s = %s, %v; want %s", text, out.Text(), err, want)
			}
		}
	})
	t.Run("B11 not inside of an array or struct, nor as a key", func(t *testing.T) {
		out, err := expr.Expand(fromJSON(t, `{"a": ["${{ inputs.l }}"], "${{ key }}": "${{ inputs.x }}"}`), s)
		if err != nil || out.Fields()["a"].Items()[0].Items()[0].Str() != hostile || out.Fields()["${{ job.token }}"].Str() != hostile {
			t.Errorf("got %s, %v", out.Text(), err)
		}
	})
	t.Run("B11 escaped data comes back as it was", func(t *testing.T) {
		out, err := expr.Expand(value.OfString(expr.Escape(hostile)), s)
		if err != nil || out.Str() != hostile {
			t.Errorf("got %s, %v", out.Text(), err)
		}
	})
}

func TestHostileInput(t *testing.T) {
	deep := func(open, middle, close string, n int) string {
		return strings.Repeat(open, n) + middle + strings.Repeat(close, n)
	}
	t.Run("what nests too deep is refused", func(t *testing.T) {
		for _, c := range [][3]string{{"(", "1", ")"}, {"[", "1", "]"}, {"{a:", "1", "}"}, {"!", "1", ""}, {"-", "1", ""}, {"a[", "0", "]"}, {"str(", "1", ")"},
			{`"${{`, "1", `}}"`}, {"{(", `"a"`, "):1}"}, {"1+(", "1", ")"}, {"1||(", "1", ")"}} {
			for _, n := range []int{expr.MaxDepth, 50_000} {
				_, err := expr.Parse(deep(c[0], c[1], c[2], n))
				wantError(t, c[0], err, "the expression is nested deeper than 200 levels")
			}
			if _, err := expr.Parse(deep(c[0], c[1], c[2], expr.MaxDepth/2-1)); err != nil {
				t.Errorf("%s: %v", c[0], err)
			}
		}
	})
	t.Run("what is long but flat is not deep", func(t *testing.T) {
		const n = 20_000
		yields{
			"1" + strings.Repeat("+1", n): "20001", "0" + strings.Repeat("||0", n): "0", "1" + strings.Repeat("*1+0", n): "1",
			"{}" + strings.Repeat(" == {}", 3): "false", `""` + strings.Repeat(`+""`, n): `""`,
		}.check(t)
		if _, err := eval(t, "deep"+strings.Repeat(".x", n)); err == nil {
			t.Error("no error")
		}
	})
	t.Run("what is too long is refused", func(t *testing.T) {
		spaces := strings.Repeat(" ", expr.MaxLength)
		_, err := expr.Parse("1" + spaces)
		wantError(t, "spaces", err, "the expression is longer than 1048576 bytes")
		for _, text := range []string{spaces, `"` + spaces + `"`, `'` + spaces + `'`, `"` + spaces} {
			_, err := expr.ParseTemplate("${{" + text + "1 }}")
			wantError(t, "template", err, "the expression is longer than 1048576 bytes")
		}
		if _, err := expr.ParseTemplate(spaces + "${{ a }}" + spaces + "${{ a }}"); err != nil {
			t.Errorf("the text around expressions counts: %v", err)
		}
	})
	t.Run("a text that grows too large is refused", func(t *testing.T) {
		s := expr.Values{"x": value.OfString(strings.Repeat("x", 8<<20))}
		for _, text := range []string{
			strings.Repeat("${{ x }}", 9), `${{ "` + strings.Repeat("${{ x }}", 9) + `" }}`, "${{ x" + strings.Repeat("+x", 9) + " }}",
			"${{ str([" + strings.Repeat("x,", 10_000) + "]) }}", "${{ str({a: [" + strings.Repeat("x,", 10_000) + "]}) }}",
		} {
			template, err := expr.ParseTemplate(text)
			if err != nil {
				t.Fatal(err)
			}
			_, err = template.Eval(s)
			wantError(t, text[:20], err, "the text would be longer than 67108864 bytes")
		}
	})
	t.Run("text that is not UTF-8 is kept, and counted", func(t *testing.T) {
		v, err := evalTemplate(t, "\xff${{ \"\xfe\" }}\xfd")
		if err != nil || v.Str() != "\xff\xfe\xfd" {
			t.Errorf("got %q, %v", v.Str(), err)
		}
		_, err = evalTemplate(t, "\xff\xff${{ nope }}")
		var e *expr.Error
		if !errors.As(err, &e) || e.Offset != 6 {
			t.Errorf("got %+v", err)
		}
	})
	t.Run("an error message stays short", func(t *testing.T) {
		long := strings.Repeat("x", 100_000)
		for _, text := range []string{long, "job." + long, "job['" + long + "']", "num('" + long + "')", "${{" + long, "'" + long + "'.x", long + "()"} {
			e, err := expr.Parse(text)
			if err == nil {
				_, err = e.Eval(testScope(t))
			}
			if err == nil || len(err.Error()) > 500 {
				t.Errorf("%.20s…: the error has %d bytes", text, len(messageOf(err)))
			}
		}
	})
}
