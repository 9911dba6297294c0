package keyword_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
)

func TestRules(t *testing.T) {
	of := func(rules string) string { return job("rules:" + rules) }
	check(t, "rules", []accepts{
		{
			"conditions", of("\n  - if: $A == \"b\"\n    changes: [a.go]\n    exists: [b.go]"),
			func(d *keyword.Definition) any {
				r := first(d).Rules[0]
				return []any{r.If.Source(), r.Changes.Paths, r.Exists.Paths}
			}, []any{`$A == "b"`, []string{"a.go"}, []string{"b.go"}},
		},
		{
			"changes and exists as maps", of(" [{changes: {paths: [a], compare_to: main}, exists: {paths: [b], project: g/p, ref: r}}]"),
			func(d *keyword.Definition) any {
				r := first(d).Rules[0]
				return []any{r.Changes.CompareTo, r.Exists.Project, r.Exists.Ref}
			}, []any{"main", "g/p", "r"},
		},
		{
			"what they change in the job", of("\n  - {when: delayed, start_in: 5 minutes, allow_failure: true, interruptible: false, variables: {A: b}, needs: [other]}") + "other: {script: x}\n",
			func(d *keyword.Definition) any {
				r := first(d).Rules[0]
				return []any{string(r.When), r.StartIn, *r.AllowFailure, *r.Interruptible, r.Rule.Variables[0].Value, r.Needs[0].Job}
			}, []any{"delayed", "5 minutes", true, false, "b", "other"},
		},
		{"lists in the list, flat", of(" [{if: $A}, [{if: $B}, [{when: never}]]]"), func(d *keyword.Definition) any { return len(first(d).Rules) }, 3},
		{"null, which is none", of(" null") + "\n", func(d *keyword.Definition) any { return first(d).Rules == nil }, true},
		{
			"regular expressions in place of paths", of(" [{changes: {regexp: '\\.go$', compare_to: main}, exists: {regexp: '\\Adocs/', project: g/p}}]"),
			func(d *keyword.Definition) any {
				r := first(d).Rules[0]
				return []string{r.Changes.Regexp, r.Changes.CompareTo, r.Exists.Regexp, r.Exists.Project}
			}, []string{`\.go$`, "main", `\Adocs/`, "g/p"},
		},
		{"exists that is a text", of(" [{exists: a}]"), func(d *keyword.Definition) any { return first(d).Rules[0].Exists.Paths }, []string{"a"}},
		{"fifty patterns", of(" [{changes: [" + strings.Repeat("a, ", 49) + "a]}]"), nil, nil},
	}, []refuses{
		{"a broken condition, at its place", of(" [{if: $A == }]"), "3:21: `rules:if`: the expression ends where a value is expected"},
		{"braces around a variable", of(` [{if: '${A} == "b"'}]`), "3:17: `rules:if`"},
		{"a condition that is a boolean", of(" [{if: true}]"), "`rules:if` must be a string, not a boolean"},
		{"only besides", of(" [{when: always}]\nonly: [main]"), "4:3: `only` and `rules` exclude each other"},
		{"except besides", of(" [{when: always}]\nexcept: [main]"), "4:3: `except` and `rules` exclude each other"},
		{"a delay without start_in", of(" [{when: delayed}]"), "the rule is delayed and does not say how long"},
		{"start_in without a delay", of(" [{when: manual, start_in: 1 day}]"), "`rules:start_in` is for rules with `when: delayed`"},
		{"another moment", of(" [{when: sometimes}]"), "`rules:when` cannot be \"sometimes\""},
		{"fifty-one patterns", of(" [{changes: [" + strings.Repeat("a, ", 50) + "a]}]"), "`rules:changes` has 51 items, and the limit is 50"},
		{"changes without paths", of(" [{changes: {compare_to: main}}]"), "`rules:changes` has no paths"},
		{"an empty list", of(" []"), "`rules` is empty"},
		{"paths and a regular expression", of(" [{changes: {paths: [a], regexp: b}}]"), "`rules:changes` has paths and regexp, and can have only one of them"},
		{"a regular expression that looks ahead", of(" [{changes: {regexp: '\\A(?!docs/).*'}}]"), "`rules:changes:regexp`: the pattern uses the look-around (?!"},
		{"a regular expression that is none", of(" [{exists: {regexp: '(a'}}]"), "`rules:exists:regexp`: the pattern is not one of RE2: missing closing )"},
		{"a regular expression that is too long", of(" [{exists: {regexp: " + strings.Repeat("a", 256) + "}}]"), "`rules:exists:regexp`: the pattern is 256 characters long, and the limit is 255"},
		{"changes that are a text", of(" [{changes: a}]"), "hint: put brackets around it: [a]"},
		{"a ref without a project", of(" [{exists: {paths: [a], ref: b}}]"), "`rules:exists:ref` is for the files of another project"},
		{"exit codes in a rule", of(" [{allow_failure: {exit_codes: 1}}]"), "`rules:allow_failure` must be a boolean, not a map"},
		{"an empty rule", of(" [{}]"), "a rule of `rules` is empty"},
		{"a text", of(" always"), "`rules` must be a list of maps, not a string"},
		{"a rule that is a text", of(" [always]"), "a rule of `rules` must be a map, not a string"},
		{"a misspelt key", of(" [{iff: $A}]"), "hint: did you mean \"if\"?"},
		{"deep lists", of(" " + strings.Repeat("[", 11) + "{when: never}" + strings.Repeat("]", 11)), "`rules` nests lists deeper than 10 levels"},
		{"needs of other pipelines", of(" [{needs: [{pipeline: $P, job: a}]}]"), "`rules:needs` cannot need other pipelines or projects"},
	})
}

