package github

import (
	"context"
	"hash/fnv"
	"maps"
	"strings"
	"time"

	"github.com/rungci/rung/local/repository"
	"github.com/rungci/rung/steps/value"
)

// object are the fields of a payload.
type object = map[string]any

// noCommit is the name that Git gives no commit.
var noCommit = strings.Repeat("0", 40)

// made is the payload as the repository gives it: what actions and expressions read most, in the form of GitHub's webhooks.
func (f *facts) made(ctx context.Context, also object) (value.Value, error) {
	out := object{"repository": f.repositoryObject(), "sender": f.user()}
	switch f.name {
	case push:
		if err := f.push(ctx, out); err != nil {
			return value.Value{}, err
		}
	case pullRequest, pullRequestBase:
		out["action"], out["number"], out["pull_request"] = "opened", 1, f.pullRequest()
	case "pull_request_review":
		out["action"], out["pull_request"], out["review"] = "submitted", f.pullRequest(), object{"state": "commented", "body": nil, "user": f.user()}
	case dispatch:
		out["ref"] = f.ref
	case timer, call:
	case release:
		tag := strings.TrimPrefix(f.ref, "refs/tags/")
		out["action"], out["release"] = "published", object{
			"tag_name": tag, "name": tag, "target_commitish": f.repository.DefaultBranch, "draft": false, "prerelease": false, "body": nil,
			"html_url": f.url() + "/releases/tag/" + tag, "author": f.user(), "assets": []any{},
		}
	case "create", "delete":
		kind, name := "branch", strings.TrimPrefix(f.ref, "refs/heads/")
		if tag, ok := strings.CutPrefix(f.ref, "refs/tags/"); ok {
			kind, name = "tag", tag
		}
		out["ref"], out["ref_type"], out["master_branch"] = name, kind, f.repository.DefaultBranch
	case "repository_dispatch":
		out["action"], out["branch"], out["client_payload"] = "local", f.repository.DefaultBranch, object{}
	case "merge_group":
		out["action"], out["merge_group"] = "checks_requested", object{
			"head_sha": f.sha, "head_ref": f.ref, "base_sha": f.orZeros(f.base), "base_ref": "refs/heads/" + f.repository.DefaultBranch,
		}
	default:
		f.notes = append(f.notes, "the payload of the event "+f.name+" holds only the repository and the sender; --event-file provides the rest")
	}
	maps.Copy(out, also)
	return value.Of(out)
}

func (f *facts) orZeros(commit string) string {
	if commit == "" {
		return noCommit
	}
	return commit
}

// push fills in what a push says: the commits since what was pushed before.
func (f *facts) push(ctx context.Context, out object) error {
	r := f.repository
	out["ref"], out["before"], out["after"] = f.ref, f.orZeros(f.base), f.sha
	out["base_ref"], out["created"], out["deleted"], out["forced"] = nil, f.base == "", false, false
	out["compare"] = f.url() + "/compare/" + f.orZeros(f.base) + "..." + f.sha
	out["pusher"] = object{"name": r.User.Login, "email": r.User.Email}
	out["commits"], out["head_commit"] = []any{}, nil
	if r.Commit == nil {
		return nil
	}
	commits := []*repository.Commit{r.Commit}
	if f.base != "" && f.base != r.Commit.Parent {
		var err error
		if commits, err = r.Commits(ctx, f.base); err != nil {
			return err
		}
	}
	list := make([]any, len(commits))
	for i, c := range commits {
		list[i] = f.commit(c)
	}
	out["commits"], out["head_commit"] = list, f.commit(r.Commit)
	return nil
}

func (f *facts) commit(c *repository.Commit) object {
	name, email, _ := strings.Cut(strings.TrimSuffix(c.Author, ">"), " <")
	author := object{"name": name, "email": email}
	return object{
		"id": c.SHA, "message": strings.TrimSuffix(c.Message, "\n"), "timestamp": c.Timestamp.Format(time.RFC3339), "url": f.url() + "/commit/" + c.SHA,
		"author": author, "committer": author, "distinct": true,
	}
}

func (f *facts) pullRequest() object {
	title := ""
	if f.repository.Commit != nil {
		title = f.repository.Commit.Title
	}
	side := func(ref, sha string) object {
		return object{"ref": ref, "sha": sha, "label": f.owner() + ":" + ref, "repo": f.repositoryObject(), "user": f.user()}
	}
	return object{
		"number": 1, "id": 1, "state": "open", "title": title, "body": nil, "draft": false, "merged": false, "user": f.user(), "labels": []any{},
		"assignees": []any{}, "requested_reviewers": []any{}, "milestone": nil, "html_url": f.url() + "/pull/1", "url": f.api() + "/repos/" + f.fullName() + "/pulls/1",
		"head": side(f.headRef, f.repository.SHA()), "base": side(f.baseRef, f.orZeros(f.base)),
	}
}

func (f *facts) user() object {
	login := f.repository.User.Login
	return object{"login": login, "id": idOf(login), "type": "User", "site_admin": false, "html_url": f.server() + "/" + login}
}

func (f *facts) repositoryObject() object {
	r, name := f.repository, f.fullName()
	host := strings.TrimPrefix(strings.TrimPrefix(f.server(), "https://"), "http://")
	return object{
		"id": idOf(name), "name": r.Project.Name(), "full_name": name, "private": false, "visibility": "public", "fork": false, "archived": false,
		"owner":       object{"login": f.owner(), "name": f.owner(), "id": idOf(f.owner()), "type": "User", "html_url": f.server() + "/" + f.owner()},
		"description": nil, "html_url": f.url(), "url": f.api() + "/repos/" + name, "clone_url": f.url() + ".git", "git_url": "git://" + host + "/" + name + ".git",
		"ssh_url": "git@" + host + ":" + name + ".git", "default_branch": r.DefaultBranch, "topics": []any{},
	}
}

// idOf makes a number of a name: the same for the same name everywhere.
func idOf(name string) int {
	h := fnv.New32a()
	h.Write([]byte(name))
	return int(h.Sum32() & 0x7fffffff)
}

func (f *facts) fullName() string { return string(f.repository.Project) }
func (f *facts) owner() string    { return f.repository.Project.Namespace() }
func (f *facts) url() string      { return f.server() + "/" + f.fullName() }
func (f *facts) server() string   { return f.repository.Server.URL() }

// gitHub is the server whose API has a host of its own.
const gitHub = "https://github.com"

// api is the address of the server's REST API.
func (f *facts) api() string {
	if f.server() == gitHub {
		return "https://api.github.com"
	}
	return f.server() + "/api/v3"
}

func (f *facts) graphQL() string {
	if f.server() == gitHub {
		return "https://api.github.com/graphql"
	}
	return f.server() + "/api/graphql"
}
