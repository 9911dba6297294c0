package rule_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/rule"
)

// variables are what the expressions of these tests see.
var variables = map[string]string{
	"SET": "my variable", "EMPTY": "", "SPACES": " \t", "ZERO": "0", "YES": "true", "NO": "false",
	"BRANCH": "main", "DEFAULT": "main", "PATH": "/a/full/path", "LINES": "one\ntwo",
	"PATTERN": "/^my/", "PATTERN_I": "/^MY VAR/i", "NOT_PATTERN": "in my variable it is", "BAD_PATTERN": "/(my variable/",
	"ESCAPED": `/\/full\/path$/`, "SHORT": "/m/", "UNDER_2": "two",
	"inputs.flag": "true", "inputs.off": "false", "inputs.name": "main",
}

func lookup(name string) (string, bool) {
	v, ok := variables[name]
	return v, ok
}

// null stands for null in tables.
const null = "<null>"

func show(v rule.Value) string {
	if v.IsNull() {
		return null
	}
	return v.String()
}

func TestEval(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		value string
		truth bool
	}{
		// Values.
		`$SET`:                          {"my variable", true},
		`$EMPTY`:                        {"", false},
		`$SPACES`:                       {" \t", false},
		`$ZERO`:                         {"0", true},
		`$NO`:                           {"false", true},
		`$UNSET`:                        {null, false},
		`"text"`:                        {"text", true},
		`'text'`:                        {"text", true},
		`"it's"`:                        {"it's", true},
		`''`:                            {"", false},
		`null`:                          {null, false},
		`true`:                          {"true", true},
		`false`:                         {"false", false},
		`/^ab/`:                         {"/^ab/", true},
		`$[[ inputs.name ]]`:            {"main", true},
		`$[[inputs.flag]]`:              {"true", true},
		`$[[ inputs.off ]]`:             {"false", false},
		`$[[ inputs.unset ]]`:           {null, false},
		" \n\t$SET\r\n":                 {"my variable", true},
		`$UNDER_2`:                      {"two", true},
		`$BRANCH==$DEFAULT&&$SET`:       {"my variable", true},
		`$BRANCH == $[[ inputs.name ]]`: {"true", true},

		// Equality. What is not set is not empty.
		`$SET == "my variable"`: {"true", true},
		`$SET == 'my variable'`: {"true", true},
		`"my variable" == $SET`: {"true", true},
		`$SET == "My variable"`: {"false", false},
		`$SET != "my variable"`: {"false", false},
		`$SET != "x"`:           {"true", true},
		`$BRANCH == $DEFAULT`:   {"true", true},
		`$BRANCH == $UNSET`:     {"false", false},
		`$UNSET == null`:        {"true", true},
		`null == $UNSET`:        {"true", true},
		`$UNSET == ""`:          {"false", false},
		`$UNSET != ""`:          {"true", true},
		`$UNSET == $ALSO_UNSET`: {"true", true},
		`$EMPTY == null`:        {"false", false},
		`$EMPTY != null`:        {"true", true},
		`$EMPTY == ""`:          {"true", true},
		`$ZERO == "0"`:          {"true", true},

		// Truth values and texts.
		`$YES == true`:                 {"true", true},
		`$YES == false`:                {"false", false},
		`false == $NO`:                 {"true", true},
		`$NO != true`:                  {"true", true},
		`$SET == true`:                 {"false", false},
		`$UNSET == false`:              {"false", false},
		`$EMPTY == false`:              {"false", false},
		`"true" == true`:               {"true", true},
		`$[[ inputs.flag ]] == true`:   {"true", true},
		`$[[ inputs.flag ]] == "true"`: {"true", true},

		// Patterns.
		`$SET =~ /var.*e$/`:                  {"true", true},
		`$SET =~ /^var/`:                     {"false", false},
		`$SET !~ /^var/`:                     {"true", true},
		`$SET !~ /var/`:                      {"false", false},
		`$SET =~ /MY/`:                       {"false", false},
		`$SET =~ /MY VAR/i`:                  {"true", true},
		`$LINES =~ /^two$/`:                  {"false", false},
		`$LINES =~ /^two$/m`:                 {"true", true},
		`$LINES =~ /one.two/`:                {"false", false},
		`$LINES =~ /one.two/s`:               {"true", true},
		`$LINES =~ /ONE.^two/ism`:            {"true", true},
		`$SET =~ /my/ii`:                     {"true", true},
		`$SET =~ /m.*?v/U`:                   {"true", true},
		`$PATH =~ /^\/a\/full/`:              {"true", true},
		`$PATH =~ /full/ && $PATH =~ /path/`: {"true", true},
		`$PATH =~ /full//`:                   {"true", true},
		`$UNSET =~ /^$/`:                     {"true", true},
		`$UNSET =~ /.+/`:                     {"false", false},
		`$UNSET !~ /.+/`:                     {"true", true},
		`$EMPTY =~ /^x?$/`:                   {"true", true},
		`$SET =~ $PATTERN`:                   {"true", true},
		`$SET !~ $PATTERN`:                   {"false", false},
		`$SET =~ $PATTERN_I`:                 {"true", true},
		`$BRANCH =~ $PATTERN`:                {"false", false},
		`$PATH =~ $ESCAPED`:                  {"true", true},
		`$SET =~ $SHORT`:                     {"true", true},
		`$SET =~ "/^my/"`:                    {"true", true},
		`$SET =~ $UNSET`:                     {"false", false},
		`$SET !~ $UNSET`:                     {"true", true},
		`$SET =~ null`:                       {"false", false},
		`$SET =~ false`:                      {"false", false},
		`$SET =~ $NOT_PATTERN`:               {"true", true},
		`$SET =~ $BRANCH`:                    {"false", false},
		`$SET !~ $BRANCH`:                    {"true", true},
		`"23" =~ "1234"`:                     {"true", true},
		`$EMPTY =~ $BRANCH`:                  {"true", true},
		`$SET =~ $BAD_PATTERN`:               {"true", true},
		`$BRANCH =~ $BAD_PATTERN`:            {"false", false},
		`$SET =~ /$BRANCH/`:                  {"false", false}, // no variables inside of patterns
		`"$BRANCH" == "main"`:                {"false", false}, // nor inside of quotes
		`/^ab/ == /^ab/`:                     {"true", true},
		`"/^ab/" == /^ab/`:                   {"false", false},

		// && and || return operands, and an empty text is true to them.
		`$SET && "text"`:                      {"text", true},
		`$SET && $EMPTY`:                      {"", false},
		`$EMPTY && $SET`:                      {"my variable", true},
		`$SET && null`:                        {null, false},
		`null && $SET`:                        {null, false},
		`$UNSET && $EMPTY`:                    {null, false},
		`false && $SET`:                       {"false", false},
		`$SET || $UNSET`:                      {"my variable", true},
		`$UNSET || $SET`:                      {"my variable", true},
		`$EMPTY || $SET`:                      {"", false},
		`$UNSET || $ALSO_UNSET`:               {null, false},
		`false || $SET`:                       {"my variable", true},
		`$EMPTY == "" && $SET`:                {"my variable", true},
		`$SET && null || $EMPTY == ""`:        {"true", true},
		`$UNSET || ($SET =~ /x$/ || $BRANCH)`: {"main", true},

		// ! is about presence, and binds closest.
		`!$SET`:                  {"false", false},
		`!$EMPTY`:                {"true", true},
		`!$SPACES`:               {"true", true},
		`!$UNSET`:                {"true", true},
		`!!$SET`:                 {"true", true},
		`! $SET`:                 {"false", false},
		`!$SET == "my variable"`: {"false", false},
		`!$SET == "false"`:       {"true", true},
		`"false" == !$SET`:       {"true", true},
		`!($SET == "x")`:         {"true", true},
		`!$UNSET && $SET`:        {"my variable", true},
		`!$SET =~ /^false$/`:     {"true", true},

		// Precedence, from the left, and groups.
		`$SET || $SET && null`:      {"my variable", true},
		`($SET || $SET) && null`:    {null, false},
		`null && $SET || "x"`:       {"x", true},
		`null && ($SET || "x")`:     {null, false},
		`$BRANCH == "main" == true`: {"true", true},
		`"x" == $BRANCH == false`:   {"true", true},
		`($SET) == ("my variable")`: {"true", true},
		`((($SET)))`:                {"my variable", true},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			e, err := rule.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.Eval(lookup)
			if err != nil {
				t.Fatal(err)
			}
			if show(got.Value) != want.value || got.True != want.truth {
				t.Errorf("got %q, %v; want %q, %v", show(got.Value), got.True, want.value, want.truth)
			}
			if again, err := rule.Parse(e.String()); err != nil || again.String() != e.String() {
				t.Errorf("printed as %s, which parses to %v, %v", e, again, err)
			}
			if why := e.Explain(lookup, nil); why == "" || strings.Contains(why, "\n") {
				t.Errorf("explained as %q", why)
			}
		})
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ carets, message, hint string }{
		``:                    {`^`, "the expression is empty", "leave the if out"},
		" \n ":                {`^`, "the expression is empty", ""},
		`${BRANCH} == "main"`: {`^^^^^^^^^`, "${BRANCH} is not allowed", "write $BRANCH"},
		`$A && ${B`:           {`      ^^`, "${ is not allowed", "$NAME"},
		`$A = "x"`:            {`   ^`, `"=" is not an operator`, "write =="},
		`$A === "x"`:          {`     ^`, `"=" is not an operator`, "write =="},
		`$A & $B`:             {`   ^`, `"&" is not an operator`, "write &&"},
		`$A | $B`:             {`   ^`, `"|" is not an operator`, "write ||"},
		`$A ~ /ab/`:           {`   ^`, `"~" is not an operator`, "write =~"},
		`$A > "1"`:            {`   ^`, `">" is not an operator`, "no size comparisons"},
		`%A% == "x"`:          {`^`, `"%" is not an operator`, "$NAME"},
		"$A == `x`":           {`      ^`, "is not an operator", "plain quotes"},
		`$A == “x”`:           {`      ^`, "is not an operator", "plain quotes"},
		`$ == "x"`:            {`^`, "name of a variable", "$NAME"},
		`$A == main`:          {`      ^^^^`, `unexpected word "main"`, `write "main" for a text`},
		`$A == 1`:             {`      ^`, `unexpected word "1"`, `write "1"`},
		`BRANCH == "x"`:       {`^^^^^^`, `unexpected word "BRANCH"`, `$BRANCH for a variable`},
		`$A and $B`:           {`   ^^^`, `unexpected word "and"`, "write &&"},
		`$A or $B`:            {`   ^^`, `unexpected word "or"`, "write ||"},
		`not $A`:              {`^^^`, `unexpected word "not"`, "write !"},
		`$A == nil`:           {`      ^^^`, `unexpected word "nil"`, "write null"},
		`$A == True`:          {`      ^^^^`, `unexpected word "True"`, "lower case"},
		`$A in ["x"]`:         {`   ^^`, `unexpected word "in"`, "=~"},
		`$A == ["x"]`:         {`      ^`, `"["`, "no lists"},
		`$A == "x`:            {`      ^^`, "the string is not closed", `end it with "`},
		`$A == 'x" && $B`:     {`      ^^^^^^^^^`, "the string is not closed", "end it with '"},
		"$A == \"x\ny\"":      {`      ^^`, "the string is not closed", "same line"},
		`$A =~ /abc`:          {`      ^^^^`, "the pattern is not closed", `\/`},
		`$A =~ /abc\/`:        {`      ^^^^^^`, "the pattern is not closed", `\/`},
		`$A =~ //`:            {`      ^^`, "the pattern is empty", `== ""`},
		`$A =~ /a/`:           {`      ^^^`, "one character", "/a+/"},
		`$A =~ /abc/x`:        {`           ^`, `"x" is not a flag`, "i, m, s and U"},
		`$A =~ /a/b/`:         {`      ^^^`, "one character", ""},
		`$A =~ /ab/c/`:        {`          ^`, `"c" is not a flag`, `\/`},
		`$A =~ /(?!x)abc/`:    {`      ^^^^^^^^^^`, "not valid: invalid or unsupported Perl syntax", "RE2"},
		`$A =~ /(abc/`:        {`      ^^^^^^`, "not valid: missing closing )", "RE2"},
		`$A =~ /(a)\1/`:       {`      ^^^^^^^`, "not valid: invalid escape sequence", "RE2"},
		`$A =~ /a{1001}/`:     {`      ^^^^^^^^^`, "not valid: invalid repeat count", ""},
		`$A == $[[ inputs.x`:  {`      ^^^`, "$[[ is not closed", "inputs.NAME"},
		`$A == $[[ vars.x ]]`: {`      ^^^^^^^^^^^^^`, "is not an input", "inputs.NAME"},
		`$A "x"`:              {`   ^^^`, `an operator is expected before "x"`, "&& or ||"},
		`$A $B ==`:            {`   ^^`, "an operator is expected before $B", ""},
		`$A !$B`:              {`   ^`, "an operator is expected before !", ""},
		`$A ==`:               {`     ^`, "ends where a value is expected", ""},
		`== "x"`:              {`^^`, "a value is expected before ==", "a variable before it"},
		`$A && || $B`:         {`      ^^`, "a value is expected before ||", ""},
		`!`:                   {` ^`, "ends where a value is expected", ""},
		`($A`:                 {`^`, "unmatched (", "add a )"},
		`($A && ($B)`:         {`^`, "unmatched (", ""},
		`($A && ($B`:          {`       ^`, "unmatched (", ""},
		`$A)`:                 {`  ^`, "unmatched )", ""},
		`()`:                  {` ^`, "a value is expected before )", ""},
		`($A $B)`:             {`    ^^`, "an operator is expected before $B", ""},
		`$ä == "x"`:           {`^`, "name of a variable", ""},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			e, err := rule.Parse(text)
			var bad *rule.Error
			if !errors.As(err, &bad) {
				t.Fatalf("got %v, %v", e, err)
			}
			if got := strings.Repeat(" ", bad.Offset) + strings.Repeat("^", bad.Length); got != want.carets && strings.TrimSpace(text) != "" {
				t.Errorf("carets\n%s\n%s, want\n%s", text, got, want.carets)
			}
			if !strings.Contains(bad.Message, want.message) || !strings.Contains(bad.Hint, want.hint) {
				t.Errorf("got %q, hint %q", bad.Message, bad.Hint)
			}
			shown := diag.Diagnostic{Span: diag.Span{Line: 1, Column: 1 + bad.Offset, Length: bad.Length}, Message: bad.Message, Source: text}
			if shown.Render() == "" {
				t.Error("it does not render")
			}
		})
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	t.Run("99 tokens are as many as GitLab takes", func(t *testing.T) {
		t.Parallel()
		text := "$A" + strings.Repeat(" || $A", 49)
		if _, err := rule.Parse(text); err != nil {
			t.Error(err)
		}
		_, err := rule.Parse(text + " || $A")
		if err == nil || !strings.Contains(err.Error(), "more than 99 tokens") {
			t.Errorf("got %v", err)
		}
		if _, err := rule.Parse("!" + text); err == nil || !strings.Contains(err.Error(), "more than 99 tokens") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a long text is refused before it is read", func(t *testing.T) {
		t.Parallel()
		if _, err := rule.Parse(strings.Repeat(" ", rule.MaxLength+1)); err == nil || !strings.Contains(err.Error(), "longer than") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a pattern that is catastrophic elsewhere takes linear time", func(t *testing.T) {
		t.Parallel()
		e, err := rule.Parse(`$A =~ /^(a+)+$/ || $A =~ /(a|a)*b/ || $A =~ /(.*)*x/`)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Eval(func(string) (string, bool) { return strings.Repeat("a", 100_000) + "!", true })
		if err != nil || got.True {
			t.Errorf("got %v, %v", got, err)
		}
	})
	t.Run("a pattern of huge repetitions is refused", func(t *testing.T) {
		t.Parallel()
		_, err := rule.Parse(`$A =~ /` + strings.Repeat(`(ab){999}`, 50) + `/`)
		if err == nil || !strings.Contains(err.Error(), "too large") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a large pattern is not held against a large text", func(t *testing.T) {
		t.Parallel()
		e, err := rule.Parse(`$A =~ /` + strings.Repeat(`(ab){999}`, 10) + `/`)
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Eval(func(string) (string, bool) { return strings.Repeat("x", 1_000_000), true })
		if err == nil || !strings.Contains(err.Error(), "takes too long") {
			t.Errorf("got %v", err)
		}
	})
}

