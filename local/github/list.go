package github

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/executor/session"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
)

// Row is a job as a list shows it.
type Row struct {
	ID    string   `json:"id"`
	Needs []string `json:"needs,omitempty"`
	// Legs are the names of its matrix jobs; one that has the job's name stands for a job without a matrix.
	Legs []string `json:"matrix,omitempty"`
	// Calls is the workflow that the job calls.
	Calls  string   `json:"calls,omitempty"`
	RunsOn []string `json:"runs_on,omitempty"`
	// Runs says whether the job would run, when all that it needs succeeds, Why why.
	Runs bool   `json:"runs"`
	Why  string `json:"why,omitempty"`

	// Values are those of its matrix that a job can be selected by, as NAME:VALUE.
	Values []string `json:"-"`

	job     *definition.Job
	names   []string // of the matrix
	unknown bool     // the legs depend on what other jobs give
}

// List describes the jobs that are chosen.
func (p *Project) List(s *Selection) []Row { return p.rows(s) }

func (p *Project) rows(s *Selection) []Row {
	var out []Row
	for _, j := range p.Workflow.Jobs {
		if s.has(j) {
			out = append(out, *p.rowOf(j, s))
		}
	}
	return out
}

// row is the row of a job; nil of none.
func (p *Project) row(j *definition.Job) *Row {
	if j == nil {
		return nil
	}
	return p.rowOf(j, nil)
}

// rowOf describes a job as it is before anything has run: all that it needs is taken to succeed, and to give nothing.
func (p *Project) rowOf(j *definition.Job, chosen *Selection) *Row {
	r := &Row{ID: j.ID, Needs: j.Needs, job: j}
	if j.Call != nil {
		r.Calls = j.Call.Uses
	}
	alone := &scope{Workflow: p.Workflow, contexts: p.contexts()}
	n := &node{job: j, scope: alone}
	var err error
	if r.Runs, r.Why, err = j.Runs(definition.Status{Results: n.before()}, n.contexts()); err != nil {
		r.Why = session.OneLine(err.Error())
	}
	if !r.Runs && j.AsksForOutputs() {
		r.Runs, r.Why = true, notKnown
	}
	computed, err := j.Legs(n.contexts())
	if err != nil {
		if r.unknown = len(j.Needs) > 0; !r.unknown {
			r.Runs, r.Why = false, session.OneLine(err.Error())
		}
		return r
	}
	list := make([]*leg, len(computed.List))
	for i, l := range computed.List {
		list[i] = &leg{Leg: l}
	}
	elsewhere := 0 // legs that this machine cannot run
	for _, l := range chosen.legs(j, list) {
		r.Legs = append(r.Legs, l.Name)
		for _, name := range l.Matrix.Keys() {
			if !slices.Contains(r.names, name) {
				r.names = append(r.names, name)
			}
			if pair := name + ":" + l.Matrix.Fields()[name].Text(); !slices.Contains(r.Values, pair) {
				r.Values = append(r.Values, pair)
			}
		}
		settings, err := j.Settings(l.Leg, n.contexts())
		if err != nil || j.Call != nil {
			continue
		}
		text := strings.Join(settings.RunsOn.Labels, ", ")
		if !slices.Contains(r.RunsOn, text) {
			r.RunsOn = append(r.RunsOn, text)
		}
		if _, _, reason := p.Runners.choose(settings.RunsOn); reason != "" && r.Runs {
			r.Why = reason
			elsewhere++
		}
	}
	r.Runs = r.Runs && (elsewhere == 0 || elsewhere < len(r.Legs))
	return r
}

// notKnown is said of a job that depends on outputs of jobs that have not run.
const notKnown = "if the jobs that it needs produce the outputs that it uses"

// LegsText is what a row says of its legs, for people.
func (r *Row) LegsText() string {
	const most = 4
	switch {
	case r.unknown:
		return "unknown yet"
	case len(r.Legs) == 1 && r.names == nil:
		if r.Calls != "" {
			return r.Calls
		}
		return ""
	case len(r.Legs) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(r.Legs[:most], ", "), len(r.Legs)-most)
	}
	return strings.Join(r.Legs, ", ")
}
