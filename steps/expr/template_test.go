package expr_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/value"
)

func TestParts(t *testing.T) {
	type part struct {
		Text, Expr string
		Offset     int
	}
	for text, want := range map[string][]part{
		"":                                {},
		"plain":                           {{"plain", "", 0}},
		"${{ a }}":                        {{"", "a", 0}},
		"é ${{ a }} ü ${{b}}\n":           {{"é ", "", 0}, {"", "a", 2}, {" ü ", "", 10}, {"", "b", 13}, {"\n", "", 19}},
		`x \${{ a }} ${{ "é" + job.id }}`: {{"x ${{ a }} ", "", 0}, {"", `"é" + job.id`, 12}},
	} {
		template, err := expr.ParseTemplate(text)
		if err != nil {
			t.Fatal(err)
		}
		got := []part{}
		for _, p := range template.Parts() {
			g := part{Text: p.Text, Offset: p.Offset}
			if p.Expr != nil {
				g.Expr = p.Expr.String()
			}
			got = append(got, g)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: parts (-want +got):\n%s", text, diff)
		}
	}
}

func TestLiteralAndWhole(t *testing.T) {
	for _, c := range []struct {
		text, literal string
		isLiteral     bool
		whole         string
	}{
		{text: "", isLiteral: true},
		{text: "a $b", literal: "a $b", isLiteral: true},
		{text: `\${{ a }}`, literal: "${{ a }}", isLiteral: true},
		{text: "${{ a }}", whole: "a"},
		{text: "${{ a }}\n", whole: "a"},
		{text: "${{ a }}\r\n\n", whole: "a"},
		{text: " ${{ a }}"},
		{text: "${{ a }} "},
		{text: "${{ a }}${{ b }}"},
		{text: "${{ a }}\nx"},
	} {
		template, err := expr.ParseTemplate(c.text)
		if err != nil {
			t.Fatal(err)
		}
		literal, isLiteral := template.Literal()
		e, ok := template.Whole()
		whole := ""
		if ok {
			whole = e.String()
		}
		if literal != c.literal || isLiteral != c.isLiteral || whole != c.whole {
			t.Errorf("%q: literal %q, %v; whole %q", c.text, literal, isLiteral, whole)
		}
	}
}