func TestEvaluationsThatFailInGitLab(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`$SET =~ true`:           "expected a pattern after =~",
		`$SET !~ ($SET != null)`: "expected a pattern after !~",
		`/^my/ == $SET`:          "a pattern cannot be compared with ==",
		`/^my/ != null`:          "a pattern cannot be compared with !=",
	} {
		e, err := rule.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Eval(lookup); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", text, err)
		}
		if why := e.Explain(lookup, nil); !strings.Contains(why, want) {
			t.Errorf("%s: explained as %s", text, why)
		}
	}
}

func TestNotes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`$SET =~ $PATTERN`:                           "",
		`$SET =~ $NOT_PATTERN`:                       "$NOT_PATTERN is not of the form /pattern/",
		`$SET =~ $PATH`:                              "$PATH is not of the form /pattern/",
		`$SET !~ "x"`:                                "what stands after !~ is not of the form /pattern/",
		`$SET =~ $BAD_PATTERN`:                       "$BAD_PATTERN is not a valid pattern",
		`$SET || $A =~ $PATH`:                        "",
		`$SET =~ $EMPTY`:                             "$EMPTY is not of the form /pattern/",
		`$EMPTY && $SET =~ $EMPTY`:                   "",
		`$SET && ($EMPTY) && $SET =~ $EMPTY`:         "",
		`$SET && ($EMPTY && ($A || $SET =~ $EMPTY))`: "",
		`$EMPTY != null && $SET !~ $EMPTY`:           "",
		`$SET && $SET =~ $EMPTY`:                     "$EMPTY is not of the form /pattern/",
		`$PATH && $SET =~ $PATH`:                     "$PATH is not of the form /pattern/",
	} {
		e, err := rule.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Eval(lookup)
		if notes := strings.Join(got.Notes, "; "); err != nil || !strings.HasPrefix(notes, want) || want == "" && notes != "" {
			t.Errorf("%s: got %q, %v", text, notes, err)
		}
	}
}

