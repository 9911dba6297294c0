package gitlab

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/rungci/rung/local"
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/frontend/gitlabci/compile"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

// foreign is what a job of another pipeline left.
type foreign struct {
	name string // of the job, with its project where that is another one
	*store.Manifest
}

// consumer is a job that gets what others left.
type consumer struct {
	*runner
	job *pipeline.Job
}

func (r *runner) consumer(j *pipeline.Job) consumer { return consumer{r, j} }

// foreignLeft is what the jobs of other pipelines and projects left that a job needs artifacts of. What is not here is said, once.
func (r consumer) foreignLeft() ([]foreign, error) {
	if len(r.job.Upstream) == 0 {
		return nil, nil
	}
	vars, err := r.job.Variables()
	if err != nil {
		return nil, err
	}
	expand := func(text string) string {
		if out, err := variable.ExpandText(text, vars.Lookup); err == nil {
			return out
		}
		return text
	}
	var out []foreign
	for _, need := range r.job.Upstream {
		if need.UpstreamJob == "" || !need.Artifacts {
			continue
		}
		for _, name := range pipeline.CopyNames(expand(need.UpstreamJob), need.Matrix) {
			if need.Project != "" {
				out = append(out, r.projectLeft(strings.Trim(expand(need.Project), "/"), expand(need.Ref), name)...)
			} else {
				out = append(out, r.parentLeft(need, expand(need.Pipeline), name)...)
			}
		}
	}
	return out, nil
}

// projectLeft is what the last run of a job of another project left, in the folder that stands for it.
func (r consumer) projectLeft(project, ref, job string) []foreign {
	name := job + " of " + project
	dir, ok := r.project.folderOf(project)
	if !ok {
		r.warnOnce(name, fmt.Sprintf("the artifacts of %s are not available locally: they are on GitLab", name),
			fmt.Sprintf("--project %s=DIR takes them from a folder where the job has run", project))
		return nil
	}
	m, err := store.Open(dir).Latest(job)
	how := local.CommandOf(dir, job) + " makes them"
	if m = r.kept(name, m, err, ref, "it has not run in "+dir, how); m == nil {
		return nil
	}
	if m.Ref != ref && r.First(r.job.Name+"\x00"+name+"\x00ref") {
		r.Observer.Say(r.job.Name, fmt.Sprintf("%s ran for %s, but %s is required", name, m.Ref, ref))
	}
	return []foreign{{name, m}}
}

// folderOf is the folder that stands for a project: its own, or one that was named.
func (p *Project) folderOf(project string) (string, bool) {
	own := string(p.Repository.Project)
	for name, dir := range p.options.Projects {
		if strings.EqualFold(name, project) || strings.EqualFold(name, p.Repository.Server.FQDN()+"/"+project) {
			return dir, true
		}
	}
	return p.Repository.Root, strings.EqualFold(own, project)
}

// parentLeft is what a job of a pipeline left that started this one, at first or second hand.
func (r consumer) parentLeft(need keyword.Need, id, job string) []foreign {
	up := r.parent
	for up != nil && strconv.Itoa(up.project.Facts.PipelineID) != id {
		up = up.parent
	}
	if up == nil {
		hint := "only a pipeline that started this one can be referenced"
		if r.parent != nil {
			hint = "give the job that triggers this pipeline `variables: {PARENT_PIPELINE_ID: $CI_PIPELINE_ID}`, and write `pipeline: $PARENT_PIPELINE_ID`"
		}
		r.warnOnce(need.Pipeline+"\x00"+job, fmt.Sprintf("the artifacts of %s are not available: no pipeline %q (%s) started this one", job, id, need.Pipeline), hint)
		return nil
	}
	jobs := up.project.Pipeline.Group(job)
	if one := up.project.Pipeline.Job(job); one != nil && len(jobs) == 0 {
		jobs = []*pipeline.Job{one}
	}
	if len(jobs) == 0 {
		r.warnOnce(need.Pipeline+"\x00"+job, fmt.Sprintf("the artifacts of %s are not available: the pipeline that started this one does not have the job", job), "")
		return nil
	}
	var out []foreign
	for _, from := range jobs {
		m, earlier, err := up.left(from)
		if earlier {
			m = r.kept(from.Name, m, err, r.project.Facts.Pipeline.Ref, "it has not run on this machine", fmt.Sprintf("run %s first", from.Name))
		}
		if m != nil {
			out = append(out, foreign{from.Name, m})
		}
	}
	return out
}

