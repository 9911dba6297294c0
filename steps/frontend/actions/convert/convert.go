// Package convert converts the jobs of GitHub workflows to jobs of a .gitlab-ci.yml, with their steps under `run:`.
//
// What GitLab has a keyword for becomes that keyword, scripts become scripts, and actions stay actions, which our runner runs. Expressions are
// translated where there is an expression that says the same; any other stays GitHub's, in a call of github_text and its like. What cannot be
// carried over is reported in a note with its place, and in a comment where it would stand.
//
// The package runs nothing, and reads no files but the text it is given. docs/convert.md tells what becomes of what.
package convert

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
)

// Options say what is converted.
type Options struct {
	Job string // the id of the only job; "" is all of them
}

// Result is what a workflow becomes.
type Result struct {
	YAML  []byte    // the .gitlab-ci.yml
	Notes diag.List // what is done in another way, or not at all, in the order of the workflow's text
}

// UnknownJobError is the error of a job that the workflow does not have.
type UnknownJobError struct {
	Job  string
	Jobs []string // those that it has
}

func (e *UnknownJobError) Error() string { return fmt.Sprintf("there is no job %q", e.Job) }

// Convert converts a workflow. name is what diagnostics call it. The error is a diag.List of what is wrong with the workflow, or that none of its
// jobs can be carried over; or an *UnknownJobError.
func Convert(name string, data []byte, o Options) (*Result, error) {
	w, err := workflow.Parse(name, data)
	if err != nil {
		return nil, err
	}
	source, err := yamlsource.Parse(name, data)
	if err != nil {
		return nil, err
	}
	c := &converter{w: w, source: source, root: source.Documents[0], told: map[string]bool{}, uploads: map[string]upload{}, rules: map[*workflow.Job][]string{}}
	jobs := w.Jobs
	if o.Job != "" {
		j := w.Job(o.Job)
		if j == nil {
			unknown := &UnknownJobError{Job: o.Job}
			for _, j := range w.Jobs {
				unknown.Jobs = append(unknown.Jobs, j.ID)
			}
			return nil, unknown
		}
		jobs = []*workflow.Job{j}
	}
	for _, n := range w.Notes {
		c.note(n.Span, "%s", n.Message)
	}
	text, err := c.file(jobs)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(c.notes, func(a, b diag.Diagnostic) int { return a.Span.Line - b.Span.Line })
	return &Result{YAML: text, Notes: c.notes}, check(text)
}

// converter is the state of one conversion.
type converter struct {
	w       *workflow.Workflow
	source  *yamlsource.File
	root    *yamlsource.Node
	chosen  []*workflow.Job
	notes   diag.List
	told    map[string]bool
	create  []string                   // CI/CD variables that somebody has to create, in the order in which they are met
	uploads map[string]upload          // artifacts that are plain, by name
	rules   map[*workflow.Job][]string // what ruled has found out
}

// note tells what is not as it was, once for a line, and returns the text, which can be a comment.
func (c *converter) note(place diag.Span, format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	if key := fmt.Sprint(place.Line, text); !c.told[key] {
		c.told[key] = true
		c.notes = append(c.notes, c.source.Diagnostic(place, "", text))
	}
	return text
}

// creates notes a CI/CD variable that must be there.
func (c *converter) creates(place diag.Span, name, what string) {
	if slices.Contains(c.create, name) {
		return
	}
	c.create = append(c.create, name)
	c.note(place, "create the CI/CD variable %s%s", name, what)
}

// file converts the jobs and writes them.
func (c *converter) file(jobs []*workflow.Job) ([]byte, error) {
	c.chosen = jobs
	var doc mapping
	c.workflow(&doc)
	base := c.newScope(nil)
	variables := c.variables(base, c.root.Get("env"))
	variables = append(variables, c.dispatched()...)
	if len(variables) > 0 {
		doc.add("variables", variables)
	}
	for _, j := range jobs { // first, as those that download stand behind
		c.findUploads(j)
	}
	made := 0
	for _, j := range jobs {
		if j.Call != nil {
			doc.remark(j.ID + ": " + c.note(j.Span, "the job %s calls the workflow %s: convert that, and include its jobs", j.ID, j.Call.Uses))
			continue
		}
		made++
		comments := []string(nil)
		if n := c.node(j).Get("name"); n != nil {
			comments = append(comments, n.Text)
		}
		doc.add(c.jobName(j), c.job(j), comments...)
	}
	if made == 0 {
		return nil, diag.List{c.source.Diagnostic(jobs[0].Span, "convert the workflow that is called", "no job has steps, so there is nothing to write")}
	}
	var p printer
	p.comment("Made of "+c.w.File+" by step-runner convert.", 0)
	if len(c.create) > 0 {
		p.comment("CI/CD variables to create in the settings of the project: "+strings.Join(c.create, ", "), 0)
	}
	p.WriteByte('\n')
	p.entries(doc, 0, false)
	return []byte(p.String()), nil
}

// node is what the text says of a job.
func (c *converter) node(j *workflow.Job) *yamlsource.Node {
	for _, e := range c.root.Get("jobs").Entries {
		if e.Key.Text == j.ID {
			return e.Value
		}
	}
	return &yamlsource.Node{}
}

// isChosen reports whether a job is converted to one.
func (c *converter) isChosen(id string) bool {
	j := c.w.Job(id)
	return j != nil && j.Call == nil && slices.Contains(c.chosen, j)
}

// reserved are words that no job of GitLab can be called, or that make it something else.
var reserved = []string{"image", "services", "stages", "types", "before_script", "after_script", "variables", "cache", "include", "default", "workflow",
	"spec", "pages", "true", "false", "nil"}

// jobName is what a job is called in GitLab.
func (c *converter) jobName(j *workflow.Job) string {
	if slices.Contains(reserved, strings.ToLower(j.ID)) {
		return j.ID + "_job"
	}
	return j.ID
}

// check reads what was written as GitLab's files are read. A mistake in it is one of ours.
func check(text []byte) error {
	const name = ".gitlab-ci.yml"
	resolved, err := config.Resolve(context.Background(), name, text, config.Options{})
	if err == nil {
		d, wrong := keyword.Read(resolved)
		if len(wrong) > 0 {
			err = wrong
		}
		for _, j := range d.Jobs {
			part := j.Run.Embedded()
			if _, broken := gitlabsteps.ParseNode(name, part.Root, part); err == nil && broken != nil {
				err = broken
			}
		}
	}
	if err != nil {
		return &WrittenError{Text: text, Err: err}
	}
	return nil
}

// WrittenError is a conversion whose result is wrong, which is a mistake of this package.
type WrittenError struct {
	Text []byte
	Err  error
}

func (e *WrittenError) Error() string {
	text := e.Err.Error()
	var list diag.List
	if errors.As(e.Err, &list) {
		text = list.Render()
	}
	return "internal error: the result is not a valid .gitlab-ci.yml: " + text
}
