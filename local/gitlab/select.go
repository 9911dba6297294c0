package gitlab

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
)

// UnknownJobError says that there is no such job, or that it is not part of the pipeline.
type UnknownJobError struct {
	Name string
	// Why says why it is not part of the pipeline; empty when no job has the name.
	Why  string
	Hint string
}

func (e *UnknownJobError) Error() string {
	if e.Why == "" {
		return fmt.Sprintf("there is no job %q", e.Name)
	}
	return fmt.Sprintf("the job %q is not part of this pipeline: %s", e.Name, e.Why)
}

// Select returns the jobs of the names, in the pipeline's order; with none, all. The name of a job that is parallel stands for all of its
// copies. With needs, what the jobs depend on comes along. The error is an *UnknownJobError.
func (p *Project) Select(names []string, needs bool) ([]*pipeline.Job, error) {
	if len(names) == 0 {
		return p.Pipeline.Jobs, nil
	}
	chosen := map[*pipeline.Job]bool{}
	for _, name := range names {
		jobs := p.Pipeline.Group(name)
		if j := p.Pipeline.Job(name); j != nil && len(jobs) == 0 {
			jobs = []*pipeline.Job{j}
		}
		if len(jobs) == 0 {
			return nil, p.unknown(name)
		}
		for _, j := range jobs {
			p.choose(chosen, j, needs)
		}
	}
	var out []*pipeline.Job
	for _, j := range p.Pipeline.Jobs {
		if chosen[j] {
			out = append(out, j)
		}
	}
	return out, nil
}

func (p *Project) choose(chosen map[*pipeline.Job]bool, j *pipeline.Job, needs bool) {
	if chosen[j] {
		return
	}
	chosen[j] = true
	if needs {
		for _, before := range p.Pipeline.Predecessors(j) {
			p.choose(chosen, before, true)
		}
	}
}

// unknown is the error for a name that is none of a job of the pipeline.
func (p *Project) unknown(name string) error {
	if why, there := p.Excluded(name); there {
		return &UnknownJobError{Name: name, Why: why, Hint: "--event, --variable and --tag change what rules see; --list --all shows every job"}
	}
	if !p.Pipeline.Verdict.Added() && slices.Contains(p.Names(), name) {
		return &UnknownJobError{Name: name, Why: p.Pipeline.Reason(), Hint: "--event, --variable and --tag change what rules see"}
	}
	names := p.Names()
	e := &UnknownJobError{Name: name, Hint: "`step-runner local --list` shows the jobs"}
	switch like := diag.Suggest(name, names); {
	case like != "":
		e.Hint = fmt.Sprintf("did you mean %q?", like)
	case strings.HasPrefix(name, "."):
		e.Hint = "names that begin with a dot are templates, which other jobs extend"
	}
	return e
}
