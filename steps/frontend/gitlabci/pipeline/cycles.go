package pipeline

import (
	"fmt"
	"slices"
	"strings"
)

// maxShownCycle is how many jobs of a circle a message names.
const maxShownCycle = 10

// cycles reports jobs that need each other in a circle, or themselves. It follows the edges without recursion, since a chain may
// be as long as the pipeline.
func (b *builder) cycles() {
	const (
		unseen = iota
		open
		told // open, and reported as the end of a circle
		done
	)
	state := make([]uint8, len(b.p.Jobs))
	type frame struct {
		job  *Job
		next int
	}
	var path []frame
	for _, start := range b.p.Jobs {
		if state[start.index] != unseen || len(start.Needs) == 0 {
			continue
		}
		state[start.index] = open
		path = append(path[:0], frame{job: start})
		for len(path) > 0 {
			top := &path[len(path)-1]
			if top.next == len(top.job.Needs) {
				state[top.job.index] = done
				path = path[:len(path)-1]
				continue
			}
			to := top.job.Needs[top.next].Job
			top.next++
			switch state[to.index] {
			case unseen:
				state[to.index] = open
				path = append(path, frame{job: to})
			case open:
				state[to.index] = told
				at := slices.IndexFunc(path, func(f frame) bool { return f.job == to })
				var groups []string
				seen := map[string]bool{}
				for _, f := range path[at:] {
					if !seen[f.job.Group] {
						seen[f.job.Group] = true
						groups = append(groups, f.job.Group)
					}
				}
				b.cycle(to, groups)
			}
		}
	}
}

// cycle reports one circle.
func (b *builder) cycle(j *Job, groups []string) {
	place := j.Keywords.Key
	if n, _ := j.Keywords.Node.Entry("needs"); n.Exists() {
		place = n
	}
	if len(groups) == 1 {
		b.problem(place, "", fmt.Sprintf("the job %q needs itself", groups[0]))
		return
	}
	shown := make([]string, 0, maxShownCycle+1)
	for _, g := range groups[:min(len(groups), maxShownCycle)] {
		shown = append(shown, fmt.Sprintf("%q", g))
	}
	if len(groups) > maxShownCycle {
		shown = append(shown, "…")
	}
	b.problem(place, "", "jobs need each other in a circle: "+strings.Join(append(shown, fmt.Sprintf("%q", groups[0])), " → "))
}