// policies are the tests of only and except, which have the same forms.
func policies(t *testing.T, name string, pick func(*keyword.Job) any) {
	look := func(d *keyword.Definition) any { return pick(first(d)) }
	of := func(text string) string { return job(name + ": " + text) }
	check(t, name, []accepts{
		{"a list of refs", of("[main, /^release-.*$/, tags]"), look, "main /^release-.*$/ tags"},
		{"a map", of("{refs: [main], variables: [$A, $B == \"c\"], changes: [a/*], kubernetes: active}"), look, `main variables $A $B == "c" changes a/* kubernetes`},
		{"a map without refs", of("{changes: [a]}"), look, "changes a"},
	}, []refuses{
		{"a text", of("main"), "hint: put brackets around it: [main]"},
		{"an empty map", of("{}"), "`" + name + "` is empty"},
		{"a pattern that RE2 does not know", of("['/(?!a)/']"), "`" + name + "`: "},
		{"a broken condition", of("{variables: ['$A ==']}"), "`" + name + ":variables`: "},
		{"an inactive cluster", of("{kubernetes: inactive}"), "`" + name + ":kubernetes` cannot be \"inactive\""},
		{"another key", of("{branches: [a]}"), "`" + name + "` has no key \"branches\""},
		{"a number", of("[1]"), "`" + name + "` must be a list of strings, not a number"},
	})
}

func TestOnly(t *testing.T) {
	policies(t, "only", func(j *keyword.Job) any { return policy(j.Legacy.Only) })
}

func TestExcept(t *testing.T) {
	policies(t, "except", func(j *keyword.Job) any { return policy(j.Legacy.Except) })
}

func TestWhen(t *testing.T) {
	when := func(d *keyword.Definition) any { return string(first(d).When) }
	good := []accepts{
		{"none, which is on_success", someJob, when, "on_success"},
		{"delayed", job("when: delayed\nstart_in: 1 minute"), when, "delayed"},
	}
	for _, w := range []string{"on_success", "on_failure", "always", "manual"} {
		good = append(good, accepts{w, job("when: " + w), when, w})
	}
	check(t, "when", good, []refuses{
		{"never, which is for rules", job("when: never"), "3:9: `when: never` is for rules"},
		{"another word", job("when: alway"), "3:9: `when` cannot be \"alway\"\n  hint: did you mean \"always\"?"},
		{"a boolean", job("when: true"), "3:9: `when` must be a string, not a boolean"},
		{"delayed without start_in", job("when: delayed"), "3:9: the job is delayed but has no `start_in`"},
		{"delayed with rules", job("when: delayed\nrules: [{if: $A}]"), "a job with rules cannot be delayed as a whole"},
	})
}

func TestStartIn(t *testing.T) {
	delay := func(d *keyword.Definition) any { return first(d).StartIn }
	of := func(text string) string { return job("when: delayed\nstart_in: " + text) }
	check(t, "start_in", []accepts{
		{"words", of("30 minutes"), delay, 30 * time.Minute},
		{"a number in quotes, which is in seconds", of("'5'"), delay, 5 * time.Second},
		{"a week", of("1 week"), delay, 7 * 24 * time.Hour},
	}, []refuses{
		{"more than a week", of("8 days"), "4:13: `start_in` is longer than a week"},
		{"a job that is not delayed", job("start_in: 1 day"), "3:3: `start_in` is for jobs with `when: delayed`"},
		{"a number", of("5"), "4:13: `start_in` must be a duration, not a number"},
		{"no duration", of("soon"), "`start_in`: \"soon\" is not a unit of time"},
		{"never", of("never"), "`start_in`: \"never\" is not a unit of time"},
		{"rules besides", job("start_in: 1 day\nrules: [{if: $A}]"), "3:3: `start_in` and `rules` exclude each other"},
	})
}

