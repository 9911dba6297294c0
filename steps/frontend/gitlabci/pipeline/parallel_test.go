package pipeline_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
)

func TestParallel(t *testing.T) {
	for name, test := range map[string]struct {
		option option
		want   []string
	}{
		"a number makes numbered copies": {parallel(3), []string{"test 1/3", "test 2/3", "test 3/3"}},
		"one copy is numbered as well":   {parallel(1), []string{"test 1/1"}},
		"a matrix makes all combinations, the first variable changing slowest": {inMatrix("OS=linux,darwin GO=1.25,1.26"),
			[]string{"test: [linux, 1.25]", "test: [linux, 1.26]", "test: [darwin, 1.25]", "test: [darwin, 1.26]"}},
		"entries of a matrix follow each other": {inMatrix("OS=linux GO=1.26", "OS=windows"), []string{"test: [linux, 1.26]", "test: [windows]"}},
		"the same combination runs once":        {inMatrix("OS=linux,linux", "OS=darwin", "OS=linux"), []string{"test: [linux]", "test: [darwin]"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := build(t, define(job("test", "test", test.option)), onMain())
			if diff := cmp.Diff(test.want, names(p.Jobs)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.want, names(p.Group("test"))); diff != "" {
				t.Error(diff)
			}
			if p.Job("test") != nil {
				t.Error("a job with copies is one itself")
			}
			var warnings []string
			if name == "the same combination runs once" {
				warnings = []string{`the matrix of the job "test" has [linux] more than once; it runs once`}
			}
			if diff := cmp.Diff(warnings, texts(p.Warnings)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCopiesHaveVariables(t *testing.T) {
	d := define(job("n", "test", parallel(2)), job("m", "test", has("OS", "none", "TEXT", "on $OS"), inMatrix("OS=linux,darwin")), job("one", "test"))
	p := build(t, d, onMain())
	for _, test := range []struct{ job, name, want string }{
		{"n 2/2", "CI_NODE_INDEX", "2"}, {"n 2/2", "CI_NODE_TOTAL", "2"},
		{"m: [darwin]", "CI_NODE_INDEX", "2"}, {"m: [darwin]", "CI_NODE_TOTAL", "2"},
		{"m: [darwin]", "OS", "darwin"}, {"m: [linux]", "TEXT", "on linux"},
		{"one", "CI_NODE_TOTAL", "1"},
	} {
		v, err := mustJob(t, p, test.job).Variables()
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := v.Lookup(test.name); got != test.want {
			t.Errorf("%s of %s is %q, want %q", test.name, test.job, got, test.want)
		}
	}
	v, err := mustJob(t, p, "one").Variables()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := v.Get("CI_NODE_INDEX"); ok {
		t.Error("a job without copies has a number")
	}
}

func TestRulesDecideAboutEachCopy(t *testing.T) {
	linux := rules(if_(t, `$OS == "linux"`))
	t.Run("some are left out", func(t *testing.T) {
		p := build(t, define(job("m", "test", inMatrix("OS=linux,darwin"), linux)), onMain())
		if diff := cmp.Diff([]string{"m: [linux]"}, names(p.Jobs)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"m: [darwin]"}, names(p.Excluded)); diff != "" {
			t.Error(diff)
		}
		if j := p.Jobs[0]; j.NodeTotal != 2 {
			t.Errorf("there are %d copies to it", j.NodeTotal)
		}
	})
	t.Run("all are left out and told of as one", func(t *testing.T) {
		p := build(t, define(job("m", "test", inMatrix("OS=a,b,c"), linux), job("keep", "test")), onMain())
		if diff := cmp.Diff([]string{"m"}, names(p.Excluded)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestParallelThatCannotBe(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("x,", 200), ",")
	for name, test := range map[string]struct {
		jobs []*keyword.Job
		want string
	}{
		"too many copies":       {[]*keyword.Job{job("test", "test", parallel(201))}, "`parallel` must make 1 to 200 copies of the job \"test\""},
		"no copies":             {[]*keyword.Job{job("test", "test", parallel(0))}, "`parallel` must make 1 to 200 copies of the job \"test\""},
		"a matrix of 200 x 200": {[]*keyword.Job{job("test", "test", inMatrix("A="+many+" B="+many+" C="+many))}, "`parallel` must make 1 to 200 copies of the job \"test\""},
		"a name that another job has": {[]*keyword.Job{job("test 1/2", "test"), job("test", "test", parallel(2))},
			`the jobs "test 1/2" and "test" both make a job called "test 1/2" | rename one of them`},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff([]string{test.want}, problems(t, define(test.jobs...), onMain())); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("a name of 255 characters is fine", func(t *testing.T) {
		build(t, define(job("test", "test", inMatrix("A="+strings.Repeat("ü", 247)))), onMain())
	})
}
