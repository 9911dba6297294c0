package keyword

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
)

// linker checks what jobs say of each other.
type linker struct {
	*reporter
	definition *Definition
	stages     map[string]int
	jobs       map[string]*Job
	names      []string
}

// links checks what jobs say of each other.
func (r *linker) links() {
	for _, j := range r.definition.Jobs {
		stage, staged := r.stages[j.Stage]
		for i := range j.Needs {
			r.link(j, &j.Needs[i], stage, staged)
		}
		for i := range j.Rules {
			for k := range j.Rules[i].Needs {
				r.link(j, &j.Rules[i].Needs[k], stage, staged)
			}
		}
		if len(j.Dependencies) > 0 {
			r.dependencies(j, stage, staged)
		}
		if j.Environment != nil && j.Environment.OnStop != "" {
			r.onStop(j)
		}
		if j.Trigger != nil {
			r.artifactJobs(j)
		}
	}
	r.circles()
}

// find returns a job that another one names; it reports one that does not exist.
func (r *linker) find(at config.Node, name, what string) *Job {
	if job := r.lookup(name); job != nil {
		return job
	}
	body := r.config.Root.Get(name)
	switch {
	case r.config.Partial || body.Exists() && !strings.HasPrefix(name, "."):
		return nil // it is in a missing file, or is wrong itself, and that is reported already
	case body.Exists():
		r.report(at, "take the dot off its name, or name another one", "%s %q is hidden: it never runs", what, shorten(name))
	default:
		r.report(at, r.suggest(name, r.jobNames(), "add the job, or delete this"), "%s %q does not exist", what, shorten(name))
	}
	return nil
}

// lookup returns the job of a name, which may also be that of one of its copies, such as "test 1/3" and "test: [linux]".
func (r *linker) lookup(name string) *Job {
	if job := r.jobs[name]; job != nil {
		return job
	}
	if at := strings.LastIndexByte(name, ' '); at > 0 {
		number, count, ok := strings.Cut(name[at+1:], "/")
		job := r.jobs[name[:at]]
		if ok && job != nil && job.Parallel != nil && job.Parallel.Count > 0 && count == strconv.Itoa(job.Parallel.Count) {
			if i, err := strconv.Atoi(number); err == nil && number == strconv.Itoa(i) && 1 <= i && i <= job.Parallel.Count {
				return job
			}
		}
	}
	const open = ": ["
	if !strings.HasSuffix(name, "]") {
		return nil
	}
	for at := 0; ; at++ {
		next := strings.Index(name[at:], open)
		if next < 0 {
			return nil
		}
		at += next
		values := name[at+len(open) : len(name)-1]
		if job := r.jobs[name[:at]]; job != nil && job.Parallel != nil && slices.Contains(combinations(job.Parallel.Matrix), values) {
			return job
		}
	}
}

// jobNames are the names of all jobs, made for the first suggestion.
func (r *linker) jobNames() []string {
	if r.names == nil {
		for _, j := range r.definition.Jobs {
			r.names = append(r.names, j.Name)
		}
	}
	return r.names
}

// at is the place of the name in a need.
func (n *Need) at() config.Node {
	if job := n.Node.Get("job"); job.Exists() {
		return job
	}
	return n.Node
}

// link checks one need of a job.
func (r *linker) link(j *Job, need *Need, stage int, staged bool) {
	if need.Job == "" {
		return
	}
	if r.lookup(need.Job) == j { // or a copy of it, and all copies need the same
		r.report(need.at(), "delete it", "the job %q needs itself", shorten(j.Name))
		return
	}
	if need.Optional && r.lookup(need.Job) == nil || len(matrixNames(need.Job)) > 0 {
		return // for what every copy needs, see the pipeline
	}
	target := r.find(need.at(), need.Job, "the needed job")
	if target == nil {
		return
	}
	if of, known := r.stages[target.Stage]; staged && known && of > stage {
		r.report(need.at(), "move one of them to another stage", "the needed job %q is in the stage %s, which is after %s", shorten(need.Job), shorten(target.Stage), shorten(j.Stage))
	}
	if len(need.Matrix) > 0 {
		r.linkMatrix(j, need, target)
	}
}

// linkMatrix checks that the copies which a need names exist. GitLab finds them by their names, so the order of variables counts.
func (r *linker) linkMatrix(j *Job, need *Need, target *Job) {
	at := need.Node.Get("parallel")
	if target.Parallel == nil || len(target.Parallel.Matrix) == 0 {
		r.report(at, "delete it, or give that job a matrix", "the needed job %q has no matrix", shorten(target.Name))
		return
	}
	made := map[string]bool{}
	for _, values := range combinations(target.Parallel.Matrix) {
		made[values] = true
	}
	for _, entry := range need.Matrix {
		if r.matrixExpressions(j, at, entry) {
			continue
		}
		for _, values := range combinations([]MatrixEntry{entry}) {
			if !made[values] {
				r.report(at, "write all variables of its matrix, in their original order", "the needed job %q has no copy for [%s]", shorten(target.Name), shorten(values))
				break
			}
		}
	}
}

