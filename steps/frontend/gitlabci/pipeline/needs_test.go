package pipeline_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

func optional(n keyword.Need) keyword.Need { n.Optional = true; return n }

func bare(n keyword.Need) keyword.Need { n.Artifacts = false; return n }

func copiesOf(name string, entries ...string) keyword.Need {
	return keyword.Need{Job: name, Artifacts: true, Matrix: matrix(entries...)}
}

func TestNeeds(t *testing.T) {
	out := rules(if_(t, "$NOPE"))
	ruled := func(n ...keyword.Need) option {
		return rules(keyword.Rule{Rule: when.Rule{}, Needs: append([]keyword.Need{}, n...)})
	}
	platforms := inMatrix("OS=linux,darwin GO=1.25,1.26")
	for name, test := range map[string]struct {
		before []*keyword.Job
		job    *keyword.Job
		want   []string
	}{
		"nothing said waits for stages":                {nil, job("x", "test"), nil},
		"an empty list waits for nothing":              {nil, job("x", "test", needs()), []string{}},
		"a job":                                        {[]*keyword.Job{job("a", "build")}, job("x", "test", needs(need("a"))), []string{"a"}},
		"a job of the same stage":                      {[]*keyword.Job{job("a", "test")}, job("x", "test", needs(need("a"))), []string{"a"}},
		"a job without its artifacts":                  {[]*keyword.Job{job("a", "build")}, job("x", "test", needs(bare(need("a")))), []string{"a without artifacts"}},
		"a job named twice is one need":                {[]*keyword.Job{job("a", "build")}, job("x", "test", needs(bare(need("a")), need("a"))), []string{"a"}},
		"all copies of a job":                          {[]*keyword.Job{job("a", "build", parallel(2))}, job("x", "test", needs(need("a"))), []string{"a 1/2", "a 2/2"}},
		"one copy by its name":                         {[]*keyword.Job{job("a", "build", parallel(2))}, job("x", "test", needs(need("a 2/2"))), []string{"a 2/2"}},
		"an optional job that is there":                {[]*keyword.Job{job("a", "build")}, job("x", "test", needs(optional(need("a")))), []string{"a"}},
		"an optional job that rules leave out":         {[]*keyword.Job{job("a", "build", out)}, job("x", "test", needs(optional(need("a")))), []string{}},
		"an optional job that no job is called like":   {nil, job("x", "test", needs(optional(need("a")))), []string{}},
		"copies that a matrix picks":                   {[]*keyword.Job{job("a", "build", platforms)}, job("x", "test", needs(copiesOf("a", "OS=linux GO=1.25,1.26"))), []string{"a: [linux, 1.25]", "a: [linux, 1.26]"}},
		"copies that entries of a matrix pick":         {[]*keyword.Job{job("a", "build", platforms)}, job("x", "test", needs(copiesOf("a", "OS=linux GO=1.25", "OS=darwin GO=1.26"))), []string{"a: [linux, 1.25]", "a: [darwin, 1.26]"}},
		"an optional copy that is not there":           {[]*keyword.Job{job("a", "build", platforms)}, job("x", "test", needs(optional(copiesOf("a", "OS=plan9 GO=1.25")))), []string{}},
		"what the rule needs, instead":                 {[]*keyword.Job{job("a", "build"), job("b", "build")}, job("x", "test", needs(need("a")), ruled(need("b"))), []string{"b"}},
		"nothing, by the rule":                         {[]*keyword.Job{job("a", "build")}, job("x", "test", needs(need("a")), ruled()), []string{}},
		"what the job needs, where the rule is silent": {[]*keyword.Job{job("a", "build")}, job("x", "test", needs(need("a")), rules(keyword.Rule{})), []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := build(t, define(append(test.before, job("keep", "test"), test.job)...), onMain())
			if diff := cmp.Diff(test.want, edges(mustJob(t, p, "x"))); diff != "" {
				t.Error(diff)
			}
			if len(p.Warnings) > 0 {
				t.Error(texts(p.Warnings))
			}
		})
	}
}

