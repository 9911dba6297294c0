package expr_test

import (
	"strings"
	"testing"

	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/value"
)

func TestOldLanguage(t *testing.T) {
	t.Run("C45 a dotted name, with space around it, twice in a text", func(t *testing.T) {
		templates{
			"${{job.id}}":                     `"1982"`,
			"${{ job.id }}":                   `"1982"`,
			"${{\n\tjob.id }}":                `"1982"`,
			"${{ job.name }} has ${{job.id}}": `"build has 1982"`,
			"${{job.name}}${{job.id}}":        `"build1982"`,
			"id ${{ job.id }}.":               `"id 1982."`,
			"${{ output_file }}":              `"/tmp/out"`,
			"${{ deep.x.y[0].z }}":            `"found"`,
		}.check(t)
	})
	t.Run("C46 an unknown name is named, with where it was looked for and what there is", func(t *testing.T) {
		fails{
			"job.idd":        `job.idd: "idd" was not found; job has "id", "name", "token"`,
			"jobb.id":        `jobb: "jobb" was not found; available are "a", "b", "deep", "inputs", "job", "output_file", "vault"`,
			"job.id.x":       `job.id.x: "x" was not found; job.id is a string`,
			"inputs.none.x":  `inputs.none.x: "x" was not found; inputs.none is null`,
			"inputs.foods.x": `inputs.foods.x: "x" was not found; inputs.foods is an array`,
			"inputs.x":       `inputs.x: "x" was not found; inputs has "b-c", "big", "count", "default", "empty", "favorites", "foods", "list" and 5 more`,
			"{}.x":           `{}.x: "x" was not found; {} is empty`,
			"(job).idd":      `(job).idd: "idd" was not found; (job) has "id", "name", "token"`,
		}.check(t)
	})
	t.Run("C46 a name that is nearly right is suggested, and pointed at", func(t *testing.T) {
		for text, want := range map[string]expr.Error{
			"né ${{ job.idd }}":           {Offset: 11, Length: 3, Hint: `did you mean "id"?`},
			"${{ Job.id }}":               {Offset: 4, Length: 3, Hint: `did you mean "job"?`},
			`${{ job["nmae"] }}`:          {Offset: 7, Length: 8, Hint: `did you mean "name"?`},
			`x ${{ 1 + "${{ a.b.c }}" }}`: {Offset: 17, Length: 1},
			"${{ inputs.b-c }}":           {Offset: 11, Length: 1, Hint: `"-" subtracts; write a key with a dash in brackets: a["b-c"]`},
		} {
			_, err := evalTemplate(t, text)
			got, ok := err.(*expr.Error)
			if !ok || got.Offset != want.Offset || got.Length != want.Length || got.Hint != want.Hint {
				t.Errorf("%s: got %+v, want %+v", text, err, want)
			}
		}
	})
	t.Run("C47 an expression that is not closed", func(t *testing.T) {
		for _, text := range []string{"${{", "a ${{ job.id", "${{ job.id }", "${{ ${{ job.id", "${{ job.id and more text", `${{ "abc`, "${{ {a: 1}"} {
			_, err := expr.ParseTemplate(text)
			if err == nil || !strings.Contains(err.Error(), `the expression is not closed: "}}" is missing after`) {
				t.Errorf("%s: got error %v", text, err)
			}
		}
	})
	t.Run("C47 extra braces behind an expression, where none is open", func(t *testing.T) {
		for text, want := range map[string]string{
			"${{ job.id }}}}":    `${{ job.id }}}} has an extra "}}"`,
			"{} ${{ job.id }}}}": `${{ job.id }}}} has an extra "}}"`,
			"${{ job.id } }}":    `expected an operator or "}}", found "}"`,
		} {
			_, err := expr.ParseTemplate(text)
			wantError(t, text, err, want)
		}
	})
	t.Run("C47 braces that are the text's own stay", func(t *testing.T) {
		templates{
			"}}":                                     `"}}"`,
			"a }} ${{ a }} }} b":                     `"a }} 1 }} b"`,
			"${{ a }}}":                              `"1}"`,
			`{"a":{"b":"${{ job.id }}"}}`:            `"{\"a\":{\"b\":\"1982\"}}"`,
			`{"a":{"b":${{ a }}}}`:                   `"{\"a\":{\"b\":1}}"`,
			`{"a":{"b":${{ {c: {d: a}} }}}}`:         `"{\"a\":{\"b\":{\"c\":{\"d\":1}}}}"`,
			`${{ {a: {b: 1}}}}`:                      `{"a":{"b":1}}`,
			`${X:-${{ a }}}`:                         `"${X:-1}"`,
			`{{ range }}${{ a }}{{ end }}`:           `"{{ range }}1{{ end }}"`,
			`${{ "}}" }} and ${{ '}}' }}`:            `"}} and }}"`,
			`\${{ not }} ${{ a }}${{ "}}" }}`:        `"${{ not }} 1}}"`,
			`${{ {"x": "${{ {y: "${{ a }}"} }}"} }}`: `{"x":"{\"y\":\"1\"}"}`,
		}.check(t)
	})
	t.Run("C48 a struct stays a struct alone and is sorted compact JSON in a text", func(t *testing.T) {
		templates{
			"${{ inputs.favorites }}":      `{"color":"yellow","number":3}`,
			"likes ${{ inputs.favorites}}": `"likes {\"color\":\"yellow\",\"number\":3}"`,
		}.check(t)
		if v, _ := evalTemplate(t, "${{ inputs.favorites }}"); v.Kind() != value.Struct {
			t.Errorf("got %s, want a struct", v.Kind())
		}
	})
	t.Run("C49 an array alone stays an array", func(t *testing.T) {
		templates{"${{ inputs.foods }}": `["hamburger","fries"]`, "${{ inputs.foods }}!": `"[\"hamburger\",\"fries\"]!"`}.check(t)
	})
	t.Run("C50 expansion goes into structs and arrays", func(t *testing.T) {
		in := fromJSON(t, `{"s": {"x": "${{ inputs.count }}", "n": 1}, "l": ["${{ a }}", ["n=${{ b }}"], null, true]}`)
		out, err := expr.Expand(in, testScope(t))
		if want := `{"l":[1,["n=2"],null,true],"s":{"n":1,"x":3}}`; err != nil || out.Text() != want {
			t.Errorf("got %s, %v; want %s", out.Text(), err, want)
		}
	})
	t.Run("C51 an empty string stays empty", func(t *testing.T) {
		templates{"": `""`, `${{ "" }}`: `""`, "${{ inputs.empty }}": `""`}.check(t)
	})
}

