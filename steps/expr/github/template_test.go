package github

import (
	"strings"
	"testing"

	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/value"
)

// ours is a scope of our language, in which GitHub's expressions see the scope g.
type ours struct{ g Scope }

func (ours) Lookup(string) (value.Value, bool) { return value.Value{}, false }
func (ours) Names() []string                   { return nil }
func (o ours) Call(name string, args []value.Value) (value.Value, bool, error) {
	v, err := Call(name, args[0].Str(), o.g)
	return v, true, err
}

func TestTemplates(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       string // as JSON
		field      string // in a plan
		valueField string // where it differs
	}{
		{"no expression", "plain }} text", `"plain }} text"`, "plain }} text", ""},
		{"nothing", "", `""`, "", ""},
		{"only an expression", "${{ github.event.number }}", `12`, "${{ github_text('github.event.number') }}", "${{ github_value('github.event.number') }}"},
		{"an expression in text", "a ${{ github.ref }} b", `"a refs/heads/main b"`, "a ${{ github_text('github.ref') }} b", ""},
		{"a line break is text", "${{ github.event.number }}\n", `"12\n"`, "${{ github_text('github.event.number') }}\n", ""},
		{"values as text", "${{ null }}|${{ 1.50 }}|${{ github.list }}|${{ github.map }}|${{ true }}", `"|1.5|Array|Object|true"`,
			"${{ github_text('null') }}|${{ github_text('1.50') }}|${{ github_text('github.list') }}|${{ github_text('github.map') }}|${{ github_text('true') }}", ""},
		{"quotes and braces in strings", `${{ 'it''s' }} ${{ '}}' }}`, `"it's }}"`, `${{ github_text('\'it\'\'s\'') }} ${{ github_text('\'}}\'') }}`, ""},
		{"a backslash in a string", `x${{ 'C:\n' }}`, `"xC:\\n"`, `x${{ github_text('\'C:\\n\'') }}`, ""},
		{"backslashes before an expression are text", `C:\\${{ github.event.number }}\`, `"C:\\\\12\\"`, `C:${{ '\\\\' }}${{ github_text('github.event.number') }}\`, ""},
		{"braces after an expression are text", "{${{ 1 }}}}}", `"{1}}}"`, "{${{ github_text('1') }}${{ '}}}' }}", ""},
		{"one brace after an expression", "${{ 1 }}} x", `"1} x"`, "${{ github_text('1') }}} x", ""},
		{"what expressions yield is not a template", "${{ '${' }}${{ '{ 1 }}' }}", `"${{ 1 }}"`, "${{ github_text('\\'${\\'') }}${{ github_text('\\'{ 1 }}\\'') }}", ""},
		{"several lines", "${{\n  github.event.number\n}} x", `"12 x"`, "${{ github_text('github.event.number') }} x", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tmpl, err := ParseTemplate(c.text, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tmpl.Eval(world(t))
			if err != nil || show(got) != c.want {
				t.Errorf("it is %s (%v), want %s", show(got), err, c.want)
			}
			field, _ := TemplateField(c.text, nil)
			if field != c.field {
				t.Errorf("in a plan it is\n%s, want\n%s", field, c.field)
			}
			valueField, _ := ValueField(c.text, nil)
			if want := c.valueField; valueField != want && (want != "" || valueField != c.field) {
				t.Errorf("as a value it is\n%s, want\n%s", valueField, want)
			}
			sameField(t, valueField, got)
			sameField(t, field, value.OfString(Text(got)))
		})
	}
}

// sameField checks that a field yields the value when our language evaluates it.
func sameField(t *testing.T, field string, want value.Value) {
	t.Helper()
	tmpl, err := expr.ParseTemplate(field)
	if err != nil {
		t.Fatalf("%s: %v", field, err)
	}
	got, err := tmpl.Eval(ours{world(t)})
	if err != nil || !value.Equal(got, want) {
		t.Errorf("%s yields %s (%v), want %s", field, got.Text(), err, want.Text())
	}
}

func TestMistakesInTemplates(t *testing.T) {
	for _, c := range []struct {
		text, want string
		offset     int
	}{
		{"é ${{ github.ref", "the expression is not closed: its }} is missing", 2},
		{"${{ 'a }}", "the expression is not closed: its }} is missing", 0},
		{"a ${{ }}", "expected an expression", 5},
		{"é${{ github.ref }} ${{ 1 + 1 }}", `unexpected symbol "+"`, 25},
		{"é${{ nothing }}", `unrecognized named-value "nothing"`, 5},
		{strings.Repeat("a'", MaxLength/3) + "${{ github.ref }}", "a text with expressions has at most 21000 characters, and this one comes to 21025", 14000},
		{"a ${{ '" + strings.Repeat("a", MaxLength) + "' }}", "the expression is longer than 21000 characters", 5},
	} {
		_, err := ParseTemplate(c.text, nil)
		if e, ok := err.(*Error); !ok || e.Message != c.want || e.Offset != c.offset {
			t.Errorf("%.40s: %+v, want %q at %d", c.text, err, c.want, c.offset)
		}
	}
	t.Run("a mistake of the evaluation has its place in the whole text", func(t *testing.T) {
		tmpl, err := ParseTemplate("é ${{ 1 }} ${{ fromJSON('x') }}", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tmpl.Eval(nil); err == nil || err.(*Error).Offset != 15 {
			t.Errorf("%+v", err)
		}
	})
}

func TestConditions(t *testing.T) {
	for _, c := range []struct {
		name, text, field  string
		always             bool
		holds, afterFailed bool
	}{
		{"none", " ", "", false, true, false},
		{"bare", "github.event.number == 12", "github_holds('github.event.number == 12')", false, true, false},
		{"in braces", "${{ github.ref }}", "github_holds('github.ref')", false, true, false},
		{"that does not hold", "github.nothing", "github_holds('github.nothing')", false, false, false},
		{"with a status function", "failure() && github.ref", "github_holds('failure() && github.ref')", true, false, true},
		{"always", "${{ always() }}", "github_holds('always()')", true, true, true},
		{"with the name of one in a string", "'success()' != 'x'", `github_holds('\'success()\' != \'x\'')`, false, true, false},
		{"in lines", "github.ref &&\n  true\n", "github_holds('github.ref &&\n  true')", false, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			condition, err := ParseCondition(c.text, nil)
			if err != nil {
				t.Fatal(err)
			}
			field, always := condition.Field(nil), condition.CallsStatus()
			if field != c.field || always != c.always {
				t.Fatalf("%q, %v", field, always)
			}
			for failed, want := range map[bool]bool{false: c.holds, true: c.afterFailed} {
				scope := status{world(t), failed}
				if got, err := condition.Holds(scope); got != want || err != nil {
					t.Errorf("with failed %v it holds: %v (%v)", failed, got, err)
				}
				if field == "" {
					continue
				}
				e, err := expr.ParseCondition(field)
				if err != nil {
					t.Fatal(err)
				}
				got, err := e.Eval(ours{scope})
				if got := got.Truthy() && (always || !failed); got != want || err != nil {
					t.Errorf("in a plan, with failed %v, it holds: %v (%v)", failed, got, err)
				}
			}
		})
	}
	for text, want := range map[string]struct {
		hint, is string
		always   bool // it is asked whatever happened
	}{
		"${{ github.ref }} == 'x'":              {"all of the condition", "format('{0} == ''x''', github.ref)", false},
		"!${{ false }}":                         {"all of the condition", "format('!{0}', false)", false},
		"${{ false }}\n":                        {"if: >-", "format('{0}\n', false)", false},
		" ${{ false }}":                         {"if: >-", "format(' {0}', false)", false},
		"{${{ success() }} || ${{ failure() }}": {"all of the condition", "format('{{{0} || {1}', success(), failure())", true},
	} {
		c, err := ParseCondition(text, nil)
		if err != nil || c.Around == nil || !strings.Contains(c.Around.Message, "one that always holds") || !strings.Contains(c.Around.Hint, want.hint) {
			t.Fatalf("%q: %+v, %v", text, c.Around, err)
		}
		if holds, err := c.Holds(status{}); c.Expr.String() != want.is || c.CallsStatus() != want.always || !holds || err != nil {
			t.Errorf("%q is %s, %v; it holds: %v, %v", text, c.Expr, c.CallsStatus(), holds, err)
		}
	}
}

// status is a scope after steps that failed, or did not.
type status struct {
	Values
	failed bool
}

func (s status) Call(name string, _ []value.Value) (value.Value, bool, error) {
	holds := map[string]bool{"success": !s.failed, "failure": s.failed, "always": true}
	return value.OfBool(holds[name]), true, nil
}

func TestValuesThatPlansCannotHold(t *testing.T) {
	for source, want := range map[string]string{"NaN": "NaN", "-Infinity": "-Infinity", "1": "1"} {
		if v, err := Call(ValueFunction, source, nil); err != nil || v.Text() != want {
			t.Errorf("%s: %s, %v", source, v.Text(), err)
		}
	}
	if _, err := Call(TextFunction, "1 +", nil); err == nil {
		t.Error("a mistake is none")
	}
}

func TestCallsKeepMarks(t *testing.T) {
	scope := Values{"secrets": value.OfStruct(map[string]value.Value{"A": value.OfString("x").Mark(true)})}
	for _, function := range []string{TextFunction, ValueFunction} {
		if v, err := Call(function, "secrets.A", scope); err != nil || !v.Marked() {
			t.Errorf("%s: %v %v", function, v, err)
		}
	}
	if v, err := Call(TextFunction, "secrets", scope); err != nil || v.Sensitive() || v.Str() != "Object" {
		t.Errorf("%v %v", v, err)
	}
}
