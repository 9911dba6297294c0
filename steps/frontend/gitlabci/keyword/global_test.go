package keyword_test

import (
	"strings"
	"testing"

	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
)

const someJob = "job:\n  script: make\n"

func TestStages(t *testing.T) {
	stages := func(d *keyword.Definition) any { return strings.Join(d.Stages, " ") }
	check(t, "stages", []accepts{
		{"none, which are build, test and deploy", someJob, stages, ".pre build test deploy .post"},
		{"a list, with .pre and .post around it", "stages: [a, test]\n" + someJob, stages, ".pre a test .post"},
		{".pre and .post in the list, which stay at the ends", "stages: [.post, a, test, .pre]\n" + someJob, stages, ".pre a test .post"},
		{"a stage that is named twice, once", "stages: [a, test, a]\n" + someJob, stages, ".pre a test .post"},
		{"lists in the list, flat", "stages: [[a, [b]], test]\n" + someJob, stages, ".pre a b test .post"},
		{"null", "stages:\n" + someJob, stages, ".pre build test deploy .post"},
	}, []refuses{
		{"a text", "stages: test\n" + someJob, "1:9: `stages` must be a list of strings, not a string\n  hint: put brackets around it: [test]"},
		{"a number in it", "stages: [test, 1]\n" + someJob, "1:16: `stages` must be a list of strings, not a number\n  hint: put quotes around it"},
		{"lists nested too deep", "stages: [test, " + strings.Repeat("[", 10) + "a" + strings.Repeat("]", 10) + "]\n" + someJob, "1:26: `stages` nests lists deeper than 10 levels"},
		{"a number in a list in it", "stages: [test, [1]]\n" + someJob, "1:17: `stages` must be a list of strings, not a number"},
		{"lists without names", "stages: [[]]\njob:\n  stage: .pre\n  script: make\n", "1:9: `stages` is empty"},
		{"an empty list", "stages: []\njob:\n  stage: .pre\n  script: make\n", "1:9: `stages` is empty"},
		{"an empty name", "stages: [test, '']\n" + someJob, "1:16: the name of a stage is empty"},
	})
}

func TestStage(t *testing.T) {
	stage := func(d *keyword.Definition) any { return first(d).Stage }
	check(t, "stage", []accepts{
		{"none, which is test", someJob, stage, "test"},
		{"one of the stages", job("stage: deploy"), stage, "deploy"},
		{".pre, which is always there", job("stage: .pre"), stage, ".pre"},
	}, []refuses{
		{"one that is not there, with what may be meant", job("stage: deplyo"), `3:10: there is no stage "deplyo"; the stages are .pre, build, test, deploy, .post` + "\n  hint: did you mean \"deploy\"?"},
		{"a list", job("stage: [build]"), "3:10: `stage` must be a string, not a list"},
		{"an empty text", job("stage: ''"), "3:10: `stage` is empty"},
		{"none where there is no test", "stages: [build]\n" + someJob, "2:1: the job has no stage, and the default stage, test, is not one of: .pre, build, .post"},
	})
}

func TestWorkflow(t *testing.T) {
	check(t, "workflow", []accepts{
		{
			"a name and auto_cancel", "workflow:\n  name: for $CI_COMMIT_BRANCH\n  auto_cancel:\n    on_new_commit: interruptible\n    on_job_failure: all\n" + someJob,
			func(d *keyword.Definition) any {
				return []string{d.Workflow.Name, d.Workflow.OnNewCommit, d.Workflow.OnJobFailure}
			},
			[]string{"for $CI_COMMIT_BRANCH", "interruptible", "all"},
		},
		{
			"rules with variables and auto_cancel", "workflow:\n  rules:\n    - if: $A\n      variables: {B: c}\n      auto_cancel: {on_new_commit: none}\n    - when: never\n" + someJob,
			func(d *keyword.Definition) any {
				rules := d.Workflow.Rules
				return []any{rules[0].If.String(), rules[0].Variables[0].Value, rules[0].Rule.Variables[0].Name, rules[0].OnNewCommit, string(rules[1].When)}
			},
			[]any{"$A", "c", "B", "none", "never"},
		},
		{
			"rules, which jobs without only know of", "workflow:\n  rules: [{when: always}]\n" + someJob,
			func(d *keyword.Definition) any { return first(d).Legacy.WorkflowRules }, true,
		},
	}, []refuses{
		{"a manual rule", "workflow:\n  rules: [{when: manual}]\n" + someJob, "2:18: `workflow:rules:when` cannot be \"manual\"\n  hint: choose one of always, never"},
		{"needs in a rule", "workflow:\n  rules: [{when: always, needs: []}]\n" + someJob, "2:26: `workflow:rules` has no key \"needs\""},
		{"a name that is too long", "workflow:\n  name: " + strings.Repeat("x", 256) + "\n" + someJob, "2:9: the name of the workflow is longer than 255 characters"},
		{"an auto_cancel that GitLab does not know", "workflow:\n  auto_cancel: {on_new_commit: all}\n" + someJob, "2:32: `workflow:auto_cancel:on_new_commit` cannot be \"all\""},
		{"a list", "workflow: [name]\n" + someJob, "1:11: `workflow` must be a map, not a list"},
		{"a misspelt key", "workflow:\n  rule: []\n" + someJob, "2:3: `workflow` has no key \"rule\"\n  hint: did you mean \"rules\"?"},
	})
}