func TestArithmetic(t *testing.T) {
	t.Run("C52 operators and their precedence", func(t *testing.T) {
		yields{
			"1 + 2 * 3": "7", "(1 + 2) * 3": "9", "10 - 4 - 3": "3", "100 / 10 / 2": "5", "2 * 7 % 4": "2", "-2 * 3": "-6",
			"10 / 3": "3.3333333333333335", "10 / 4": "2.5", "10 / 5": "2", "10 % 3": "1", "-10 % 3": "-1", "10 % -3": "1",
			"5.5 % 2": "1.5", "-5.5 % 2": "-1.5", "0.5 + 0.5": "1", "1.5e3": "1500", "2E-4": "0.0002", "1e+2": "100",
			"+5": "5", "-5": "-5", "- -5": "5", "--5": "5", "-a": "-1", "2 - -2": "4", "2-2": "0", "a-b": "-1",
			"!true": "false", "!!3": "true", "!-1": "false", "-(1 + 2)": "-3", "!a == b": "false", "!(a == b)": "true",
			"1 + 2 == 3": "true", "1 < 2 == true": "true", "1 == 1 && 2 == 2": "true", "1 || 0 && 0": "1", "(1 || 0) && 0": "0",
			"true || false && false": "true", "1 + 1 < 3 && 2 * 2 > 3 || false": "true",
			`"a" + "b" + "c"`: `"abc"`, `"n" + str(1 + 1)`: `"n2"`,
		}.check(t)
	})
	t.Run("C53 no operator converts", func(t *testing.T) {
		fails{
			`"a" + 1`:         `"+" takes two numbers or two strings, not a string and a number`,
			`1 + "a"`:         `"+" takes two numbers or two strings, not a number and a string`,
			`"a" + "b" + 1`:   `"+" takes two numbers or two strings, not a string and a number`,
			`"a" - "b"`:       `"-" takes two numbers, not a string and a string`,
			`"a" + "b" - "c"`: `"-" takes two numbers, not a string and a string`,
			`true + 1`:        `"+" takes two numbers or two strings, not a boolean and a number`,
			`[1] + [2]`:       `"+" takes two numbers or two strings, not an array and an array`,
			`null * 2`:        `"*" takes two numbers, not null and a number`,
			`-"x"`:            `"-" takes a number, not a string`,
			`+true`:           `"+" takes a number, not a boolean`,
			`-[]`:             `"-" takes a number, not an array`,
		}.check(t)
	})
	t.Run("C60 division by zero", func(t *testing.T) {
		fails{
			"1 / 0": "1 / 0: division by zero", "1 % 0": "1 % 0: division by zero", "1.5 / (a - 1)": "1.5 / (a - 1): division by zero",
			"1 % 0.0": "1 % 0.0: division by zero", "0 / 0": "0 / 0: division by zero",
		}.check(t)
	})
	t.Run("C68 numbers keep all of their digits", func(t *testing.T) {
		yields{
			"1234567.125": "1234567.125", "9007199254740993": "9007199254740993", "9007199254740992 + 1": "9007199254740993",
			"inputs.big": "9007199254740993", "str(inputs.big)": `"9007199254740993"`, `num("18446744073709551615")`: "18446744073709551615",
			"-9223372036854775808": "-9223372036854775808", "9223372036854775807 + 1": "9223372036854775808",
			"18446744073709551615 - 1": "18446744073709551614", "18446744073709551615 + 1": "18446744073709552000",
			"4294967296 * 4294967295": "18446744069414584320", "9223372036854775807 / 7": "1317624576693539401",
			"9007199254740993 / 2": "4503599627370496", "1e21": "1e+21", "0.1 + 0.2": "0.30000000000000004", "1e-7": "1e-07",
			"9007199254740993 == 9007199254740992": "false", "9007199254740993 > 9007199254740992.0": "true",
		}.check(t)
		templates{"n=${{ 12345678.9 }}": `"n=12345678.9"`, "${{ 12345678.9 }}": "12345678.9"}.check(t)
	})
	t.Run("results and literals that are no number", func(t *testing.T) {
		fails{
			"1e308 * 10": "1e308 * 10: the result is too large for a number", "1e999": `"1e999" is not a number that fits in 64 bits`,
			"007": `"007" is not a number`, "0x10": `"0x10" is not a number`, "1.": `"1." is not a number`, "1.2.3": `"1.2.3" is not a number`,
			"12abc": `"12abc" is not a number`, "1e": `"1e" is not a number`,
		}.check(t)
	})
}

