package pipeline

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

// MaxCopies is how many copies of a job `parallel` may make, as in GitLab.
const MaxCopies = 200

// count returns how many copies there are to be, and more than MaxCopies when they are too many to count.
func count(p *keyword.Parallel) int {
	if p == nil {
		return 1
	}
	if p.Matrix == nil {
		return p.Count
	}
	return combinations(p.Matrix)
}

// combinations returns how many combinations a matrix has, and more than MaxCopies when they are too many to count.
func combinations(matrix []keyword.MatrixEntry) int {
	total := 0
	for _, entry := range matrix {
		product := 1
		for _, v := range entry {
			if product *= len(v.Values); product > MaxCopies {
				break
			}
		}
		if total += product; total > MaxCopies {
			break
		}
	}
	return total
}

// copies makes the jobs that a job of the file becomes.
func (b *builder) copies(k *keyword.Job) []*Job {
	job := func() *Job {
		if len(b.slab) == 0 { // after duplicates, which are not counted
			b.slab = make([]Job, 1)
		}
		j := &b.slab[0]
		b.slab = b.slab[1:]
		*j = Job{Name: k.Name, Group: k.Name, Keywords: k, Stage: k.Stage, StageIndex: -1, NodeTotal: 1, When: k.When, origin: b.origin}
		return j
	}
	n := count(k.Parallel)
	if k.Parallel != nil && (n < 1 || n > MaxCopies) {
		b.problem(k.Parallel.Node, "", fmt.Sprintf("`parallel` must make 1 to %d copies of the job %q", MaxCopies, k.Name))
		n = 0
	}
	switch {
	case n == 0:
		return nil
	case k.Parallel == nil:
		return []*Job{job()}
	case k.Parallel.Matrix == nil:
		jobs := make([]*Job, n)
		for i := range jobs {
			j := job()
			j.Name = k.Name + " " + strconv.Itoa(i+1) + "/" + strconv.Itoa(n)
			j.NodeIndex, j.NodeTotal = i+1, n
			jobs[i] = j
		}
		return jobs
	}
	jobs := make([]*Job, 0, n)
	at := map[string]int{}
	index := 0
	each(k.Parallel.Matrix, func(variables []variable.Variable) {
		index++
		j := job()
		j.Name, j.Matrix, j.NodeIndex, j.NodeTotal = matrixName(k.Name, variables), variables, index, n
		if i, ok := at[j.Name]; ok { // GitLab keeps the place of the first one and takes the last one
			b.warn(k.Parallel.Node, "", fmt.Sprintf("the matrix of the job %q has %s more than once; it runs once", k.Name, j.Name[len(k.Name)+2:]))
			jobs[i] = j
			return
		}
		at[j.Name] = len(jobs)
		jobs = append(jobs, j)
	})
	return jobs
}

// each calls f for every combination of a matrix, in order: the first variable changes slowest.
func each(matrix []keyword.MatrixEntry, f func([]variable.Variable)) {
	for _, entry := range matrix {
		chosen := make([]int, len(entry))
		for more := combinations([]keyword.MatrixEntry{entry}) > 0; more; {
			variables := make([]variable.Variable, len(entry))
			for i, v := range entry {
				variables[i] = variable.Variable{Name: v.Name, Value: v.Values[chosen[i]]}
			}
			f(variables)
			more = false
			for i := len(entry) - 1; i >= 0; i-- {
				if chosen[i]++; chosen[i] < len(entry[i].Values) {
					more = true
					break
				}
				chosen[i] = 0
			}
		}
	}
}

// matrixName returns the name of a copy: "test: [linux, 1.26]".
func matrixName(name string, variables []variable.Variable) string {
	values := make([]string, len(variables))
	for i, v := range variables {
		values[i] = v.Value
	}
	return name + ": [" + strings.Join(values, ", ") + "]"
}

// checkName reports a name that is too long, or that two jobs have.
func (b *builder) checkName(j *Job) bool {
	k := j.Keywords
	place := k.Key
	if k.Parallel != nil {
		place = k.Parallel.Node
		if length := utf8.RuneCountInString(j.Name); length > config.MaxJobName {
			b.warn(place, "use shorter values in the matrix, or a shorter name", fmt.Sprintf(
				"the name of a copy of the job %q has %d characters, and GitLab allows %d", k.Name, length, config.MaxJobName))
		}
	}
	if other := b.p.names[j.Name]; other != nil {
		b.problem(place, "rename one of them", fmt.Sprintf("the jobs %q and %q both make a job called %q", other.Group, k.Name, j.Name))
		return false
	}
	return true
}
