package service_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/toolkit/github/service"
)

// repository makes a Git repository: main with two commits, and feature/x with one more.
func repository(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git(t, dir, "init", "-q", "-b", "main")
	write("README.md", "# hello\n")
	write("src/old name.txt", strings.Repeat("the same line\n", 20))
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "first")
	git(t, dir, "tag", "-a", "-m", "one", "v1")
	git(t, dir, "checkout", "-q", "-b", "feature/x")
	git(t, dir, "mv", "src/old name.txt", "src/new name.txt")
	write("README.md", "# hello\nmore\n")
	write("bin", "\x00\x01")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "feature\n\nwith a text")
	git(t, dir, "checkout", "-q", "main")
	write("README.md", "# hello, main\n")
	git(t, dir, "commit", "-q", "-am", "second")
	return dir
}

// apiOptions are those of a job in such a repository, started by pull request 5.
func apiOptions(t *testing.T) service.Options {
	t.Helper()
	opts := options(t)
	opts.WorkTree = repository(t)
	opts.GitHub["sha"] = git(t, opts.WorkTree, "rev-parse", "HEAD")
	event, err := json.Marshal(map[string]any{"pull_request": map[string]any{
		"number": 5, "title": "add x", "labels": []any{map[string]string{"name": "bug"}},
		"base": map[string]string{"ref": "main", "sha": opts.GitHub["sha"]},
		"head": map[string]string{"ref": "feature/x", "sha": git(t, opts.WorkTree, "rev-parse", "feature/x")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	opts.GitHub["event_path"] = filepath.Join(t.TempDir(), "event.json")
	if err := os.WriteFile(opts.GitHub["event_path"], event, 0o600); err != nil {
		t.Fatal(err)
	}
	opts.Permissions = map[string]string{"contents": "read", "pull-requests": "write", "actions": "write"}
	return opts
}

func TestTheAPIAnswersFromTheRepository(t *testing.T) {
	t.Parallel()
	opts := apiOptions(t)
	c := start(t, opts)
	sha, feature := opts.GitHub["sha"], git(t, opts.WorkTree, "rev-parse", "feature/x")
	first := git(t, opts.WorkTree, "rev-parse", "main~1")
	tests := []struct {
		path string
		want []string // texts in the answer
	}{
		{"", []string{`"full_name":"octo/hello"`, `"default_branch":"main"`, `"push":false`}},
		{"/commits/main", []string{sha, `"message":"second"`, `"filename":"README.md"`, `"additions":1`}},
		{"/commits/" + sha[:8], []string{sha}},
		{"/commits/feature/x", []string{feature, `"message":"feature\n\nwith a text"`}},
		{"/commits/feature%2Fx", []string{feature}},
		{"/commits/v1", []string{first, `"status":"added"`, `"parents":[]`}},
		{"/commits/" + feature + "/pulls", []string{`"number":5`}},
		{"/commits/main/pulls", []string{`[]`}},
		{"/commits", []string{`"second"`, `"first"`}},
		{"/commits?sha=feature/x&path=bin", []string{`"feature`}},
		{"/git/ref/heads/feature/x", []string{feature, `"ref":"refs/heads/feature/x"`}},
		{"/git/ref/tags%2Fv1", []string{first}},
		{"/git/trees/main", []string{`"path":"src"`, `"type":"tree"`}},
		{"/git/trees/main?recursive=1", []string{`"path":"src/old name.txt"`}},
		{"/git/blobs/" + git(t, opts.WorkTree, "rev-parse", "main:README.md"), []string{base64.StdEncoding.EncodeToString([]byte("# hello, main\n"))}},
		{"/branches", []string{`"feature/x"`, `"main"`}},
		{"/branches/feature/x", []string{feature}},
		{"/tags", []string{`"v1"`, first}},
		{"/contents", []string{`"path":"src"`, `"type":"dir"`}},
		{"/contents/src", []string{`"path":"src/old name.txt"`, `"type":"file"`}},
		{"/contents/README.md?ref=v1", []string{base64.StdEncoding.EncodeToString([]byte("# hello\n"))}},
		{"/compare/main...feature/x", []string{`"status":"diverged"`, `"ahead_by":1`, `"behind_by":1`, `"previous_filename":"src/old name.txt"`}},
		{"/compare/v1...main", []string{`"status":"ahead"`}},
		{"/compare/main...v1", []string{`"status":"behind"`}},
		{"/compare/main...main", []string{`"status":"identical"`, `"files":[]`, `"commits":[]`}},
		{"/pulls/5", []string{`"title":"add x"`}},
		{"/pulls/5/commits", []string{feature}},
		{"/pulls", []string{`"number":5`}},
		{"/issues/5", []string{`"title":"add x"`}},
		{"/issues/5/labels", []string{`"name":"bug"`}},
		{"/actions/runs/7/artifacts", []string{`"total_count":0`}},
	}
	for _, tt := range tests {
		t.Run("GET "+strings.NewReplacer(sha, "SHA", first, "SHA", feature, "SHA", sha[:8], "SHA").Replace(tt.path), func(t *testing.T) {
			got := c.api("GET", "/repos/octo/hello"+tt.path, "")
			for _, text := range tt.want {
				got.want(t, 200, text)
			}
		})
	}
	t.Run("the files of a pull request", func(t *testing.T) {
		var got []map[string]any
		if err := json.Unmarshal(c.api("GET", "/repos/octo/hello/pulls/5/files", "").body, &got); err != nil {
			t.Fatal(err)
		}
		var files [][]any
		for _, f := range got {
			files = append(files, []any{f["filename"], f["status"], f["additions"], f["deletions"], f["previous_filename"]})
		}
		want := [][]any{{"README.md", "modified", 1.0, 0.0, nil}, {"bin", "added", 0.0, 0.0, nil}, {"src/new name.txt", "renamed", 0.0, 0.0, "src/old name.txt"}}
		if diff := cmp.Diff(want, files); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a file as it is", func(t *testing.T) {
		got := c.send("GET", c.env["GITHUB_API_URL"]+"/repos/octo/hello/contents/README.md", nil, "Authorization: token "+c.server.Token(), "Accept: application/vnd.github.raw+json")
		if string(got.body) != "# hello, main\n" {
			t.Errorf("it is %q", got.body)
		}
	})
	t.Run("a list has pages", func(t *testing.T) {
		got := c.api("GET", "/repos/octo/hello/branches?per_page=1", "").want(t, 200, "feature/x")
		link := got.header.Get("Link")
		next, _, _ := strings.Cut(strings.TrimPrefix(link, "<"), ">")
		last := c.send("GET", next, nil, "Authorization: token "+c.server.Token()).want(t, 200, `"main"`)
		if last.header.Get("Link") != "" || !strings.HasSuffix(link, `rel="next"`) {
			t.Errorf("the links are %q and %q", link, last.header.Get("Link"))
		}
		c.api("GET", "/repos/octo/hello/branches?page=99999999999", "").want(t, 200, "[]")
	})
}

func TestTheAPIAndTheRunsArtifacts(t *testing.T) {
	t.Parallel()
	c := start(t, apiOptions(t))
	c.upload("report", "0123456789")
	const artifacts = "/repos/octo/hello/actions/artifacts"
	list := c.api("GET", "/repos/octo/hello/actions/runs/7/artifacts?name=report", "").want(t, 200, `"total_count":1`).json(t)
	number := list["artifacts"].([]any)[0].(map[string]any)["id"]
	text, err := json.Marshal(number)
	if err != nil {
		t.Fatal(err)
	}
	one := artifacts + "/" + strings.ReplaceAll(strings.ReplaceAll(string(text), ".", ""), "e+15", "")
	c.api("GET", one, "").want(t, 200, `"name":"report"`)
	address := c.api("GET", one+"/zip", "").want(t, 302, "").header.Get("Location")
	c.send("GET", address, nil).want(t, 200, "0123456789")
	c.api("DELETE", one, "").want(t, 204, "")
	c.api("GET", one, "").want(t, 404, "no such artifact")
	c.api("GET", "/repos/octo/hello/actions/runs/8/artifacts", "").want(t, 404, "only the artifacts of run 7")
}

func TestWhatTheAPIDoesNotDo(t *testing.T) {
	t.Parallel()
	opts := apiOptions(t)
	c := start(t, opts)
	const repo = "/repos/octo/hello"
	tests := []struct {
		name, method, path string
		status             int
		text               string
	}{
		{"what the token has no permission for", "POST", repo + "/statuses/" + opts.GitHub["sha"], 403, "Resource not accessible by integration"},
		{"the user of a token that is not a user's", "GET", "/user", 403, "Resource not accessible by integration"},
		{"another repository", "GET", "/repos/octo/other", 404, "only octo/hello is available here"},
		{"another pull request", "GET", repo + "/pulls/6", 404, "number 6 is not"},
		{"what nobody says here of a commit", "GET", repo + "/commits/main/check-runs", 404, "no commit found"},
		{"a branch that is not there", "GET", repo + "/branches/none", 404, "no commit found"},
		{"a file that is not there", "GET", repo + "/contents/none", 404, "Not Found"},
		{"what is not known here", "GET", repo + "/releases", 404, "Rung answers the REST API"},
		{"what cannot be sent from here", "POST", repo + "/releases", 501, "Rung answers the REST API"},
		{"GraphQL", "POST", "/../graphql", 501, "no GraphQL"},
		{"an option in place of a name", "GET", repo + "/commits/--all", 404, "is not a branch"},
		{"an expression in place of a name", "GET", repo + "/commits/main~1", 404, "is not a branch"},
		{"a search in place of a name", "GET", repo + "/commits/:%2Ffirst", 404, "is not a branch"},
		{"a revision in a comparison", "GET", repo + "/compare/main...@%7B-1%7D", 404, "is not a branch"},
		{"an ID of a blob that is an option", "GET", repo + "/git/blobs/--batch", 404, "is not an ID"},
		{"an object that leads out of the commit", "GET", repo + "/contents/..%2F..%2Fetc%2Fpasswd", 404, "Not Found"},
		{"a request that is not JSON", "POST", repo + "/issues/5/comments", 400, "Problems parsing JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			address := strings.Replace(c.env["GITHUB_API_URL"]+tt.path, "/v3/../", "/", 1)
			c.send(tt.method, address, []byte("{"), "Authorization: token "+c.server.Token()).want(t, tt.status, tt.text)
		})
	}
	t.Run("a job without a repository", func(t *testing.T) {
		opts := opts
		opts.WorkTree = ""
		start(t, opts).api("GET", repo+"/branches", "").want(t, 404, "no Git repository")
	})
	t.Run("permissions that are missing are named", func(t *testing.T) {
		got := c.api("POST", repo+"/check-runs", "{}")
		if got.status != 403 || got.header.Get("X-Accepted-GitHub-Permissions") != "checks=write" {
			t.Errorf("the answer is %d %v", got.status, got.header)
		}
	})
}

func TestWhatWouldHaveBeenSent(t *testing.T) {
	t.Parallel()
	opts := apiOptions(t)
	var notes []string
	opts.Note = func(text string) { notes = append(notes, text) }
	c := start(t, opts)
	const comments = "/repos/octo/hello/issues/5/comments"
	c.api("POST", comments, `{"body":"well done"}`).want(t, 201, `"id":1`)
	c.api("POST", comments, `{"body":"really"}`).want(t, 201, `"body":"really"`)
	c.api("PATCH", "/repos/octo/hello/issues/comments/1", `{"body":"changed"}`).want(t, 200, "changed")
	c.api("DELETE", "/repos/octo/hello/issues/5/labels/bug", "").want(t, 204, "")
	c.api("GET", comments, "").want(t, 200, "well done")

	text, err := os.ReadFile(opts.Record)
	if err != nil {
		t.Fatal(err)
	}
	var record []struct{ Method, Path string }
	if err := json.Unmarshal(text, &record); err != nil {
		t.Fatal(err)
	}
	if len(record) != 4 || record[3].Method != "DELETE" || record[0].Path != comments {
		t.Errorf("the record is %+v", record)
	}
	if len(notes) != 4 || !strings.Contains(notes[0], "would have been sent to GitHub: POST "+comments) {
		t.Errorf("the notes are %q", notes)
	}
}