func TestComparison(t *testing.T) {
	t.Run("C54 values of different types are never equal", func(t *testing.T) {
		yields{
			`1 == "1"`: "false", `1 != "1"`: "true", `0 == false`: "false", `null == false`: "false", `"" == null`: "false",
			`[] == {}`: "false", `null == null`: "true", `1 == 1.0`: "true", `"a" == 'a'`: "true",
		}.check(t)
	})
	t.Run("C55 arrays compare item by item, then by length", func(t *testing.T) {
		yields{
			"[1,2] < [1,2,3]": "true", "[1,3] < [1,2,3]": "false", "[1,2] == [1,2]": "true", "[] < [null]": "true",
			`[1,"a"] > [1,2]`: "true",
		}.check(t)
	})
	t.Run("C56 structs compare by size, keys, values, in whatever order", func(t *testing.T) {
		yields{
			"{z: 9} < {a: 1, b: 1}": "true", "{a: 9} < {b: 1}": "true", "{a: 1} < {a: 2}": "true",
			"{a: 1, b: 2} == {b: 2, a: 1}": "true", "{a: 1} == {a: 2}": "false", "{a: 1} != {b: 1}": "true",
		}.check(t)
	})
	t.Run("C57 values of different types are ordered by type", func(t *testing.T) {
		order := []string{"null", "false", "true", "-5", "3", `""`, `"z"`, "[]", "[9]", "{}", "{a: 1}"}
		for i := range order {
			for j := range order {
				v, err := eval(t, order[i]+" < "+order[j])
				if err != nil || v.Bool() != (i < j) {
					t.Errorf("%s < %s = %v, %v", order[i], order[j], v.Bool(), err)
				}
				v, err = eval(t, order[i]+" >= "+order[j])
				if err != nil || v.Bool() != (i >= j) {
					t.Errorf("%s >= %s = %v, %v", order[i], order[j], v.Bool(), err)
				}
			}
		}
		yields{`"a" < "b"`: "true", `"B" < "a"`: "true", `"é" > "z"`: "true", "2 <= 2": "true", "3 > 2": "true"}.check(t)
	})
}

