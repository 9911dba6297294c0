package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// resolvedNeeds are needs that were looked up. Copies of a job share them.
type resolvedNeeds struct {
	edges    []Edge
	upstream []keyword.Need
	byStage  bool
}

// edges resolves the needs of all jobs.
func (b *builder) edges(stages map[string]int) {
	group := ""
	for _, j := range b.p.Jobs {
		if j.Group != group {
			group, b.resolved = j.Group, nil
		}
		needs := j.needs()
		if needs == nil {
			continue
		}
		r := b.resolve(j, needs, stages)
		j.Upstream = r.upstream
		if !r.byStage {
			j.Needs = r.edges
		}
	}
}

// needs returns what a job needs by its rule, or by itself.
func (j *Job) needs() []keyword.Need {
	if j.Verdict.Rule != when.NoRule {
		if needs := j.Keywords.Rules[j.Verdict.Rule].Needs; needs != nil {
			return needs
		}
	}
	return j.Keywords.Needs
}

// resolve looks needs up. What does not depend on the copy is looked up once for all copies.
func (b *builder) resolve(j *Job, needs []keyword.Need, stages map[string]int) *resolvedNeeds {
	if len(needs) == 0 {
		return &resolvedNeeds{edges: []Edge{}}
	}
	if r := b.resolved[&needs[0]]; r != nil {
		return r
	}
	r := &resolvedNeeds{edges: make([]Edge, 0, len(needs))}
	same := true
	seen := map[*Job]int{}
	for _, n := range needs {
		if isUpstream(&n) {
			r.upstream = append(r.upstream, n)
			continue
		}
		if hasMatrixExpression(&n) {
			same = false
			var err error
			if n, err = fillMatrix(j, n); err != nil {
				b.problem(n.Node, "the matrix of this job has "+namesOf(j.Matrix), fmt.Sprintf("the job %q: %v", j.Group, err))
				continue
			}
		}
		for _, to := range b.needed(j, &n, stages) {
			if i, ok := seen[to]; ok {
				r.edges[i].Artifacts = r.edges[i].Artifacts || n.Artifacts
				continue
			}
			seen[to] = len(r.edges)
			r.edges = append(r.edges, Edge{Job: to, Artifacts: n.Artifacts})
		}
	}
	// A job that only takes over the status of another pipeline waits for its stage like any other.
	r.byStage = !slices.ContainsFunc(needs, func(n keyword.Need) bool { return n.Pipeline == "" || n.UpstreamJob != "" })
	if same {
		if b.resolved == nil {
			b.resolved = map[*keyword.Need]*resolvedNeeds{}
		}
		b.resolved[&needs[0]] = r
	}
	return r
}

// isUpstream reports whether a need is one of another pipeline or project.
func isUpstream(n *keyword.Need) bool { return n.Pipeline != "" || n.Project != "" || n.Job == "" }

// needed returns the jobs of the pipeline that a need means. What is wrong with it is reported.
func (b *builder) needed(j *Job, n *keyword.Need, stages map[string]int) []*Job {
	candidates, ok := b.named(j, n)
	if !ok {
		return nil
	}
	var jobs []*Job
	for _, to := range candidates {
		if at := b.at(j, n); stages[to.Stage] > stages[j.Stage] {
			b.problem(at, "move one of them to another stage", fmt.Sprintf("the job %q of the stage %q needs the job %q of the later stage %q, which GitLab refuses",
				j.Group, j.Stage, to.Group, to.Stage))
			return jobs
		}
		if to.StageIndex >= 0 {
			jobs = append(jobs, to)
			continue
		}
		if !n.Optional {
			name := to.Group
			if len(b.p.Group(name)) > 0 {
				name = to.Name // others of its copies are there
			}
			b.problem(b.at(j, n), "add `optional: true` to the need when the job may be missing", fmt.Sprintf("'%s' job needs '%s' job, but '%s' is not in this pipeline: %s",
				j.Group, name, name, to.Reason()))
		}
	}
	return jobs
}

