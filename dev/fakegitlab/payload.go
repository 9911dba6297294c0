package fakegitlab

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rungci/rung/local/gitlab"
	api "github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
	"github.com/rungci/rung/steps/catalog/dotenv"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/frontend/gitlabci/compile"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
	"github.com/rungci/rung/steps/value"
)

const (
	// defaultDepth is how many commits a job gets when its project does not say.
	defaultDepth = 20
	// maxDotenv bounds a dotenv report, in bytes.
	maxDotenv = 16 << 20
	// shortSHA is how many digits CI_COMMIT_SHORT_SHA has.
	shortSHA = 8
)

// sender makes of jobs what runners are sent.
type sender struct {
	*Options
	keys *gitlab.Keys
}

// payload is what GitLab would send to a runner for the job: the inverse of manager/payload. The caller holds the lock.
//
// Source: lib/api/entities/ci/job_request and Gitlab::Ci::Build in GitLab.
func (s *sender) payload(j *Job, t *try) (*api.Job, error) {
	p := j.pipeline
	sending := gitlab.Sending{ID: t.id, Started: time.Now(), Manual: j.played && j.def.When == when.Manual, Secrets: s.Secrets, Own: s.own(p, t), Keys: s.keys}
	dependencies, err := p.dependencies(j, &sending)
	if err != nil {
		return nil, err
	}
	vars, err := sending.Variables(p.project, j.def)
	if err != nil {
		return nil, err
	}
	compiled, _, err := compile.FromPipeline(j.def, vars, compile.Options{
		CacheKeyFiles: p.project.Repository.CacheKeys(context.Background()), Protected: p.project.Protected(), KeepInputs: true,
	})
	if err != nil {
		return nil, err
	}
	timeout := int(gitlab.Timeout(j.def) / time.Second)
	out := &api.Job{
		ID: t.id, Token: t.token, AllowGitFetch: true, Info: s.info(j, t, vars), Git: s.gitInfo(p, t, vars), Runner: api.RunnerInfo{Timeout: timeout},
		Variables: variables(vars), Steps: steps(compiled, j.def.Keywords.Release, timeout), Dependencies: dependencies,
		Image: image(j.def.Keywords.Image), Inputs: inputs(j.def.Keywords.Inputs, gitlab.JobInputs(p.project, j.def)), Secrets: secrets(compiled.Secrets),
		Features: api.JobFeatures{TraceSections: true, TokenMaskPrefixes: []string{"glpat-"}, FailureReasons: failureReasons},
	}
	if compiled.PreGetSources != nil {
		out.Hooks = []api.Hook{{Name: "pre_get_sources_script", Script: compiled.PreGetSources}}
	}
	for _, service := range j.def.Keywords.Services {
		out.Services = append(out.Services, serviceOf(service))
	}
	for _, a := range compiled.Artifacts {
		out.Artifacts = append(out.Artifacts, artifact(a))
	}
	for _, c := range compiled.Cache {
		out.Cache = append(out.Cache, api.Cache{
			Key: c.Key, Untracked: c.Untracked, Paths: c.Paths, Policy: cmp.Or(c.Policy, "pull-push"), When: cmp.Or(c.When, "on_success"), FallbackKeys: c.FallbackKeys,
		})
	}
	if run := j.def.Keywords.Run; !run.IsNull() {
		text, err := json.Marshal(run)
		if err != nil {
			return nil, err
		}
		out.Run, out.Steps = string(text), nil
	}
	return out, nil
}

// failureReasons are those that GitLab lists.
var failureReasons = []string{
	"unknown_failure", "script_failure", "runner_system_failure", "job_execution_timeout", "image_pull_failure", "runner_configuration_error",
	"runner_external_dependency_failure", "runner_interrupted", "job_canceled",
}

