package repository

import (
	"context"
	"hash/fnv"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// ServerVersion is the version of GitLab whose behaviour a local run follows: CI_SERVER_VERSION.
const ServerVersion = "19.4.0"

// LocalVariable is set to true in jobs of local runs, so that scripts can tell.
const LocalVariable = "RUNG_LOCAL"

// maxMergeRequestText is how much of a description CI_MERGE_REQUEST_DESCRIPTION holds, in characters.
const maxMergeRequestText = 2700

// templateRegistry serves the images of GitLab's templates.
const templateRegistry = "registry.gitlab.com"

// set collects variables.
type set []variable.Variable

func (s *set) add(pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		*s = append(*s, variable.Variable{Name: pairs[i], Value: pairs[i+1]})
	}
}

func (s *set) secret(name, value string) {
	*s = append(*s, variable.Variable{Name: name, Value: value, Masked: true})
}

// truth is how a predefined variable says yes or no.
func truth(yes bool) string { return strconv.FormatBool(yes) }

// iso is a time as predefined variables have it.
func iso(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// numberOf makes an ID of a path: the same for the same path everywhere, and one that no person takes for a small made-up number.
func numberOf(path string) string {
	h := fnv.New32a()
	h.Write([]byte(path))
	return strconv.Itoa(int(h.Sum32() & 0x7fffffff))
}

// predefined makes the variables that are there before there are jobs.
func (f *Facts) predefined(ctx context.Context) []variable.Variable {
	s := make(set, 0, 96)
	s.add("CI", "true", "GITLAB_CI", "true", LocalVariable, "true")
	f.serverVariables(&s)
	f.projectVariables(&s)
	f.commitVariables(ctx, &s)
	f.pipelineVariables(&s)
	if f.Pipeline.Kind == when.MergeRequest {
		f.mergeRequestVariables(&s)
	}
	user := f.repository.User
	s.add("GITLAB_USER_ID", "1", "GITLAB_USER_LOGIN", user.Login, "GITLAB_USER_NAME", user.Name, "GITLAB_USER_EMAIL", user.Email)
	return s
}

func (f *Facts) serverVariables(s *set) {
	server := f.repository.Server
	version := strings.Split(ServerVersion, ".")
	s.add(
		"CI_SERVER_URL", server.URL(), "CI_SERVER_FQDN", server.FQDN(), "CI_SERVER_HOST", server.Host, "CI_SERVER_PORT", server.Port,
		"CI_SERVER_PROTOCOL", server.Protocol, "CI_SERVER_SHELL_SSH_HOST", server.SSHHost, "CI_SERVER_SHELL_SSH_PORT", server.SSHPort,
		"CI_SERVER_NAME", "GitLab", "CI_SERVER_VERSION", ServerVersion, "CI_SERVER_VERSION_MAJOR", version[0],
		"CI_SERVER_VERSION_MINOR", version[1], "CI_SERVER_VERSION_PATCH", version[2], "CI_SERVER_REVISION", "local",
		"CI_API_V4_URL", server.URL()+"/api/v4", "CI_API_GRAPHQL_URL", server.URL()+"/api/graphql",
		"CI_TEMPLATE_REGISTRY_HOST", templateRegistry, "GITLAB_FEATURES", "",
	)
}

// registry is where a server keeps images. GitLab says so; here it is what most servers have.
func (s Server) registry() string { return "registry." + s.Host }

// pages is the domain of a server's pages.
func (s Server) pages() string {
	if s.Host == "gitlab.com" {
		return "gitlab.io"
	}
	return "pages." + s.Host
}

func (f *Facts) projectVariables(s *set) {
	server, project := f.repository.Server, f.repository.Project
	proxy := server.Host + ":" + server.Port
	group := strings.ToLower(project.Namespace())
	root, _, _ := strings.Cut(group, "/")
	s.add(
		"CI_PROJECT_ID", numberOf(string(project)), "CI_PROJECT_NAME", project.Name(), "CI_PROJECT_TITLE", project.Name(),
		"CI_PROJECT_DESCRIPTION", "", "CI_PROJECT_PATH", string(project), "CI_PROJECT_PATH_SLUG", Slug(string(project)),
		"CI_PROJECT_NAMESPACE", project.Namespace(), "CI_PROJECT_NAMESPACE_SLUG", Slug(project.Namespace()),
		"CI_PROJECT_NAMESPACE_ID", numberOf(project.Namespace()), "CI_PROJECT_ROOT_NAMESPACE", project.RootNamespace(),
		"CI_PROJECT_URL", f.projectURL(), "CI_PROJECT_VISIBILITY", "private", "CI_PROJECT_REPOSITORY_LANGUAGES", "",
		"CI_PROJECT_CLASSIFICATION_LABEL", "", "CI_DEFAULT_BRANCH", f.repository.DefaultBranch,
		"CI_DEFAULT_BRANCH_SLUG", Slug(f.repository.DefaultBranch), "CI_CONFIG_PATH", orElse(f.event.ConfigPath, ".gitlab-ci.yml"),
		"CI_PAGES_DOMAIN", server.pages(), "CI_REGISTRY", server.registry(),
		"CI_REGISTRY_IMAGE", server.registry()+"/"+strings.ToLower(string(project)),
		"CI_DEPENDENCY_PROXY_SERVER", proxy, "CI_DEPENDENCY_PROXY_USER", tokenUser,
		"CI_DEPENDENCY_PROXY_GROUP_IMAGE_PREFIX", path.Join(proxy, root, "dependency_proxy/containers"),
		"CI_DEPENDENCY_PROXY_DIRECT_GROUP_IMAGE_PREFIX", path.Join(proxy, group, "dependency_proxy/containers"),
	)
	s.secret("CI_DEPENDENCY_PROXY_PASSWORD", f.Token)
}

func (f *Facts) projectURL() string {
	return f.repository.Server.URL() + "/" + string(f.repository.Project)
}

func (f *Facts) commitVariables(ctx context.Context, s *set) {
	r, p := f.repository, f.Pipeline
	c := r.Commit
	if c == nil {
		c = &Commit{SHA: r.zeros(), ShortSHA: r.zeros()[:shortSHA]}
	}
	before := r.zeros()
	if p.Kind == when.Branch && f.Base != "" && f.event.Since == "" {
		before = f.Base
	}
	s.add(
		"CI_COMMIT_SHA", c.SHA, "CI_COMMIT_SHORT_SHA", c.ShortSHA, "CI_COMMIT_BEFORE_SHA", before, "CI_COMMIT_REF_NAME", p.Ref,
		"CI_COMMIT_REF_SLUG", Slug(p.Ref), "CI_COMMIT_REF_PROTECTED", truth(f.protected), "CI_COMMIT_AUTHOR", c.Author,
		"CI_COMMIT_TITLE", c.Title, "CI_COMMIT_MESSAGE", c.Message, "CI_COMMIT_DESCRIPTION", c.Description,
		"CI_COMMIT_TIMESTAMP", timestamp(c.Timestamp),
	)
	switch p.Kind {
	case when.Branch:
		s.add("CI_COMMIT_BRANCH", p.Ref)
	case when.Tag:
		s.add("CI_COMMIT_TAG", p.Ref, "CI_COMMIT_TAG_MESSAGE", f.tagMessage(ctx))
	}
}

// timestamp is the time of a commit, in the zone that it was made in.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339)
}