// named returns all jobs that a need names, those that are not part of the pipeline too.
func (b *builder) named(j *Job, n *keyword.Need) ([]*Job, bool) {
	copies, ok := b.p.groups[n.Job]
	if !ok {
		if to := b.p.names[n.Job]; to != nil {
			return []*Job{to}, true
		}
		if !n.Optional {
			b.unknown(b.at(j, n), fmt.Sprintf("the job %q needs the job %q, which does not exist", j.Group, n.Job), n.Job)
		}
		return nil, false
	}
	if len(n.Matrix) == 0 {
		return copies, true
	}
	if len(copies) == 0 {
		return nil, false // it could not be made, which has been reported
	}
	if k := copies[0].Keywords; k.Parallel == nil {
		b.warn(b.at(j, n), "remove `parallel` from the need", fmt.Sprintf("the job %q needs matrix jobs of %q, which has none", j.Group, n.Job))
		return copies, true
	}
	if combinations(n.Matrix) > MaxCopies {
		b.problem(b.at(j, n), "", fmt.Sprintf("the job %q needs more than %d copies of the job %q", j.Group, MaxCopies, n.Job))
		return nil, false
	}
	var picked []*Job
	each(n.Matrix, func(variables []variable.Variable) {
		name := matrixName(n.Job, variables)
		to := b.p.names[name]
		if to == nil {
			if !n.Optional {
				b.problem(b.at(j, n), matrixHint(copies, variables), fmt.Sprintf("the job %q needs %q, and the job %q has no such copy", j.Group, name, n.Job))
			}
			return
		}
		picked = append(picked, to)
	})
	return picked, true
}

// matrixHint says what a need should have said of the matrix. GitLab compares names, so all variables must be there, in order.
func matrixHint(copies []*Job, variables []variable.Variable) string {
	for _, c := range copies {
		if isSubset(variables, c.Matrix) {
			return fmt.Sprintf("list all variables of the matrix, in its order: %s, as in %q", namesOf(c.Matrix), c.Name)
		}
	}
	names := make([]string, 0, maxShownCopies)
	for _, c := range copies[:min(len(copies), maxShownCopies)] {
		names = append(names, c.Name)
	}
	if more := len(copies) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return "there are " + strings.Join(names, "; ")
}

// maxShownCopies is how many copies a hint names.
const maxShownCopies = 5

func isSubset(some, all []variable.Variable) bool {
	for _, v := range some {
		if w := last(all, v.Name); w == nil || w.Value != v.Value {
			return false
		}
	}
	return true
}

func namesOf(variables []variable.Variable) string {
	if len(variables) == 0 {
		return "no variables"
	}
	names := make([]string, len(variables))
	for i, v := range variables {
		names[i] = v.Name
	}
	return strings.Join(names, ", ")
}

// at is where a need is written, or else the job.
func (b *builder) at(j *Job, n *keyword.Need) config.Node {
	if n.Node.Exists() {
		return n.Node
	}
	return j.Keywords.Key
}

// unknown reports a name that no job has.
func (b *builder) unknown(n config.Node, message, name string) {
	hint := ""
	if s := diag.Suggest(name, b.p.allNames()); s != "" {
		hint = fmt.Sprintf("did you mean %q?", s)
	}
	b.problem(n, hint, message)
}

// allNames are the names that a job can be called by.
func (p *Pipeline) allNames() []string {
	names := make([]string, 0, len(p.names)+len(p.groups))
	for name := range p.names {
		names = append(names, name)
	}
	for name := range p.groups {
		if p.names[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// matrixExpression is what stands for a value of the job's own matrix.
var matrixExpression = lazyregexp.New(`\$\[\[\s*matrix\.([a-zA-Z0-9_-]+)\s*\]\]`)

// isMatrixExpression is a quick look.
func isMatrixExpression(text string) bool { return strings.Contains(text, "$[[") }

func hasMatrixExpression(n *keyword.Need) bool {
	if isMatrixExpression(n.Job) {
		return true
	}
	for _, entry := range n.Matrix {
		for _, v := range entry {
			if slices.ContainsFunc(v.Values, isMatrixExpression) {
				return true
			}
		}
	}
	return false
}

// fillMatrix puts the values of the job's own matrix into a need.
func fillMatrix(j *Job, n keyword.Need) (keyword.Need, error) {
	var problems []error
	fill := func(text string) string {
		if !isMatrixExpression(text) {
			return text
		}
		return matrixExpression().ReplaceAllStringFunc(text, func(block string) string {
			name := matrixExpression().FindStringSubmatch(block)[1]
			if v := last(j.Matrix, name); v != nil {
				return v.Value
			}
			problems = append(problems, fmt.Errorf("'%s' does not exist in matrix configuration", name))
			return block
		})
	}
	n.Job = fill(n.Job)
	matrix := make([]keyword.MatrixEntry, len(n.Matrix))
	for i, entry := range n.Matrix {
		matrix[i] = slices.Clone(entry)
		for at, v := range entry {
			values := make([]string, len(v.Values))
			for x, text := range v.Values {
				values[x] = fill(text)
			}
			matrix[i][at].Values = values
		}
	}
	n.Matrix = matrix
	return n, errors.Join(problems...)
}