func TestLogic(t *testing.T) {
	t.Run("C58 && and || give back an operand, and evaluate the right one only when it counts", func(t *testing.T) {
		yields{
			`"a" || "b"`: `"a"`, `"" || "b"`: `"b"`, `"a" && "b"`: `"b"`, `0 && "b"`: "0", `null || 0`: "0", `[] || {}`: "{}",
			`1 || nope.x`: "1", `0 && nope()`: "0", `1 || 1 / 0`: "1", `false && 1 / 0`: "false", `1 || -"x" || nope`: "1",
			`0 && nope && nope`: "0", `0 && nope || "c"`: `"c"`, `0 || "" || null`: "null", `1 && 2 && 3`: "3",
			`a == 1 && "one" || "other"`: `"one"`, `a == 2 && "two" || "other"`: `"other"`, `inputs.empty || "default"`: `"default"`,
			`a == 1 && 5 || 2`: "5",
		}.check(t)
		fails{
			`nope || 1`:             `nope: "nope" was not found; available are "a", "b", "deep", "inputs", "job", "output_file", "vault"`,
			`inputs.foods[9] || 1`:  `inputs.foods[9]: the index 9 is out of range; inputs.foods has 2 items, counted from 0`,
			`true && job.idd || ""`: `job.idd: "idd" was not found; job has "id", "name", "token"`,
		}.check(t)
	})
	t.Run("C59 what counts as true", func(t *testing.T) {
		for text, want := range map[string]bool{
			"true": true, "false": false, "0": false, "0.0": false, "1": true, "-1": true, "-0.5": true, "0.1": true, `""`: false, `"0"`: true,
			`"false"`: true, "[]": false, "[0]": true, "{}": false, "{a: null}": true, "null": false,
		} {
			for _, form := range []string{"bool(%)", "!!(%)", "(%) && true || false"} {
				v, err := eval(t, strings.Replace(form, "%", text, 1))
				if err != nil || v.Kind() != value.Boolean || v.Bool() != want {
					t.Errorf("%s with %s = %s, %v; want %v", form, text, v.Text(), err, want)
				}
			}
		}
	})
}