// left is what a job of this pipeline left: in this run, or else in the last one that there was.
func (r *runner) left(from *pipeline.Job) (m *store.Manifest, earlier bool, err error) {
	r.mu.Lock()
	m, ran := r.manifest[from]
	r.mu.Unlock()
	if ran || r.isPart(from) { // of which the latter did not run
		return m, false, nil
	}
	m, err = r.project.Store.Latest(from.Name)
	return m, true, err
}

// isPart reports whether a job is part of this run.
func (r *runner) isPart(j *pipeline.Job) bool {
	for _, other := range r.o.Jobs {
		if other == j {
			return true
		}
	}
	return false
}

// leftBy is what a job left that another one gets: in this run, or else in the last run that there was. It is nil when that is nothing.
func (r consumer) leftBy(from *pipeline.Job) *store.Manifest {
	m, earlier, err := r.left(from)
	if !earlier {
		return m
	}
	return r.kept(from.Name, m, err, r.project.Facts.Pipeline.Ref, "it has not run on this machine", "--needs runs what the job depends on first")
}

// kept says of what an earlier run of a job left that a job gets it, or why not; it is nil then. As on GitLab, the latest artifacts of a
// branch stay after their time.
func (r consumer) kept(name string, m *store.Manifest, err error, ref, missing, hint string) *store.Manifest {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.warnOnce(name, fmt.Sprintf("the artifacts of %s are not available: %s", name, missing), hint)
		return nil
	case err != nil:
		r.warnOnce(name, fmt.Sprintf("cannot read the artifacts of %s: %v", name, err), "")
		return nil
	}
	expired := !m.Expires.IsZero() && time.Now().After(m.Expires)
	if expired && m.Ref != ref {
		r.warnOnce(name, fmt.Sprintf("the artifacts of %s have expired: its last run here was for %s, on %s", name, m.Ref, moment(m.Finished)), hint)
		return nil
	}
	if (m.Archive != "" || len(m.Reports) > 0) && r.First(r.job.Name+"\x00"+name) {
		text := fmt.Sprintf("using the artifacts of %s from its run on %s", name, moment(m.Finished))
		if expired {
			text += "; they have expired, but the latest are kept"
		}
		r.Observer.Say(r.job.Name, text)
	}
	return m
}

func moment(t time.Time) string { return t.Local().Format(time.DateTime) }

// warnOnce warns of what another job left, once for all attempts of a job.
func (r consumer) warnOnce(about, text, hint string) {
	if r.First(r.job.Name + "\x00" + about) {
		r.Observer.Warn(r.job.Name, text, hint)
	}
}

// ownNeeds is the job without the needs of other pipelines: upstream supplies those, or says that they are not here.
func (a *attempt) ownNeeds() *pipeline.Job {
	if len(a.job.Upstream) == 0 {
		return a.job
	}
	out := *a.job
	out.Upstream = nil
	return &out
}

// upstream adds the artifacts of jobs of other pipelines.
func (a *attempt) upstream(all []compile.Dependency) ([]compile.Dependency, error) {
	found, err := a.consumer(a.job).foreignLeft()
	for _, f := range found {
		if file, ok := a.incoming(f.name, f.Manifest); ok {
			all = append(all, compile.Dependency{Name: f.name, File: file})
		}
	}
	return all, err
}