// tagMessage is the message of a tag, if it has one of its own.
func (f *Facts) tagMessage(ctx context.Context) string {
	message, _ := f.repository.question(ctx, "for-each-ref", "--format=%(if:equals=tag)%(objecttype)%(then)%(contents)%(end)", "refs/tags/"+f.Pipeline.Ref)
	return strings.ToValidUTF8(strings.TrimRight(message, "\n"), "\uFFFD")
}

func (f *Facts) pipelineVariables(s *set) {
	s.add("CI_PIPELINE_IID", strconv.Itoa(f.PipelineID), "CI_PIPELINE_SOURCE", f.Pipeline.Source, "CI_PIPELINE_CREATED_AT", iso(f.event.Time))
	switch f.Pipeline.Source {
	case "trigger":
		s.add("CI_PIPELINE_TRIGGERED", "true")
	case "schedule":
		s.add("CI_PIPELINE_SCHEDULE_DESCRIPTION", f.event.Schedule)
	}
}

func (f *Facts) mergeRequestVariables(s *set) {
	r, target := f.repository, f.event.TargetBranch
	title, description := f.event.Title, ""
	if c := r.Commit; c != nil {
		title, description = orElse(title, c.Title), strings.TrimSpace(c.Description)
	}
	runes := []rune(description)
	truncated := len(runes) > maxMergeRequestText
	if truncated {
		description = string(runes[:maxMergeRequestText])
	}
	id, full, url := numberOf(string(r.Project)), string(r.Project), f.projectURL()
	s.add(
		"CI_MERGE_REQUEST_ID", "1", "CI_MERGE_REQUEST_IID", "1", "CI_MERGE_REQUEST_REF_PATH", "refs/merge-requests/1/head",
		"CI_MERGE_REQUEST_EVENT_TYPE", "detached", "CI_MERGE_REQUEST_TITLE", title, "CI_MERGE_REQUEST_DESCRIPTION", description,
		"CI_MERGE_REQUEST_DESCRIPTION_IS_TRUNCATED", truth(truncated), "CI_MERGE_REQUEST_DRAFT", truth(isDraft(title)),
		"CI_MERGE_REQUEST_PROJECT_ID", id, "CI_MERGE_REQUEST_PROJECT_PATH", full, "CI_MERGE_REQUEST_PROJECT_URL", url,
		"CI_MERGE_REQUEST_SOURCE_PROJECT_ID", id, "CI_MERGE_REQUEST_SOURCE_PROJECT_PATH", full,
		"CI_MERGE_REQUEST_SOURCE_PROJECT_URL", url, "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", f.Pipeline.Ref,
		"CI_MERGE_REQUEST_SOURCE_BRANCH_PROTECTED", truth(f.protected), "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", "",
		"CI_MERGE_REQUEST_TARGET_BRANCH_NAME", target, "CI_MERGE_REQUEST_TARGET_BRANCH_PROTECTED", truth(r.Protected(target)),
		"CI_MERGE_REQUEST_TARGET_BRANCH_SHA", "", "CI_MERGE_REQUEST_DIFF_BASE_SHA", f.Base, "CI_MERGE_REQUEST_DIFF_ID", "1",
		"CI_MERGE_REQUEST_SQUASH_ON_MERGE", "false", "CI_OPEN_MERGE_REQUESTS", full+"!1",
	)
}

// isDraft reports whether a title says that a merge request is not ready.
func isDraft(title string) bool {
	title = strings.ToLower(title)
	return strings.HasPrefix(title, "draft:") || strings.HasPrefix(title, "[draft]") || strings.HasPrefix(title, "(draft)")
}
