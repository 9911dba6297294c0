package pipeline

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rungci/rung/steps/frontend/gitlabci/config"
)

// makesArtifacts reports whether a job leaves something for others.
func (j *Job) makesArtifacts() bool { return j.Keywords.Artifacts != nil || j.Keywords.Pages != nil }

// artifacts finds out whose artifacts each job gets. Without needs those are the jobs of all earlier stages, which many jobs
// share, with needs those that it needs them of; `dependencies` picks some of them.
func (b *builder) artifacts(stages map[string]int) {
	p := b.p
	var makers []*Job
	before := make([]int, len(p.Stages)) // how many makers there are before a stage
	for i := range p.Stages {
		before[i] = len(makers)
		for _, j := range p.Jobs[p.starts[i]:p.starts[i+1]] {
			if j.makesArtifacts() {
				makers = append(makers, j)
			}
		}
	}
	for _, j := range p.Jobs {
		picked := j.Keywords.Dependencies
		if picked != nil && len(picked) == 0 {
			continue
		}
		if j.Needs != nil {
			j.Artifacts = neededArtifacts(j)
		} else {
			n := before[j.StageIndex]
			j.Artifacts = makers[:n:n]
		}
		if picked != nil {
			b.pick(j, picked, stages)
		}
	}
}

// neededArtifacts are the jobs that a job needs with their artifacts, in order.
func neededArtifacts(j *Job) []*Job {
	var jobs []*Job
	for _, e := range j.Needs {
		if e.Artifacts && e.Job.makesArtifacts() {
			jobs = append(jobs, e.Job)
		}
	}
	slices.SortFunc(jobs, func(a, b *Job) int { return cmp.Compare(a.index, b.index) })
	return jobs
}

// pick leaves those of a job's artifacts that it lists in `dependencies`. A dependency that rules leave out is none, as in GitLab.
func (b *builder) pick(j *Job, picked []string, stages map[string]int) {
	wanted := map[*Job]bool{}
	place := j.Keywords.Key
	list := j.Keywords.Node.Get("dependencies")
	for i, name := range picked {
		if at := nth(list, i, name); at.Exists() {
			place = at
		}
		jobs, ok := b.p.groups[name]
		if !ok && b.p.names[name] != nil {
			jobs, ok = []*Job{b.p.names[name]}, true
		}
		if !ok {
			b.unknown(place, fmt.Sprintf("the job %q gets artifacts of the job %q, which does not exist", j.Group, name), name)
			continue
		}
		for _, from := range jobs {
			if stages[from.Stage] > stages[j.Stage] {
				b.problem(place, "", fmt.Sprintf("the job %q of the stage %q gets artifacts of the job %q of the later stage %q, which GitLab refuses",
					j.Group, j.Stage, name, from.Stage))
				break
			}
			wanted[from] = true
			switch {
			case from.StageIndex < 0:
			case j.Needs != nil && !slices.ContainsFunc(j.Needs, func(e Edge) bool { return e.Job == from }):
				b.warn(place, fmt.Sprintf("add %q to the needs", name), fmt.Sprintf("the job %q gets no artifacts of %q, which it does not need", j.Group, name))
			case j.Needs == nil && from.StageIndex >= j.StageIndex:
				b.warn(place, "add it to `needs`", fmt.Sprintf("the job %q gets no artifacts of %q, which is in the same stage", j.Group, name))
			}
		}
	}
	var left []*Job
	for _, from := range j.Artifacts {
		if wanted[from] {
			left = append(left, from)
		}
	}
	j.Artifacts = left
}

// nth returns an item of a list, when it is the text that is looked for.
func nth(list config.Node, i int, text string) config.Node {
	at := 0
	for _, n := range list.Flat() {
		if at == i && n.Text() == text {
			return n
		}
		at++
	}
	return config.Node{}
}