func TestStrings(t *testing.T) {
	t.Run("C61 escapes", func(t *testing.T) {
		for text, want := range map[string]string{
			`"\\ \" \n \r \t \a \b \f \v \/"`: "\\ \" \n \r \t \a \b \f \v /", `"\u00e9\u20AC"`: "é€", `"\ud83d\ude00"`: "😀", `"\ud83d!"`: "\uFFFD!",
			`"\ud83d\u0041"`: "\uFFFDA", `"\${{ a }}"`: "${{ a }}", `"\\${{ a }}"`: `\1`, `"$ $$ ${a} {{ }}"`: "$ $$ ${a} {{ }}", "\"a\nb\"": "a\nb",
			`'\\ \' \n "'`: `\ ' \n "`, `''`: "", `'C:\new\u0041'`: `C:\new\u0041`,
		} {
			v, err := eval(t, text)
			if err != nil || v.Str() != want {
				t.Errorf("%s = %q, %v; want %q", text, v.Str(), err, want)
			}
		}
		fails{
			`"\q"`: `\q is not an escape sequence`, `"\'"`: `\' is not an escape sequence`, `"\u12"`: `\u is not an escape sequence`,
			`"\u+123"`: `\u is not an escape sequence`, `"\$a"`: `\$ is not an escape sequence`, `"a \é"`: `\é is not an escape sequence`,
			`"abc`: `the string is not closed: its second " is missing`, `'abc`: `the string is not closed: its second ' is missing`,
			`'abc\'`: `the string is not closed: its second ' is missing`,
		}.check(t)
	})
	t.Run("C62 double quotes hold templates, single quotes do not", func(t *testing.T) {
		yields{
			`"a is ${{ a }}!"`: `"a is 1!"`, `'a is ${{ a }}!'`: `"a is ${{ a }}!"`, `"${{ a }}"`: `"1"`, `"${{ "${{ b }}" + "!" }}"`: `"2!"`,
			`"${{ {a: 1} }}"`: `"{\"a\":1}"`, `"${{ null }}"`: `"<null>"`, `"${{ a }}${{ b }}"`: `"12"`,
		}.check(t)
	})
	t.Run("C66 a backslash makes ${{ literal", func(t *testing.T) {
		templates{
			`\${{ a }}`: `"${{ a }}"`, `Use \${{ to start`: `"Use ${{ to start"`, `\${{ a }} ${{ a }}`: `"${{ a }} 1"`, `\\${{ a }}`: `"\\${{ a }}"`,
			`${{ a }}\${{`: `"1${{"`, `\${{\${{`: `"${{${{"`, `$\${{`: `"$${{"`, `\{{ \$ \`: `"\\{{ \\$ \\"`,
		}.check(t)
	})
	t.Run("C67 a lone dollar is text", func(t *testing.T) {
		for _, text := range []string{"$", "echo $", "$$", "${HOME}", "$(x)", "$ {{ a }}", "${ { a }}", "$[[ a ]]", "{{ a }}", "${{"[:2], "100%", `\$`} {
			v, err := evalTemplate(t, text)
			if err != nil || v.Str() != text {
				t.Errorf("%q = %q, %v", text, v.Str(), err)
			}
		}
		templates{"$${{ a }}": `"$1"`, "$$ ${HOME} $(x) ${{ a }} $": `"$$ ${HOME} $(x) 1 $"`}.check(t)
	})
}

func TestCollections(t *testing.T) {
	t.Run("C63 trailing commas, computed keys and names as keys", func(t *testing.T) {
		yields{
			`[1, 2, 3,]`: "[1,2,3]", `[]`: "[]", `{a: 1,}`: `{"a":1}`, `{}`: "{}", `{"x-y": 1, 'z': 2, w: 3}`: `{"w":3,"x-y":1,"z":2}`,
			`{(job.name): 1}`: `{"build":1}`, `{("a" + "b"): [a,], job: {}}`: `{"ab":[1],"job":{}}`, `{default: 1, if: 2, string: 3}`: `{"default":1,"if":2,"string":3}`,
			`{"k${{ a }}": 1}`: `{"k1":1}`, `["a", 1, true, null, [2], {b: 3}]`: `["a",1,true,null,[2],{"b":3}]`, `{"a": {"b": [1, 2.5e0, null]}}`: `{"a":{"b":[1,2.5,null]}}`,
			`{a: 1}["a"]`: "1", `[10, 20][1]`: "20", `{a: [1]}.a[0]`: "1",
		}.check(t)
		fails{
			`[,]`: `expected a value, found ","`, `[1 2]`: `expected "," or "]", found "2"`, `{,}`: `expected a key, found ","`, `[1,,]`: `expected a value, found ","`,
			`{1: 2}`: `object keys must be strings, found "1"`, `{true: 2}`: `object keys must be strings, found "true"`, `{(1): 2}`: `object keys must be strings, not a number`,
			`{(null): 2}`: `object keys must be strings, not null`, `{a}`: `expected ":", found "}"`, `{a: 1, "a": 2}`: `the key "a" is given twice`, `[1`: `expected "," or "]", found the end of the text`,
			`{a.b: 1}`: `expected ":", found "."`,
		}.check(t)
	})
	t.Run("C64 index out of range and missing attribute", func(t *testing.T) {
		yields{
			`inputs.foods[0]`: `"hamburger"`, `inputs.foods[a]`: `"fries"`, `inputs.foods[1.0]`: `"fries"`, `inputs["b-c"]`: `"dash"`, `inputs.default`: `"reserved"`,
			`inputs["favorites"]["number"]`: "3", `inputs . favorites . color`: `"yellow"`, `deep["x"].y[2 - 2]["z"]`: `"found"`,
		}.check(t)
		fails{
			`inputs.foods[2]`:    `inputs.foods[2]: the index 2 is out of range; inputs.foods has 2 items, counted from 0`,
			`inputs.foods[-1]`:   `inputs.foods[-1]: the index -1 is out of range; inputs.foods has 2 items, counted from 0`,
			`inputs.foods[1e30]`: `inputs.foods[1e30]: the index 1e+30 is out of range; inputs.foods has 2 items, counted from 0`,
			`inputs.foods["x"]`:  `inputs.foods["x"]: an array is indexed by a number, not a string`,
			`inputs[0]`:          `inputs[0]: a struct is indexed by a string, not a number`,
			`job["x y"]`:         `job["x y"]: "x y" was not found; job has "id", "name", "token"`,
			`job.id[0]`:          `job.id[0]: 0 was not found; job.id is a string`,
			`inputs.foods.0`:     `expected a name after ".", found "0"`,
			`inputs.`:            `expected a name after ".", found the end of the text`,
			`inputs.foods[`:      `expected a value, found the end of the text`,
			`inputs.foods[]`:     `expected a value, found "]"`,
		}.check(t)
	})
	t.Run("C65 an expression alone keeps its type, with text around it becomes text", func(t *testing.T) {
		templates{
			"${{ 3 }}": "3", "${{ true }}": "true", "${{ null }}": "null", "${{ [1] }}": "[1]", "${{ {a: 1} }}": `{"a":1}`, `${{ "x" }}`: `"x"`,
			" ${{ 3 }}": `" 3"`, "${{ 3 }} ": `"3 "`, "${{ true }}!": `"true!"`, "<${{ null }}>": `"<<null>>"`, "${{ 1 }}${{ 2 }}": `"12"`, "${{ 12.34 }}m": `"12.34m"`,
		}.check(t)
	})
	t.Run("C65 the line break that a YAML block ends in is not text around it", func(t *testing.T) {
		templates{
			"${{ [\n  {name: \"control\", weight: 90},\n  {name: \"x\", weight: 10}\n] }}\n": `[{"name":"control","weight":90},{"name":"x","weight":10}]`,
			"${{ 3 }}\n": "3", "${{ 3 }}\r\n": "3", "${{ job.id }}\n": `"1982\n"`, "\n${{ 3 }}": `"\n3"`, "${{ 3 }}\n${{ 4 }}": `"3\n4"`,
		}.check(t)
	})
}

func TestFunctions(t *testing.T) {
	yields{
		"str(42)": `"42"`, "str(true)": `"true"`, "str(null)": `"<null>"`, `str("x")`: `"x"`, "str(1.50)": `"1.5"`, `str([1, "a"])`: `"[1,\"a\"]"`, `str({b: 1, a: null})`: `"{\"a\":null,\"b\":1}"`,
		`num("42")`: "42", `num("3.14")`: "3.14", `num("-1e3")`: "-1000", `num("007")`: "7", `num("3\n")`: "3", `num(5)`: "5", `num("+.5")`: "0.5",
		`bool("hello")`: "true", `bool("")`: "false", `bool(0)`: "false", `bool(1)`: "true", `bool("false")`: "true",
		"always()": "true", "success()": "true", "failure()": "false", "cancelled()": "false", "!failure() && a == 1": "true", `str (1)`: `"1"`,
	}.check(t)
	fails{
		`num("abc")`: `num: the text "abc" is not a number`, `num("")`: `num: the text "" is not a number`, `num("0x1p4")`: `num: the text "0x1p4" is not a number`,
		`num("1e999")`: `num: the text "1e999" is not a number`, `num("inf")`: `num: the text "inf" is not a number`, `num(true)`: "num takes a string or a number, not a boolean",
		`str()`: "str takes one value, not 0", `str(1, 2)`: "str takes one value, not 2", `str(1,)`: `expected a value, found ")"`, `str`: "str is a function: write str(…)",
		`lower("A")`: `there is no function "lower"; the functions are str, num, bool, always, success, failure, cancelled`, `success(1)`: "success: takes no values",
		`job.id()`:    `only a function can be called; the functions are str, num, bool, always, success, failure, cancelled`,
		`(str)("x")`:  `only a function can be called; the functions are str, num, bool, always, success, failure, cancelled`,
		`string("x")`: `"string" is a reserved word and cannot be a name`,
	}.check(t)
	t.Run("status functions need a run", func(t *testing.T) {
		e, _ := expr.Parse("success()")
		_, err := e.Eval(nil)
		wantError(t, "success()", err, `the function "success" cannot be used here: it tells about the steps of a run`)
	})
}

func TestReservedWords(t *testing.T) {
	words := strings.Fields(`array as break case const continue default else fallthrough float for func function goto if import in int let loop map
		namespace number object package range return string struct switch type var void while`)
	for _, word := range words {
		if _, err := expr.Parse(word); err == nil {
			t.Errorf("%s: a reserved word is a name", word)
		}
		if _, err := expr.Parse(word + "(1)"); err == nil {
			t.Errorf("%s: a reserved word is a function", word)
		}
		if _, err := expr.Parse("x." + word + " || {" + word + ": 1}"); err != nil {
			t.Errorf("%s: a reserved word is not an attribute or key: %v", word, err)
		}
	}
	for _, word := range []string{"iff", "Default", "_if", "in_", "nulls", "True"} {
		if _, err := expr.Parse(word); err != nil {
			t.Errorf("%s: %v", word, err)
		}
	}
}