func TestEscape(t *testing.T) {
	for _, text := range []string{"", "plain", "${{", "${{ a }}", `\${{ a }}`, `\\${{`, "$${{", "${{${{", "${${{{{", "}}", "${{ a }}}}"} {
		template, err := expr.ParseTemplate(expr.Escape(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got, ok := template.Literal(); !ok || got != text {
			t.Errorf("%q comes back as %q", text, got)
		}
	}
}

func TestParseCondition(t *testing.T) {
	for text, want := range map[string]string{
		"a == 1": "true", "${{ a == 2 }}": "false", " ${{ a == 1 }}\n": "true", `"${{ a }}" == "1"`: "true", "success() && a": "1", "'' ": `""`,
	} {
		e, err := expr.ParseCondition(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if v, err := e.Eval(testScope(t)); err != nil || string(v.AppendJSON(nil)) != want {
			t.Errorf("%s = %s, %v; want %s", text, v.AppendJSON(nil), err, want)
		}
	}
	for text, want := range map[string]expr.Error{
		"":                        {Offset: 0, Length: 1, Message: "the expression is empty"},
		"  ":                      {Offset: 0, Length: 2, Message: "the expression is empty"},
		"${{ }}":                  {Offset: 0, Length: 5, Message: "the expression is empty"},
		"${{ a }} && ${{ b }}":    {Offset: 9, Length: 11, Message: "unexpected text after the condition's expression"},
		"a && ${{ b }}":           {Offset: 5, Length: 1, Message: `unexpected "$" in an expression`},
		"a = 1":                   {Offset: 2, Length: 1, Message: `unexpected "=" in an expression`, Hint: "compare with =="},
		"a and b":                 {Offset: 2, Length: 3, Message: `expected an operator or the end of the expression, found "and"`, Hint: "logical and is &&"},
		"a ? b : a":               {Offset: 2, Length: 1, Message: `unexpected "?" in an expression`},
		"a ==":                    {Offset: 4, Length: 1, Message: "expected a value, found the end of the text"},
		"${{ a == }}":             {Offset: 9, Length: 2, Message: "expected a value, found the end of the expression"},
		"(a":                      {Offset: 2, Length: 1, Message: `expected ")", found the end of the text`},
		"a b":                     {Offset: 2, Length: 1, Message: `expected an operator or the end of the expression, found "b"`},
		"if":                      {Offset: 0, Length: 2, Message: `"if" is a reserved word and cannot be a name`},
		"\u00e9 + \"\u00e9\" + ;": {Offset: 10, Length: 1, Message: `unexpected ";" in an expression`},
	} {
		_, err := expr.ParseCondition(text)
		e := wantError(t, text, err, want.Message)
		if e.Offset != want.Offset || e.Length != want.Length || want.Hint != "" && e.Hint != want.Hint {
			t.Errorf("%s: got %+v, want %+v", text, *e, want)
		}
	}
}

func TestCalls(t *testing.T) {
	for text, want := range map[string]bool{
		"success()": true, "!failure() && a": true, "false && (a || always())": true, `"x ${{ "${{ success() }}" }}"`: true, "{a: [cancelled()]}": true,
		"success": false, "str(a)": false, "'success()'": false, "a.success": false, "[a[num(str(always()))]]": true,
	} {
		e, err := expr.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := e.Calls("always", "success", "failure", "cancelled"); got != want {
			t.Errorf("%s: calls a status function is %v", text, got)
		}
	}
}

func TestCheck(t *testing.T) {
	for text, want := range map[string]string{
		`"x ${{ a }}"`:                          "",
		`{"a": ["${{ a }}", 1, null, "${"]}`:    "",
		`{"${{ a }}": 1}`:                       "",
		`"${{ a +"`:                             `the expression is not closed: "}}" is missing after "${{ a +"`,
		`{"b": 1, "a": [1, "${{ }}"]}`:          "in .a[1]: the expression is empty",
		`{"x y": {"z": "${{ * }}"}}`:            `in ["x y"].z: expected a value, found "*"`,
		`{"${{ 1 1 }}": 1}`:                     `in ["${{ 1 1 }}"]: expected an operator or "}}", found "1"`,
		`{"b": "${{ b b }}", "a": "${{ if }}"}`: `in .a: "if" is a reserved word and cannot be a name`,
	} {
		if got := messageOf(expr.Check(fromJSON(t, text))); got != want {
			t.Errorf("%s: got error\n\t%s\nwant\n\t%s", text, got, want)
		}
	}
}

func TestExpandKeysAndErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{"k${{ a }}": 1, "plain": 2}`:       `{"k1":1,"plain":2}`,
		`{"${{ job.name }}": "${{ a }}"}`:    `{"build":1}`,
		`{"\\${{ a }}": 1}`:                  `{"${{ a }}":1}`,
		`{"x": {"${{ job.id }}": []}}`:       `{"x":{"1982":[]}}`,
		`{"build": 1, "${{ job.name }}": 2}`: `error: in .build: the key "build" is given twice`,
		`{"${{ a }}": 1}`:                    `error: in ["${{ a }}"]: a key must be a string, not a number`,
		`[{"x": "${{ job.idd }}"}]`:          `error: in [0].x: job.idd: "idd" was not found; job has "id", "name", "token"`,
		`{"${{ nope }}": 1}`:                 `error: in ["${{ nope }}"]: nope: "nope" was not found; available are "a", "b", "deep", "inputs", "job", "output_file", "vault"`,
		`[true, null, 1.5, "x", {}, []]`:     `[true,null,1.5,"x",{},[]]`,
	} {
		out, err := expr.Expand(fromJSON(t, text), testScope(t))
		got := string(out.AppendJSON(nil))
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want {
			t.Errorf("%s: got\n\t%s\nwant\n\t%s", text, got, want)
		}
	}
}

func TestFunctionErrorsUnwrap(t *testing.T) {
	cause := errors.New("no run")
	e, err := expr.Parse("1 + success()")
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Eval(failingScope{err: cause})
	wantError(t, "success()", err, "success: no run")
	if !errors.Is(err, cause) {
		t.Error("the cause is lost")
	}
	_, err = e.Eval(failingScope{err: &expr.Error{Message: "success() takes no values", Hint: "leave them out"}})
	if got := wantError(t, "success()", err, "success() takes no values"); got.Offset != 4 || got.Length != 9 || got.Hint != "leave them out" {
		t.Errorf("got %+v", *got)
	}
}

type failingScope struct {
	expr.Values
	err error
}

func (s failingScope) Call(string, []value.Value) (value.Value, bool, error) {
	return value.Value{}, true, s.err
}

func TestTemplatesAreCachedWithinBounds(t *testing.T) {
	a, err := expr.ParseTemplate("cached ${{ a }}")
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := expr.ParseTemplate("cached ${{ a }}"); a != b {
		t.Error("a template is parsed twice")
	}
	for i := range 1_000 { // half a megabyte: two generations
		if _, err := expr.ParseTemplate(strings.Repeat("x", 512+i) + "${{ a }}"); err != nil {
			t.Fatal(err)
		}
	}
	if b, _ := expr.ParseTemplate("cached ${{ a }}"); a == b {
		t.Error("a template is kept forever")
	}
	large := strings.Repeat("x", 1<<20) + "${{ a }}"
	c, _ := expr.ParseTemplate(large)
	if d, _ := expr.ParseTemplate(large); c == d {
		t.Error("a large template is kept")
	}
}

func TestConcurrentUse(t *testing.T) {
	s := testScope(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 200 {
				text := strings.Repeat(" ", (i+j)%50) + "x${{ job.id }}"
				if v, err := expr.Expand(value.OfString(text), s); err != nil || strings.TrimSpace(v.Str()) != "x1982" {
					t.Errorf("got %q, %v", v.Str(), err)
				}
			}
		})
	}
	wg.Wait()
}

func TestExamplesOfTheManualParse(t *testing.T) {
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "expressions.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(manual), "```yaml\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("no examples")
	}
	for _, block := range blocks {
		example, _, _ := strings.Cut(block, "```")
		if _, err := expr.ParseTemplate(example); err != nil {
			t.Errorf("%s%v", example, err)
		}
		for line := range strings.Lines(example) {
			if _, condition, ok := strings.Cut(line, "  if: "); ok {
				if _, err := expr.ParseCondition(condition); err != nil {
					t.Errorf("%s%v", line, err)
				}
			}
		}
	}
}
