package pipeline_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/rule"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// define makes a definition of jobs in the stages .pre, build, test, deploy and .post.
func define(jobs ...*keyword.Job) *keyword.Definition {
	return &keyword.Definition{Stages: []string{".pre", "build", "test", "deploy", ".post"}, Jobs: jobs}
}

// option changes a job.
type option func(*keyword.Job)

func job(name, stage string, options ...option) *keyword.Job {
	j := &keyword.Job{Name: name, Stage: stage, Script: []keyword.Line{{Text: "true"}}, When: when.OnSuccess, Inherits: config.Inherit{All: true}}
	for _, o := range options {
		o(j)
	}
	return j
}

func rules(rules ...keyword.Rule) option {
	return func(j *keyword.Job) { j.Rules = append([]keyword.Rule{}, rules...) }
}

func needs(needs ...keyword.Need) option {
	return func(j *keyword.Job) { j.Needs = append([]keyword.Need{}, needs...) }
}

func need(name string) keyword.Need { return keyword.Need{Job: name, Artifacts: true} }

func dependencies(names ...string) option {
	return func(j *keyword.Job) { j.Dependencies = append([]string{}, names...) }
}

func at(w when.When) option    { return func(j *keyword.Job) { j.When = w } }
func parallel(n int) option    { return func(j *keyword.Job) { j.Parallel = &keyword.Parallel{Count: n} } }
func artifacts(j *keyword.Job) { j.Artifacts = &keyword.Artifacts{Paths: []string{"out"}} }
func allowed(v bool) option {
	return func(j *keyword.Job) { j.AllowFailure = keyword.AllowFailure{Set: true, Always: v} }
}
func has(pairs ...string) option {
	return func(j *keyword.Job) { j.Variables = append(j.Variables, defined(pairs...)...) }
}

// matrix has an entry for every text such as "OS=linux,darwin GO=1.25,1.26".
func matrix(entries ...string) []keyword.MatrixEntry {
	var out []keyword.MatrixEntry
	for _, text := range entries {
		var entry keyword.MatrixEntry
		for _, word := range strings.Fields(text) {
			name, values, _ := strings.Cut(word, "=")
			entry = append(entry, keyword.MatrixVariable{Name: name, Values: strings.Split(values, ",")})
		}
		out = append(out, entry)
	}
	return out
}

func inMatrix(entries ...string) option {
	return func(j *keyword.Job) { j.Parallel = &keyword.Parallel{Matrix: matrix(entries...)} }
}

// defined makes variables of names and values in turn.
func defined(pairs ...string) []keyword.Variable {
	var out []keyword.Variable
	for pair := range slices.Chunk(pairs, 2) {
		out = append(out, keyword.Variable{Variable: variable.Variable{Name: pair[0], Value: pair[1]}})
	}
	return out
}

func vars(pairs ...string) []variable.Variable {
	var out []variable.Variable
	for _, v := range defined(pairs...) {
		out = append(out, v.Variable)
	}
	return out
}

var expressions rule.Cache

func if_(t testing.TB, condition string) keyword.Rule {
	t.Helper()
	e, err := expressions.Parse(condition)
	if err != nil {
		t.Fatalf("%s: %v", condition, err)
	}
	return keyword.Rule{Rule: when.Rule{If: e}}
}

// onMain are the facts of a push to the branch main.
func onMain(pairs ...string) pipeline.Facts {
	return pipeline.Facts{
		Ref: when.Pipeline{Kind: when.Branch, Ref: "main", Source: "push", Project: "group/project"},
		Variables: []variable.Layer{
			{Level: variable.Predefined, Variables: vars("CI_COMMIT_BRANCH", "main", "CI_PIPELINE_SOURCE", "push")},
			{Level: variable.Project, Variables: vars(pairs...)},
		},
	}
}

func build(t testing.TB, d *keyword.Definition, facts pipeline.Facts) *pipeline.Pipeline {
	t.Helper()
	p, err := pipeline.New(d, facts)
	if err != nil {
		t.Fatalf("there is no pipeline: %v", err)
	}
	return p
}

// problems are the messages for which there is no pipeline, each with its hint behind a bar.
func problems(t testing.TB, d *keyword.Definition, facts pipeline.Facts) []string {
	t.Helper()
	_, err := pipeline.New(d, facts)
	if err == nil {
		t.Fatal("there is a pipeline")
	}
	return texts(diag.Of(err))
}

func texts(list diag.List) []string {
	var out []string
	for _, d := range list {
		text := d.Message
		if d.Hint != "" {
			text += " | " + d.Hint
		}
		out = append(out, text)
	}
	return out
}

func names(jobs []*pipeline.Job) []string {
	out := []string{}
	for _, j := range jobs {
		out = append(out, j.Name)
	}
	return out
}

func mustJob(t testing.TB, p *pipeline.Pipeline, name string) *pipeline.Job {
	t.Helper()
	j := p.Job(name)
	if j == nil {
		t.Fatalf("there is no job %q; there are %q", name, names(p.Jobs))
	}
	return j
}

func edges(j *pipeline.Job) []string {
	if j.Needs == nil {
		return nil
	}
	out := []string{}
	for _, e := range j.Needs {
		name := e.Job.Name
		if !e.Artifacts {
			name += " without artifacts"
		}
		out = append(out, name)
	}
	return out
}
