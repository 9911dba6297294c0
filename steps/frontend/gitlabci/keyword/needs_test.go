package keyword_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
)

func TestNeeds(t *testing.T) {
	needs := func(d *keyword.Definition) any {
		var out []string
		for _, n := range first(d).Needs {
			out = append(out, strings.Join(strings.Fields(fmt.Sprint(n.Job, " ", n.Pipeline, " ", n.Project, " ", n.Ref, " ", n.UpstreamJob, " ", n.Artifacts, n.Optional, " ", n.Matrix)), " "))
		}
		return out
	}
	const others = "a: {script: x}\nb: {script: x}\nlate: {stage: deploy, script: x}\n"
	of := func(text string) string { return job("needs: "+text) + others }
	var many, manyJobs strings.Builder
	for i := range 51 {
		fmt.Fprintf(&many, "n%d, ", i)
		fmt.Fprintf(&manyJobs, "n%d: {script: x}\n", i)
	}
	const matrix = "m: {script: x, parallel: {matrix: [{OS: [linux, mac], GO: [1, 2]}]}}\n"
	ofMatrix := func(text string) string {
		return job("needs: [{job: m, parallel: {matrix: ["+text+"]}}]") + matrix
	}
	const own = "job: {script: x, parallel: {matrix: [{OS: [linux, mac]}]}, needs: [{job: m, parallel: {matrix: [{OS: ['$[[ matrix.%s ]]'], GO: ['1']}]}}]}\n"
	check(t, "needs", []accepts{
		{"names", of("[a, b]"), needs, []string{"a true false []", "b true false []"}},
		{"an empty list, which is not none", of("[]"), func(d *keyword.Definition) any { return first(d).Needs != nil }, true},
		{"none", someJob, func(d *keyword.Definition) any { return first(d).Needs == nil }, true},
		{"null in the list, which is nothing", of("[a, null]"), needs, []string{"a true false []"}},
		{"null alone, which waits for nothing", of("[null]"), func(d *keyword.Definition) any { return first(d).Needs != nil }, true},
		{"a map", of("[{job: a, artifacts: false}]"), needs, []string{"a false false []"}},
		{"an optional job that does not exist", of("[{job: c, optional: true}]"), needs, []string{"c true true []"}},
		{"a job of another pipeline", of("[{pipeline: $PARENT_PIPELINE_ID, job: x}]"), needs, []string{"$PARENT_PIPELINE_ID x true false []"}},
		{"a job of another project", of("[{project: g/p, ref: main, job: x, artifacts: true}]"), needs, []string{"g/p main x true false []"}},
		{"another pipeline's status", "job: {needs: {pipeline: g/p}}\n", needs, []string{"g/p true false []"}},
		{"another pipeline's status, in spite of defaults", "default: {image: a}\njob: {needs: [{pipeline: g/p}]}\n", needs, []string{"g/p true false []"}},
		{"lists in the list, flat", of("[a, [b]]"), needs, []string{"a true false []", "b true false []"}},
		{"fifty jobs", job("needs: ["+strings.TrimSuffix(many.String(), "n50, ")+"]") + manyJobs.String(), nil, nil},
		{"copies of a matrix", ofMatrix("{OS: linux, GO: [1, 2]}"), needs, []string{"m true false [[{OS [linux]} {GO [1 2]}]]"}},
		{"matrix expressions", fmt.Sprintf(own, "OS") + matrix, nil, nil},
		{"a matrix expression with a hyphen", "m: {script: x, parallel: {matrix: [{A-B: [c]}]}}\n" +
			"job: {script: x, parallel: {matrix: [{A-B: [c]}]}, needs: [{job: m, parallel: {matrix: [{A-B: '$[[ matrix.A-B ]]'}]}}]}\n", nil, nil},
		{"a matrix expression in the name of a job", "job: {script: x, parallel: {matrix: [{OS: [linux]}]}, needs: ['m: [$[[ matrix.OS ]], 1]']}\n" + matrix, needs,
			[]string{"m: [$[[ matrix.OS ]], 1] true false []"}},
		{"a copy by its number", of("[n 3/3]") + "n: {script: x, parallel: 3}\n", needs, []string{"n 3/3 true false []"}},
		{"a copy by its values", of("['m: [linux, 2]']") + matrix, needs, []string{"m: [linux, 2] true false []"}},
		{"a copy of a job with such a name", of("['m: [x]: [y]']") + "'m: [x]': {script: x, parallel: {matrix: [{A: [y]}]}}\n", needs, []string{"m: [x]: [y] true false []"}},
		{"matrix expressions in a file with inputs", "spec: {inputs: {x: {default: y}}}\n---\n" + fmt.Sprintf(own, "OS") + matrix, nil, nil},
	}, []refuses{
		{"a text", of("a"), "3:10: `needs` must be a list of jobs, not a string\n  hint: put brackets around it: [a]"},
		{"a job that does not exist", of("[lte]"), "3:11: the needed job \"lte\" does not exist\n  hint: did you mean \"late\"?"},
		{"a hidden job", of("[.a]") + ".a: {script: x}\n", "the needed job \".a\" is hidden: it never runs"},
		{"itself", of("[job]"), "3:11: the job \"job\" needs itself"},
		{"a job of a later stage", of("[late]"), "3:11: the needed job \"late\" is in the stage deploy, which is after test"},
		{"fifty-one jobs", job("needs: ["+many.String()+"]") + manyJobs.String(), "`needs` names 51 jobs, and the limit is 50"},
		{"six jobs of other projects", of("[" + strings.Repeat("{project: g/p, ref: r, job: j}, ", 6) + "]"), "`needs` names 6 jobs of other projects, and the limit is 5"},
		{"six jobs of other pipelines", of("[" + strings.Repeat("{pipeline: $P, job: j}, ", 6) + "]"), "`needs` names 6 jobs of other pipelines, and the limit is 5"},
		{"a project without a ref", of("[{project: g/p, job: j}]"), "an item of `needs` has no ref"},
		{"a map without a job", of("[{artifacts: true}]"), "an item of `needs` has no job"},
		{"a pipeline without a job", of("[{pipeline: g/p}]"), "only a job without a script can mirror the status of another pipeline"},
		{"a job of another pipeline in a trigger", "job: {trigger: g/p, needs: [{pipeline: $P, job: j}]}\n", "a job that triggers a pipeline cannot need jobs of other pipelines"},
		{"two pipelines whose status is taken over", "job: {trigger: g/p, needs: [{pipeline: g/a}, {pipeline: g/b}]}\n", "`needs` names 2 pipelines"},
		{"a circle", "a: {script: x, needs: [b]}\nb: {script: x, needs: [c]}\nc: {script: x, needs: [a]}\n", "3:24: jobs need each other in a circle: a → b → c → a"},
		{"a circle of two, told once", "x: {script: x, needs: [a]}\na: {script: x, needs: [b]}\nb: {script: x, needs: [a, x]}\n", "3:24: jobs need each other in a circle: a → b → a\n  hint: delete one of these needs\nci.yml:3:27: jobs need each other in a circle: x → a → b → x"},
		{"a copy beyond the last one", of("[n 4/3]") + "n: {script: x, parallel: 3}\n", "3:11: the needed job \"n 4/3\" does not exist"},
		{"a copy with a number written otherwise", of("[n 03/3]") + "n: {script: x, parallel: 3}\n", "the needed job \"n 03/3\" does not exist"},
		{"a copy by values that are not in the matrix", of("['m: [linux, 3]']") + matrix, "the needed job \"m: [linux, 3]\" does not exist"},
		{"a copy of itself", "job: {script: x, parallel: 2, needs: [job 1/2]}\n", "the job \"job\" needs itself"},
		{"a circle through a copy", "n: {script: x, parallel: 2, needs: [a]}\na: {script: x, needs: [n 1/2]}\n", "jobs need each other in a circle: n → a → n"},
		{"copies that are not there", ofMatrix("{OS: windows, GO: 1}"), "the needed job \"m\" has no copy for [windows, 1]"},
		{"variables in another order", ofMatrix("{GO: 1, OS: linux}"), "the needed job \"m\" has no copy for [1, linux]"},
		{"copies of a job without a matrix", job("needs: [{job: a, parallel: {matrix: [{A: b}]}}]") + others, "the needed job \"a\" has no matrix"},
		{"a matrix expression of another matrix", fmt.Sprintf(own, "GO") + matrix, "$[[ matrix.GO ]] is not in the matrix of the job"},
		{"a number of copies", job("needs: [{job: a, parallel: 2}]") + others, "`needs:parallel` must be a map, not a number"},
		{"a number in the list", of("[a, 1]"), "an item of `needs` must be a string or a map, not a number"},
		{"an optional that is a text", of("[{job: a, optional: maybe}]"), "`needs:optional` must be a boolean, not a string"},
		{"a job that does not exist in a rule", job("rules: [{needs: [c]}]") + others, "the needed job \"c\" does not exist"},
	})
}