func TestNeedsThatCannotBe(t *testing.T) {
	out := rules(if_(t, "$NOPE"))
	platforms := inMatrix("OS=linux,darwin GO=1.25,1.26")
	for name, test := range map[string]struct {
		jobs []*keyword.Job
		want []string
	}{
		"a job that rules leave out": {[]*keyword.Job{job("build", "build", out), job("deploy", "deploy", needs(need("build")))},
			[]string{"'deploy' job needs 'build' job, but 'build' is not in this pipeline: no rule applies: rule 1: $NOPE is not set | add `optional: true` to the need when the job may be missing"}},
		"copies that rules leave out, told once": {[]*keyword.Job{job("build", "build", out, parallel(5)), job("deploy", "deploy", needs(need("build")), parallel(5))},
			[]string{"'deploy' job needs 'build' job, but 'build' is not in this pipeline: no rule applies: rule 1: $NOPE is not set | add `optional: true` to the need when the job may be missing"}},
		"one copy that rules leave out": {[]*keyword.Job{job("build", "build", rules(if_(t, `$CI_NODE_INDEX == "1"`)), parallel(2)), job("deploy", "deploy", needs(need("build")))},
			[]string{"'deploy' job needs 'build 2/2' job, but 'build 2/2' is not in this pipeline: no rule applies: rule 1: $CI_NODE_INDEX is \"2\", not \"1\" | add `optional: true` to the need when the job may be missing"}},
		"a job that does not exist": {[]*keyword.Job{job("build", "build"), job("deploy", "deploy", needs(need("biuld")))},
			[]string{`the job "deploy" needs the job "biuld", which does not exist | did you mean "build"?`}},
		"a job of a later stage": {[]*keyword.Job{job("a", "build", needs(need("b"))), job("b", "test")},
			[]string{`the job "a" of the stage "build" needs the job "b" of the later stage "test", which GitLab refuses | move one of them to another stage`}},
		"an optional job of a later stage": {[]*keyword.Job{job("a", "build", needs(optional(need("b")))), job("b", "test")},
			[]string{`the job "a" of the stage "build" needs the job "b" of the later stage "test", which GitLab refuses | move one of them to another stage`}},
		"a copy that does not exist": {[]*keyword.Job{job("a", "build", parallel(2), platforms), job("x", "test", needs(copiesOf("a", "OS=plan9 GO=1.25")))},
			[]string{`the job "x" needs "a: [plan9, 1.25]", and the job "a" has no such copy | there are a: [linux, 1.25]; a: [linux, 1.26]; a: [darwin, 1.25]; a: [darwin, 1.26]`}},
		"a copy by some of its variables": {[]*keyword.Job{job("a", "build", platforms), job("x", "test", needs(copiesOf("a", "GO=1.26")))},
			[]string{`the job "x" needs "a: [1.26]", and the job "a" has no such copy | list all variables of the matrix, in its order: OS, GO, as in "a: [linux, 1.26]"`}},
		"a copy by variables in another order": {[]*keyword.Job{job("a", "build", platforms), job("x", "test", needs(copiesOf("a", "GO=1.26 OS=darwin")))},
			[]string{`the job "x" needs "a: [1.26, darwin]", and the job "a" has no such copy | list all variables of the matrix, in its order: OS, GO, as in "a: [darwin, 1.26]"`}},
		"itself":         {[]*keyword.Job{job("a", "build", needs(need("a")))}, []string{`the job "a" needs itself`}},
		"its own copies": {[]*keyword.Job{job("a", "build", needs(need("a")), parallel(3))}, []string{`the job "a" needs itself`}},
		"each other": {[]*keyword.Job{job("a", "build", needs(need("b"))), job("b", "build", needs(need("c"))), job("c", "build", needs(need("a")))},
			[]string{`jobs need each other in a circle: "a" → "b" → "c" → "a"`}},
		"each other, by rules": {[]*keyword.Job{job("a", "build", rules(keyword.Rule{Needs: []keyword.Need{need("b")}})), job("b", "build", needs(need("a")))},
			[]string{`jobs need each other in a circle: "a" → "b" → "a"`}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, problems(t, define(test.jobs...), onMain())); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("a circle that rules leave out is none", func(t *testing.T) {
		build(t, define(job("a", "build", out, needs(need("b"))), job("b", "build", needs(optional(need("a"))))), onMain())
	})
	t.Run("copies of a job that has none are that job", func(t *testing.T) {
		p := build(t, define(job("a", "build"), job("x", "test", needs(copiesOf("a", "OS=linux")))), onMain())
		if diff := cmp.Diff([]string{"a"}, edges(mustJob(t, p, "x"))); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"the job \"x\" needs matrix jobs of \"a\", which has none | remove `parallel` from the need"}, texts(p.Warnings)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestLongChainsOfNeeds(t *testing.T) {
	const n = 20_000
	chain := func(first keyword.Need) []*keyword.Job {
		jobs := []*keyword.Job{job("job-0", "test", needs(first))}
		for i := 1; i < n; i++ {
			jobs = append(jobs, job(fmt.Sprint("job-", i), "test", needs(need(fmt.Sprint("job-", i-1)))))
		}
		return jobs
	}
	p := build(t, define(chain(optional(need("none")))...), onMain())
	selected, err := p.Select([]string{fmt.Sprint("job-", n-1)}, true)
	if err != nil || len(selected) != n {
		t.Fatal(len(selected), err)
	}
	got := problems(t, define(chain(need(fmt.Sprint("job-", n-1)))...), onMain())
	if len(got) != 1 || !strings.HasPrefix(got[0], "jobs need each other in a circle: ") || len(got[0]) > 400 {
		t.Error(got)
	}
}

func TestMatrixExpressions(t *testing.T) {
	platforms := inMatrix("OS=linux,darwin GO=1.25,1.26")
	one := needs(copiesOf("build", "OS=$[[matrix.OS]] GO=$[[matrix.GO]]"))
	t.Run("each copy needs its own", func(t *testing.T) {
		p := build(t, define(job("build", "build", platforms), job("test", "test", platforms, one)), onMain())
		for _, j := range p.Group("test") {
			if diff := cmp.Diff([]string{strings.Replace(j.Name, "test", "build", 1)}, edges(j)); diff != "" {
				t.Error(diff)
			}
		}
	})
	t.Run("they may stand in a text with spaces and in the name", func(t *testing.T) {
		n := keyword.Need{Job: "build $[[ matrix.OS ]]"}
		p := build(t, define(job("build linux", "build"), job("build darwin", "build"), job("test", "test", inMatrix("OS=linux,darwin"), needs(n))), onMain())
		if diff := cmp.Diff([]string{"build darwin without artifacts"}, edges(mustJob(t, p, "test: [darwin]"))); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a value that looks like one is not looked at again", func(t *testing.T) {
		got := problems(t, define(job("test", "test", inMatrix("A=$[[matrix.B]] B=x"), needs(need("$[[matrix.A]]")))), onMain())
		if diff := cmp.Diff([]string{`the job "test" needs the job "$[[matrix.B]]", which does not exist`}, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("one that the matrix has not got is a problem, told once", func(t *testing.T) {
		got := problems(t, define(job("build", "build", platforms), job("test", "test", inMatrix("OS=linux,darwin"), one)), onMain())
		want := []string{`the job "test": 'GO' does not exist in matrix configuration | the matrix of this job has OS`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a job without a matrix cannot use them", func(t *testing.T) {
		got := problems(t, define(job("build", "build", platforms), job("test", "test", one)), onMain())
		want := []string{"the job \"test\": 'OS' does not exist in matrix configuration\n'GO' does not exist in matrix configuration | the matrix of this job has no variables"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestNeedsOfOtherPipelines(t *testing.T) {
	other := keyword.Need{Project: "group/lib", Ref: "main", UpstreamJob: "build", Artifacts: true}
	parent := keyword.Need{Pipeline: "$PARENT_PIPELINE_ID", UpstreamJob: "build", Artifacts: true}
	p := build(t, define(
		job("a", "build"),
		job("both", "test", needs(need("a"), other)),
		job("only", "test", needs(other)),
		job("child", "test", needs(parent)),
		job("mirror", "test", needs(keyword.Need{Pipeline: "group/lib"})),
	), onMain())
	if j := mustJob(t, p, "both"); len(j.Upstream) != 1 || len(j.Needs) != 1 {
		t.Errorf("got %v and %v", j.Upstream, edges(j))
	}
	for _, name := range []string{"only", "child"} {
		if j := mustJob(t, p, name); len(j.Upstream) != 1 || j.Needs == nil {
			t.Errorf("%s needs only a job from elsewhere, and does not start at once", name)
		}
	}
	if j := mustJob(t, p, "mirror"); len(j.Upstream) != 1 || j.Needs != nil {
		t.Error("a job that mirrors a pipeline waits for its stage")
	}
}

func TestArtifacts(t *testing.T) {
	out := rules(if_(t, "$NOPE"))
	for name, test := range map[string]struct {
		options  []option
		want     []string
		warnings []string
	}{
		"those of all earlier stages":                            {nil, []string{"b1", "b2 1/2", "b2 2/2"}, nil},
		"those of the jobs it needs, in order":                   {[]option{needs(need("b2"), need("b1"), need("same"))}, []string{"b1", "b2 1/2", "b2 2/2", "same"}, nil},
		"those that it needs with artifacts":                     {[]option{needs(bare(need("b1")), need("b2"))}, []string{"b2 1/2", "b2 2/2"}, nil},
		"none of a job that makes none":                          {[]option{needs(need("none"))}, []string{}, nil},
		"none when it needs none":                                {[]option{needs()}, []string{}, nil},
		"none when dependencies are empty":                       {[]option{dependencies()}, []string{}, nil},
		"none when dependencies are empty, though it needs some": {[]option{dependencies(), needs(need("b1"))}, []string{}, nil},
		"those that dependencies name":                           {[]option{dependencies("b2")}, []string{"b2 1/2", "b2 2/2"}, nil},
		"those of a copy that dependencies name":                 {[]option{dependencies("b2 2/2")}, []string{"b2 2/2"}, nil},
		"of those it needs, the ones that dependencies name":     {[]option{needs(need("b1"), need("b2")), dependencies("b1")}, []string{"b1"}, nil},
		"none of a dependency that rules leave out":              {[]option{dependencies("out", "b1")}, []string{"b1"}, nil},
		"none of a dependency that it does not need":             {[]option{needs(need("b2")), dependencies("b1")}, []string{}, []string{`the job "x" gets no artifacts of "b1", which it does not need | add "b1" to the needs`}},
		"none of a dependency of its own stage":                  {[]option{dependencies("same")}, []string{}, []string{"the job \"x\" gets no artifacts of \"same\", which is in the same stage | add it to `needs`"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := build(t, define(
				job("b1", "build", artifacts), job("b2", "build", artifacts, parallel(2)), job("none", "build"), job("out", "build", artifacts, out),
				job("same", "test", artifacts), job("x", "test", test.options...), job("later", "deploy", artifacts),
			), onMain())
			if diff := cmp.Diff(test.want, names(mustJob(t, p, "x").Artifacts)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.warnings, texts(p.Warnings)); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("pages are artifacts", func(t *testing.T) {
		p := build(t, define(job("pages", "build", func(j *keyword.Job) { j.Pages = &keyword.Pages{} }), job("x", "test")), onMain())
		if diff := cmp.Diff([]string{"pages"}, names(mustJob(t, p, "x").Artifacts)); diff != "" {
			t.Error(diff)
		}
	})
	for name, test := range map[string]struct {
		dependency, want string
	}{
		"a dependency that does not exist": {"bulid", `the job "x" gets artifacts of the job "bulid", which does not exist | did you mean "build"?`},
		"a dependency of a later stage":    {"late", `the job "x" of the stage "test" gets artifacts of the job "late" of the later stage "deploy", which GitLab refuses`},
	} {
		t.Run(name+" is a problem", func(t *testing.T) {
			got := problems(t, define(job("build", "build"), job("x", "test", dependencies(test.dependency)), job("late", "deploy")), onMain())
			if diff := cmp.Diff([]string{test.want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