func TestManualConfirmation(t *testing.T) {
	text := func(d *keyword.Definition) any { return first(d).Confirmation }
	check(t, "manual_confirmation", []accepts{
		{"a text for a manual job", job("when: manual\nmanual_confirmation: Really?"), text, "Really?"},
		{"a text for a manual rule", job("rules: [{when: manual}]\nmanual_confirmation: Really?"), text, "Really?"},
	}, []refuses{
		{"a boolean", job("when: manual\nmanual_confirmation: true"), "`manual_confirmation` must be a string, not a boolean"},
		{"an empty text", job("when: manual\nmanual_confirmation: ''"), "`manual_confirmation` is empty"},
		{"a list", job("when: manual\nmanual_confirmation: [a]"), "`manual_confirmation` must be a string, not a list"},
	})
}

func TestAllowFailure(t *testing.T) {
	allow := func(d *keyword.Definition) any { return first(d).AllowFailure }
	check(t, "allow_failure", []accepts{
		{"none", someJob, allow, keyword.AllowFailure{}},
		{"true", job("allow_failure: true"), allow, keyword.AllowFailure{Set: true, Always: true}},
		{"false", job("allow_failure: false"), allow, keyword.AllowFailure{Set: true}},
		{"an exit code", job("allow_failure: {exit_codes: 137}"), allow, keyword.AllowFailure{Set: true, ExitCodes: []int{137}}},
		{"exit codes", job("allow_failure: {exit_codes: [1, 255]}"), allow, keyword.AllowFailure{Set: true, ExitCodes: []int{1, 255}}},
	}, []refuses{
		{"a text", job("allow_failure: 'true'"), "`allow_failure` must be a boolean or a map, not a string"},
		{"an empty map", job("allow_failure: {}"), "`allow_failure` has no exit codes"},
		{"exit codes that are texts", job("allow_failure: {exit_codes: [a]}"), "`allow_failure:exit_codes` must be a list of whole numbers, not a string"},
		{"no exit codes", job("allow_failure: {exit_codes: []}"), "`allow_failure:exit_codes` is empty"},
		{"a fraction", job("allow_failure: {exit_codes: 1.5}"), "`allow_failure:exit_codes` must be a whole number or a list of them"},
	})
}

func TestInterruptible(t *testing.T) {
	flag := func(d *keyword.Definition) any { return first(d).Interruptible }
	check(t, "interruptible", []accepts{
		{"true", job("interruptible: true"), flag, true},
		{"false", job("interruptible: false"), flag, false},
		{"an input", "spec: {inputs: {x: {default: 'true'}}}\n---\n" + job("interruptible: $[[ inputs.x ]]"), flag, true},
	}, []refuses{
		{"a text", job("interruptible: 'true'"), "`interruptible` must be a boolean, not a string\n  hint: take the quotes off"},
		{"a number", job("interruptible: 1"), "`interruptible` must be a boolean, not a number"},
		{"a list", job("interruptible: [true]"), "`interruptible` must be a boolean, not a list"},
	})
}

func TestRetry(t *testing.T) {
	retry := func(d *keyword.Definition) any { return first(d).Retry }
	check(t, "retry", []accepts{
		{"a number", job("retry: 2"), retry, keyword.Retry{Max: 2}},
		{"an input", "spec: {inputs: {x: {default: '1'}}}\n---\n" + job("retry: $[[ inputs.x ]]"), retry, keyword.Retry{Max: 1}},
		{"a reason", job("retry: {max: 1, when: script_failure}"), retry, keyword.Retry{Max: 1, When: []string{"script_failure"}}},
		{
			"reasons by old names and new, and exit codes", job("retry: {max: 2, when: [stuck_or_timeout_failure, runner_interrupted], exit_codes: [1, 2]}"), retry,
			keyword.Retry{Max: 2, When: []string{"stuck_or_timeout_failure", "runner_interrupted"}, ExitCodes: []int{1, 2}},
		},
	}, []refuses{
		{"three", job("retry: 3"), "3:10: `retry` must be from 0 to 2, not 3"},
		{"less than none", job("retry: -1"), "`retry` must be from 0 to 2, not -1"},
		{"a number in quotes", job("retry: '1'"), "`retry` must be a whole number, not a string\n  hint: take the quotes off"},
		{"too many in a map", job("retry: {max: 5}"), "`retry:max` must be from 0 to 2, not 5"},
		{"a reason that does not exist", job("retry: {when: script_failed}"), "`retry:when` cannot be \"script_failed\"\n  hint: did you mean \"script_failure\"?"},
		{"a list", job("retry: [1]"), "`retry` must be a whole number or a map, not a list"},
		{"exit codes that are texts", job("retry: {exit_codes: a}"), "`retry:exit_codes` must be a whole number or a list of them"},
	})
}

