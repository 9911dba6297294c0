package pipeline_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// large is a definition of n jobs that share rules, as with extends, with a need and a variable of their own.
func large(tb testing.TB, n int) *keyword.Definition {
	var shared [20][]keyword.Rule
	for i := range shared {
		shared[i] = []keyword.Rule{if_(tb, `$CI_COMMIT_TAG`), if_(tb, fmt.Sprintf(`$MODE == "%d"`, i)), if_(tb, `$CI_COMMIT_BRANCH == "main" && $CI_JOB_STAGE != "none"`)}
	}
	jobs := make([]*keyword.Job, n)
	for i := range jobs {
		stage := []string{"build", "test", "deploy"}[i*3/n]
		jobs[i] = job(fmt.Sprint("job-", i), stage, has("N", fmt.Sprint(i), "TEXT", "$N/$CI_COMMIT_BRANCH"), rules(shared[i%20]...), artifacts)
		if i > 0 && i%2 == 0 {
			needs(need(fmt.Sprint("job-", i/2)))(jobs[i])
		}
	}
	d := define(jobs...)
	d.Variables = defined("GLOBAL", "1", "OTHER", "2")
	return d
}

// realistic are facts of a hundred variables, and a dozen for every job.
func realistic() pipeline.Facts {
	facts := onMain()
	for i := range 100 {
		facts.Variables[0].Variables = append(facts.Variables[0].Variables, vars(fmt.Sprint("CI_FACT_", i), "some value")...)
	}
	facts.JobVariables = func(j *pipeline.Job) []variable.Variable {
		out := []variable.Variable{{Name: "CI_JOB_NAME", Value: j.Name}, {Name: "CI_JOB_STAGE", Value: j.Stage}}
		for _, name := range []string{"CI_JOB_ID", "CI_JOB_URL", "CI_JOB_TOKEN", "CI_JOB_IMAGE", "CI_JOB_NAME_SLUG", "CI_JOB_GROUP_NAME", "CI_JOB_STARTED_AT", "CI_ENVIRONMENT_NAME", "CI_ENVIRONMENT_SLUG", "CI_JOB_TIMEOUT"} {
			out = append(out, variable.Variable{Name: name, Value: "1"})
		}
		return out
	}
	facts.Changed = func(when.Changes) (when.Answer, error) { return when.Answer{Yes: true}, nil }
	return facts
}

func BenchmarkNew(b *testing.B) {
	for _, n := range []int{200, 1000, 5000} {
		d, facts := large(b, n), realistic()
		b.Run(fmt.Sprintf("%d jobs", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p, err := pipeline.New(d, facts)
				if err != nil || len(p.Jobs) != n {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("5000 jobs with variables in paths", func(b *testing.B) {
		d, facts := large(b, 5000), realistic()
		for _, j := range d.Jobs {
			j.Rules = append([]keyword.Rule{{Rule: when.Rule{Changes: &when.Changes{Paths: []string{"src/$N/*"}}}}}, j.Rules...)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := pipeline.New(d, facts); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("200 copies that need 200 copies", func(b *testing.B) {
		d := define(job("a", "build", parallel(200)), job("b", "test", parallel(200), needs(need("a"))))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := pipeline.New(d, onMain()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkVariables(b *testing.B) {
	p := build(b, large(b, 10), realistic())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Jobs[5].Variables(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRead reads and makes the pipeline that the package config resolves in its benchmarks: jobs that extend others.
func BenchmarkRead(b *testing.B) {
	var text strings.Builder
	text.WriteString("stages: [build, test]\n")
	for i := range 20 {
		fmt.Fprintf(&text, ".base%d:\n  variables: {B: b}\n  rules:\n    - if: $CI_COMMIT_TAG\n    - if: $CI_COMMIT_BRANCH == \"main\"\n      variables: {R: r}\n", i)
	}
	for i := range 5000 {
		fmt.Fprintf(&text, "job-%d:\n  extends: .base%d\n  stage: test\n  script: echo %d\n", i, i%20, i)
	}
	d := mustRead(b, text.String())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := pipeline.New(d, realistic()); err != nil {
			b.Fatal(err)
		}
	}
}