func TestString(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		` $A==( "x" ) `:                 `$A == "x"`,
		`((($A)))&&(($B)||$C)`:          `$A && ($B || $C)`,
		`($A && $B) || $C`:              `$A && $B || $C`,
		`$A == ($B == $C)`:              `$A == ($B == $C)`,
		`($A == $B) == $C`:              `$A == $B == $C`,
		`! ( $A )`:                      `!$A`,
		`!($A == 'it')`:                 `!($A == "it")`,
		`'say "x"' == $A`:               `'say "x"' == $A`,
		`$A =~ /a\/b/mi||$[[inputs.x]]`: `$A =~ /a\/b/mi || $[[ inputs.x ]]`,
		`$A || ($B || null)`:            `$A || ($B || null)`,
		`(true == false)`:               `true == false`,
	} {
		e, err := rule.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if e.String() != want || e.Source() != text {
			t.Errorf("%s: got %s", text, e)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	var cache rule.Cache
	e, err := cache.Parse(`$B == "$NOT" && ($A || $B) && !$C =~ /$NOR/ && $[[ inputs.x ]]`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"A", "B", "C"}, e.Variables()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"x"}, e.Inputs()); diff != "" {
		t.Error(diff)
	}
	if again, _ := cache.Parse(e.Source()); again != e {
		t.Error("the cache parses twice")
	}
	if _, err := cache.Parse("="); err == nil {
		t.Error("the cache forgets an error")
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`$SET`:                         `$SET is "my variable"`,
		`$EMPTY`:                       `$EMPTY is empty`,
		`$SPACES`:                      `$SPACES holds only spaces`,
		`$UNSET`:                       `$UNSET is not set`,
		`!$UNSET`:                      `$UNSET is not set`,
		`"x"`:                          `"x" is always true`,
		`null`:                         `null is always false`,
		`$BRANCH == "main"`:            `$BRANCH is "main"`,
		`"main" == $BRANCH`:            `$BRANCH is "main"`,
		`$BRANCH == "dev"`:             `$BRANCH is "main", not "dev"`,
		`$BRANCH != "dev"`:             `$BRANCH is "main", not "dev"`,
		`$BRANCH == null`:              `$BRANCH is "main"`,
		`$UNSET == "dev"`:              `$UNSET is not set, not "dev"`,
		`$BRANCH == $DEFAULT`:          `$BRANCH and $DEFAULT are both "main"`,
		`$BRANCH == $UNSET`:            `$BRANCH is "main", and $UNSET is not set`,
		`$UNSET == $ALSO_UNSET`:        `$UNSET and $ALSO_UNSET are both not set`,
		`$BRANCH =~ /^ma/`:             `$BRANCH is "main", which matches /^ma/`,
		`$BRANCH !~ /^x+/`:             `$BRANCH is "main", which does not match /^x+/`,
		`$SET =~ $PATTERN`:             `$SET is "my variable", which matches $PATTERN (/^my/)`,
		`$SET =~ $BRANCH`:              `$SET is "my variable", which does not match $BRANCH (main) (as a string: it is not a pattern)`,
		`$SET =~ $UNSET`:               `$UNSET is not set, which matches nothing`,
		`$BRANCH == "main" && $UNSET`:  `$UNSET is not set`,
		`$BRANCH == "main" && $SET`:    `$BRANCH is "main", and $SET is "my variable"`,
		`$UNSET && $SET`:               `$UNSET is not set`,
		`$UNSET || $SET`:               `$SET is "my variable"`,
		`$UNSET || $BRANCH == "dev"`:   `$UNSET is not set, and $BRANCH is "main", not "dev"`,
		`$EMPTY || $SET`:               `$EMPTY is empty (which || takes for true, and does not look further)`,
		`$EMPTY && $SET`:               `$EMPTY is empty (which && takes for true), and $SET is "my variable"`,
		`!($BRANCH == "main") == true`: `!($BRANCH == "main") is false, not true`,
		`$TOKEN`:                       `$TOKEN is set`,
		`$TOKEN == "x"`:                `$TOKEN is not "x"`,
		`$TOKEN == "hunter2"`:          `$TOKEN is set`,
		`$TOKEN == $COPY`:              `$TOKEN and $COPY are equal`,
		`$TOKEN == $BRANCH`:            `$TOKEN is set, and $BRANCH is "main"`,
		`$TOKEN =~ /^h.+/`:             `$TOKEN is set, which matches /^h.+/`,
		`$BRANCH =~ $TOKEN`:            `$BRANCH is "main", which does not match $TOKEN (as a string: it is not a pattern)`,
		`($UNSET || $TOKEN) == "x"`:    `($UNSET || $TOKEN) is not "x"`,
	} {
		e, err := rule.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		withSecrets := func(name string) (string, bool) {
			if name == "TOKEN" || name == "COPY" {
				return "hunter2", true
			}
			return lookup(name)
		}
		got := e.Explain(withSecrets, func(name string) bool { return name == "TOKEN" })
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`$A == "x" && ($B =~ /a\/b+/i || !$C != null)`, `"it's" == 'say "x"'`, `$[[ inputs.x ]] == true`, `${A}`, `$A =~ /a//`,
		`$A =~ /(a|b){2,3}/mU`, `((`, `!!!$A`, "$A == \"\xff\"", `$A =~ $B =~ /[^/]+/`, `$A =~ /\//`, `/a\\/b/`,
	} {
		f.Add(seed, "/ab/", "ab")
	}
	f.Fuzz(func(t *testing.T, text, a, b string) {
		e, err := rule.Parse(text)
		if err != nil {
			var bad *rule.Error
			if !errors.As(err, &bad) || bad.Length < 1 || bad.Offset < 0 || bad.Offset > len(text) || bad.Message == "" {
				t.Fatalf("%q: %#v", text, err)
			}
			return
		}
		printed := e.String()
		again, err := rule.Parse(printed)
		if err != nil || again.String() != printed {
			t.Fatalf("%q is printed as %q, which is %v, %v", text, printed, again, err)
		}
		see := func(name string) (string, bool) {
			if len(name)%3 == 0 {
				return "", false
			}
			if len(name)%3 == 1 {
				return a, true
			}
			return b, true
		}
		first, err := e.Eval(see)
		second, err2 := again.Eval(see)
		if (err == nil) != (err2 == nil) || show(first.Value) != show(second.Value) || first.True != second.True {
			t.Fatalf("%q is %v, %v, and printed %v, %v", text, first, err, second, err2)
		}
		if e.Explain(see, nil) == "" {
			t.Fatal("nothing explained")
		}
	})
}

func BenchmarkEval(b *testing.B) {
	e, err := rule.Parse(`$BRANCH == $DEFAULT && $SET =~ /^my [a-z]+$/ || $SET =~ $PATTERN`)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := e.Eval(lookup); err != nil {
			b.Fatal(err)
		}
	}
}