// own are the predefined variables that are this server's, and not those of the GitLab that the project is on.
func (s *sender) own(p *Pipeline, t *try) []variable.Variable {
	id := strconv.FormatInt(t.id, 10)
	project := s.URL + "/-"
	out := []variable.Variable{
		{Name: "CI_JOB_URL", Value: project + "/jobs/" + id}, {Name: "CI_PIPELINE_URL", Value: project + "/pipelines/" + strconv.Itoa(p.ID)},
		{Name: "CI_COMMIT_SHA", Value: p.commit}, {Name: "CI_COMMIT_SHORT_SHA", Value: p.commit[:min(shortSHA, len(p.commit))]},
		{Name: "CI_RUNNER_ID", Value: "1"}, {Name: "CI_RUNNER_DESCRIPTION", Value: "a runner on this machine"}, {Name: "CI_RUNNER_TAGS", Value: "[]"},
	}
	out = append(out, s.server()...)
	for name, text := range map[string]string{
		"CI_JOB_TOKEN": t.token, "CI_REGISTRY_PASSWORD": t.token, "CI_DEPENDENCY_PROXY_PASSWORD": t.token, "CI_REPOSITORY_URL": s.cloneURL(t.token),
	} {
		out = append(out, variable.Variable{Name: name, Value: text, Masked: true})
	}
	return out
}

// server are the predefined variables that say where GitLab is.
func (s *sender) server() []variable.Variable {
	at, err := url.Parse(s.URL)
	if err != nil {
		return nil // nobody could have asked for the job
	}
	port := cmp.Or(at.Port(), map[string]string{"http": "80", "https": "443"}[at.Scheme])
	return []variable.Variable{
		{Name: "CI_SERVER_URL", Value: s.URL}, {Name: "CI_SERVER_FQDN", Value: at.Host}, {Name: "CI_SERVER_HOST", Value: at.Hostname()}, {Name: "CI_SERVER_PORT", Value: port},
		{Name: "CI_SERVER_PROTOCOL", Value: at.Scheme}, {Name: "CI_API_V4_URL", Value: s.URL + "/api/v4"}, {Name: "CI_API_GRAPHQL_URL", Value: s.URL + "/api/graphql"},
		{Name: "CI_PROJECT_URL", Value: s.URL + "/" + string(s.Repository.Project)},
	}
}

// accept refuses a dotenv report that GitLab cannot read. How many variables it may have is for the plan of a GitLab, so that there is no limit here.
func accept(a gitlabtest.Artifact) error {
	if a.Type != "dotenv" {
		return nil
	}
	_, err := dotenv.ParseReport(a.Data, dotenv.Limits{Bytes: maxDotenv})
	return err
}

// dependencies are the jobs whose artifacts a job gets. What their dotenv reports say becomes a part of what is sent.
func (p *Pipeline) dependencies(j *Job, s *gitlab.Sending) ([]api.Dependency, error) {
	var out []api.Dependency
	for _, def := range j.def.Artifacts {
		from := p.find(def)
		if from == nil || from.last() == nil {
			continue
		}
		t := from.last()
		d := api.Dependency{ID: t.id, Name: def.Name, Token: t.token}
		for _, a := range t.artifacts() {
			switch a.Type {
			case "archive", "":
				d.ArtifactsFile = &api.ArtifactsFile{Filename: a.Filename, Size: int64(len(a.Data))}
			case "dotenv":
				read, err := dotenv.ParseReport(a.Data, dotenv.Limits{Bytes: maxDotenv})
				if err != nil {
					return nil, fmt.Errorf("the dotenv report of the job %s: %w", def.Name, err)
				}
				for _, v := range read {
					s.Dotenv = append(s.Dotenv, variable.Variable{Name: v.Name, Value: v.Value})
				}
			}
		}
		out = append(out, d)
	}
	return out, nil
}

func (s *sender) info(j *Job, t *try, vars *variable.Collection) api.JobInfo {
	number := func(name string) int64 {
		text, _ := vars.Lookup(name)
		n, _ := strconv.ParseInt(text, 10, 64)
		return n
	}
	project := s.Repository.Project
	return api.JobInfo{
		ID: t.id, Name: j.def.Name, Stage: j.def.Stage, PipelineID: int64(j.pipeline.ID), ProjectID: number("CI_PROJECT_ID"), ProjectName: project.Name(),
		ProjectFullPath: string(project), NamespaceID: number("CI_PROJECT_NAMESPACE_ID"), UserID: number("GITLAB_USER_ID"), RunningOnInstanceRunners: "0",
	}
}

