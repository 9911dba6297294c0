package github

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/diag"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/value"
)

// Selection are the jobs that run, and which of their legs.
type Selection struct {
	jobs map[*definition.Job][]string // the names of legs; nil is all
	// matrix are values that a leg must have, by the names of the matrix.
	matrix map[string]string
}

// UnknownJobError says that there is no such job.
type UnknownJobError struct {
	Name, Hint string
}

func (e *UnknownJobError) Error() string { return fmt.Sprintf("there is no job %q", e.Name) }

// Select chooses jobs by name; with none, all. A name is a job's id, which stands for all of its legs, or the name of a leg: "test (20)".
// matrix bounds the legs by values: "node:20". With needs, what the jobs need comes along. The error is an *UnknownJobError.
func (p *Project) Select(names, matrix []string, needs bool) (*Selection, error) {
	s := &Selection{jobs: map[*definition.Job][]string{}, matrix: map[string]string{}}
	for _, pair := range matrix {
		name, text, _ := strings.Cut(pair, ":")
		s.matrix[name] = text
	}
	if len(names) == 0 {
		for _, j := range p.Workflow.Jobs {
			s.jobs[j] = nil
		}
	}
	for _, name := range names {
		j, leg := p.find(name)
		if j == nil {
			return nil, p.unknown(name)
		}
		known, there := s.jobs[j]
		switch {
		case leg == "":
			s.jobs[j] = nil
		case !there || known != nil:
			s.jobs[j] = append(known, leg)
		}
		if needs {
			for _, id := range p.Workflow.Ancestors(j) {
				if _, there := s.jobs[p.Workflow.Job(id)]; !there {
					s.jobs[p.Workflow.Job(id)] = nil
				}
			}
		}
	}
	return s, nil
}

// find finds a job by its id, or by the name of one of its legs.
func (p *Project) find(name string) (j *definition.Job, leg string) {
	if j := p.Workflow.Job(name); j != nil {
		return j, ""
	}
	for _, row := range p.rows(nil) {
		if slices.Contains(row.Legs, name) {
			return row.job, name
		}
	}
	if id, _, ok := strings.Cut(name, " ("); ok { // its matrix is not known yet
		if row := p.row(p.Workflow.Job(id)); row != nil && row.unknown {
			return row.job, name
		}
	}
	return nil, ""
}

// unknown is the error for a name that is none of a job.
func (p *Project) unknown(name string) error {
	var names []string
	for _, row := range p.rows(nil) {
		names = append(append(names, row.ID), row.Legs...)
	}
	e := &UnknownJobError{Name: name, Hint: "--list shows the jobs"}
	if like := diag.Suggest(name, names); like != "" {
		e.Hint = fmt.Sprintf("did you mean %q?", like)
	}
	return e
}

// has reports whether a job is chosen. A nil Selection has all.
func (s *Selection) has(j *definition.Job) bool {
	if s == nil {
		return true
	}
	_, ok := s.jobs[j]
	return ok
}

// legs leaves those that are chosen.
func (s *Selection) legs(j *definition.Job, all []*leg) []*leg {
	if s == nil {
		return all
	}
	names := s.jobs[j]
	return slices.DeleteFunc(all, func(l *leg) bool {
		return names != nil && !slices.Contains(names, l.Name) || !s.fits(l.Matrix)
	})
}

// fits reports whether a leg has the values that are asked for. A job without a matrix, or without the name, has.
func (s *Selection) fits(matrix value.Value) bool {
	for name, want := range s.matrix {
		if v, there := matrix.Fields()[name]; there && v.Text() != want {
			return false
		}
	}
	return true
}

// CheckMatrix returns an error when no job has a name of --matrix, as then nothing would be left out.
func (p *Project) CheckMatrix(s *Selection) error {
	for _, name := range slices.Sorted(maps.Keys(s.matrix)) {
		found := false
		for _, row := range p.rows(s) {
			found = found || row.unknown || slices.Contains(row.names, name)
		}
		if !found {
			return &EventError{fmt.Sprintf("--matrix: no selected job has %s:%s in its matrix", name, s.matrix[name]), "--list shows the matrix jobs"}
		}
	}
	return nil
}
