package github

import (
	"math"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/value"
)

// world is what the expressions of most tests see.
func world(t testing.TB) Values {
	t.Helper()
	v, err := value.ParseJSON([]byte(`{
		"github": {
			"ref": "refs/heads/main", "Event": {"labels": [{"name": "bug"}, {"name": "Urgent", "id": 7}, "plain"], "number": 12, "draft": false, "body": null},
			"list": ["zero", "one", "two"], "empty": [], "nested": [[1, 2], [3], 4], "map": {"b": {"x": 2}, "a": {"x": 1}, "c": 3}
		},
		"env": {"Name": "value"},
		"steps": {"a": {"outputs": {"list": "[1,2]", "text": "it's"}}}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	return v.Fields()
}

// show writes a value so that its kind can be seen.
func show(v value.Value) string {
	if v.Kind() == value.Number && (math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0)) {
		return Text(v)
	}
	return string(v.AppendJSON(nil))
}

func TestEval(t *testing.T) {
	for _, topic := range []struct {
		name  string
		cases [][2]string
	}{
		{"literals", [][2]string{
			{"true", "true"}, {"false", "false"}, {"null", "null"}, {" 'it''s' ", `"it's"`}, {"''", `""`}, {"''''", `"'"`},
			{"1", "1"}, {"-1", "-1"}, {"+1", "1"}, {".5", "0.5"}, {"-.5", "-0.5"}, {"5.", "5"}, {"1E+1", "10"}, {"1e-1", "0.1"}, {"0x0f", "15"}, {"0xff", "255"},
			{"0o17", "15"}, {"0xffffffff", "-1"}, {"NaN", "NaN"}, {"Infinity", "Infinity"}, {"-Infinity", "-Infinity"}, {"1e400", "Infinity"},
		}},
		{"names of contexts and their fields have no case", [][2]string{
			{"GITHUB.REF", `"refs/heads/main"`}, {"github['Ref']", `"refs/heads/main"`}, {"github . event . NUMBER", "12"}, {"github.event['number']", "12"},
		}},
		{"what is not there is null", [][2]string{
			{"github.nothing", "null"}, {"github.nothing.more['x'][0]", "null"}, {"github.ref.x", "null"}, {"matrix.os", "null"}, {"github.list[3]", "null"},
			{"github.list[-1]", "null"}, {"github.list['x']", "null"}, {"github.list[github.list]", "null"}, {"github[github.list]", "null"}, {"(1).x", "null"},
		}},
		{"an index is what it counts as", [][2]string{
			{"github.list[1]", `"one"`}, {"github.list[1.9]", `"one"`}, {"github.list['1']", `"one"`}, {"github.list[' 0x02 ']", `"two"`}, {"github.list[null]", `"zero"`},
			{"github.list[true]", `"one"`}, {"github.list['']", `"zero"`}, {"fromJSON('{\"1\":\"a\",\"\":\"b\",\"true\":\"c\"}')[1]", `"a"`},
			{"fromJSON('{\"\":\"b\"}')[null]", `"b"`}, {"fromJSON('{\"true\":\"c\"}')[true]", `"c"`}, {"github.list[github.event.draft]", `"zero"`},
		}},
		{"filters leave out what is not there", [][2]string{
			{"github.event.labels.*.name", `["bug","Urgent"]`}, {"github.event.labels[*].name", `["bug","Urgent"]`}, {"github.event.labels[*]['ID']", "[7]"},
			{"github.map.*.x", "[1,2]"}, {"github.map.*", `[{"x":1},{"x":2},3]`}, {"github.nested.*.*", "[1,2,3]"}, {"github.nested.*[0]", "[1,3]"}, {"github.nested[*][1]", "[2]"},
			{"github.ref.*", "[]"}, {"github.nothing.*.x", "[]"}, {"github.empty.*", "[]"}, {"(github.event.labels.*).name", `["bug","Urgent"]`}, {"github.nested[0][1]", "2"},
		}},
		{"comparing texts has no case", [][2]string{
			{"'a' == 'A'", "true"}, {"'ς' == 'Σ'", "true"}, {"'İ' == 'i'", "false"}, {"'ı' == 'I'", "false"}, {"'ß' == 'SS'", "false"}, {"'é' == 'É'", "true"},
			{"'a' < 'B'", "true"}, {"'a' < '['", "true"}, {"'b' > 'A'", "true"}, {"'10' < '9'", "true"}, {"'a' != 'A'", "false"}, {"'a' <= 'A'", "true"},
		}},
		{"different kinds compare as numbers", [][2]string{
			{"'1.0' == 1", "true"}, {"' 0x10 ' == 16", "true"}, {"'0o17' == 15", "true"}, {"'+1' == 1", "true"}, {"'1E1' == 10", "true"}, {"'' == 0", "true"}, {"0 == '  '", "true"},
			{"'-Infinity' == -Infinity", "true"}, {"'INFINITY' == Infinity", "true"}, {"null == 0", "true"}, {"null == ''", "true"}, {"null == false", "true"}, {"null == null", "true"},
			{"true == 1", "true"}, {"true == 'true'", "false"}, {"true == '1'", "true"}, {"'x' == 0", "false"}, {"'x' != 0", "true"}, {"'x' < 1", "false"}, {"'x' >= 1", "false"},
			{"NaN == NaN", "false"}, {"NaN != NaN", "true"}, {"true > false", "true"}, {"'1_0' == 10", "false"}, {"'0X1' == 1", "false"}, {"'1e' == 1", "false"}, {"'.' == 0", "false"},
			{"null < 1", "true"}, {"null >= null", "true"}, {"null > null", "false"},
		}},
		{"arrays and objects are equal to themselves", [][2]string{
			{"github.list == github.list", "true"}, {"github.map == GitHub.Map", "true"}, {"github.list == fromJSON('[\"zero\",\"one\",\"two\"]')", "false"},
			{"fromJSON('{}') == fromJSON('{}')", "false"}, {"fromJSON('[]') == fromJSON('[]')", "false"}, {"github.empty == github.empty", "true"}, {"github.list == 0", "false"}, {"github.list != github.map", "true"},
			{"github.list >= github.list", "true"}, {"github.list > github.list", "false"}, {"github.list.* == github.list.*", "false"}, {"github.empty == ''", "false"},
		}},
		{"&& and || return an operand", [][2]string{
			{"'a' && 'b'", `"b"`}, {"'' && 'b'", `""`}, {"'a' || 'b'", `"a"`}, {"null || 0 || 'x'", `"x"`}, {"1 && 2 && 3", "3"}, {"false || ''", `""`}, {"NaN || 'x'", `"x"`},
			{"github.empty && 'yes' || 'no'", `"yes"`}, {"fromJSON('{}') && 1", "1"}, {"'false' && 1", "1"}, {"false && fromJSON('x')", "false"}, {"true || fromJSON('x')", "true"},
			{"(github.nested || 1)[0]", "[1,2]"},
		}},
		{"operators bind as on GitHub", [][2]string{
			{"!true || true", "true"}, {"!(true || true)", "false"}, {"1 < 2 == true", "true"}, {"false == 1 > 2", "true"}, {"true || true && false", "true"}, {"!github.ref == 'x'", "false"},
			{"!!'x'", "true"}, {"1 == 1 == 1", "true"}, {"3 > 2 > 1", "false"},
		}},
		{"contains, startsWith, endsWith", [][2]string{
			{"contains('Hello', 'ELL')", "true"}, {"contains('a', '')", "true"}, {"contains(123, 2)", "true"}, {"contains(null, '')", "true"}, {"contains(true, 'RU')", "true"},
			{"contains(github.list, 'ONE')", "true"}, {"contains(github.list, 'on')", "false"}, {"contains(fromJSON('[1]'), '1')", "true"}, {"contains(github.map, 'a')", "false"},
			{"contains(github.event.labels.*.name, 'urgent')", "true"}, {"contains('a', github.list)", "false"}, {"contains(github.nested, github.nested[0])", "true"},
			{"startsWith(github.ref, 'REFS/')", "true"}, {"startsWith('ab', 'b')", "false"}, {"startsWith(123, 12)", "true"}, {"startsWith(github.list, '')", "false"},
			{"endsWith('main', 'IN')", "true"}, {"endsWith(1.5, '.5')", "true"}, {"ENDSWITH('a', 'b')", "false"}, {"endsWith('a', fromJSON('{}'))", "false"},
		}},
		{"format", [][2]string{
			{"format('{0}-{1}-{0}', 'a', 1)", `"a-1-a"`}, {"format('{{{0}}}', true)", `"{true}"`}, {"format('x')", `"x"`}, {"format('{0}', null)", `""`}, {"format('{00}', 'a')", `"a"`},
			{"format('{0}{1}', github.list, github.map)", `"ArrayObject"`}, {"format(1)", `"1"`}, {"format('x', fromJSON('x'))", `"x"`}, {"format('{{}}')", `"{}"`}, {"format('{0}', '{1}')", `"{1}"`},
		}},
		{"join", [][2]string{
			{"join(github.list)", `"zero,one,two"`}, {"join(github.list, ' + ')", `"zero + one + two"`}, {"join(github.list, '')", `"zeroonetwo"`}, {"join('a', 'b')", `"a"`},
			{"join(github.map, ',')", `""`}, {"join(github.empty)", `""`}, {"join(fromJSON('[1,null,true,[],{}]'), ' ')", `"1  true Array Object"`}, {"join(github.list, github.map)", `"zero,one,two"`},
			{"join(github.list, null)", `"zeroonetwo"`},
		}},
		{"JSON", [][2]string{
			{"toJSON('a\"b')", `"\"a\\\"b\""`}, {"toJSON(1.50)", `"1.5"`}, {"toJSON(null)", `"null"`}, {"toJSON(github.empty)", `"[]"`}, {"toJSON(fromJSON('{}'))", `"{}"`},
			{"toJSON(fromJSON('{\"b\":[1,{\"c\":null}],\"a\":true}'))", `"{\n  \"a\": true,\n  \"b\": [\n    1,\n    {\n      \"c\": null\n    }\n  ]\n}"`},
			{"toJSON('<é>')", `"\"<é>\""`}, {"fromJSON(steps.a.outputs.list)[1]", "2"}, {"fromJSON('true') == true", "true"}, {"fromjson('\"x\"')", `"x"`}, {"TOJSON(1)", `"1"`},
		}},
		{"case chooses, and evaluates nothing else", [][2]string{
			{"case(true, 'a', 'b')", `"a"`}, {"case(false, 'a', 'b')", `"b"`}, {"case(false, 1, true, 2, 3)", "2"}, {"case(1 == 1, 'a', fromJSON('x'), 'b', 'c')", `"a"`},
			{"case(true, github.event.labels.*, 1).name", `["bug","Urgent"]`},
		}},
	} {
		t.Run(topic.name, func(t *testing.T) {
			scope := world(t)
			for _, c := range topic.cases {
				e, err := Parse(c[0], nil)
				if err != nil {
					t.Errorf("%s: %v", c[0], err)
					continue
				}
				if got, err := e.Eval(scope); err != nil || show(got) != c[1] {
					t.Errorf("%s is %s (%v), want %s", c[0], show(got), err, c[1])
				}
			}
		})
	}
}

func TestNumbersInText(t *testing.T) {
	for _, c := range []struct {
		number float64
		want   string
	}{
		{0, "0"}, {1, "1"}, {-1.5, "-1.5"}, {1.1, "1.1"}, {0.1 + 0.2, "0.3"}, {123456789012345, "123456789012345"}, {1e14, "100000000000000"}, {1e15, "1E+15"},
		{1234567890123456, "1.23456789012346E+15"}, {1e100, "1E+100"}, {-2.5e-7, "-2.5E-07"}, {0.0001, "0.0001"}, {0.00001, "1E-05"}, {0.000012345, "1.2345E-05"},
		{1.0 / 3, "0.333333333333333"}, {99999.99999999999, "100000"}, {math.Pi * 1e5, "314159.265358979"}, {math.NaN(), "NaN"}, {math.Inf(1), "Infinity"}, {math.Inf(-1), "-Infinity"},
	} {
		if got := formatNumber(c.number); got != c.want {
			t.Errorf("%v is %q, want %q", c.number, got, c.want)
		}
	}
	if got := Text(value.OfInt(math.MaxInt64)); got != "9.22337203685478E+18" {
		t.Errorf("a large integer is %q", got)
	}
}

func TestMistakesWhenEvaluated(t *testing.T) {
	for _, c := range []struct{ name, source, want, hint string }{
		{"format names a parameter that is not there", "format('{1}', 'a')", "format: the text names {1}, and there are 1 parameters after it", "{0} is the first"},
		{"a brace alone", "format('}{0}', 'a')", "format: the text has an unmatched brace", "{{ or }}"},
		{"a brace that is not closed", "format('{0', 'a')", "an unmatched brace", ""},
		{"a brace around a word", "format('{a}', 'a')", "an unmatched brace", ""},
		{"braces with a format", "format('{0:x}', 'a')", "an unmatched brace", ""},
		{"text that is not JSON", "fromJSON('{')", "fromJSON: the text is not JSON", ""},
		{"nothing is not JSON", "fromJSON(github.nothing)", "fromJSON: the text is not JSON", "what it reads is empty"},
		{"an object is not JSON", "fromJSON(github.map)", "fromJSON: the text is not JSON", "an object already"},
		{"a condition of case that is not a truth value", "case('x', 1, 2)", "a condition of case must be true or false, not a string", "compare it"},
		{"a function of the run where there is none", "success()", "the function success cannot be used here", "a job that runs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := Parse(c.source, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = e.Eval(world(t))
			mistake, ok := err.(*Error)
			if !ok || !strings.Contains(mistake.Message, c.want) || !strings.Contains(mistake.Hint, c.hint) || mistake.Length < 1 {
				t.Errorf("%+v", err)
			}
		})
	}
}

func TestSensitiveValues(t *testing.T) {
	secret := value.OfString("hush").Mark(true)
	scope := Values{
		"secrets": value.OfStruct(map[string]value.Value{"A": secret, "json": value.OfString(`{"a":["b"]}`).Mark(true)}),
		"inputs":  value.OfStruct(map[string]value.Value{"list": value.OfArray([]value.Value{value.OfString("x"), secret}), "plain": value.OfString("p")}),
		"needs":   value.OfStruct(map[string]value.Value{"a": value.OfStruct(map[string]value.Value{"b": value.OfString("c")})}).Mark(true),
	}
	for _, c := range []struct {
		source    string
		sensitive bool
	}{
		{"secrets.a", true}, {"inputs.plain", false}, {"secrets.A || 'x'", true}, {"secrets.none || 'x'", false}, {"inputs.list[1]", true}, {"inputs.list[0]", false},
		{"inputs.list", true}, {"inputs.list.*", true}, {"needs.a.b", true}, {"needs.*.b", true}, {"needs.*.*[0]", false}, {"format('{0}', secrets.A)", true}, {"format('x', secrets.A)", false},
		{"format('{0}', inputs.list)", false}, {"join(inputs.list)", true}, {"join(secrets.A)", true}, {"join(fromJSON('[1,2]'), secrets.A)", true}, {"toJSON(inputs)", true}, {"toJSON(inputs.plain)", false},
		{"fromJSON(secrets.json).a[0]", true}, {"case(true, secrets.A, 'x')", true}, {"case(true, 'x', secrets.A)", false},
		{"secrets.A == 'x'", false}, {"!secrets.A", false}, {"contains(secrets.A, 'x')", false}, {"secrets.A && 'yes'", false},
	} {
		e, err := Parse(c.source, nil)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := e.Eval(scope); err != nil || v.Sensitive() != c.sensitive {
			t.Errorf("%s is sensitive: %v (%v)", c.source, v.Sensitive(), err)
		}
	}
	t.Run("an error does not show them", func(t *testing.T) {
		for _, source := range []string{"fromJSON(secrets.A)", "fromJSON(format('[{0}', secrets.A))"} {
			e, _ := Parse(source, nil)
			if _, err := e.Eval(scope); err == nil || strings.Contains(err.Error(), "hush") {
				t.Error(err)
			}
		}
	})
}

func TestScopesThatFindFieldsThemselves(t *testing.T) {
	e, err := Parse("env.name == null && env['Name'] && steps.my-step.outputs.x && env.*", nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := e.Eval(finding{world(t)})
	if err != nil || show(v) != `["value"]` {
		t.Errorf("%s, %v", show(v), err)
	}
}

// finding is a scope in which upper and lower case of variables differ, and steps are found whatever their name.
type finding struct{ Values }

func (f finding) Find(context, field string) (value.Value, bool) {
	switch context {
	case "env":
		return f.Values["env"].Fields()[field], true
	case "steps":
		return value.OfStruct(map[string]value.Value{"outputs": value.OfStruct(map[string]value.Value{"x": value.OfString(field)})}), true
	}
	return value.Value{}, false
}