func (s *sender) gitInfo(p *Pipeline, t *try, vars *variable.Collection) api.GitInfo {
	protected := p.project.Protected()
	branch, tag := p.ref()
	before, _ := vars.Lookup("CI_COMMIT_BEFORE_SHA")
	out := api.GitInfo{
		RepoURL: s.cloneURL(t.token), ObjectFormat: cmp.Or(s.Repository.ObjectFormat, "sha1"), Ref: branch + tag, SHA: p.commit, BeforeSHA: before,
		RefType: "branch", Depth: defaultDepth, Protected: &protected,
	}
	own, all := fmt.Sprintf("+refs/heads/%s:refs/remotes/origin/%s", branch, branch), []string{"+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"}
	if tag != "" {
		out.RefType, own = "tag", fmt.Sprintf("+refs/tags/%s:refs/tags/%s", tag, tag)
	}
	if text, ok := vars.Lookup("GIT_DEPTH"); ok && text != "" {
		out.Depth, _ = strconv.Atoi(text)
	}
	out.Refspecs = []string{fmt.Sprintf("+refs/pipelines/%d:refs/pipelines/%d", p.ID, p.ID)}
	if out.Depth > 0 {
		out.Refspecs = append(out.Refspecs, own)
	} else {
		out.Refspecs = append(out.Refspecs, all...)
	}
	return out
}

// cloneURL is where a job gets its sources.
func (s *sender) cloneURL(token string) string {
	scheme, host, _ := strings.Cut(s.URL, "://")
	u := url.URL{Scheme: scheme, Host: host, User: url.UserPassword("gitlab-ci-token", token), Path: "/" + string(s.Repository.Project) + ".git"}
	return u.String()
}

func variables(vars *variable.Collection) []api.Variable {
	var out []api.Variable
	for _, v := range vars.Effective() {
		out = append(out, api.Variable{Key: v.Name, Value: v.Value, Public: !v.Private && !v.Masked, Masked: v.Masked, File: v.File, Raw: v.Raw})
	}
	return out
}

// steps are the job's scripts.
func steps(j *compile.Job, r *keyword.Release, timeout int) []api.Step {
	out := []api.Step{{Name: "script", Script: j.Script, Timeout: timeout, When: "on_success"}}
	if r != nil {
		out = append(out, api.Step{Name: "release", Script: []string{releaseScript(r)}, Timeout: timeout, When: "on_success"})
	}
	if len(j.AfterScript) > 0 {
		out = append(out, api.Step{Name: "after_script", Script: j.AfterScript, Timeout: timeout, When: "always", AllowFailure: true})
	}
	return out
}

// releaseScript calls the program that makes releases, which the job's image has to have.
//
// Source: Gitlab::Ci::Build::Releaser.
func releaseScript(r *keyword.Release) string {
	script := "release-cli create"
	for _, o := range []struct{ flag, value string }{
		{"name", r.Name}, {"description", r.Description}, {"tag-name", r.TagName}, {"tag-message", r.TagMessage}, {"ref", r.Ref}, {"released-at", r.ReleasedAt},
	} {
		if o.value != "" {
			script += fmt.Sprintf(" --%s %s", o.flag, quoted(o.value))
		}
	}
	for _, m := range r.Milestones {
		script += " --milestone " + quoted(m)
	}
	for _, l := range r.Links {
		link := map[string]string{"name": l.Name, "url": l.URL}
		maps.DeleteFunc(link, func(_, v string) bool { return v == "" })
		if l.FilePath != "" {
			link["filepath"] = l.FilePath
		}
		if l.LinkType != "" {
			link["link_type"] = l.LinkType
		}
		text, _ := json.Marshal(link) // texts always are JSON
		script += " --assets-link " + quoted(string(text))
	}
	return script
}

// quoted is a text in double quotes of a shell, in which variables are still variables.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`").Replace(text) + `"`
}

func image(i *keyword.Image) *api.Image {
	if i == nil || i.Name == "" {
		return nil
	}
	out := imageOf(i.Image)
	return &out
}

func imageOf(i containers.Image) api.Image {
	return api.Image{
		Name: i.Name, Entrypoint: i.Entrypoint, PullPolicies: i.PullPolicies,
		Options: api.ImageOptions{Docker: api.DockerOptions{Platform: i.Platform, User: api.UserID(i.User)}},
	}
}

func serviceOf(from keyword.Service) api.Image {
	out := imageOf(from.Image.Image)
	out.Alias, out.Command = strings.Join(from.Aliases, " "), from.Command
	for _, v := range from.Variables {
		out.Variables = append(out.Variables, api.Variable{Key: v.Name, Value: v.Value, Public: true, Raw: v.Raw})
	}
	return out
}

