package repository_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/local/repository"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// newFeature makes a repository with a remote, whose branch feature left main.
func newFeature(t *testing.T) (g *repo, base string) {
	t.Helper()
	g = newGit(t)
	base = g.git("rev-parse", "HEAD")
	g.git("remote", "add", "origin", "https://gitlab.example.com/group/name.git")
	g.git("update-ref", "refs/remotes/origin/main", base)
	g.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
	g.git("checkout", "-q", "-b", "feature")
	g.write("b.txt", "b\n")
	g.commit("feature: b")
	return g, base
}

func TestEvents(t *testing.T) {
	t.Parallel()
	g, base := newFeature(t)
	g.git("tag", "-a", "-m", "the message", "v1")
	sha := g.git("rev-parse", "HEAD")
	zeros := strings.Repeat("0", 40)
	r := g.open()
	for name, c := range map[string]struct {
		event repository.Event
		want  when.Pipeline
		vars  map[string]string
	}{
		"nothing is said: a push": {
			repository.Event{}, when.Pipeline{Kind: when.Branch, Ref: "feature", Source: "push"},
			map[string]string{"CI_COMMIT_BRANCH": "feature", "CI_COMMIT_TAG": "unset", "CI_MERGE_REQUEST_IID": "unset", "CI_COMMIT_REF_PROTECTED": "false",
				"CI_COMMIT_BEFORE_SHA": zeros, "CI_COMMIT_SHA": sha, "CI_PIPELINE_TRIGGERED": "unset"},
		},
		"a push of another branch": {
			repository.Event{Source: "push", Ref: "main"}, when.Pipeline{Kind: when.Branch, Ref: "main", Source: "push"},
			map[string]string{"CI_COMMIT_BRANCH": "main", "CI_COMMIT_REF_PROTECTED": "true", "CI_COMMIT_BEFORE_SHA": base},
		},
		"a merge request": {
			repository.Event{Source: "merge_request"}, when.Pipeline{Kind: when.MergeRequest, Ref: "feature", Source: "merge_request_event"},
			map[string]string{"CI_COMMIT_BRANCH": "unset", "CI_COMMIT_REF_NAME": "feature", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
				"CI_MERGE_REQUEST_TARGET_BRANCH_PROTECTED": "true", "CI_MERGE_REQUEST_SOURCE_BRANCH_PROTECTED": "false",
				"CI_MERGE_REQUEST_DIFF_BASE_SHA": base, "CI_MERGE_REQUEST_TITLE": "feature: b", "CI_MERGE_REQUEST_EVENT_TYPE": "detached",
				"CI_COMMIT_BEFORE_SHA": zeros, "CI_OPEN_MERGE_REQUESTS": "group/name!1", "CI_MERGE_REQUEST_DRAFT": "false"},
		},
		"a merge request for another target": {
			repository.Event{Source: "merge_request_event", TargetBranch: "stable", Title: "Draft: x"},
			when.Pipeline{Kind: when.MergeRequest, Ref: "feature", Source: "merge_request_event"},
			map[string]string{"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "stable", "CI_MERGE_REQUEST_TARGET_BRANCH_PROTECTED": "false",
				"CI_MERGE_REQUEST_DIFF_BASE_SHA": "", "CI_MERGE_REQUEST_DRAFT": "true"},
		},
		"a tag": {
			repository.Event{Source: "tag"}, when.Pipeline{Kind: when.Tag, Ref: "v1", Source: "push"},
			map[string]string{"CI_COMMIT_TAG": "v1", "CI_COMMIT_BRANCH": "unset", "CI_COMMIT_TAG_MESSAGE": "the message", "CI_COMMIT_REF_NAME": "v1"},
		},
		"a schedule for a tag": {
			repository.Event{Source: "schedule", Tag: "v2", Schedule: "nightly"}, when.Pipeline{Kind: when.Tag, Ref: "v2", Source: "schedule"},
			map[string]string{"CI_COMMIT_TAG": "v2", "CI_COMMIT_TAG_MESSAGE": "", "CI_PIPELINE_SCHEDULE_DESCRIPTION": "nightly"},
		},
		"a trigger": {
			repository.Event{Source: "trigger"}, when.Pipeline{Kind: when.Branch, Ref: "feature", Source: "trigger"},
			map[string]string{"CI_PIPELINE_TRIGGERED": "true"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := facts(t, r, c.event)
			c.want.Project = "group/name"
			if diff := cmp.Diff(c.want, f.Pipeline); diff != "" {
				t.Error(diff)
			}
			c.vars["CI_PIPELINE_SOURCE"] = c.want.Source
			for name, want := range c.vars {
				if got := value(f.Variables, name); got != want {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
		})
	}
	t.Run("every source that we name is one, and no other", func(t *testing.T) {
		t.Parallel()
		for _, name := range repository.Sources {
			facts(t, r, repository.Event{Source: name})
		}
		if _, err := r.Facts(t.Context(), repository.Event{Source: "pull_request"}); err == nil || !strings.Contains(err.Error(), "merge_request") {
			t.Errorf("error = %v", err)
		}
	})
	t.Run("a tag event without a tag, and a tag of a merge request, are errors", func(t *testing.T) {
		t.Parallel()
		if _, err := newGit(t).open().Facts(t.Context(), repository.Event{Source: "tag"}); err == nil || !strings.Contains(err.Error(), "git tag") {
			t.Errorf("error = %v", err)
		}
		if _, err := r.Facts(t.Context(), repository.Event{Source: "merge_request", Tag: "v1"}); err == nil {
			t.Error("no error")
		}
	})
	t.Run("a child pipeline is for the same as its parent", func(t *testing.T) {
		t.Parallel()
		parent := facts(t, r, repository.Event{Source: "merge_request", PipelineID: 7})
		child := parent.Child(t.Context(), 8, "child.yml")
		if child.Pipeline.Source != "parent_pipeline" || child.Pipeline.Kind != when.MergeRequest || child.Base != parent.Base {
			t.Errorf("got %+v", child.Pipeline)
		}
		variables := slices.Concat(child.Variables, child.RunVariables(repository.Job{ID: 3}))
		for name, want := range map[string]string{"CI_PIPELINE_SOURCE": "parent_pipeline", "CI_CONFIG_PATH": "child.yml", "CI_PIPELINE_ID": "8",
			"CI_UPSTREAM_PIPELINE_ID": "7", "CI_MERGE_REQUEST_IID": "1"} {
			if got := value(variables, name); got != want {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
		if value(parent.Variables, "CI_PIPELINE_SOURCE") != "merge_request_event" {
			t.Error("the parent was changed")
		}
	})
}

func TestBase(t *testing.T) {
	t.Parallel()
	base := func(t *testing.T, g *repo, e repository.Event) string {
		t.Helper()
		return facts(t, g.open(), e).Base
	}
	t.Run("a push compares with what was pushed", func(t *testing.T) {
		t.Parallel()
		g, left := newFeature(t)
		pushed := g.git("rev-parse", "HEAD")
		g.git("update-ref", "refs/remotes/origin/feature", pushed)
		g.git("config", "branch.feature.remote", "origin")
		g.git("config", "branch.feature.merge", "refs/heads/feature")
		if got := base(t, g, repository.Event{}); got != left {
			t.Errorf("all is pushed: base = %s, want the commit before, %s", got, left)
		}
		g.commit("one")
		g.commit("two")
		if got := base(t, g, repository.Event{}); got != pushed {
			t.Errorf("two commits are not pushed: base = %s, want %s", got, pushed)
		}
		g.git("update-ref", "-d", "refs/remotes/origin/feature")
		if got := base(t, g, repository.Event{}); got != "" {
			t.Errorf("the remote branch is gone: base = %s", got)
		}
	})
	t.Run("the default branch compares with the commit before", func(t *testing.T) {
		t.Parallel()
		g := newGit(t)
		if got := base(t, g, repository.Event{}); got != "" {
			t.Errorf("of the first commit: base = %s", got)
		}
		before := g.git("rev-parse", "HEAD")
		g.commit("second")
		if got := base(t, g, repository.Event{}); got != before {
			t.Errorf("base = %s, want %s", got, before)
		}
	})
	t.Run("tags, schedules and new branches compare with nothing", func(t *testing.T) {
		t.Parallel()
		g, _ := newFeature(t)
		for _, e := range []repository.Event{{}, {Tag: "v1"}, {Source: "schedule"}, {Source: "web"}, {Source: "api"}, {Source: "pipeline"}} {
			f := facts(t, g.open(), e)
			answer, err := f.Changed(t.Context(), when.Changes{Paths: []string{"no such file"}})
			if err != nil || !answer.Yes || answer.Why == "" {
				t.Errorf("%+v: %+v, %v", e, answer, err)
			}
		}
	})
	t.Run("a commit that is named counts for every event", func(t *testing.T) {
		t.Parallel()
		g, left := newFeature(t)
		for _, e := range []repository.Event{{}, {Tag: "v1"}, {Source: "schedule"}, {Source: "merge_request"}} {
			for _, since := range []string{"HEAD~1", "main", left[:9], "origin/main"} {
				e.Since = since
				if got := base(t, g, e); got != left {
					t.Errorf("%+v: base = %s, want %s", e, got, left)
				}
			}
		}
		for _, since := range []string{"nowhere", "--all", "a..b", "HEAD:a.txt", "a\nb"} {
			if _, err := g.open().Facts(t.Context(), repository.Event{Since: since}); err == nil || !strings.Contains(err.Error(), "not a branch, tag or commit") {
				t.Errorf("%q: error = %v", since, err)
			}
		}
	})
	t.Run("a merge request compares with where it left the target of the remote", func(t *testing.T) {
		t.Parallel()
		g, left := newFeature(t)
		g.git("checkout", "-q", "main")
		g.write("other.txt", "")
		g.commit("on main, not pushed")
		g.git("checkout", "-q", "feature")
		g.git("merge", "-q", "--no-edit", "main")
		if got := base(t, g, repository.Event{Source: "merge_request"}); got != left {
			t.Errorf("base = %s, want %s", got, left)
		}
	})
}

func TestPredefinedVariables(t *testing.T) {
	t.Parallel()
	g, _ := newFeature(t)
	g.git("remote", "set-url", "origin", "https://gitlab.example.com:8443/Group/Sub/My.Project")
	at := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	f := facts(t, g.open(), repository.Event{Time: at, Token: "glcbt-secret", PipelineID: 12})
	job := repository.Job{
		Name: "build: [linux]", Group: "build", Stage: "test", Image: "alpine:3", Manual: true, ID: 34, Started: at, Timeout: 90 * time.Minute,
		Environment: &repository.Environment{Name: "review/x", URL: "https://x.example.com"},
	}
	runner := repository.Runner{Project: "/builds/p", Builds: "/builds", Temp: "/builds/p.tmp", Slot: 2, Version: "1.0", Tags: []string{"a"}}
	variables := slices.Concat(f.Variables, f.JobVariables(job), f.RunVariables(job), runner.Variables())
	for _, v := range variables {
		if strings.HasPrefix(v.Name, "CI_") && !variable.IsPredefined(v.Name) {
			t.Errorf("variable.IsPredefined does not know %s", v.Name)
		}
	}
	for name, want := range map[string]string{
		"CI": "true", "GITLAB_CI": "true", "RUNG_LOCAL": "true", "CI_SERVER": "yes", "CI_SERVER_URL": "https://gitlab.example.com:8443",
		"CI_SERVER_HOST": "gitlab.example.com", "CI_SERVER_FQDN": "gitlab.example.com:8443", "CI_SERVER_PORT": "8443", "CI_SERVER_PROTOCOL": "https",
		"CI_API_V4_URL": "https://gitlab.example.com:8443/api/v4", "CI_PROJECT_PATH": "Group/Sub/My.Project", "CI_PROJECT_NAME": "My.Project",
		"CI_PROJECT_NAMESPACE": "Group/Sub", "CI_PROJECT_ROOT_NAMESPACE": "Group", "CI_PROJECT_PATH_SLUG": "group-sub-my-project",
		"CI_PROJECT_URL": "https://gitlab.example.com:8443/Group/Sub/My.Project", "CI_REGISTRY_IMAGE": "registry.gitlab.example.com/group/sub/my.project",
		"CI_DEPENDENCY_PROXY_SERVER":                    "gitlab.example.com:8443",
		"CI_DEPENDENCY_PROXY_GROUP_IMAGE_PREFIX":        "gitlab.example.com:8443/group/dependency_proxy/containers",
		"CI_DEPENDENCY_PROXY_DIRECT_GROUP_IMAGE_PREFIX": "gitlab.example.com:8443/group/sub/dependency_proxy/containers",
		"CI_PAGES_DOMAIN":                               "pages.gitlab.example.com", "CI_PAGES_HOSTNAME": "group.pages.gitlab.example.com",
		"CI_PAGES_URL": "https://group.pages.gitlab.example.com/sub/my.project", "CI_DEFAULT_BRANCH": "main", "CI_CONFIG_PATH": ".gitlab-ci.yml",
		"CI_COMMIT_REF_SLUG": "feature", "CI_COMMIT_AUTHOR": "Jane Doe <jane@example.com>", "CI_COMMIT_TIMESTAMP": "2026-01-31T16:47:55+02:00",
		"CI_COMMIT_TITLE": "feature: b", "CI_COMMIT_MESSAGE": "feature: b\n", "CI_COMMIT_DESCRIPTION": "",
		"CI_PIPELINE_ID": "12", "CI_PIPELINE_IID": "12", "CI_PIPELINE_CREATED_AT": "2026-02-03T04:05:06Z",
		"CI_PIPELINE_URL":   "https://gitlab.example.com:8443/Group/Sub/My.Project/-/pipelines/12",
		"GITLAB_USER_LOGIN": "jane", "GITLAB_USER_NAME": "Jane Doe", "GITLAB_USER_EMAIL": "jane@example.com",
		"CI_JOB_NAME": "build: [linux]", "CI_JOB_NAME_SLUG": "build---linux", "CI_JOB_GROUP_NAME": "build", "CI_JOB_STAGE": "test",
		"CI_JOB_IMAGE": "alpine:3", "CI_JOB_MANUAL": "true", "CI_JOB_ID": "34", "CI_JOB_TIMEOUT": "5400", "CI_JOB_STARTED_AT": "2026-02-03T04:05:06Z",
		"CI_JOB_TOKEN": "glcbt-secret", "CI_REGISTRY_PASSWORD": "glcbt-secret", "CI_REGISTRY_USER": "gitlab-ci-token",
		"CI_REPOSITORY_URL":   "https://gitlab-ci-token:glcbt-secret@gitlab.example.com:8443/Group/Sub/My.Project.git",
		"CI_ENVIRONMENT_NAME": "review/x", "CI_ENVIRONMENT_TIER": "development", "CI_ENVIRONMENT_ACTION": "start", "CI_ENVIRONMENT_URL": "https://x.example.com",
		"CI_PROJECT_DIR": "/builds/p", "CI_BUILDS_DIR": "/builds", "RUNNER_TEMP_PROJECT_DIR": "/builds/p.tmp", "CI_CONCURRENT_ID": "2",
		"CI_RUNNER_TAGS": `["a"]`, "CI_DISPOSABLE_ENVIRONMENT": "true", "CI_SHARED_ENVIRONMENT": "unset", "CI_TEMPLATE_REGISTRY_HOST": "registry.gitlab.com",
	} {
		if got := value(variables, name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	seen := map[string]bool{}
	for _, v := range variables {
		if seen[v.Name] {
			t.Errorf("%s is defined twice", v.Name)
		}
		seen[v.Name] = true
		if strings.Contains(v.Value, "glcbt-secret") && !v.Masked {
			t.Errorf("%s holds the token and is not masked", v.Name)
		}
	}
	t.Run("what GitLab tells jobs only is not told to rules", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"CI_JOB_ID", "CI_JOB_TOKEN", "CI_PIPELINE_ID", "CI_PIPELINE_URL", "CI_REGISTRY_PASSWORD", "CI_REPOSITORY_URL", "CI_PAGES_URL", "CI_PROJECT_DIR"} {
			if got := value(slices.Concat(f.Variables, f.JobVariables(job)), name); got != "unset" {
				t.Errorf("%s = %q", name, got)
			}
		}
	})
	t.Run("a token is made where none is given, another one each time", func(t *testing.T) {
		t.Parallel()
		r := g.open()
		a, b := facts(t, r, repository.Event{}).Token, facts(t, r, repository.Event{}).Token
		if a == b || !strings.HasPrefix(a, "glcbt-") || len(a) < 40 {
			t.Errorf("tokens %q and %q", a, b)
		}
	})
	t.Run("a project that is called like its pages' host is the root of them", func(t *testing.T) {
		t.Parallel()
		g := newGit(t)
		g.git("remote", "add", "origin", "git@gitlab.com:group/group.gitlab.io.git")
		f := facts(t, g.open(), repository.Event{})
		if got := value(f.RunVariables(repository.Job{PagesPrefix: "/mr-1"}), "CI_PAGES_URL"); got != "https://group.gitlab.io/mr-1" {
			t.Errorf("CI_PAGES_URL = %s", got)
		}
	})
	t.Run("a long title makes the whole message the description", func(t *testing.T) {
		t.Parallel()
		g := newGit(t)
		message := strings.Repeat("x", 100) + "\n\nrest"
		g.commit(message)
		if got := value(facts(t, g.open(), repository.Event{}).Variables, "CI_COMMIT_DESCRIPTION"); got != message+"\n" {
			t.Errorf("CI_COMMIT_DESCRIPTION = %q", got)
		}
	})
}
