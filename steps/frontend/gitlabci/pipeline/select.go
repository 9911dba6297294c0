package pipeline

import (
	"errors"
	"fmt"

	"github.com/rungci/rung/steps/diag"
)

// UnknownJobError says that no job of the pipeline has a name.
type UnknownJobError struct {
	Name string
	// Reason says why a job that the file has is not part of the pipeline; empty for a name that nothing has.
	Reason string
	// Suggestion is a name that may be meant; it may be empty.
	Suggestion string
}

// Error says which job is not there, and why.
func (e *UnknownJobError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("the job %q is not part of this pipeline: %s", e.Name, e.Reason)
	}
	return fmt.Sprintf("there is no job %q", e.Name)
}

// Hint says what to do next; it may be empty.
func (e *UnknownJobError) Hint() string {
	if e.Suggestion != "" {
		return fmt.Sprintf("did you mean %q?", e.Suggestion)
	}
	return ""
}

// Select returns the jobs with the names, in the order of the pipeline. The name of a job of the file stands for all of its copies.
// With needs, the jobs that they depend on are there too, and those that these depend on: what a job needs, or, where it says nothing
// of needs, the jobs of earlier stages whose artifacts it gets.
//
// An error holds an *UnknownJobError for every name that is not there.
func (p *Pipeline) Select(names []string, needs bool) ([]*Job, error) {
	chosen := make([]bool, len(p.Jobs))
	var queue []*Job
	choose := func(j *Job) {
		if !chosen[j.index] {
			chosen[j.index] = true
			queue = append(queue, j)
		}
	}
	var problems []error
	for _, name := range names {
		if j := p.Job(name); j != nil {
			choose(j)
			continue
		}
		jobs := p.Group(name)
		if len(jobs) == 0 {
			problems = append(problems, p.unknown(name))
		}
		for _, j := range jobs {
			choose(j)
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	for at := 0; needs && at < len(queue); at++ {
		j := queue[at]
		if j.Needs == nil {
			for _, from := range j.Artifacts {
				choose(from)
			}
		}
		for _, e := range j.Needs {
			choose(e.Job)
		}
	}
	jobs := make([]*Job, 0, len(queue))
	for i, ok := range chosen {
		if ok {
			jobs = append(jobs, p.Jobs[i])
		}
	}
	return jobs, nil
}

// unknown says why no job has the name.
func (p *Pipeline) unknown(name string) error {
	e := &UnknownJobError{Name: name}
	if j := p.names[name]; j != nil {
		e.Reason = j.Reason()
	} else if jobs := p.groups[name]; len(jobs) > 0 {
		e.Reason = jobs[0].Reason()
	} else if !p.Verdict.Added() {
		e.Reason = p.Reason()
	} else {
		e.Suggestion = diag.Suggest(name, p.allNames())
	}
	return e
}