func TestDependencies(t *testing.T) {
	names := func(d *keyword.Definition) any { return first(d).Dependencies }
	const others = "a: {stage: build, script: x, artifacts: {paths: [x]}}\nlate: {stage: deploy, script: x}\n"
	of := func(text string) string { return job("dependencies: "+text) + others }
	check(t, "dependencies", []accepts{
		{"a list", of("[a]"), names, []string{"a"}},
		{"an empty list, which is not none", of("[]"), names, []string{}},
		{"a job, with needs that are empty", job("needs: []\ndependencies: [a]") + others, names, []string{"a"}},
		{"a copy", of("[m 2/3]") + "m: {stage: build, script: x, parallel: 3}\n", names, []string{"m 2/3"}},
		{"jobs that are needed", job("needs: [a]\ndependencies: [a]") + others, names, []string{"a"}},
	}, []refuses{
		{"a text", of("a"), "`dependencies` must be a list of strings, not a string"},
		{"a job that does not exist", of("[b]"), "3:18: the job of `dependencies` \"b\" does not exist"},
		{"a job of a later stage", of("[late]"), "3:18: the job \"late\" is in the stage deploy, which is after test"},
		{"itself", of("[job]"), "the job \"job\" depends on itself"},
		{"a job that is not needed", job("needs: [c]\ndependencies: [a]") + others + "c: {stage: build, script: x}\n", "4:18: the job depends on \"a\" and does not need it"},
	})
}

// TestManyNeeds makes sure that a long chain and a long circle are read without trouble.
func TestManyNeeds(t *testing.T) {
	var b strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&b, "j%d: {script: x, needs: [j%d]}\n", i, (i+1)%3000)
	}
	_, problems := read(t, b.String())
	if len(problems) != 1 || !strings.HasPrefix(problems[0].Message, "jobs need each other in a circle: j0 → j1 → j2 → j3 → j4 → j5 → … → j2995") {
		t.Error(tell(problems))
	}
}