// matrixExpressions checks the matrix expressions of an entry, and reports whether there are any.
func (r *linker) matrixExpressions(j *Job, at config.Node, entry MatrixEntry) bool {
	var own []string
	if j.Parallel != nil {
		for _, e := range j.Parallel.Matrix {
			for _, v := range e {
				own = append(own, v.Name)
			}
		}
	}
	found := false
	for _, v := range entry {
		for _, text := range v.Values {
			for _, name := range matrixNames(text) {
				found = true
				if !slices.Contains(own, name) {
					r.report(at, r.suggest(name, own, "name a variable of the job's own parallel:matrix"), "$[[ matrix.%s ]] is not in the matrix of the job", name)
				}
			}
		}
	}
	return found
}

// dependencies checks the jobs whose artifacts a job asks for.
func (r *linker) dependencies(j *Job, stage int, staged bool) {
	for _, it := range j.Node.Get("dependencies").Items() {
		if it.Kind() != yamlsource.String {
			continue
		}
		name := it.Text()
		if r.lookup(name) == j {
			r.report(it, "delete it", "the job %q depends on itself", shorten(name))
			continue
		}
		target := r.find(it, name, "the job of `dependencies`")
		if target == nil {
			continue
		}
		if of, known := r.stages[target.Stage]; staged && known && of > stage {
			r.report(it, "move one of them to another stage", "the job %q is in the stage %s, which is after %s", shorten(name), shorten(target.Stage), shorten(j.Stage))
		}
	}
}

// onStop checks the job that stops an environment.
func (r *linker) onStop(j *Job) {
	at := j.Node.Get("environment").Get("on_stop")
	stop := r.find(at, j.Environment.OnStop, "the job of `on_stop`")
	switch {
	case stop == nil:
	case stop.Environment == nil:
		r.report(at, "give that job `environment:` with the same name and `action: stop`", "the job %q, which should stop the environment, has no environment", shorten(stop.Name))
	case stop.Environment.Name != j.Environment.Name:
		r.report(at, "give both the same name", "the job %q stops the environment %q, not %q", shorten(stop.Name), shorten(stop.Environment.Name), shorten(j.Environment.Name))
	case stop.Environment.Action != "stop":
		r.report(at, "give its environment `action: stop`", "the job %q has the environment and does not stop it", shorten(stop.Name))
	}
}

// artifactJobs checks the jobs whose artifacts are the definitions of child pipelines.
func (r *linker) artifactJobs(j *Job) {
	for _, include := range j.Trigger.Includes {
		if job := include.Get("job"); job.Kind() == yamlsource.String && !include.Get("artifact").IsNull() && !strings.Contains(job.Text(), "$") {
			r.find(job, job.Text(), "the job of the artifact")
		}
	}
}

// circles reports jobs that need each other in a circle, each circle once. Needs of rules are another matter: they count when their
// rule applies.
func (r *linker) circles() {
	const (
		untouched = iota
		underway
		done
	)
	state := make(map[*Job]int, len(r.jobs))
	type frame struct {
		job  *Job
		next int
	}
	for _, root := range r.definition.Jobs {
		if len(root.Needs) == 0 || state[root] != untouched {
			continue
		}
		path := []frame{{job: root}}
		state[root] = underway
		for len(path) > 0 {
			top := &path[len(path)-1]
			if top.next == len(top.job.Needs) {
				state[top.job] = done
				path = path[:len(path)-1]
				continue
			}
			need := &top.job.Needs[top.next]
			top.next++
			target := r.lookup(need.Job)
			switch {
			case need.Job == "" || target == nil || target == top.job:
			case state[target] == untouched:
				state[target] = underway
				path = append(path, frame{job: target})
			case state[target] == underway:
				from := slices.IndexFunc(path, func(f frame) bool { return f.job == target })
				names := make([]string, 0, len(path)-from+1)
				for _, f := range path[from:] {
					names = append(names, f.job.Name)
				}
				r.report(need.at(), "delete one of these needs", "jobs need each other in a circle: %s", circle(append(names, target.Name)))
			}
		}
	}
}

// circle is the way around. A long one is shown by its ends.
func circle(names []string) string {
	const shown = 12
	for i, name := range names {
		names[i] = shorten(name)
	}
	if len(names) > shown {
		names = slices.Concat(names[:shown/2], []string{"…"}, names[len(names)-shown/2:])
	}
	return strings.Join(names, " → ")
}
