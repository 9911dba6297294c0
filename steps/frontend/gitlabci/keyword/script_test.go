package keyword_test

import (
	"strings"
	"testing"

	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
)

// nested is a text in so many lists.
func nested(levels int) string {
	return strings.Repeat("[", levels) + "echo" + strings.Repeat("]", levels)
}

func TestScript(t *testing.T) {
	script := func(d *keyword.Definition) any { return texts(first(d).Script) }
	of := func(script string) string { return "job:\n  script: " + script + "\n" }
	check(t, "script", []accepts{
		{"a string", of("make"), script, []string{"make"}},
		{"a list", of("[make, make test]"), script, []string{"make", "make test"}},
		{"lines of one command", of("\n    - |\n      a\n      b"), script, []string{"a\nb\n"}},
		{"lists in the list, flat", of("[a, [b, [c]]]"), script, []string{"a", "b", "c"}},
		{"lists ten levels deep", of(nested(10)), script, []string{"echo"}},
		{"a reference in the list", ".a: {script: [x, y]}\n" + of("[a, !reference [.a, script]]"), script, []string{"a", "x", "y"}},
		{"an empty command among others", of("[a, '']"), script, []string{"a", ""}},
	}, []refuses{
		{"an empty list", of("[]"), "2:11: `script` is empty"},
		{"a list of empty lists", of("[[], []]"), "2:11: `script` is empty"},
		{"an empty string", of("''"), "2:11: `script` is empty"},
		{"a command that YAML takes for a map", of("\n    - echo hello: world"), "3:7: a command of `script` is a map\n  hint: put quotes around the whole command: YAML takes `echo hello: …` for a map"},
		{"a number", of("[1]"), "2:12: a command of `script` is a number\n  hint: put quotes around it"},
		{"null in the list", of("\n    - a\n    -"), "4:6: a command of `script` is null"},
		{"a map", of("{a: b}"), "2:11: `script` must be a command or a list of commands, not a map"},
		{"lists eleven levels deep", of(nested(11)), "`script` nests lists deeper than 10 levels"},
	})
}

func TestBeforeScript(t *testing.T) {
	lines := func(d *keyword.Definition) any { return texts(first(d).BeforeScript) }
	check(t, "before_script", []accepts{
		{"a string", job("before_script: a"), lines, []string{"a"}},
		{"a list with lists", job("before_script: [a, [b]]"), lines, []string{"a", "b"}},
		{"an empty list, which takes the default away", "default: {before_script: [a]}\n" + job("before_script: []"), lines, []string(nil)},
	}, []refuses{
		{"a boolean", job("before_script: true"), "3:18: `before_script` must be a command or a list of commands, not a boolean"},
		{"a map in the list", job("before_script: ['a', b: c]"), "3:24: a command of `before_script` is a map"},
		{"deep lists", job("before_script: " + nested(11)), "deeper than 10 levels"},
	})
}

func TestAfterScript(t *testing.T) {
	lines := func(d *keyword.Definition) any { return texts(first(d).AfterScript) }
	check(t, "after_script", []accepts{
		{"a string", job("after_script: a"), lines, []string{"a"}},
		{"a list", job("after_script: [a, b]"), lines, []string{"a", "b"}},
	}, []refuses{
		{"a number", job("after_script: 1"), "3:17: `after_script` must be a command or a list of commands, not a number"},
		{"a map", job("after_script: {a: b}"), "`after_script` must be a command or a list of commands, not a map"},
		{"null in the list", job("after_script: [a, null]"), "3:21: a command of `after_script` is null"},
	})
}

func TestHooks(t *testing.T) {
	lines := func(d *keyword.Definition) any { return texts(first(d).Hooks.PreGetSources) }
	check(t, "hooks", []accepts{
		{"a list", job("hooks: {pre_get_sources_script: [a, [b]]}"), lines, []string{"a", "b"}},
		{"a string", job("hooks: {pre_get_sources_script: a}"), lines, []string{"a"}},
	}, []refuses{
		{"another hook", job("hooks: {post_get_sources_script: [a]}"), "3:11: `hooks` has no key \"post_get_sources_script\"\n  hint: did you mean \"pre_get_sources_script\"?"},
		{"a list of hooks", job("hooks: [a]"), "3:10: `hooks` must be a map, not a list"},
		{"a hook that is a map", job("hooks: {pre_get_sources_script: {a: b}}"), "`hooks:pre_get_sources_script` must be a command or a list of commands, not a map"},
	})
}

