package repository

import (
	"encoding/json"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

// tokenUser is the user that GitLab takes the token of a job as the password of.
const tokenUser = "gitlab-ci-token"

// Job is a job, as far as its predefined variables need it.
type Job struct {
	Name, Stage string
	// Group is the name in the file, where several jobs are made of one; "" is Name.
	Group string
	// Image is the name of the job's image; "" when it has none.
	Image string
	// Environment is where the job deploys to; nil when it does not.
	Environment *Environment
	// Manual says that a person started it.
	Manual bool

	// What follows is known when the job runs.

	// ID is unique among the jobs of the run.
	ID int
	// PipelineName is that of `workflow: name`.
	PipelineName string
	Started      time.Time
	Timeout      time.Duration // 0 is none
	// PagesPrefix is the `path_prefix` of `pages:`.
	PagesPrefix string
}

// Environment is a job's `environment:`.
type Environment struct {
	Name, URL string
	Action    string // "" is start
	Tier      string // "" is guessed from the name
}

// JobVariables are those of one job that rules see. The environment's texts may still hold variables when rules are decided.
func (f *Facts) JobVariables(j Job) []variable.Variable {
	s := make(set, 0, 12)
	s.add("CI_JOB_NAME", j.Name, "CI_JOB_NAME_SLUG", Slug(j.Name), "CI_JOB_GROUP_NAME", orElse(j.Group, j.Name), "CI_JOB_STAGE", j.Stage)
	if j.Image != "" {
		s.add("CI_JOB_IMAGE", j.Image)
	}
	if j.Manual {
		s.add("CI_JOB_MANUAL", "true")
	}
	if e := j.Environment; e != nil {
		s = append(s, e.Variables()...)
	}
	return s
}

// Variables are those of a job with the environment.
func (e *Environment) Variables() []variable.Variable {
	s := make(set, 0, 5)
	s.add("CI_ENVIRONMENT_NAME", e.Name, "CI_ENVIRONMENT_SLUG", EnvironmentSlug(e.Name), "CI_ENVIRONMENT_ACTION", orElse(e.Action, "start"),
		"CI_ENVIRONMENT_TIER", orElse(e.Tier, EnvironmentTier(e.Name)))
	if e.URL != "" {
		s.add("CI_ENVIRONMENT_URL", e.URL)
	}
	return s
}

// RunVariables are those that a job gets when it runs, beside JobVariables: rules do not see them.
func (f *Facts) RunVariables(j Job) []variable.Variable {
	server, project := f.repository.Server, f.repository.Project
	id, pipeline := strconv.Itoa(j.ID), strconv.Itoa(f.PipelineID)
	s := make(set, 0, 20)
	s.add("CI_JOB_ID", id, "CI_JOB_URL", f.projectURL()+"/-/jobs/"+id, "CI_PIPELINE_ID", pipeline,
		"CI_PIPELINE_URL", f.projectURL()+"/-/pipelines/"+pipeline, "CI_PIPELINE_NAME", j.PipelineName, "CI_REGISTRY_USER", tokenUser)
	if !j.Started.IsZero() {
		s.add("CI_JOB_STARTED_AT", iso(j.Started))
	}
	if j.Timeout > 0 {
		s.add("CI_JOB_TIMEOUT", strconv.Itoa(int(j.Timeout/time.Second)))
	}
	s.secret("CI_JOB_TOKEN", f.Token)
	s.secret("CI_REGISTRY_PASSWORD", f.Token)
	s.secret("CI_REPOSITORY_URL", server.Protocol+"://"+tokenUser+":"+f.Token+"@"+server.FQDN()+"/"+string(project)+".git")
	host, url := f.pagesAddress(j.PagesPrefix)
	s.add("CI_PAGES_HOSTNAME", host, "CI_PAGES_URL", url)
	if f.parent != nil {
		s.add("CI_UPSTREAM_PIPELINE_ID", strconv.Itoa(f.parent.PipelineID), "CI_UPSTREAM_PROJECT_ID", numberOf(string(project)))
	}
	return s
}

// pagesAddress is where the project's pages would be: a project that is called like its group's host is the root of that host.
func (f *Facts) pagesAddress(prefix string) (host, url string) {
	server, project := f.repository.Server, f.repository.Project
	root := strings.ToLower(project.RootNamespace())
	host = server.pages()
	if root != "" {
		host = root + "." + host
	}
	url = server.Protocol + "://" + host
	if path := strings.Trim(strings.ToLower(strings.TrimPrefix(string(project), project.RootNamespace())), "/"); path != host {
		url += "/" + path
	}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		url += "/" + prefix
	}
	return host, url
}

// Runner is what a runner would say of itself, and of where a job is.
type Runner struct {
	// Project is the folder of the job's files, Builds the one above it, and Temp the one beside it for files of the job, as the
	// job sees them.
	Project, Builds, Temp string
	// Slot tells jobs apart that run at the same time, from 0 on.
	Slot int
	// Shared says that the environment outlives the job, as a host does; else it is made for the job and removed.
	Shared bool
	// Version and Revision are this program's.
	Version, Revision string
	Tags              []string
}

// Variables are the predefined ones that come from the runner.
func (r Runner) Variables() []variable.Variable {
	tags := r.Tags
	if tags == nil {
		tags = []string{}
	}
	list, _ := json.Marshal(tags) // strings always are JSON
	slot := strconv.Itoa(r.Slot)
	s := make(set, 0, 20)
	s.add("CI_PROJECT_DIR", r.Project, "CI_BUILDS_DIR", r.Builds, "RUNNER_TEMP_PROJECT_DIR", r.Temp, "CI_SERVER", "yes",
		"CI_CONCURRENT_ID", slot, "CI_CONCURRENT_PROJECT_ID", slot, "CI_RUNNER_ID", "1", "CI_RUNNER_DESCRIPTION", "step-runner local",
		"CI_RUNNER_SHORT_TOKEN", "local", "CI_RUNNER_TAGS", string(list), "CI_RUNNER_VERSION", r.Version, "CI_RUNNER_REVISION", r.Revision,
		"CI_RUNNER_EXECUTABLE_ARCH", runtime.GOOS+"/"+runtime.GOARCH, "CI_JOB_STATUS", "running")
	if r.Shared {
		s.add("CI_SHARED_ENVIRONMENT", "true")
	} else {
		s.add("CI_DISPOSABLE_ENVIRONMENT", "true")
	}
	return s
}
