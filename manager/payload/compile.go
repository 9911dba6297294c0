package payload

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/compile"
)

// Where is the place that a job got.
type Where struct {
	Folders
	// Caches is the folder of the environment with the caches of the job's project. CacheStore is where they are instead, unless it is nil.
	Caches     string
	CacheStore compile.CacheStore
}

// Compile makes steps of the job for its place. The error is one of the job's definition.
func (j *Job) Compile(w Where) (*compile.Compiled, error) {
	from := j.gitlab
	out := &compile.Job{
		Name: from.Info.Name, Stage: from.Info.Stage, Shell: j.shell(), Variables: j.variables(&w.Folders), Project: w.Project, Temp: w.Temp,
		GitLab: j.runner.API, Source: j.source(w), Timeout: j.Timeout(), Steps: j.steps,
		PreGetSources: j.hook("pre_get_sources_script", j.runner.PreGetSources), PostGetSources: j.hook("post_get_sources_script", j.runner.PostGetSources),
	}
	for _, s := range from.Steps {
		switch s.Name {
		case "script":
			out.Script = slices.Concat(script(j.runner.PreBuild), s.Script, script(j.runner.PostBuild))
		case "release":
			out.ReleaseScript = s.Script
		case "after_script":
			out.AfterScript = s.Script
		default:
			return nil, wrong("", "GitLab sent a step %q, which this runner does not know", s.Name)
		}
	}
	j.caches(out, w)
	j.artifacts(out)
	if err := j.vault(out); err != nil {
		return nil, err
	}
	if len(j.inputs) > 0 {
		if err := out.Interpolate(j.inputs); err != nil {
			return nil, wrong("", "%v", err)
		}
	}
	compiled, err := compile.Compile(out)
	var known *event.Error
	if err != nil && !errors.As(err, &known) {
		return nil, wrong("", "%v", err)
	}
	return compiled, err
}

// shell is the configuration's, unless that is the default.
func (j *Job) shell() string {
	if j.runner.Shell == "bash" {
		return "" // or sh where there is no bash
	}
	return j.runner.Shell
}

func script(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// hook is the script of the configuration and that of the job.
func (j *Job) hook(name, own string) []string {
	out := script(own)
	for _, h := range j.gitlab.Hooks {
		if h.Name == name {
			out = append(out, h.Script...)
		}
	}
	return out
}

func (j *Job) source(w Where) compile.Source {
	g := j.gitlab.Git
	return compile.Source{
		URL: j.repository(), Ref: g.Ref, SHA: g.SHA, Refspecs: g.Refspecs, ObjectFormat: g.ObjectFormat, Depth: g.Depth,
		AllowFetch: j.gitlab.AllowGitFetch,
		KeepConfig: j.runner.Sources.KeepConfig, Trusted: j.runner.Sources.Trusted, Timeout: j.runner.Sources.Timeout,
	}
}

// repository is the address of the project, with the scheme and host of the configuration's clone_url if there is one.
func (j *Job) repository() string {
	address, err := url.Parse(j.gitlab.Git.RepoURL)
	base, wrong := url.Parse(j.runner.CloneURL)
	if err != nil || wrong != nil || base.Host == "" {
		return j.gitlab.Git.RepoURL
	}
	address.Scheme, address.Host = base.Scheme, base.Host
	if path := strings.TrimRight(base.Path, "/"); path != "" {
		address.Path = path + "/" + j.Variable("CI_PROJECT_PATH") + ".git"
	}
	return address.String()
}

func (j *Job) caches(out *compile.Job, w Where) {
	for _, c := range j.gitlab.Cache {
		out.Cache = append(out.Cache, compile.Cache{
			Key: c.Key, FallbackKeys: c.FallbackKeys, Paths: c.Paths, Untracked: c.Untracked, Policy: c.Policy, When: c.When, Location: w.Caches, Store: w.CacheStore,
		})
	}
}

// artifacts are what the job sends to GitLab, and what it gets from there.
func (j *Job) artifacts(out *compile.Job) {
	for _, a := range j.gitlab.Artifacts {
		out.Artifacts = append(out.Artifacts, compile.Artifact{
			Name: a.Name, Paths: a.Paths, Exclude: a.Exclude, Untracked: a.Untracked, Type: a.Type, Format: a.Format, When: a.When, ExpireIn: a.ExpireIn,
			URL: j.archive(j.gitlab.ID), Token: j.gitlab.Token, Timeout: j.runner.Uploads.Timeout, ResponseTimeout: j.runner.Uploads.ResponseTimeout,
		})
	}
	for _, d := range j.gitlab.Dependencies {
		if d.ArtifactsFile == nil || d.ArtifactsFile.Filename == "" {
			continue
		}
		out.Dependencies = append(out.Dependencies, compile.Dependency{Name: d.Name, URL: j.archive(d.ID), Token: d.Token})
	}
}

// archive is the address of a job's artifacts.
func (j *Job) archive(id int64) string {
	return j.runner.API + "/jobs/" + strconv.FormatInt(id, 10) + "/artifacts"
}

// vault are the secrets that are read before the script.
func (j *Job) vault(out *compile.Job) error {
	for _, name := range slices.Sorted(maps.Keys(j.gitlab.Secrets)) {
		s := j.gitlab.Secrets[name]
		v := s.Vault
		if v.Server.Auth.Name != "jwt" {
			return wrong("use the method jwt", "the secret %s logs in to its vault by %q, which this runner does not know", name, v.Server.Auth.Name)
		}
		out.Secrets = append(out.Secrets, compile.Secret{
			Name: name, File: s.File == nil || *s.File, Server: v.Server.URL, Namespace: v.Server.Namespace,
			JWT: text(v.Server.Auth, "jwt"), AuthPath: v.Server.Auth.Path, Role: text(v.Server.Auth, "role"),
			Engine: v.Engine.Name, EnginePath: v.Engine.Path, Path: v.Path, Field: v.Field,
		})
	}
	return nil
}

func text(auth gitlab.VaultAuth, name string) string {
	s, _ := auth.Data[name].(string)
	return s
}