func TestVariables(t *testing.T) {
	values := func(d *keyword.Definition) any {
		out := map[string]string{}
		for _, v := range append(d.Variables, first(d).Variables...) {
			out[v.Name] = v.Value
		}
		return out
	}
	check(t, "variables", []accepts{
		{
			"texts, numbers, booleans and null", "variables: {A: a, B: 1, C: 3.10, D: true, E: 0x10, F: , G: null, H: ~, I: 2.0, J: '3.10', K: 1.5e3}\n" + someJob, values,
			map[string]string{"A": "a", "B": "1", "C": "3.1", "D": "true", "E": "16", "F": "", "G": "", "H": "", "I": "2.0", "J": "3.10", "K": "1.5e3"},
		},
		{
			"maps with a description and options", "variables:\n  A: {value: b, description: which, options: [a, b]}\n" + someJob,
			func(d *keyword.Definition) any {
				v := d.Variables[0]
				return []any{v.Value, v.Description, v.Options, v.Variable.Description, v.Raw}
			}, []any{"b", "which", []string{"a", "b"}, "which", false},
		},
		{
			"expand: false, which is raw", job("variables: {A: {value: $B, expand: false}, C: {value: c, expand: true}}"),
			func(d *keyword.Definition) any { return []bool{first(d).Variables[0].Raw, first(d).Variables[1].Raw} }, []bool{true, false},
		},
	}, []refuses{
		{"a list", "variables: {A: [a]}\n" + someJob, "1:16: `variables:A` must be a string, not a list"},
		{"a list for all", "variables: [A]\n" + someJob, "1:12: `variables` must be a map, not a list\n  hint: write NAME: value under it"},
		{"a value that is not an option", "variables: {A: {value: c, options: [a, b]}}\n" + someJob, "1:24: `variables:A:value` is \"c\", and that is not among the options"},
		{"options without a value", "variables: {A: {options: [a, b]}}\n" + someJob, "1:26: `variables:A` has options and no value"},
		{"a description in a job", job("variables: {A: {value: a, description: b}}"), "3:29: `variables:A` has no key \"description\""},
		{"an expand that is a text", job(`variables: {A: {value: a, expand: "false"}}`), "3:37: `variables:A:expand` must be a boolean, not a string\n  hint: take the quotes off"},
		{"a map in a rule", job("rules: [{variables: {A: {value: a}}}]"), "3:27: `rules:variables:A` must be a string, not a map"},
		{"a value that is too long", "variables: {A: " + strings.Repeat("x", 1<<20+1) + "}\n" + someJob, "1:16: `variables:A` is longer than 1048576 bytes"},
	})
}

func TestDefault(t *testing.T) {
	check(t, "default", []accepts{
		{"keywords for all jobs", "default:\n  retry: 2\n  tags: [a]\n" + someJob, func(d *keyword.Definition) any { return []any{first(d).Retry.Max, first(d).Tags} }, []any{2, []string{"a"}}},
		{"the older global keywords", "image: alpine\n" + someJob, func(d *keyword.Definition) any { return first(d).Image.Name }, "alpine"},
	}, []refuses{
		{"a mistake, told once for all jobs", "default:\n  retry: 3\na: {script: x}\nb: {script: x}\n", "2:10: `retry` must be from 0 to 2, not 3 (by `default:` at ci.yml:1)"},
		{"a mistake that no job inherits", "default:\n  retry: 3\na: {script: x, retry: 1}\n", "2:10: `retry` must be from 0 to 2, not 3"},
		{"a mistake in a global keyword that no job inherits", "cache: 3\na: {script: x, cache: {}}\n", "1:8: `cache` must be a map or a list of maps, not a number"},
	})
}

func TestInherit(t *testing.T) {
	const top = "default: {image: alpine}\nvariables: {A: a, B: b}\n"
	inherits := func(d *keyword.Definition) any {
		j := first(d)
		return []bool{j.Image != nil, j.Inherits.Has("A"), j.Inherits.Has("B")}
	}
	check(t, "inherit", []accepts{
		{"nothing, which is all", top + someJob, inherits, []bool{true, true, true}},
		{"false", top + job("inherit: {default: false, variables: false}"), inherits, []bool{false, false, false}},
		{"names", top + job("inherit: {default: [retry], variables: [A]}"), inherits, []bool{false, true, false}},
	}, nil) // what it refuses is told, and tested, in the package config
}

func TestExtends(t *testing.T) {
	check(t, "extends", []accepts{
		{"a hidden job", ".a: {tags: [x]}\njob: {extends: .a, script: make}\n", func(d *keyword.Definition) any { return first(d).Tags }, []string{"x"}},
		{"several", ".a: {tags: [x]}\n.b: {tags: [y], retry: 1}\njob: {extends: [.a, .b], script: make}\n", func(d *keyword.Definition) any { return []any{first(d).Tags, first(d).Retry.Max} }, []any{[]string{"y"}, 1}},
	}, []refuses{
		{"a mistake in what is extended, with the way", ".a: {tags: x}\njob: {extends: .a, script: make}\n", "1:12: `tags` must be a list of strings, not a string (by `extends: .a` at ci.yml:2)"},
		{"a mistake that two jobs inherit, once", ".a: {tags: x}\na: {extends: .a, script: make}\nb: {extends: .a, script: make}\n", "1:12: `tags` must be a list"},
		{"a mistake through a reference", ".a: {tags: [[x]]}\na: {script: make, tags: !reference [.a, tags]}\n", "1:13: `tags` must be a list of strings, not a list (by `!reference [.a, tags]` at ci.yml:2)"},
	})
}
