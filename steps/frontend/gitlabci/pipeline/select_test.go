package pipeline_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
)

func TestSelect(t *testing.T) {
	out := rules(if_(t, "$NOPE"))
	p := build(t, define(
		job("prepare", ".pre"), job("lib", "build", artifacts), job("app", "build", artifacts, parallel(2)), job("lint", "build"),
		job("unit", "test"), job("e2e", "test", needs(need("app 2/2"))), job("report", "test", needs(bare(need("e2e")), need("lint"))),
		job("nothing", "deploy", dependencies()), job("alone", "deploy", needs()), job("out", "deploy", out), job("outs", "deploy", out, parallel(2)),
	), onMain())
	for name, test := range map[string]struct {
		names []string
		needs bool
		want  []string
	}{
		"a job": {[]string{"unit"}, false, []string{"unit"}},
		"jobs in the order of the pipeline, once":  {[]string{"unit", "lint", "unit"}, false, []string{"lint", "unit"}},
		"all copies of a job":                      {[]string{"app"}, false, []string{"app 1/2", "app 2/2"}},
		"one copy":                                 {[]string{"app 1/2"}, false, []string{"app 1/2"}},
		"a job with what it needs":                 {[]string{"e2e"}, true, []string{"app 2/2", "e2e"}},
		"a job with what that needs":               {[]string{"report"}, true, []string{"app 2/2", "lint", "e2e", "report"}},
		"a job with those whose artifacts it gets": {[]string{"unit"}, true, []string{"lib", "app 1/2", "app 2/2", "unit"}},
		"a job without dependencies":               {[]string{"nothing"}, true, []string{"nothing"}},
		"a job that needs nothing":                 {[]string{"alone"}, true, []string{"alone"}},
		"nothing":                                  {nil, true, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			jobs, err := p.Select(test.names, test.needs)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, names(jobs)); diff != "" {
				t.Error(diff)
			}
		})
	}
	for name, test := range map[string]struct {
		name string
		want pipeline.UnknownJobError
	}{
		"a name that nothing has":      {"nosuchthing", pipeline.UnknownJobError{}},
		"a name that is nearly right":  {"unti", pipeline.UnknownJobError{Suggestion: "unit"}},
		"a job that rules leave out":   {"out", pipeline.UnknownJobError{Reason: "no rule applies: rule 1: $NOPE is not set"}},
		"a group that rules leave out": {"outs", pipeline.UnknownJobError{Reason: "no rule applies: rule 1: $NOPE is not set"}},
		"a copy that rules leave out":  {"outs 1/2", pipeline.UnknownJobError{Reason: "no rule applies: rule 1: $NOPE is not set"}},
	} {
		t.Run(name+" is an error", func(t *testing.T) {
			_, err := p.Select([]string{"unit", test.name}, true)
			var got *pipeline.UnknownJobError
			if !errors.As(err, &got) {
				t.Fatalf("got %v", err)
			}
			test.want.Name = test.name
			if diff := cmp.Diff(test.want, *got); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("errors are texts", func(t *testing.T) {
		_, err := p.Select([]string{"unti", "out"}, false)
		want := "there is no job \"unti\"\nthe job \"out\" is not part of this pipeline: no rule applies: rule 1: $NOPE is not set"
		if err == nil || err.Error() != want {
			t.Errorf("got %v", err)
		}
		if got := (&pipeline.UnknownJobError{Suggestion: "unit"}).Hint(); got != `did you mean "unit"?` {
			t.Errorf("the hint is %q", got)
		}
	})
	t.Run("where the workflow keeps the pipeline from running, that is the reason", func(t *testing.T) {
		d := define(job("a", "test"))
		d.Workflow.Rules = []keyword.Rule{}
		_, err := build(t, d, onMain()).Select([]string{"a"}, false)
		if want := "the job \"a\" is not part of this pipeline: `workflow: rules` keep it from running: no rule applies: there are none"; err == nil || err.Error() != want {
			t.Errorf("got %v", err)
		}
	})
	t.Run("where only .pre is left, that is the reason", func(t *testing.T) {
		_, err := build(t, define(job("a", ".pre")), onMain()).Select([]string{"a"}, false)
		if want := `the job "a" is not part of this pipeline: only jobs of the stages .pre and .post are part of it, and those run with others only`; err == nil || err.Error() != want {
			t.Errorf("got %v", err)
		}
	})
}

func TestPredecessors(t *testing.T) {
	p := build(t, define(
		job("p", ".pre"), job("a", "build"), job("b", "build"), job("c", "test"), job("d", "deploy", needs(need("a"), bare(need("c")))), job("e", "deploy", needs()), job("f", "deploy"),
	), onMain())
	for name, want := range map[string][]string{
		"p": {}, "a": {"p"}, "c": {"p", "a", "b"}, "d": {"a", "c"}, "e": {}, "f": {"p", "a", "b", "c"},
	} {
		if diff := cmp.Diff(want, names(p.Predecessors(mustJob(t, p, name)))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
