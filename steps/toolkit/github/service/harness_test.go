package service_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/toolkit/github/service"
)

// options are those of a job of octo/hello on main.
func options(t *testing.T) service.Options {
	dir := t.TempDir()
	return service.Options{
		Artifacts: filepath.Join(dir, "artifacts"), Cache: filepath.Join(dir, "cache"), Temp: dir, Record: filepath.Join(dir, "record.json"),
		GitHub: map[string]string{
			"repository": "octo/hello", "ref": "refs/heads/main", "ref_type": "branch", "sha": strings.Repeat("a", 40), "workflow": "ci", "job": "test",
			"workflow_ref": "octo/hello/.github/workflows/ci.yml@refs/heads/main", "run_id": "7", "actor": "mona", "event_name": "push",
		},
	}
}

// start serves until the test ends.
func start(t *testing.T, opts service.Options) *client {
	t.Helper()
	s, err := service.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	env := s.Env(true, nil)
	return &client{t: t, server: s, env: env, base: strings.TrimSuffix(env["ACTIONS_RUNTIME_URL"], "/"), runtime: env["ACTIONS_RUNTIME_TOKEN"]}
}

// client speaks plain HTTP.
type client struct {
	t       *testing.T
	server  *service.Server
	env     map[string]string
	base    string
	runtime string
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) json(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("the answer %d is not an object: %s", a.status, a.body)
	}
	return v
}

// send asks for an address: a path of the server, or a whole one. Headers are "Name: value".
func (c *client) send(method, address string, body []byte, headers ...string) answer {
	c.t.Helper()
	if strings.HasPrefix(address, "/") {
		address = c.base + address
	}
	request, err := http.NewRequest(method, address, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			request.Host = value
		}
		request.Header.Set(name, value)
	}
	transport := http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request) // follows no redirection
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, text}
}

// twirp calls a method with the job's token.
func (c *client) twirp(method string, message map[string]any) answer {
	c.t.Helper()
	text, err := json.Marshal(message)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.send("POST", "/twirp/github.actions.results.api.v1."+method, text, "Authorization: Bearer "+c.runtime, "Content-Type: application/json")
}

// api asks the REST API with GITHUB_TOKEN.
func (c *client) api(method, path string, body string) answer {
	c.t.Helper()
	return c.send(method, c.env["GITHUB_API_URL"]+path, []byte(body), "Authorization: token "+c.server.Token())
}

// want fails the test unless an answer has a status and, somewhere in it, a text.
func (a answer) want(t *testing.T, status int, text string) answer {
	t.Helper()
	if a.status != status || !strings.Contains(string(a.body), text) {
		t.Errorf("the answer is %d %s; want %d and %q", a.status, a.body, status, text)
	}
	return a
}

// git runs git in a folder, whose configuration is its own.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Mona", "GIT_AUTHOR_EMAIL=mona@example.com",
		"GIT_COMMITTER_NAME=Mona", "GIT_COMMITTER_EMAIL=mona@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}