// reportNames are the names of reports whose files GitLab gives one.
//
// Source: Ci::JobArtifact, Enums::Ci::JobArtifact.default_file_names.
var reportNames = map[string]string{
	"accessibility": "gl-accessibility.json", "annotations": "gl-annotations.json", "api_fuzzing": "gl-api-fuzzing-report.json",
	"browser_performance": "browser-performance.json", "cluster_image_scanning": "gl-cluster-image-scanning-report.json",
	"cobertura": "cobertura-coverage.xml", "codequality": "gl-code-quality-report.json", "container_scanning": "gl-container-scanning-report.json",
	"coverage_fuzzing": "gl-coverage-fuzzing.json", "cyclonedx": "gl-sbom.cdx.json", "dast": "gl-dast-report.json",
	"dependency_scanning": "gl-dependency-scanning-report.json", "dotenv": ".env", "jacoco": "jacoco-coverage.xml", "junit": "junit.xml",
	"license_scanning": "gl-license-scanning-report.json", "load_performance": "load-performance.json", "lsif": "lsif.json", "metrics": "metrics.txt",
	"performance": "performance.json", "requirements": "requirements.json", "requirements_v2": "requirements_v2.json", "sast": "gl-sast-report.json",
	"secret_detection": "gl-secret-detection-report.json", "terraform": "tfplan.json",
}

func artifact(a compile.Artifact) api.Artifact {
	kind := cmp.Or(a.Type, "archive")
	return api.Artifact{
		Name: cmp.Or(a.Name, reportNames[kind]), Untracked: a.Untracked, Paths: a.Paths, Exclude: a.Exclude, When: cmp.Or(a.When, "on_success"),
		ExpireIn: a.ExpireIn, Type: kind, Format: cmp.Or(a.Format, compile.ReportFormat(kind)),
	}
}

func inputs(declared []keyword.Input, values map[string]value.Value) []api.Input {
	var out []api.Input
	for _, in := range declared {
		v := values[in.Name]
		out = append(out, api.Input{Key: in.Name, Value: api.InputValue{Type: cmp.Or(in.Type, "string"), Content: v.AppendJSON(nil)}})
	}
	return out
}

func secrets(from []compile.Secret) map[string]api.Secret {
	out := map[string]api.Secret{}
	for _, s := range from {
		file := s.File
		out[s.Name] = api.Secret{File: &file, Vault: &api.VaultSecret{
			Server: api.VaultServer{URL: s.Server, Namespace: s.Namespace, Auth: api.VaultAuth{
				Name: "jwt", Path: cmp.Or(s.AuthPath, "jwt"), Data: map[string]any{"jwt": s.JWT, "role": s.Role},
			}},
			Engine: api.VaultEngine{Name: s.Engine, Path: s.EnginePath}, Path: s.Path, Field: s.Field,
		}}
	}
	return out
}

// missing says what the jobs ask for that this server does not do, a sentence each.
func missing(project *gitlab.Project, jobs []*Job) []string {
	uses := func(what func(*pipeline.Job) bool) (names []string) {
		for _, j := range jobs {
			if what(j.def) && !slices.Contains(names, j.def.Name) {
				names = append(names, j.def.Name)
			}
		}
		return names
	}
	var out []string
	for _, m := range []struct {
		text string
		uses func(*pipeline.Job) bool
	}{
		{"the pipelines that jobs trigger do not run, and count as a success", func(j *pipeline.Job) bool { return j.Keywords.Trigger != nil }},
		{"artifacts of other pipelines and projects are not fetched", func(j *pipeline.Job) bool { return len(j.Upstream) > 0 }},
		{"environments are not recorded, nor stopped", func(j *pipeline.Job) bool { return j.Keywords.Environment != nil }},
		{"pages are an artifact and not published", func(j *pipeline.Job) bool { return j.Keywords.Pages != nil }},
		{"coverage is not read from logs", func(j *pipeline.Job) bool { return j.Keywords.Coverage != "" }},
		{"a release needs release-cli where the job runs, and a GitLab that it reaches", func(j *pipeline.Job) bool { return j.Keywords.Release != nil }},
		{"tags are not looked at: every runner gets every job", func(j *pipeline.Job) bool { return len(j.Keywords.Tags) > 0 }},
	} {
		if names := uses(m.uses); len(names) > 0 {
			out = append(out, m.text+" ("+strings.Join(names, ", ")+")")
		}
	}
	return append(out, project.Facts.Notes...)
}