func TestRun(t *testing.T) {
	of := func(run string) string { return "job:\n  run: " + run + "\n" }
	check(t, "run", []accepts{
		{
			"a function and a script", of("\n    - {name: a, func: ./f, inputs: {x: 1}}\n    - {name: b, script: make, env: {C: d}}"),
			func(d *keyword.Definition) any { return first(d).Run.Len() }, 2,
		},
		{"the older word step", of("[{name: a, step: builtin://script, inputs: {}}]"), nil, nil},
		{"what our runner takes besides", of("[{name: a, action: b/c@v1, if: failure()}]"), nil, nil},
		{
			"a default script, which does not reach it", "default: {before_script: [a]}\n" + of("[{name: a, script: b}]"),
			func(d *keyword.Definition) any { return len(first(d).BeforeScript) }, 0,
		},
	}, []refuses{
		{"a script besides", "job:\n  script: make\n  run: [{name: a, script: b}]\n", "2:3: `script` and `run` exclude each other"},
		{"an after_script besides", of("[{name: a, script: b}]\n  after_script: [c]"), "3:3: `after_script` and `run` exclude each other"},
		{"a text", of("make"), "2:8: `run` must be a list of steps, not a string"},
		{"an empty list", of("[]"), "2:8: `run` is empty"},
		{"a step without a name", of("[{script: a}]"), "a step of `run` has no name"},
		{"a name with a dash", of("[{name: a-b, script: a}]"), "2:16: \"a-b\" cannot be the name of a step"},
		{"a name twice", of("[{name: a, script: a}, {name: a, script: a}]"), "another step of the job is called \"a\""},
		{"a step that does nothing", of("[{name: a}]"), "a step of `run` does nothing"},
		{"a step that does two things", of("[{name: a, func: b, script: c}]"), "a step of `run` has func and script"},
		{"a key that no step has", of("[{name: a, scripd: b}]"), "`run` has no key \"scripd\""},
	})
}

func TestImage(t *testing.T) {
	type seen struct {
		Name, Platform, User string
		Entrypoint, Policies []string
	}
	image := func(d *keyword.Definition) any {
		i := first(d).Image
		return seen{i.Name, i.Platform, i.User, i.Entrypoint, i.PullPolicies}
	}
	check(t, "image", []accepts{
		{"a name", job("image: alpine:3"), image, seen{Name: "alpine:3"}},
		{
			"a map", job("image: {name: a, entrypoint: [''], pull_policy: [always, if-not-present], docker: {platform: linux/arm64, user: dave}}"), image,
			seen{"a", "linux/arm64", "dave", []string{""}, []string{"always", "if-not-present"}},
		},
		{"one policy, and a user of Kubernetes that is a number", job("image: {name: a, pull_policy: never, kubernetes: {user: 1001}}"), image, seen{Name: "a", User: "1001", Policies: []string{"never"}}},
	}, []refuses{
		{"a list", job("image: [alpine]"), "3:10: `image` must be a map, not a list"},
		{"an empty name", job("image: ''"), "3:10: `image` is empty"},
		{"a map without a name", job("image: {entrypoint: [a]}"), "`image` has no name"},
		{"an entrypoint that is a text", job("image: {name: a, entrypoint: sh}"), "`image:entrypoint` must be a list of strings, not a string\n  hint: put brackets around it: [sh]"},
		{"a policy that does not exist", job("image: {name: a, pull_policy: sometimes}"), "`image:pull_policy` cannot be \"sometimes\""},
		{"another option of Docker", job("image: {name: a, docker: {privileged: true}}"), "`image:docker` has no key \"privileged\""},
		{"ports", job("image: {name: a, ports: [80]}"), "`image` cannot have `ports` in a pipeline"},
		{"an alias", job("image: {name: a, alias: b}"), "`image` has no key \"alias\""},
	})
}

func TestServices(t *testing.T) {
	services := func(d *keyword.Definition) any {
		var out [][]string
		for _, s := range first(d).Services {
			out = append(out, append([]string{s.Name}, s.Aliases...))
		}
		return out
	}
	check(t, "services", []accepts{
		{"names", job("services: [postgres:16, redis]"), services, [][]string{{"postgres:16"}, {"redis"}}},
		{"aliases with spaces and commas", job("services: [{name: pg, alias: 'db, main  old'}]"), services, [][]string{{"pg", "db", "main", "old"}}},
		{
			"everything else", job("services: [{name: pg, entrypoint: [sh], command: [-c, x], variables: {A: 1}, pull_policy: always, docker: {user: u}}]"),
			func(d *keyword.Definition) any {
				s := first(d).Services[0]
				return []any{s.Entrypoint, s.Command, s.Variables[0].Value, s.PullPolicies, s.User}
			}, []any{[]string{"sh"}, []string{"-c", "x"}, "1", []string{"always"}, "u"},
		},
		{"an empty list, which takes the default away", "default: {services: [a]}\n" + job("services: []"), services, [][]string(nil)},
	}, []refuses{
		{"a text", job("services: postgres"), "3:13: `services` must be a list of images, not a string\n  hint: put brackets around it: [postgres]"},
		{"a service without a name", job("services: [{alias: a}]"), "`services` has no name"},
		{"a list in it", job("services: [[a]]"), "a service must be a string or a map, not a list"},
		{"a list of aliases", job("services: [{name: a, alias: [b]}]"), "`services:alias` must be a string, not a list"},
		{"a variable that is a map", job("services: [{name: a, variables: {B: {value: c}}}]"), "`services:variables:B` must be a string, not a map"},
		{"ports", job("services: [{name: a, ports: [80]}]"), "`services` cannot have `ports`"},
	})
}
