package github

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/value"
)

// project is a Git repository with a workflow, of octo/demo, on the branch topic; the commit has the tag v1.
func project(t *testing.T, text string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("needs git: %v", err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, filepath.FromSlash(Folder), "ci.yml")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"remote", "add", "origin", "git@github.com:octo/demo.git"}, {"add", "-A"}, {"commit", "-qm", "first"},
		{"update-ref", "refs/remotes/origin/main", "HEAD"}, {"symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"},
		{"checkout", "-qb", "topic"}, {"commit", "-qm", "second\n\nmore", "--allow-empty"}, {"tag", "v1"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = dir, environment(dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

func environment(dir string) []string {
	return append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") }),
		"HOME="+dir, "XDG_CONFIG_HOME=", "USER=jane", "LOGNAME=jane", "USERNAME=jane", "GIT_AUTHOR_NAME=Jane", "GIT_AUTHOR_EMAIL=j@example.com", "GIT_COMMITTER_NAME=Jane", "GIT_COMMITTER_EMAIL=j@example.com")
}

const anyEvent = "on: [push, pull_request, pull_request_target, release, workflow_dispatch, merge_group, issues]\njobs: {a: {runs-on: x, steps: [{run: 'true'}]}}\n"

func openWith(t *testing.T, dir string, e Event) (*Project, error) {
	t.Helper()
	return Open(context.Background(), Options{Dir: dir, File: filepath.Join(dir, filepath.FromSlash(Folder), "ci.yml"), Env: environment(dir), Event: e})
}

// at follows a path into a value: "pull_request.head.ref", "commits.0.id".
func at(v value.Value, path string) value.Value {
	for name := range strings.SplitSeq(path, ".") {
		if name == "0" && len(v.Items()) > 0 {
			v = v.Items()[0]
			continue
		}
		v = v.Fields()[name]
	}
	return v
}

func TestWhatAnEventSays(t *testing.T) {
	dir := project(t, anyEvent)
	payload := filepath.Join(dir, "event.json")
	if err := os.WriteFile(payload, []byte(`{"action": "labeled", "pull_request": {"number": 7, "head": {"sha": "abc", "ref": "theirs"}, "user": null}, "label": {"name": "x"}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		event Event
		want  map[string]string // of github
	}{
		{"a push", Event{}, map[string]string{
			"event_name": "push", "ref": "refs/heads/topic", "ref_name": "topic", "ref_type": "branch", "ref_protected": "false", "head_ref": "", "base_ref": "",
			"repository": "octo/demo", "repository_owner": "octo", "repositoryUrl": "git://github.com/octo/demo.git", "server_url": "https://github.com",
			"api_url": "https://api.github.com", "graphql_url": "https://api.github.com/graphql", "actor": "jane", "run_attempt": "1",
			"workflow": ".github/workflows/ci.yml", "workflow_ref": "octo/demo/.github/workflows/ci.yml@refs/heads/topic",
			"event.ref": "refs/heads/topic", "event.before": noCommit, "event.created": "true", "event.head_commit.message": "second\n\nmore",
			"event.head_commit.author.email": "j@example.com", "event.commits.0.distinct": "true", "event.pusher.name": "jane",
			"event.repository.full_name": "octo/demo", "event.repository.owner.login": "octo", "event.repository.default_branch": "main",
			"event.repository.clone_url": "https://github.com/octo/demo.git", "event.repository.ssh_url": "git@github.com:octo/demo.git", "event.sender.login": "jane",
		}},
		{"a push of the default branch", Event{Branch: "main"}, map[string]string{"ref_protected": "true", "ref": "refs/heads/main", "event.created": "false"}},
		{"a tag", Event{Name: "tag"}, map[string]string{"event_name": "push", "ref": "refs/tags/v1", "ref_type": "tag", "ref_name": "v1", "event.ref": "refs/tags/v1"}},
		{"a pull request", Event{Name: "pull_request"}, map[string]string{
			"ref": "refs/pull/1/merge", "ref_name": "1/merge", "head_ref": "topic", "base_ref": "main", "event.action": "opened", "event.number": "1",
			"event.pull_request.head.ref": "topic", "event.pull_request.base.ref": "main", "event.pull_request.title": "second", "event.pull_request.head.label": "octo:topic",
		}},
		{"one that its target decides over", Event{Name: "pull_request_target"}, map[string]string{"ref": "refs/heads/main", "head_ref": "topic"}},
		{"a payload goes over what is made", Event{Name: "pull_request", File: payload}, map[string]string{
			"ref": "refs/pull/7/merge", "sha": "abc", "head_ref": "theirs", "base_ref": "main", "event.action": "labeled", "event.label.name": "x",
			"event.pull_request.head.ref": "theirs", "event.pull_request.state": "open", "event.pull_request.user": "", "event.repository.full_name": "octo/demo",
		}},
		{"a release", Event{Name: "release"}, map[string]string{"ref": "refs/tags/v1", "event.action": "published", "event.release.tag_name": "v1"}},
		{"a merge group", Event{Name: "merge_group"}, map[string]string{"event.action": "checks_requested", "event.merge_group.base_ref": "refs/heads/main"}},
		{"another event", Event{Name: "issues"}, map[string]string{"event_name": "issues", "event.repository.name": "demo"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := openWith(t, dir, test.event)
			if err != nil {
				t.Fatal(err)
			}
			github := value.OfStruct(p.github)
			got := map[string]string{}
			for path := range test.want {
				v := at(github, path)
				got[path] = v.Text()
				if v.IsNull() {
					got[path] = ""
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if sha := p.github["sha"].Text(); sha != p.Repository.SHA() && test.want["sha"] == "" {
				t.Errorf("github.sha is %s, the commit %s", sha, p.Repository.SHA())
			}
		})
	}
}

func TestEventsThatAreNone(t *testing.T) {
	dir := project(t, anyEvent)
	for want, e := range map[string]Event{
		`there is no event "pushed"`:           {Name: "pushed"},
		"GitHub calls it pull_request":         {Name: "merge_request"},
		"is not a payload":                     {File: filepath.Join(dir, filepath.FromSlash(Folder), "ci.yml")},
		"only workflow_dispatch":               {Inputs: map[string]string{"a": "b"}},
		"is not a branch, tag or commit":       {Since: "nothing-like-it"},
		`the file "nothing.js" does not exist`: {File: "nothing.js"},
	} {
		_, err := openWith(t, dir, e)
		var event *EventError
		switch {
		case e.File == "nothing.js":
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a file that is not there gives %v", err)
			}
		case !errors.As(err, &event) || !strings.Contains(event.Message+event.Hint, want):
			t.Errorf("%+v gives %v, not %q", e, err, want)
		}
	}
}

func TestPathsThatChanged(t *testing.T) {
	text := "on: {push: {paths: ['src/**']}}\njobs: {a: {runs-on: x, steps: [{run: 'true'}]}}\n"
	dir := project(t, text)
	p, err := openWith(t, dir, Event{Since: "HEAD"})
	if err != nil || p.Starts {
		t.Fatalf("starts %v, %v", p.Starts, err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "src"), 0o755), os.WriteFile(filepath.Join(dir, "src", "new.go"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if p, err = openWith(t, dir, Event{Since: "HEAD"}); err != nil || !p.Starts {
		t.Errorf("with a new file: starts %v (%s), %v", p.Starts, p.Why, err)
	}
}