func TestTimeout(t *testing.T) {
	timeout := func(d *keyword.Definition) any { return first(d).Timeout }
	check(t, "timeout", []accepts{
		{"units", job("timeout: 3h 30m"), timeout, 3*time.Hour + 30*time.Minute},
		{"words", job("timeout: one hour"), timeout, time.Hour},
		{"a month", job("timeout: 1 month"), timeout, 30 * 24 * time.Hour},
	}, []refuses{
		{"more than a month", job("timeout: 31 days"), "`timeout` is longer than a month"},
		{"a number", job("timeout: 3600"), "`timeout` must be a duration, not a number\n  hint: write it as a string, in quotes and preferably with a unit: \"3600 seconds\""},
		{"no time", job("timeout: 0 minutes"), "`timeout`: \"0 minutes\" is not a duration"},
		{"another unit", job("timeout: 3 moons"), "`timeout`: \"moons\" is not a unit of time"},
	})
}

func TestTags(t *testing.T) {
	tags := func(d *keyword.Definition) any { return first(d).Tags }
	check(t, "tags", []accepts{
		{"a list", job("tags: [linux, $SIZE]"), tags, []string{"linux", "$SIZE"}},
		{"an empty list", job("tags: []"), tags, []string{}},
	}, []refuses{
		{"a text", job("tags: linux"), "3:9: `tags` must be a list of strings, not a string\n  hint: put brackets around it: [linux]"},
		{"a number", job("tags: [1]"), "`tags` must be a list of strings, not a number"},
		{"fifty-one", job("tags: [" + strings.Repeat("a, ", 50) + "a]"), "`tags` has 51 items, and the limit is 50"},
	})
}

func TestResourceGroup(t *testing.T) {
	group := func(d *keyword.Definition) any { return first(d).ResourceGroup }
	check(t, "resource_group", []accepts{
		{"a name", job("resource_group: production"), group, "production"},
		{"variables", job("resource_group: $CI_ENVIRONMENT_NAME"), group, "$CI_ENVIRONMENT_NAME"},
	}, []refuses{
		{"an empty text", job("resource_group: ''"), "`resource_group` is empty"},
		{"a number", job("resource_group: 1"), "`resource_group` must be a string, not a number"},
		{"a list", job("resource_group: [a]"), "`resource_group` must be a string, not a list"},
	})
}

func TestParallel(t *testing.T) {
	parallel := func(d *keyword.Definition) any {
		p := first(d).Parallel
		return fmt.Sprint(p.Count, p.Matrix)
	}
	numbers := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%d, ", i)
		}
		return "[" + strings.TrimSuffix(b.String(), ", ") + "]"
	}
	check(t, "parallel", []accepts{
		{"a number", job("parallel: 5"), parallel, "5 []"},
		{"one and 200", job("parallel: 1") + "b: {script: x, parallel: 200}\n", parallel, "1 []"},
		{"a matrix", job("parallel: {matrix: [{A: [x, y], B: 1}, {A: z}]}"), parallel, "0 [[{A [x y]} {B [1]}] [{A [z]}]]"},
		{"a matrix of 200", job("parallel: {matrix: [{A: " + numbers(20) + ", B: " + numbers(10) + "}]}"), nil, nil},
	}, []refuses{
		{"none", job("parallel: 0"), "3:13: `parallel` must be from 1 to 200, not 0"},
		{"201", job("parallel: 201"), "3:13: `parallel` must be from 1 to 200, not 201"},
		{"a fraction", job("parallel: 1.5"), "`parallel` must be a whole number, not 1.5"},
		{"a text", job("parallel: '2'"), "`parallel` must be a whole number, not a string\n  hint: take the quotes off"},
		{"a matrix of 200 x 200", job("parallel: {matrix: [{A: " + numbers(200) + ", B: " + numbers(200) + "}]}"), "`parallel:matrix` makes more than 200 jobs"},
		{"entries that are 201 together", job("parallel: {matrix: [{A: " + numbers(200) + "}, {B: 1}]}"), "`parallel:matrix` makes more than 200 jobs"},
		{"a matrix that is a map", job("parallel: {matrix: {A: [x]}}"), "`parallel:matrix` must be a list of maps, not a map"},
		{"an empty matrix", job("parallel: {matrix: []}"), "`parallel:matrix` is empty"},
		{"an empty entry", job("parallel: {matrix: [{}]}"), "an entry of `parallel:matrix` is empty"},
		{"a variable without values", job("parallel: {matrix: [{A: []}]}"), "`parallel:matrix:A` is empty"},
		{"a value that is a map", job("parallel: {matrix: [{A: [{b: c}]}]}"), "a value of `parallel:matrix:A` must be a string, not a map"},
		{"a map without a matrix", job("parallel: {}"), "`parallel` has no matrix"},
		{"a matrix that refers to itself", job("parallel: {matrix: [{A: '$[[ matrix.B ]]'}]}"), "a matrix cannot refer to itself"},
	})
}
