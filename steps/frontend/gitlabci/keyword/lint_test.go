package keyword_test

import (
	"strings"
	"testing"

	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
)

// lint is what Lint says of a text, which must be right.
func lint(t *testing.T, text string) string {
	t.Helper()
	c, list := resolve(t, text)
	d, problems := keyword.Read(c)
	if len(list)+len(problems) > 0 {
		t.Fatal(list.Render() + problems.Render())
	}
	return tell(keyword.Lint(d, c))
}

func TestLint(t *testing.T) {
	quiet := map[string]string{
		"a plain job":               someJob,
		"rules that end with never": job("rules: [{if: $A}, {when: never}]"),
		"a last rule that always applies, with a workflow":        "workflow: {rules: [{if: $CI_COMMIT_BRANCH}]}\n" + job("rules: [{if: $A}, {when: always}]"),
		"a workflow that leaves branches with merge requests out": "workflow:\n  rules:\n    - if: $CI_PIPELINE_SOURCE == \"merge_request_event\"\n    - if: $CI_COMMIT_BRANCH && $CI_OPEN_MERGE_REQUESTS\n      when: never\n    - if: $CI_COMMIT_BRANCH\n" + someJob,
		"a hidden job that is extended and has nothing":           ".a: {}\n" + job("extends: .a"),
		"a hidden job that is used by an anchor":                  ".a: &a {retry: 1}\njob:\n  <<: *a\n  script: make\n",
		"a hidden job that is used by the defaults":               ".a: {before_script: [x]}\ndefault: {before_script: !reference [.a, before_script]}\n" + someJob,
		"hidden jobs that only hidden ones use":                   ".a: {retry: 1}\n.b: {extends: .a}\n.c: &c {script: !reference [.d, script]}\n.d: {script: x}\njob: {<<: *c, extends: .b}\n",
		"stages in lists of their own":                            "stages: [[build], [[test]]]\na: {stage: build, script: x}\n" + someJob,
		"a hidden job that is used through another one":           ".a: {retry: 1}\n.b: {extends: .a}\n" + job("extends: .b"),
		"pages without artifacts of their own":                    job("pages: true\nartifacts: {expire_in: never}"),
		"dependencies on a job that has artifacts":                "a: {stage: build, script: x, artifacts: {paths: [x]}}\n" + job("dependencies: [a]"),
	}
	for name, text := range quiet {
		t.Run("says nothing of "+name, func(t *testing.T) {
			if got := lint(t, text); got != "" {
				t.Error(got)
			}
		})
	}
	loud := map[string][2]string{
		"a last rule that always applies":                  {job("rules: [{if: $A}, {when: always}]"), "the job \"job\" may run in two pipelines for one push"},
		"a hidden job that only an unused one extends":     {".a: {retry: 1}\n.b: {extends: .a}\n" + someJob, "nothing uses the hidden job \".b\""},
		"values that make a name too long":                 {job("parallel: {matrix: [{A: " + strings.Repeat("x", 250) + "}]}"), "the name of the job is up to 257 characters long, and the limit is 255"},
		"a stage without jobs":                             {"stages: [test, deploy]\n" + someJob, "the stage \"deploy\" has no job"},
		"a cache of nothing":                               {job("cache: {key: a}"), "the cache keeps nothing"},
		"artifacts of nothing":                             {job("artifacts: {when: always}"), "the artifacts are empty"},
		"only":                                             {job("only: [main]"), "`only` and `except` are deprecated"},
		"a variable that no shell can read":                {job("variables: {1A: b}"), "no shell can read a variable called \"1A\""},
		"dependencies on a job without artifacts":          {"a: {stage: build, script: x}\n" + job("dependencies: [a]"), "the job \"a\" has no artifacts"},
		"a path outside of the project":                    {job("cache: {paths: [../a]}"), "../a is not in the project"},
		"a rule behind one that always applies":            {job("rules: [{when: manual}, {if: $A}]"), "this rule of the job never applies"},
		"what GitLab does not know in a step":              {"job: {run: [{name: a, script: b, if: failure()}]}", "GitLab refuses `if` in a step of `run`"},
		"a question that nobody is asked":                  {job("manual_confirmation: sure?"), "no confirmation is asked for: the job is not manual"},
		"jobs in .pre alone":                               {job("stage: .pre"), "all jobs are in .pre or .post"},
		"a workflow by which one push makes two pipelines": {"workflow:\n  rules:\n    - if: $CI_PIPELINE_SOURCE == \"merge_request_event\"\n    - if: $CI_COMMIT_BRANCH\n" + someJob, "a push to a branch with a merge request makes two pipelines"},
	}
	for name, tt := range loud {
		t.Run("warns of "+name, func(t *testing.T) {
			if got := lint(t, tt[0]); !strings.Contains(got, tt[1]) {
				t.Errorf("want %q in:\n%s", tt[1], got)
			}
		})
	}
}

// TestPartial makes sure that what may be in a missing file is not told of as missing.
func TestPartial(t *testing.T) {
	c, list := resolve(t, "include: more.yml\nstages: [a]\n.hidden: {tags: [x]}\njob: {script: x, stage: elsewhere, needs: [other], retry: 9}\n")
	if len(list) == 0 || !c.Partial {
		t.Fatal("the include was found")
	}
	d, problems := keyword.Read(c)
	if got := tell(problems); strings.Count(got, "ci.yml") != 1 || !strings.Contains(got, "`retry` must be from 0 to 2") {
		t.Error(got)
	}
	if warnings := keyword.Lint(d, c); len(warnings) > 0 {
		t.Error(tell(warnings))
	}
}

func TestAHiddenJobThatSomethingMayUseIsNotUnused(t *testing.T) {
	for name, text := range map[string]string{
		"an unused hidden job refers to it":  ".a: {script: x}\n.b: {script: !reference [.a, script]}\n" + someJob,
		"an unused hidden job has an alias":  ".a: {variables: &v {A: b}}\n.b: {variables: *v}\n" + someJob,
		"an unused hidden job merges a part": ".a: {variables: &v {A: b}}\n.b: {variables: {<<: *v, C: d}}\n" + someJob,
	} {
		t.Run(name, func(t *testing.T) {
			if got := lint(t, text); strings.Contains(got, `".a"`) {
				t.Error(got)
			}
		})
	}
}

func TestAnIncludeThatIsLeftOutMayUseWhatNothingUses(t *testing.T) {
	never := func(config.Node) (bool, error) { return false, nil }
	text := "include: {local: more.yml, rules: [{if: $NEVER}]}\nstages: [test, deploy]\n.a: {script: x}\n" + someJob
	c, err := config.Resolve(t.Context(), "ci.yml", []byte(text), config.Options{Rule: never})
	if err != nil {
		t.Fatal(err)
	}
	d, problems := keyword.Read(c)
	if got := tell(keyword.Lint(d, c)); got != "" || len(problems) > 0 {
		t.Error(got, problems)
	}
}
