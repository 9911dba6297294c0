package expr_test

import (
	"errors"
	"testing"

	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/value"
)

// scope is what the tests' expressions see: values, and the status functions of a run in which nothing failed so far.
type scope struct{ expr.Values }

func (s scope) Call(name string, args []value.Value) (value.Value, bool, error) {
	switch name {
	case "always", "success", "failure", "cancelled":
		if len(args) > 0 {
			return value.Value{}, true, errors.New("takes no values")
		}
		return value.OfBool(name == "always" || name == "success"), true, nil
	case "first": // a function that gives back what it is given, though not the mark
		return value.OfString(args[0].Str()), true, nil
	}
	return value.Value{}, false, nil
}

// testScope has a value of every kind, and secrets: job.token, inputs.list[1], inputs.login.password and all of vault.
func testScope(t testing.TB) scope {
	t.Helper()
	secret := func(text string) value.Value { return value.OfString(text).Mark(true) }
	values := expr.Values{
		"job": value.OfStruct(map[string]value.Value{
			"id": value.OfString("1982"), "name": value.OfString("build"), "token": secret("s3cret"),
		}),
		"inputs": fromJSON(t, `{
			"favorites": {"number": 3, "color": "yellow"}, "foods": ["hamburger", "fries"], "count": 3, "big": 9007199254740993,
			"yes": true, "no": false, "none": null, "empty": "", "text": "some text", "b-c": "dash", "default": "reserved"}`),
		"output_file": value.OfString("/tmp/out"),
		"vault":       value.OfStruct(map[string]value.Value{"key": value.OfString("k3y"), "sub": fromJSON(t, `{"a": [1]}`)}).Mark(true),
		"a":           value.OfInt(1),
		"b":           value.OfInt(2),
		"deep":        fromJSON(t, `{"x": {"y": [{"z": "found"}]}}`),
	}
	values["inputs"].Fields()["list"] = value.OfArray([]value.Value{value.OfInt(1), secret("hidden"), value.OfInt(3)})
	values["inputs"].Fields()["login"] = value.OfStruct(map[string]value.Value{"user": value.OfString("me"), "password": secret("pw")})
	return scope{values}
}

func fromJSON(t testing.TB, text string) value.Value {
	t.Helper()
	v, err := value.ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// eval evaluates a bare expression.
func eval(t testing.TB, text string) (value.Value, error) {
	t.Helper()
	e, err := expr.Parse(text)
	if err != nil {
		return value.Value{}, err
	}
	return e.Eval(testScope(t))
}

// evalTemplate evaluates a template.
func evalTemplate(t testing.TB, text string) (value.Value, error) {
	t.Helper()
	template, err := expr.ParseTemplate(text)
	if err != nil {
		return value.Value{}, err
	}
	return template.Eval(testScope(t))
}

// yields maps expressions to their values as JSON.
type yields map[string]string

func (cases yields) check(t *testing.T) {
	t.Helper()
	check(t, cases, eval)
}

// templates maps templates to their values as JSON.
type templates map[string]string

func (cases templates) check(t *testing.T) {
	t.Helper()
	check(t, cases, evalTemplate)
}

func check(t *testing.T, cases map[string]string, eval func(testing.TB, string) (value.Value, error)) {
	t.Helper()
	for text, want := range cases {
		got, err := eval(t, text)
		if err != nil {
			t.Errorf("%s: unexpected error: %v", text, err)
		} else if got := string(got.AppendJSON(nil)); got != want {
			t.Errorf("%s = %s, want %s", text, got, want)
		}
	}
}

// fails maps expressions to their error messages.
type fails map[string]string

func (cases fails) check(t *testing.T) {
	t.Helper()
	for text, want := range cases {
		_, err := eval(t, text)
		wantError(t, text, err, want)
	}
}

func wantError(t *testing.T, text string, err error, want string) *expr.Error {
	t.Helper()
	var e *expr.Error
	if !errors.As(err, &e) {
		t.Errorf("%s: got error %v, want an *expr.Error: %s", text, err, want)
		return &expr.Error{}
	}
	if e.Message != want {
		t.Errorf("%s: got error\n\t%s\nwant\n\t%s", text, e.Message, want)
	}
	return e
}
