package gitlab

import (
	"fmt"
	"strings"

	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
)

// Row is a job as a list shows it.
type Row struct {
	Name         string   `json:"name"`
	Stage        string   `json:"stage"`
	When         string   `json:"when"`
	AllowFailure bool     `json:"allow_failure,omitempty"`
	Needs        []string `json:"needs"` // null waits for the stages before
	Environment  string   `json:"environment,omitempty"`
	Image        string   `json:"image,omitempty"`
	Tags         []string `json:"tags,omitempty"`
	// Excluded says that the job is not part of the pipeline.
	Excluded bool `json:"excluded,omitempty"`
	// Why says why it is, or is not.
	Why string `json:"why,omitempty"`
}

// List describes jobs, and those that are not part of the pipeline when all are asked for.
func (p *Project) List(jobs []*pipeline.Job, all bool) []Row {
	rows := make([]Row, 0, len(jobs)+len(p.Pipeline.Excluded))
	for _, j := range jobs {
		rows = append(rows, row(j))
	}
	if all {
		for _, j := range p.Pipeline.Excluded {
			r := row(j)
			r.Excluded = true
			rows = append(rows, r)
		}
	}
	return rows
}

func row(j *pipeline.Job) Row {
	k := j.Keywords
	r := Row{
		Name: j.Name, Stage: j.Stage, When: string(j.When), AllowFailure: j.AllowFailure.Always || len(j.AllowFailure.ExitCodes) > 0,
		Tags: k.Tags, Why: j.Reason(),
	}
	if j.Needs != nil {
		r.Needs = make([]string, len(j.Needs))
		for i, e := range j.Needs {
			r.Needs[i] = e.Job.Name
		}
	}
	if k.Environment != nil {
		r.Environment = k.Environment.Name
	}
	if k.Image != nil {
		r.Image = k.Image.Name
	}
	return r
}

// NeedsText is what a row says of its needs, for people.
func (r *Row) NeedsText() string {
	const most = 4
	switch {
	case r.Needs == nil:
		return ""
	case len(r.Needs) == 0:
		return "nothing"
	case len(r.Needs) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(r.Needs[:most], ", "), len(r.Needs)-most)
	}
	return strings.Join(r.Needs, ", ")
}
